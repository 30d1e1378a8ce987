//! Decisions of a limit in one process: Tollhouse's call beside `governor`'s keyed rate limiter.
//!
//! ```sh
//! cd bench/limits/library && taskset -c 1 cargo run --release -- [KEYS [ROUNDS [SECONDS]]]    # 100000 5 1
//! ```
//!
//! Both get the same keys in the same order as text, take one each, at the same limit, on one thread with the same
//! allocator, and both answer whether it is allowed and when more is. `governor` has its default store, a `DashMap`, which counts
//! by the generic cell rate algorithm; so does `gcra` of Tollhouse. Both ask the system's clock: `governor` for each key, Tollhouse for
//! each call (with its feature `quanta`, `governor` would read the processor's). `sliding` is Tollhouse's default, 60 sub-windows, which
//! `governor` has not. Rounds go through all in turn; a figure is the median of its rounds, by the thread's processor time.
//! Tollhouse keeps its counts in memory as it does with a disk behind them, but here nothing is written: `governor` writes nothing.
//!
//! Memory a key: what the process grows by with each of a million keys, taken once, each in a process of its own (`memory NAME KEYS`).

use std::hint::black_box;
use std::num::NonZeroU32;
use std::process::Command;

use engine::Engine;
use engine::limit::Take;
use event::Time;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use plan::limit::LimitPlan;
use plan::{Config, Overrides, Plan};
use rustix::time::{ClockId, clock_gettime};
use stats::random::Random;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Takes of a minute.
const COUNT: u32 = 100;

/// One that decides.
trait Limiter {
    /// The number of keys that are allowed; all are taken at once where the library can.
    fn take(&self, keys: &[&String]) -> usize;
}

struct Tollhouse {
    engine: Engine,
    limit: LimitPlan,
}

impl Tollhouse {
    fn new(mode: &str) -> Tollhouse {
        let text = format!(
            "[[limit]]\nname = \"bench\"\nkey = [\"user\"]\ncount = {COUNT}\nper = \"1m\"\nmode = \"{mode}\"\n"
        );
        let plan = Plan::compile(&Config::from_text("bench", &text, &Overrides::default()));
        let engine = Engine::ephemeral(plan.expect("the limit is sound")).expect("it needs no disk");
        let limit = engine.plan().limit("bench").map(|limit| LimitPlan::clone(limit));
        Tollhouse { engine, limit: limit.expect("it was configured") }
    }
}

impl Limiter for Tollhouse {
    fn take(&self, keys: &[&String]) -> usize {
        let now = clock_gettime(ClockId::Realtime);
        let now = Time(now.tv_sec * 1_000_000 + now.tv_nsec / 1000);
        let take = |key: &&String| Take {
            limit: &self.limit,
            key: self.engine.limit_key(&self.limit, &[key]),
            cost: 1,
        };
        let takes: Vec<Take<'_>> = keys.iter().map(take).collect();
        let taken = pollster::block_on(self.engine.take_each(&takes, now));
        taken.iter().filter(|taken| taken.allowed).count()
    }
}

struct Governor(DefaultKeyedRateLimiter<String>);

impl Governor {
    fn new() -> Governor {
        let count = NonZeroU32::new(COUNT).expect("it is more");
        Governor(RateLimiter::dashmap(Quota::per_minute(count)))
    }
}

impl Limiter for Governor {
    fn take(&self, keys: &[&String]) -> usize {
        keys.iter().filter(|key| self.0.check_key(key).is_ok()).count()
    }
}

const NAMES: [&str; 3] = ["governor", "tollhouse gcra", "tollhouse sliding"];

fn limiter(name: &str) -> Box<dyn Limiter> {
    match name.strip_prefix("tollhouse ") {
        Some(mode) => Box::new(Tollhouse::new(mode)),
        None => Box::new(Governor::new()),
    }
}

/// Processor time of this thread, in seconds.
fn spent() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Decisions a second of processor time.
fn measure(limiter: &dyn Limiter, names: &[String], batch: usize, seconds: f64) -> f64 {
    let mut random = Random::new(7);
    let (mut decisions, mut allowed, mut took) = (0usize, 0, 0.0);
    while took < seconds {
        let keys: Vec<&String> =
            (0..64 * batch).map(|_| &names[random.below(names.len() as u64) as usize]).collect();
        let began = spent();
        allowed += keys.chunks(batch).map(|keys| limiter.take(keys)).sum::<usize>();
        took += spent() - began;
        decisions += keys.len();
    }
    assert!(
        allowed > decisions / 2,
        "too few keys for so long: most are over their limit, which costs something else"
    );
    black_box(allowed);
    decisions as f64 / took
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells it");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("it is a number") * rustix::param::page_size() as u64
}

fn memory(name: &str, keys: u32) -> u64 {
    let limiter = limiter(name);
    // What the first of all keys brings is of none of them.
    limiter.take(&[&"first".to_owned()]);
    let before = resident_bytes();
    for key in 0..keys {
        limiter.take(&[&format!("user-{key}")]);
    }
    (resident_bytes() - before) / u64::from(keys)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: u32| {
        arguments.get(at).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    if let [what, name, keys] = &arguments[..]
        && what == "memory"
    {
        println!("{}", memory(name, keys.parse().expect("a number")));
        return;
    }
    let (keys, rounds, seconds) = (number(0, 100_000), number(1, 5), f64::from(number(2, 1)));
    let names: Vec<String> = (0..keys).map(|key| format!("user-{key}")).collect();
    println!("{keys} keys, one thread, {rounds} rounds of {seconds} s\n");
    println!(
        "| | takes a call | decisions/s | times governor's | bytes a key, of a million |\n|---|--:|--:|--:|--:|"
    );
    let mut figures: Vec<(&str, usize, Vec<f64>)> = Vec::new();
    for _ in 0..rounds {
        for name in NAMES {
            let limiter = limiter(name);
            // Every key is there before the clock starts.
            names.chunks(64).for_each(|keys| {
                limiter.take(&keys.iter().collect::<Vec<_>>());
            });
            for batch in [1, 16, 64] {
                let figure = measure(&*limiter, &names, batch, seconds);
                match figures.iter_mut().find(|(of, at_once, _)| (*of, *at_once) == (name, batch)) {
                    Some((.., all)) => all.push(figure),
                    None => figures.push((name, batch, vec![figure])),
                }
            }
        }
    }
    let figures: Vec<(&str, usize, f64)> =
        figures.into_iter().map(|(name, batch, all)| (name, batch, median(all))).collect();
    let program = std::env::current_exe().expect("it has a name");
    for name in NAMES {
        let grown = Command::new(&program).args(["memory", name, "1000000"]).output();
        let grown = grown.expect("it starts again").stdout;
        let grown = String::from_utf8_lossy(&grown);
        for (_, batch, figure) in figures.iter().filter(|(of, ..)| *of == name) {
            let peer = figures.iter().find(|(of, at_once, _)| *of == NAMES[0] && at_once == batch);
            let ratio = figure / peer.map_or(f64::NAN, |(.., figure)| *figure);
            println!("| {name} | {batch} | {figure:.0} | {ratio:.2} | {} |", grown.trim());
        }
    }
}
