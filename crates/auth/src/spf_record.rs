//! Syntax of SPF records (RFC 7208, 12: collected ABNF).
//!
//! An error anywhere in a record, also behind what would have matched, makes the result `permerror` (4.6). `mail-auth`
//! reads over mechanisms that it does not know, addresses that are none, and what stands behind names; so each record is
//! checked here before it is evaluated. Linear in the record; allocates nothing.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Longest name before its macros are expanded: so that what comes out, which is cut to a name's length, is never much
/// longer than that.
const TEMPLATE_BYTES_MAX: usize = 512;

/// Returns whether the terms behind `v=spf1` are all well-formed, and neither `redirect` nor `exp` is there twice.
pub(super) fn is_sound(record: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(record) else { return false };
    let Some(terms) = text.get(6..).filter(|terms| terms.is_empty() || terms.starts_with(' ')) else {
        return false;
    };
    let (mut redirects, mut explanations) = (0, 0);
    terms.split(' ').filter(|term| !term.is_empty()).all(|term| {
        // What comes first says what it is: mechanisms may have `=` behind `:` or `/`, names of modifiers neither.
        let end = term.find([':', '/', '=']).unwrap_or(term.len());
        let (name, rest) = term.split_at(end);
        match rest.strip_prefix('=') {
            Some(value) if name.eq_ignore_ascii_case("redirect") => {
                redirects += 1;
                redirects == 1 && is_domain(value)
            }
            Some(value) if name.eq_ignore_ascii_case("exp") => {
                explanations += 1;
                explanations == 1 && is_domain(value)
            }
            Some(value) => is_name(name) && macro_string(value).is_some(),
            None => is_mechanism(name.strip_prefix(['+', '-', '?', '~']).unwrap_or(name), rest),
        }
    })
}

/// The name of a mechanism, and what stands behind it with its colon or slash.
fn is_mechanism(name: &str, rest: &str) -> bool {
    let value = rest.strip_prefix(':');
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    match () {
        () if is("all") => rest.is_empty(),
        () if is("include") || is("exists") => value.is_some_and(is_domain),
        () if is("ptr") => rest.is_empty() || value.is_some_and(is_domain),
        () if is("a") || is("mx") => {
            let Some(rest) = without_lengths(rest) else { return false };
            rest.is_empty() || rest.strip_prefix(':').is_some_and(is_domain)
        }
        () if is("ip4") => value.is_some_and(|value| {
            let (network, length) = value.split_once('/').unwrap_or((value, "0"));
            network.parse::<Ipv4Addr>().is_ok() && is_length(length, 32)
        }),
        () if is("ip6") => value.is_some_and(|value| {
            let (network, length) = value.split_once('/').unwrap_or((value, "0"));
            network.parse::<Ipv6Addr>().is_ok() && is_length(length, 128)
        }),
        () => false,
    }
}

/// Returns what stands before `/24`, `//64` or `/24//64`; `None` if those are no lengths.
fn without_lengths(text: &str) -> Option<&str> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = match text.rsplit_once("//") {
        Some((before, length)) if is_number(length) => is_length(length, 128).then_some(before)?,
        _ => text,
    };
    match text.rsplit_once('/') {
        Some((before, length)) if is_number(length) => is_length(length, 32).then_some(before),
        _ => Some(text),
    }
}

fn is_length(text: &str, most: u8) -> bool {
    let plain = text == "0" || !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    plain && text.parse::<u8>().is_ok_and(|length| length <= most)
}

/// The name of a modifier.
fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// A `domain-spec`: ends in a macro, or in a label behind a dot that is not all digits.
fn is_domain(text: &str) -> bool {
    if text.len() > TEMPLATE_BYTES_MAX {
        return false;
    }
    let Some(ends) = macro_string(text) else { return false };
    if ends == MacroStringEnd::InMacro {
        return true;
    }
    let Some((_, label)) = text.strip_suffix('.').unwrap_or(text).rsplit_once('.') else { return false };
    label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().any(|byte| !byte.is_ascii_digit())
}

/// The state in which a text ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MacroStringEnd {
    InText,
    InMacro,
}

