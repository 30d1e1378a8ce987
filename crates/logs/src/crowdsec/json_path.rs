//! A value of a JSON text by its path, as it stands in the text.

/// Most levels of values inside of one another that are passed over.
const DEPTH_MAX: usize = 256;

/// Returns the text of a value: without quotes, but with its escapes, if it is a text. Steps are names, or `[0]`.
pub(crate) fn get<'j>(json: &'j str, path: &[&str]) -> Option<JsonText<'j>> {
    let mut rest = json.trim_start();
    for step in path {
        rest = match step.strip_prefix('[').and_then(|step| step.strip_suffix(']')) {
            Some(index) => element(rest, index.parse().ok()?)?,
            None => member(rest, step)?,
        };
    }
    let length = value_length(rest)?;
    let text = &rest[..length];
    Some(match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(text) => JsonText { text, is_text: true },
        None => JsonText { text, is_text: false },
    })
}

/// A value as it stands in a JSON text.
pub(crate) struct JsonText<'j> {
    pub(crate) text: &'j str,
    pub(crate) is_text: bool,
}

impl JsonText<'_> {
    /// The text with its escapes read.
    pub(crate) fn unescaped(&self) -> Option<String> {
        match self.is_text {
            true => serde_json::from_str(&format!("\"{}\"", self.text)).ok(),
            false => Some(self.text.to_owned()),
        }
    }
}

fn member<'j>(object: &'j str, name: &str) -> Option<&'j str> {
    let mut rest = object.strip_prefix('{')?.trim_start();
    while !rest.starts_with('}') {
        let length = text_length(rest)?;
        let key = &rest[1..length - 1];
        rest = rest[length..].trim_start().strip_prefix(':')?.trim_start();
        let is_this = key == name
            || (key.contains('\\')
                && JsonText { text: key, is_text: true }.unescaped().as_deref() == Some(name));
        if is_this {
            return Some(rest);
        }
        rest = rest[value_length(rest)?..].trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    None
}

fn element(list: &str, index: usize) -> Option<&str> {
    let mut rest = list.strip_prefix('[')?.trim_start();
    for _ in 0..index {
        rest = rest[value_length(rest)?..].trim_start().strip_prefix(',')?.trim_start();
    }
    (!rest.starts_with(']')).then_some(rest)
}

/// The length of a text with its quotes.
fn text_length(json: &str) -> Option<usize> {
    let bytes = json.as_bytes();
    if bytes.first() != Some(&b'"') {
        return None;
    }
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'"' => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The length of the value that a text begins with.
fn value_length(json: &str) -> Option<usize> {
    let bytes = json.as_bytes();
    match bytes.first()? {
        b'"' => text_length(json),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0usize, 0);
            while at < bytes.len() {
                match bytes[at] {
                    b'"' => {
                        at += text_length(&json[at..])?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
                if depth > DEPTH_MAX {
                    return None;
                }
            }
            None
        }
        b'}' | b']' | b',' | b':' => None,
        _ => {
            let end = json.find(|c: char| matches!(c, ',' | '}' | ']') || c.is_whitespace());
            Some(end.unwrap_or(json.len())).filter(|length| *length > 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_path() {
        let json = r#" {"a":{"b":[1, {"c":"x\"y"}]}, "d" : null, "e":"", "f\u0041":true}"#;
        let check = |path: &[&str], expected: Option<&str>| {
            assert_eq!(get(json, path).map(|found| found.text), expected, "{path:?}");
        };
        check(&["a", "b", "[0]"], Some("1"));
        check(&["a", "b", "[1]", "c"], Some(r#"x\"y"#));
        check(&["a", "b", "[2]"], None);
        check(&["a", "b"], Some(r#"[1, {"c":"x\"y"}]"#));
        check(&["d"], Some("null"));
        check(&["e"], Some(""));
        check(&["fA"], Some("true"));
        check(&["g"], None);
        let found = get(json, &["a", "b", "[1]", "c"]).and_then(|found| found.unescaped());
        assert_eq!(found.as_deref(), Some(r#"x"y"#));
        for broken in ["", "{", "[", "{\"a", "{\"a\":", "{\"a\":}", "]", "{\"a\":]}"] {
            assert!(get(broken, &["a"]).is_none(), "{broken}");
        }
    }
}
