//! Pairs of a line: `level=warn msg="bad password" ip=192.0.2.1`.

/// Most pairs of a line.
pub const PAIRS_MAX: usize = 200;

/// Returns the pairs of a line in their order. A name without a value is the value `true`; words that are no names are passed over.
pub fn pairs(line: &str) -> Vec<(&str, String)> {
    let mut pairs = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && pairs.len() < PAIRS_MAX {
        let end =
            rest.find(|character: char| character == '=' || character.is_whitespace()).unwrap_or(rest.len());
        let name = &rest[..end];
        rest = &rest[end..];
        let value = match rest.strip_prefix('=') {
            None => "true".to_owned(),
            Some(after) if after.starts_with('"') => {
                let (value, length) = quoted(&after[1..]);
                rest = &after[1 + length..];
                value
            }
            Some(after) => {
                let end = after.find(char::is_whitespace).unwrap_or(after.len());
                rest = &after[end..];
                after[..end].to_owned()
            }
        };
        let is_name =
            name.chars().all(|character| character.is_alphanumeric() || "_-.@/".contains(character));
        if is_name && !name.is_empty() {
            pairs.push((name, value));
        }
        rest = rest.trim_start();
    }
    pairs
}

/// Reads a value up to its closing quote, and returns it with the bytes that it takes.
fn quoted(text: &str) -> (String, usize) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, at + 1),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, escaped)) => value.push(escaped),
                None => break,
            },
            character => value.push(character),
        }
    }
    (value, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_values() {
        let check = |line: &str, expected: &[(&str, &str)]| {
            let pairs = pairs(line);
            let pairs: Vec<(&str, &str)> =
                pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(pairs, expected, "{line}");
        };
        check(
            r#"a=1 msg="b \"c\" = d" e ip=::1"#,
            &[("a", "1"), ("msg", "b \"c\" = d"), ("e", "true"), ("ip", "::1")],
        );
        check(r#"x="never closed"#, &[("x", "never closed")]);
        check("=1 (a)=2 b=", &[("b", "")]);
        assert_eq!(super::pairs(&"a=1 ".repeat(1000)).len(), PAIRS_MAX);
    }
}
