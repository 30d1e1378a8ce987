//! Tags in patterns: `<HOST>`, `<ADDR>`, `<F-USER>…</F-USER>` become groups, `<name>` stands for an option's value.

use std::collections::BTreeSet;

/// Most times that one tag is replaced in a value.
const REPLACEMENTS_MAX: usize = 25;
/// Most passes over a value: each finds tags whose names have been put together by the last.
const PASSES_MAX: usize = 25;
/// Most bytes of a value.
const VALUE_BYTES_MAX: usize = 1 << 20;

const IP4: &str = r"(?:::f{4,6}:)?(?P<ip4>(?:[0-9]{1,3}\.){3}[0-9]{1,3})";
// Each repeated part ends with a colon, so a last colon always makes two.
const IP6: &str = r"(?P<ip6>(?:[0-9a-fA-F]{1,4}::?|::){1,7}(?:[0-9a-fA-F]{1,4}|:))";
const DNS: &str = r"(?P<dns>[\w\-.^_]*\w)";
const CIDR: &str = r"(?P<cidr>\d+)";

/// Returns a value in which each tag that is known is replaced, again and again. Errors say which tag is its own part.
pub(crate) fn replace(
    value: &str,
    name: &str,
    mut known: impl FnMut(&str) -> Option<String>,
) -> Result<String, String> {
    let mut value = value.to_owned();
    let mut counts: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for _ in 0..PASSES_MAX {
        let mut from = 0;
        let mut has_changed = false;
        while let Some((start, end)) = next_tag(&value, from) {
            let tag = value[start + 1..end - 1].to_owned();
            let Some(text) = known(&tag) else {
                // The next one may begin inside of this one's text, not before it.
                from = end;
                continue;
            };
            let count = counts.entry(tag.clone()).or_default();
            *count += 1;
            if tag == name || *count > REPLACEMENTS_MAX {
                return Err(format!("`<{tag}>` is part of itself"));
            }
            value = value.replace(&format!("<{tag}>"), &text);
            has_changed = true;
            from = start;
            if value.len() > VALUE_BYTES_MAX {
                return Err(format!("longer than {VALUE_BYTES_MAX} bytes"));
            }
        }
        if !has_changed {
            return Ok(value);
        }
    }
    Err("its tags never end".to_owned())
}

/// Finds the next `<name>` without spaces or angles in it.
fn next_tag(text: &str, from: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut start = None;
    for (index, &byte) in bytes.iter().enumerate().skip(from) {
        match byte {
            b'<' => start = Some(index),
            b' ' => start = None,
            b'>' => match start {
                Some(start) if index > start + 1 => return Some((start, index + 1)),
                _ => start = None,
            },
            _ => {}
        }
    }
    None
}

/// Returns a regular expression of Python's in which tags of hosts and fields are groups.
pub fn groups(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() * 2);
    let mut open = BTreeSet::new();
    let mut skipped = 0;
    let mut rest = pattern;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find('>').filter(|end| {
            let name = rest[1..*end].trim_start_matches('/').trim_end_matches('/');
            !name.is_empty()
                && name.chars().all(|character| character.is_alphanumeric() || "_-".contains(character))
        });
        let Some(end) = end else {
            out.push('<');
            rest = &rest[1..];
            continue;
        };
        let tag = &rest[1..end];
        match group(tag, &mut open, &mut skipped) {
            Some(text) => out.push_str(&text),
            None => out.push_str(&rest[..=end]),
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    out
}

fn group<'p>(tag: &'p str, open: &mut BTreeSet<&'p str>, skipped: &mut usize) -> Option<String> {
    let address = || format!(r"\[?(?:{IP4}|{IP6})\]?");
    Some(match tag {
        "HOST" => format!("(?:{}|{DNS})", address()),
        "ADDR" | "F-ADDR/" => address(),
        "SUBNET" | "F-SUBNET/" => format!(r"\[?(?:{IP4}|{IP6})(?:/{CIDR})?\]?"),
        "IP4" | "F-IP4/" => IP4.to_owned(),
        "IP6" | "F-IP6/" => IP6.to_owned(),
        "DNS" | "F-DNS/" => DNS.to_owned(),
        "CIDR" | "F-CIDR/" => CIDR.to_owned(),
        "F-ID/" => r"(?P<fid>\S+)".to_owned(),
        "F-PORT/" => r"(?P<fport>\w+)".to_owned(),
        "SKIPLINES" => {
            *skipped += 1;
            format!(r"\n(?P<skiplines{}>(?:(?:.*\n)*?))", *skipped - 1)
        }
        tag => {
            let is_upper = |name: &str| {
                name.chars().all(|character| matches!(character, 'A'..='Z' | '0'..='9' | '_' | '-'))
            };
            if let Some(name) = tag.strip_prefix("/F-") {
                return open.contains(name).then(|| ")".to_owned());
            }
            let name = tag.strip_prefix("F-").filter(|name| is_upper(name))?;
            open.insert(name);
            match name {
                "ID" => "(?P<fid>".to_owned(),
                "PORT" => "(?P<fport>".to_owned(),
                name => format!("(?P<{}>", name.to_lowercase()),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_stand_for_values_in_values() {
        let known = |tag: &str| {
            Some(match tag {
                "mode" => "x".to_owned(),
                "re-x" => "one <two>".to_owned(),
                "two" => "2".to_owned(),
                "self" => "<self>".to_owned(),
                _ => return None,
            })
        };
        let check =
            |value: &str, expected: &str| assert_eq!(replace(value, "", known).as_deref(), Ok(expected));
        check("<re-<mode>> (?P<n>a) <HOST> <two", "one 2 (?P<n>a) <HOST> <two");
        check("a < b> <two>", "a < b> 2");
        assert!(replace("<self>", "", known).is_err());
        assert!(replace("<two>", "two", known).is_err());
    }

    #[test]
    fn tags_become_groups() {
        assert_eq!(
            groups(r"^<F-USER>\S+|x</F-USER> (?P<a>b)</F-B><F-ID/>"),
            r"^(?P<user>\S+|x) (?P<a>b)</F-B>(?P<fid>\S+)"
        );
        assert_eq!(groups("<SKIPLINES><SKIPLINES>").matches("skiplines1").count(), 1);
        let check = |text: &str, group: &str, expected: &str| {
            let regex = regex::Regex::new(&format!("^from {}$", groups("<HOST>"))).expect("pattern");
            let captures = regex.captures(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(captures.name(group).map(|group| group.as_str()), Some(expected), "{text}");
        };
        check("from 1.2.3.4", "ip4", "1.2.3.4");
        check("from ::ffff:1.2.3.4", "ip4", "1.2.3.4");
        check("from [2001:db8::1]", "ip6", "2001:db8::1");
        check("from fe80::", "ip6", "fe80::");
        check("from some-host.example", "dns", "some-host.example");
    }
}
