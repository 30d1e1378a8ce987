//! Conditions of rules beside other engines that could judge them: the same expressions over the same values.
//!
//! `cargo run --release --bin rules` in this folder. Each engine gets a condition compiled once and a row of values that is
//! there already, in the form that it reads fastest; its answer is checked against the others' before it is timed. Rounds
//! of all engines alternate, so that what else the machine does meets all of them; of each the best round is told.

use std::hint::black_box;
use std::time::Instant;

use event::{Column, Facts, SchemaBuilder, Slot, Type, Value};
use judge::{
    Evaluation, Library, NameCategory, ReadingRequest, RuleSet, RuleSetSource, RuleSource, Scope, ScopeError,
};
use mlua::{Function, Lua};

/// The server's allocator; all engines get it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The facts that a condition can name.
const NUMBERS: [(&str, i64); 6] =
    [("a", 20), ("b", 995), ("c", 1), ("seen", 1500), ("spam", 1490), ("size", 4096)];
const SHARES: [(&str, f64); 2] = [("html", 0.75), ("caps", 0.125)];
const TEXTS: [(&str, &str); 2] =
    [("subject", "Re: your invoice of last week is attached"), ("from", "ann@mail.example.org")];

/// One condition in each engine's language.
struct Case {
    cel: &'static str,
    rhai: &'static str,
    lua: &'static str,
}

const CASES: [Case; 6] = [
    Case {
        cel: "a > 10 && b / (b + c) > 0.99",
        rhai: "a > 10 && b.to_float() / (b + c).to_float() > 0.99",
        lua: "a > 10 and b / (b + c) > 0.99",
    },
    Case { cel: "a > 1000 && b > 3", rhai: "a > 1000 && b > 3", lua: "a > 1000 and b > 3" },
    Case {
        cel: "seen > 1000 && spam * 100 > seen * 99 && html > 0.5 && caps < 0.5",
        rhai: "seen > 1000 && spam * 100 > seen * 99 && html > 0.5 && caps < 0.5",
        lua: "seen > 1000 and spam * 100 > seen * 99 and html > 0.5 and caps < 0.5",
    },
    Case {
        cel: "(seen + spam) % 7 == 1 || size - a * 3 > 4000 && !(caps >= 0.25)",
        rhai: "(seen + spam) % 7 == 1 || size - a * 3 > 4000 && !(caps >= 0.25)",
        lua: "(seen + spam) % 7 == 1 or size - a * 3 > 4000 and not (caps >= 0.25)",
    },
    Case {
        cel: "subject.contains('attached') && from.endsWith('.example.org')",
        rhai: "subject.contains(\"attached\") && from.ends_with(\".example.org\")",
        lua: "find(subject, 'attached', 1, true) ~= nil and sub(from, -12) == '.example.org'",
    },
    Case {
        cel: "from in ['ann@example.org', 'bob@example.org', 'eve@example.org', 'ann@mail.example.org']",
        rhai: "from in [\"ann@example.org\", \"bob@example.org\", \"eve@example.org\", \"ann@mail.example.org\"]",
        lua: "({['ann@example.org'] = true, ['bob@example.org'] = true, ['eve@example.org'] = true, \
              ['ann@mail.example.org'] = true})[from] == true",
    },
];

/// Facts only: what is compared has no statistics.
struct BenchScope(SchemaBuilder);

impl Scope for BenchScope {
    fn fact(&self, name: &str) -> Option<(Slot, Type)> {
        let slot = self.0.schema().slot(name)?;
        Some((slot, self.0.schema().column(slot).kind))
    }
    fn reading(&mut self, request: &ReadingRequest<'_>) -> Result<Slot, ScopeError> {
        Err(ScopeError::Unavailable(format!("{request} is not read here")))
    }
    fn is_kind(&self, _: &str) -> bool {
        false
    }
    fn is_aggregate(&self, _: &str) -> bool {
        false
    }
    fn is_distinct(&self, _: &str) -> bool {
        false
    }
    fn names(&self, _: NameCategory) -> Vec<String> {
        Vec::new()
    }
}

fn scope() -> (BenchScope, Facts) {
    let mut builder = SchemaBuilder::default();
    let numbers = NUMBERS.iter().map(|(name, value)| (*name, Value::from(*value)));
    let shares = SHARES.iter().map(|(name, value)| (*name, Value::from(*value)));
    let texts = TEXTS.iter().map(|(name, value)| (*name, Value::from(*value)));
    let values: Vec<(&str, Value)> = numbers.chain(shares).chain(texts).collect();
    for (name, value) in &values {
        let (name, kind) = ((*name).to_owned(), value.type_of());
        builder.add(Column { name, kind, doc: String::new(), journalled: true }).expect("names differ");
    }
    let mut row = builder.schema().empty_row();
    for ((_, value), slot) in values.into_iter().zip(0..) {
        row.set(Slot(slot), value);
    }
    (BenchScope(builder), row)
}

/// The values as a CEL context.
fn context() -> cel::Context<'static, 'static> {
    let mut context = cel::Context::default();
    for (name, value) in NUMBERS {
        context.add_variable_from_value(name, value);
    }
    for (name, value) in SHARES {
        context.add_variable_from_value(name, value);
    }
    for (name, value) in TEXTS {
        context.add_variable_from_value(name, value);
    }
    context
}

/// CEL keeps integers and floats apart: the same condition with its sides made floats where ours does so.
fn cel_source(source: &str) -> String {
    source.replace("b / (b + c)", "double(b) / double(b + c)")
}

