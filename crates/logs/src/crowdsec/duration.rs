//! Lengths of time as Go writes them, such as `1h30m` or `1.5s`.

/// Reads a length of time, in nanoseconds.
pub fn parse(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() || rest.len() > 64 {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        total += number
            * match &rest[..end] {
                "ns" => 1.0,
                "us" | "µs" | "μs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "m" => 60e9,
                "h" => 3600e9,
                // Not Go's, but CrowdSec's own.
                "d" => 86_400e9,
                _ => return None,
            };
        rest = &rest[end..];
    }
    (total < 9e18).then_some((sign * total) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_as_in_go() {
        let check = |text: &str, seconds: Option<f64>| {
            assert_eq!(parse(text).map(|length| length as f64 / 1e9), seconds, "{text}");
        };
        check("1h30m", Some(5400.0));
        check("0.5s", Some(0.5));
        check("-10ms", Some(-0.01));
        check("0", Some(0.0));
        for wrong in ["", "5", "s", "1x", "1.1.1s", "99999999999999h"] {
            check(wrong, None);
        }
    }
}
