//! Formulas for lengths of bans, as Python writes them: `ban.Time * (1<<(ban.Count if ban.Count<20 else 20)) * banFactor`.
//!
//! Numbers, `ban.Time`, `ban.Count`, `banFactor`, arithmetic, comparisons, `a if b else c`, `and`, `or`, `not`, and a few
//! functions. All numbers are floating; the work is bounded by the length of the text.

/// Most bytes of a formula.
const BYTES_MAX: usize = 1_000;
/// Most parts inside of one another.
const DEPTH_MAX: usize = 50;

/// The values that a formula asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BanTimeFacts {
    /// The length of a first ban, in seconds: `ban.Time`.
    pub seconds: f64,
    /// The number of bans before: `ban.Count`.
    pub count: f64,
    /// The factor: `banFactor`.
    pub factor: f64,
}

/// Evaluates a formula. The error says what is not understood.
pub fn evaluate(text: &str, facts: BanTimeFacts) -> Result<f64, String> {
    if text.len() > BYTES_MAX {
        return Err("it is too long".to_owned());
    }
    let mut formula = FormulaReader { tokens: tokens(text)?, at: 0, depth: 0, facts };
    let value = formula.conditional()?;
    match formula.tokens.get(formula.at) {
        None if value.is_finite() => Ok(value),
        None => Err("it comes to no number".to_owned()),
        Some(token) => Err(format!("`{token}` is not expected")),
    }
}

/// Cuts a text into names, numbers and signs.
fn tokens(text: &str) -> Result<Vec<&str>, String> {
    const SIGNS: [&str; 8] = ["<<", ">>", "**", "//", "<=", ">=", "==", "!="];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_alphabetic() || first == '_' {
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').unwrap_or(rest.len())
        } else if first.is_ascii_digit() || first == '.' {
            rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len())
        } else if SIGNS.iter().any(|sign| rest.starts_with(sign)) {
            2
        } else if "+-*/%()<>,".contains(first) {
            1
        } else {
            return Err(format!("`{first}` is not understood"));
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct FormulaReader<'t> {
    tokens: Vec<&'t str>,
    at: usize,
    depth: usize,
    facts: BanTimeFacts,
}

type FormulaResult = Result<f64, String>;