fn rhai_scope() -> rhai::Scope<'static> {
    let mut scope = rhai::Scope::new();
    for (name, value) in NUMBERS {
        scope.push_constant(name, value);
    }
    for (name, value) in SHARES {
        scope.push_constant(name, value);
    }
    for (name, value) in TEXTS {
        scope.push_constant(name, rhai::ImmutableString::from(value));
    }
    scope
}

/// A function that asks a condition of rows so many times. The rows are tables that are in Lua already; there are
/// several, or else the trace compiler would ask once and count. With one time, each call comes from Rust; with many,
/// only Lua's own time is measured.
fn lua_function(lua: &Lua, condition: &str) -> mlua::Result<Function> {
    let numbers = NUMBERS.iter().map(|(name, value)| (*name, value.to_string()));
    let shares = SHARES.iter().map(|(name, value)| (*name, value.to_string()));
    let texts = TEXTS.iter().map(|(name, value)| (*name, format!("'{value}'")));
    let values: Vec<(&str, String)> = numbers.chain(shares).chain(texts).collect();
    let fields: String = values.iter().map(|(name, value)| format!("{name} = {value}, ")).collect();
    let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    let reads: Vec<String> = names.iter().map(|name| format!("row.{name}")).collect();
    let source = format!(
        "local find, sub = string.find, string.sub\n\
         local rows = {{}}\n\
         for i = 0, 15 do rows[i] = {{ {fields} }} end\n\
         return function(times)\n\
           local fired = 0\n\
           for i = 1, times do\n\
             local row = rows[i % 16]\n\
             local {} = {}\n\
             if {condition} then fired = fired + 1 end\n\
           end\n\
           return fired\n\
         end",
        names.join(", "),
        reads.join(", "),
    );
    lua.load(source).eval()
}

/// Seconds of one call of each, by turns: the best of some rounds.
fn best<const N: usize>(calls: u32, mut engines: [&mut dyn FnMut(); N]) -> [f64; N] {
    let mut best = [f64::INFINITY; N];
    for _ in 0..9 {
        for (best, engine) in best.iter_mut().zip(&mut engines) {
            let start = Instant::now();
            for _ in 0..calls {
                engine();
            }
            *best = best.min(start.elapsed().as_secs_f64() / f64::from(calls));
        }
    }
    best
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const CALLS: u32 = 200_000;
    const LOOP: u32 = 1000;
    let small = std::env::args().any(|argument| argument == "--small");
    let calls = if small { 100 } else { CALLS };
    println!("nanoseconds a condition, the best of nine rounds\n");
    println!("{:>9} {:>9} {:>9} {:>9} {:>9}", "ours", "cel", "rhai", "LuaJIT", "in Lua");
    for case in &CASES {
        let (mut scope, row) = scope();
        let ours = judge::compile(case.cel, &Library::default(), &mut scope)
            .map_err(|found| format!("{}: {found:?}", case.cel))?;
        let (program, context) = (cel::Program::compile(&cel_source(case.cel))?, context());
        let engine = rhai::Engine::new();
        let (ast, mut values) = (engine.compile_expression(case.rhai)?, rhai_scope());
        let lua = Lua::new();
        let function = lua_function(&lua, case.lua)?;

        let fires = ours.fires(&row);
        let of_cel = program.execute(&context)? == cel::Value::Bool(true);
        let of_rhai = engine.eval_ast_with_scope::<bool>(&mut values, &ast)?;
        let of_lua = function.call::<u32>(1)? == 1;
        if [of_cel, of_rhai, of_lua] != [fires; 3] {
            return Err(format!("{} is {fires}, {of_cel}, {of_rhai}, {of_lua}", case.cel).into());
        }
        let times = best(
            calls,
            [
                &mut || {
                    black_box(black_box(&ours).fires(black_box(&row)));
                },
                &mut || drop(black_box(program.execute(black_box(&context)))),
                &mut || drop(black_box(engine.eval_ast_with_scope::<bool>(black_box(&mut values), &ast))),
                &mut || drop(black_box(function.call::<u32>(black_box(1)))),
            ],
        );
        let [looped] =
            best(calls / LOOP + 1, [&mut || drop(black_box(function.call::<u32>(black_box(LOOP))))]);
        let nanoseconds = |seconds: f64| format!("{:.1}", seconds * 1e9);
        let [ours, cel, rhai, lua] = times.map(nanoseconds);
        let looped = nanoseconds(looped / f64::from(LOOP));
        println!("{ours:>9} {cel:>9} {rhai:>9} {lua:>9} {looped:>9}  {}", case.cel);
    }

    let (mut scope, row) = scope();
    let rules = (0..300).map(|index| {
        let case = &CASES[index % CASES.len()];
        // Most rules of a set do not fire.
        let when = if index % 20 == 0 {
            case.cel.to_owned()
        } else {
            format!("({}) && a > {}", case.cel, 1000 + index)
        };
        RuleSource { name: format!("R{index}"), when, score: 1.0, ..RuleSource::default() }
    });
    let source = RuleSetSource { rules: rules.collect(), ..RuleSetSource::default() };
    let set = RuleSet::compile(source, &mut scope).map_err(|found| format!("{found:?}"))?;
    let mut outcome = Evaluation::default();
    let [seconds] = best(calls / 10, [&mut || set.evaluate(black_box(&row), &mut outcome)]);
    println!(
        "\n{:.2} µs for 300 such rules on a row, {} of which fire",
        seconds * 1e6,
        outcome.fired().len()
    );
    Ok(())
}
