//! Lengths of time as fail2ban writes them: `600`, `10m`, `1h 30m`, `1day12hours`, `-1`.

use event::Span;

/// Seconds of a year, of which a month is the twelfth part.
const YEAR: f64 = 365.25 * 86_400.0;

/// Reads a length of time; negative ones are for ever, and `None` is no length.
pub fn read(text: &str) -> Option<FailDuration> {
    let text = text.trim().to_lowercase();
    if text.is_empty() || text.len() > 100 {
        return None;
    }
    if let Some(rest) = text.strip_prefix('-') {
        return rest.trim_start().bytes().next()?.is_ascii_digit().then_some(FailDuration::Endless);
    }
    let mut seconds = 0.0;
    let mut rest = text.as_str();
    let mut sign = 1.0;
    while !rest.is_empty() {
        let digits = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|character: char| !character.is_ascii_alphabetic()).unwrap_or(rest.len());
        seconds += sign * number * unit(&rest[..letters])?;
        rest = rest[letters..].trim_start();
        sign = 1.0;
        if let Some(after) = rest.strip_prefix('+') {
            rest = after.trim_start();
        } else if let Some(after) = rest.strip_prefix('-') {
            (rest, sign) = (after.trim_start(), -1.0);
        } else if let Some(after) = rest.strip_prefix('*') {
            // A product is of plain numbers: `60 * 60`.
            rest = after.trim_start();
            let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
            seconds *= rest[..digits].parse::<f64>().ok()?;
            rest = rest[digits..].trim_start();
        }
    }
    (0.0..1e12).contains(&seconds).then(|| FailDuration::Span(Span::seconds(seconds as i64)))
}

/// A length of time, or for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailDuration {
    /// A length.
    Span(Span),
    /// Without an end.
    Endless,
}

fn unit(name: &str) -> Option<f64> {
    Some(match name {
        "" | "s" | "ss" | "sec" | "second" | "seconds" => 1.0,
        "m" | "mm" | "mi" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hh" | "hou" | "hour" | "hours" => 3600.0,
        "d" | "dd" | "da" | "day" | "days" => 86_400.0,
        "w" | "ww" | "wee" | "week" | "weeks" => 7.0 * 86_400.0,
        "mo" | "mon" | "month" | "months" => YEAR / 12.0,
        "y" | "yy" | "yea" | "year" | "years" => YEAR,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        let check = |text: &str, seconds: i64| {
            assert_eq!(read(text), Some(FailDuration::Span(Span::seconds(seconds))), "{text}");
        };
        check("600", 600);
        check("10m", 600);
        check("1h 30m", 5400);
        check("1day12hours", 129_600);
        check("1hour+30min", 5400);
        check("1year-6mo", 15_778_800);
        check("60 * 60", 3600);
        check("2.5h", 9000);
        assert_eq!(read("-1"), Some(FailDuration::Endless));
        for text in ["", "x", "5 parsecs", "1-2", "- x"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