/// Reads visible characters, and macros (7.1) of letters that are known outside explanations; `None` for anything else.
fn macro_string(text: &str) -> Option<MacroStringEnd> {
    let mut bytes = text.bytes();
    let mut ends = MacroStringEnd::InText;
    while let Some(byte) = bytes.next() {
        ends = match byte {
            b'%' => match bytes.next()? {
                b'{' if is_macro(&mut bytes) => MacroStringEnd::InMacro,
                b'%' | b'_' | b'-' => MacroStringEnd::InMacro,
                _ => return None,
            },
            byte if byte.is_ascii_graphic() => MacroStringEnd::InText,
            _ => return None,
        };
    }
    Some(ends)
}

/// A macro behind its `{`, its `}` included.
fn is_macro(bytes: &mut std::str::Bytes<'_>) -> bool {
    if !bytes.next().is_some_and(|letter| b"slodiphv".contains(&letter.to_ascii_lowercase())) {
        return false;
    }
    let (mut digits, mut is_zero, mut seen) = (0, true, 0);
    for byte in bytes.by_ref() {
        // Digits, then an `r`, then delimiters.
        match byte {
            b'}' => return digits == 0 || !is_zero,
            b'0'..=b'9' if seen == 0 => {
                digits += 1;
                is_zero &= byte == b'0';
            }
            b'r' | b'R' if seen == 0 => seen = 1,
            b'.' | b'-' | b'+' | b',' | b'/' | b'_' | b'=' => seen = 2,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_are_sound_or_not() {
        let check = |terms: &str, expected: bool| {
            assert_eq!(is_sound(format!("v=spf1{terms}").as_bytes()), expected, "{terms}");
        };
        for terms in [
            "",
            " -all",
            "   a  mx   ~ALL  ",
            " +a:mail.example/24 ?mx//64 a/0//0 mx:x.example/32//128",
            " ip4:192.0.2.1 ip4:192.0.2.0/24 ip6:2001:db8::/32 ip6:::ffff:192.0.2.1",
            " include:_spf.example.org. exists:%{ir}.%{l1r+-}._spf.%{d} ptr ptr:example.org",
            " redirect=%{d} exp=explain.%{d2R} x-own=%{s}%%%_%- other=",
            " exists:%{i}.a/b.example a:%{d}/24",
        ] {
            check(terms, true);
        }
        for terms in [
            " al",
            " all:x",
            " all.example.org",
            " include",
            " include:",
            " include:localhost",
            " exists:a.123",
            " a:",
            " a:/24",
            " a/33",
            " a//129",
            " a/024",
            " a:example.org/",
            " mx:-.example.-",
            " ip4:192.0.2",
            " ip4:192.0.2.1/33",
            " ip4:192.0.2.1/",
            " ip4",
            " ip6:192.0.2.1",
            " ip6:2001:db8::g",
            " ptr/24",
            " v=spf1\t-all",
            "\t-all",
            " -all\u{e9}",
            " redirect=a.example redirect=b.example",
            " exp=a.example exp=a.example",
            " redirect=",
            " 1x=y",
            " exists:%{x}.example",
            " exists:%{c}.example",
            " exists:%{d0}.example",
            " exists:%{dr1}.example",
            " exists:%{d.example",
            " exists:%(d).example",
            " exists:example}",
            " unknown",
            " unknown:x",
            " --all",
        ] {
            check(terms, false);
        }
        assert!(!is_sound(b"v=spf1 -all\xff") && !is_sound(b"v=spf10 -all"));
    }

    proptest! {
        #[test]
        fn nothing_panics(terms in "[ -~]{0,80}") {
            let _ = is_sound(format!("v=spf1 {terms}").as_bytes());
        }

        #[test]
        fn sound_terms_are_sound_together(
            terms in prop::collection::vec(prop::sample::select(vec![
                "a", "mx/24", "ip4:192.0.2.1", "include:a.example", "?all", "x=y", "ptr", "exists:%{i}.a.example",
            ]), 0..12),
        ) {
            let record = format!("v=spf1 {}", terms.join(" "));
            prop_assert!(is_sound(record.as_bytes()), "{}", record);
        }
    }
}