fn truth(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

impl<'t> FormulaReader<'t> {
    fn peek(&self) -> &'t str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    fn take(&mut self, token: &str) -> bool {
        let is_there = self.peek() == token;
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) { Ok(()) } else { Err(format!("`{token}` is missing")) }
    }

    fn conditional(&mut self) -> FormulaResult {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("it is nested too deeply".to_owned());
        }
        let then = self.either()?;
        let value = if self.take("if") {
            let condition = self.either()?;
            self.expect("else")?;
            let otherwise = self.conditional()?;
            if condition == 0.0 { otherwise } else { then }
        } else {
            then
        };
        self.depth -= 1;
        Ok(value)
    }

    fn either(&mut self) -> FormulaResult {
        let mut value = self.both()?;
        while self.take("or") {
            let other = self.both()?;
            value = if value == 0.0 { other } else { value };
        }
        Ok(value)
    }

    fn both(&mut self) -> FormulaResult {
        let mut value = self.negation()?;
        while self.take("and") {
            let other = self.negation()?;
            value = if value == 0.0 { value } else { other };
        }
        Ok(value)
    }

    fn negation(&mut self) -> FormulaResult {
        let mut is_negated = false;
        let mut has_not = false;
        while self.take("not") {
            (is_negated, has_not) = (!is_negated, true);
        }
        let value = self.comparison()?;
        Ok(if has_not { truth((value == 0.0) == is_negated) } else { value })
    }

    fn comparison(&mut self) -> FormulaResult {
        let value = self.shift()?;
        let sign = self.peek();
        if !["<", ">", "<=", ">=", "==", "!="].contains(&sign) {
            return Ok(value);
        }
        self.at += 1;
        let other = self.shift()?;
        Ok(truth(match sign {
            "<" => value < other,
            ">" => value > other,
            "<=" => value <= other,
            ">=" => value >= other,
            "==" => value == other,
            _ => value != other,
        }))
    }

    fn shift(&mut self) -> FormulaResult {
        let mut value = self.sum()?;
        loop {
            if self.take("<<") {
                value *= self.sum()?.exp2();
            } else if self.take(">>") {
                value = (value / self.sum()?.exp2()).floor();
            } else {
                return Ok(value);
            }
        }
    }

    fn sum(&mut self) -> FormulaResult {
        let mut value = self.product()?;
        loop {
            if self.take("+") {
                value += self.product()?;
            } else if self.take("-") {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> FormulaResult {
        let mut value = self.signed()?;
        loop {
            let sign = self.peek();
            if !["*", "/", "//", "%"].contains(&sign) {
                return Ok(value);
            }
            self.at += 1;
            let other = self.signed()?;
            if sign != "*" && other == 0.0 {
                return Err("it divides by zero".to_owned());
            }
            value = match sign {
                "*" => value * other,
                "/" => value / other,
                "//" => (value / other).floor(),
                // Python's remainder has the sign of what is divided by.
                _ => value - other * (value / other).floor(),
            };
        }
    }

    fn signed(&mut self) -> FormulaResult {
        let mut sign = 1.0;
        loop {
            if self.take("-") {
                sign = -sign;
            } else if !self.take("+") {
                break;
            }
        }
        Ok(sign * self.power()?)
    }

    fn power(&mut self) -> FormulaResult {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("it is nested too deeply".to_owned());
        }
        let value = self.atom()?;
        let value = if self.take("**") { value.powf(self.signed()?) } else { value };
        self.depth -= 1;
        Ok(value)
    }

    fn atom(&mut self) -> FormulaResult {
        let token = self.peek();
        self.at += 1;
        if token == "(" {
            let value = self.conditional()?;
            self.expect(")")?;
            return Ok(value);
        }
        if token.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return token.parse().map_err(|_| format!("`{token}` is no number"));
        }
        match token {
            "" => return Err("something is missing".to_owned()),
            "ban.Time" => return Ok(self.facts.seconds),
            "ban.Count" => return Ok(self.facts.count),
            "banFactor" => return Ok(self.facts.factor),
            "True" => return Ok(1.0),
            "False" => return Ok(0.0),
            _ => {}
        }
        if !self.take("(") {
            return Err(format!("`{token}` is not known"));
        }
        let mut arguments = vec![self.conditional()?];
        while self.take(",") {
            arguments.push(self.conditional()?);
        }
        self.expect(")")?;
        Ok(match (token, arguments.as_slice()) {
            ("math.exp", [value]) => value.exp(),
            ("math.log", [value]) => value.ln(),
            ("math.log", [value, base]) => value.log(*base),
            ("math.log2", [value]) => value.log2(),
            ("math.log10", [value]) => value.log10(),
            ("math.sqrt", [value]) => value.sqrt(),
            ("math.pow" | "pow", [value, power]) => value.powf(*power),
            ("math.floor", [value]) => value.floor(),
            ("math.ceil", [value]) => value.ceil(),
            ("int", [value]) => value.trunc(),
            ("round", [value]) => value.round_ties_even(),
            ("float", [value]) => *value,
            ("abs", [value]) => value.abs(),
            ("min", values) => values.iter().copied().fold(f64::INFINITY, f64::min),
            ("max", values) => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            _ => return Err(format!("`{token}` is not known")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_come_to_what_they_do_in_python() {
        let check = |text: &str, count: f64, expected: f64| {
            let facts = BanTimeFacts { seconds: 600.0, count, factor: 1.0 };
            let found = evaluate(text, facts).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert!((found - expected).abs() < 1e-6, "{text}: {found}");
        };
        let usual = "ban.Time * (1<<(ban.Count if ban.Count<20 else 20)) * banFactor";
        check(usual, 1.0, 1200.0);
        check(usual, 3.0, 4800.0);
        check(usual, 99.0, 600.0 * 1_048_576.0);
        let aggressive = "ban.Time * math.exp(float(ban.Count+1)*banFactor)/math.exp(1*banFactor)";
        check(aggressive, 2.0, 600.0 * 2f64.exp());
        check("min(ban.Time * 2 ** ban.Count, 3600)", 4.0, 3600.0);
        check("-2 ** 2 + 7 // 2 - -7 % 3", 0.0, -3.0);
        check("1 if ban.Count > 2 and not ban.Count == 5 else 2 if ban.Count or 0 else 3", 1.0, 2.0);
        check("10 - 2 - 3", 0.0, 5.0);
    }

    #[test]
    fn what_is_not_understood_is_told() {
        let check = |text: &str, expected: &str| {
            let facts = BanTimeFacts { seconds: 600.0, count: 1.0, factor: 1.0 };
            assert_eq!(evaluate(text, facts), Err(expected.to_owned()), "{text}");
        };
        check("", "something is missing");
        check("ban.Time *", "something is missing");
        check("__import__('os')", "`'` is not understood");
        check("os.system(1)", "`os.system` is not known");
        check("1 2", "`2` is not expected");
        check("1/0", "it divides by zero");
        check("math.exp(1000)", "it comes to no number");
        check(&"(".repeat(900), "it is nested too deeply");
        check(&"2**".repeat(300), "it is nested too deeply");
        check(&"1 if 1 else ".repeat(80), "it is nested too deeply");
        check(&"1+".repeat(600), "it is too long");
    }
}
