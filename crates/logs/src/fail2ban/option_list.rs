//! A name with options: `sshd[mode=aggressive, publickey="any"]`.

use std::collections::BTreeMap;

/// Reads a name with options. Errors say what is wrong.
pub fn read(text: &str) -> Result<(String, BTreeMap<String, String>), String> {
    let text = text.trim();
    let Some(at) = text.find('[') else { return Ok((text.to_owned(), BTreeMap::new())) };
    let name = text[..at].trim().to_owned();
    let Some(mut rest) = text[at + 1..].strip_suffix(']') else {
        return Err(format!("`{text}` has no `]` at its end"));
    };
    let mut options = BTreeMap::new();
    loop {
        // `[a=1][b=2]` is `[a=1, b=2]`.
        rest = rest.trim_start_matches(|character: char| {
            character.is_whitespace() || matches!(character, ',' | ']' | '[')
        });
        if rest.is_empty() {
            return Ok((name, options));
        }
        let Some((option, after)) = rest.split_once('=') else {
            return Err(format!("`{rest}` is no option"));
        };
        let option = option.trim();
        if option.is_empty()
            || !option.chars().all(|character| character.is_alphanumeric() || "-_.".contains(character))
        {
            return Err(format!("`{option}` is no name of an option"));
        }
        let value;
        if let Some(quote @ ('"' | '\'')) = after.chars().next() {
            let Some(end) = after[1..].find(quote) else {
                return Err(format!("a quote of `{option}` is not closed"));
            };
            value = &after[1..=end];
            rest = &after[end + 2..];
        } else {
            let end = after.find([',', ']']).unwrap_or(after.len());
            value = &after[..end];
            rest = &after[end..];
        }
        options.insert(option.to_lowercase(), value.trim().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_options() {
        let check = |text: &str, name: &str, options: &[(&str, &str)]| {
            let expected =
                options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            assert_eq!(read(text), Ok((name.to_owned(), expected)), "{text}");
        };
        check("sshd", "sshd", &[]);
        check("sshd[mode=normal]", "sshd", &[("mode", "normal")]);
        check("a[x=\"1,2]\", Y='q\"'][z= 3 ]", "a", &[("x", "1,2]"), ("y", "q\""), ("z", "3")]);
        check("a[]", "a", &[]);
        assert!(read("a[x").is_err());
        assert!(read("a[x=\"1]").is_err());
        assert!(read("a[x y=1]").is_err());
    }
}
