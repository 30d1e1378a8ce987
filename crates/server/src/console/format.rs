//! Values as people read them: bounded, without signs that turn or hide what stands around them.

use event::{Span, Time};
use maud::{Markup, html};

pub(super) use super::digits::number;
use super::texts::{fill, t};

/// Most characters of a value in a table.
pub(super) const CELL: usize = 160;
/// Most characters of a value that is looked at by itself.
pub(super) const WHOLE: usize = 4_000;

/// Returns a text of strangers for a page: at most so many characters, control signs and those that change the direction of text
/// spelled out.
pub(super) fn plain(text: &str, chars_max: usize) -> String {
    let mut plain = String::with_capacity(text.len().min(chars_max * 4));
    for (count, sign) in text.chars().enumerate() {
        if count == chars_max {
            plain.push('…');
            break;
        }
        match sign {
            '\n' | '\t' => plain.push(sign),
            sign if is_hidden(sign) => plain.push_str(&format!("⟨{:04X}⟩", u32::from(sign))),
            sign => plain.push(sign),
        }
    }
    plain
}

/// Returns whether a sign is not seen itself, or turns the signs around it.
fn is_hidden(sign: char) -> bool {
    sign.is_control()
        || matches!(sign, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A text of strangers as a part of a page.
pub(super) fn value(text: &str, chars_max: usize) -> Markup {
    html! { bdi.value { (plain(text, chars_max)) } }
}

/// A number of points: at most two decimals, a true minus.
pub(super) fn points(points: f64) -> String {
    let rounded = (points * 100.0).round() / 100.0;
    let text = format!("{rounded:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let text = if text == "-0" { "0" } else { text };
    text.replace('-', "−")
}

/// A number of points with its sign.
pub(super) fn signed(value: f64) -> String {
    let text = points(value);
    if value > 0.0 && text != "0" { format!("+{text}") } else { text }
}

/// A share of one as per cent. One that is not all is never shown as all.
pub(super) fn percent(share: f64) -> String {
    let text = match share * 100.0 {
        part if part >= 99.95 && share < 1.0 => ">99.9".to_owned(),
        part if part < 0.05 && share > 0.0 => "<0.1".to_owned(),
        part if part < 10.0 => format!("{part:.1}"),
        part => format!("{part:.0}"),
    };
    format!("{text} %")
}

/// A number of bytes.
pub(super) fn bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if size < 1024.0 {
            break;
        }
        size /= 1024.0;
        unit = larger;
    }
    if unit == "B" || size >= 100.0 { format!("{size:.0} {unit}") } else { format!("{size:.1} {unit}") }
}

/// A length of time in its largest unit.
pub(super) fn length(span: Span) -> String {
    let seconds = span.0.unsigned_abs() / 1_000_000;
    match seconds {
        0..60 => fill("time.seconds", &[("n", &seconds)]),
        60..3600 => fill("time.minutes", &[("n", &(seconds / 60))]),
        3600..172_800 if seconds != 86_400 => fill("time.hours", &[("n", &(seconds / 3600))]),
        _ => fill("time.days", &[("n", &(seconds / 86_400))]),
    }
}

/// A time and its distance from now.
pub(super) fn time(time: Time, now: Time) -> Markup {
    let exact = time.to_string();
    html! {
        time datetime=(exact) title=(exact) { (clock(time)) }
        " "
        span.ago { (ago(time, now)) }
    }
}

/// A time by its distance from now; the time itself is there for who asks.
pub(super) fn distance(time: Time, now: Time) -> Markup {
    let exact = time.to_string();
    html! { time datetime=(exact) title=(exact) { (ago(time, now)) } }
}

/// A time to a second, in UTC.
pub(super) fn clock(time: Time) -> String {
    let exact = Time::from_seconds(time.seconds()).to_string();
    exact.trim_end_matches('Z').replacen('T', " ", 1)
}

/// The distance of a time from now.
pub(super) fn ago(time: Time, now: Time) -> String {
    if (now - time).0.unsigned_abs() < 1_000_000 {
        return t("time.now").to_owned();
    }
    let length = length(now - time);
    fill(if time < now { "time.ago" } else { "time.ahead" }, &[("length", &length)])
}

/// A value of a fact as one line.
pub(super) fn json(fact: &serde_json::Value) -> String {
    match fact {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) if whole >= 10_000 => self::number(whole),
            (None, Some(float)) if !number.is_i64() => points(float),
            _ => number.to_string(),
        },
        serde_json::Value::Array(list) => list.iter().map(json).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Returns whether a fact has the value that it has where nothing is the matter.
pub(super) fn is_default(fact: &serde_json::Value) -> bool {
    match fact {
        serde_json::Value::Null => true,
        serde_json::Value::Bool(truth) => !truth,
        serde_json::Value::Number(number) => number.as_f64() == Some(0.0),
        serde_json::Value::String(text) => text.is_empty(),
        serde_json::Value::Array(list) => list.is_empty(),
        serde_json::Value::Object(members) => members.is_empty(),
    }
}

/// A URL below the console with these parameters.
pub(super) fn url(path: &str, params: &[(&str, &str)]) -> String {
    let query = serde_urlencoded::to_string(params).unwrap_or_default();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// The page of a key.
pub(super) fn key_url(pipeline: &str, kind: &str, value: &str) -> String {
    url("/console/key", &[("pipeline", pipeline), ("kind", kind), ("value", value)])
}

/// A text with a small first letter, to stand inside of a sentence. A word in capitals stays as it is.
pub(super) fn inside(text: &str) -> String {
    let mut signs = text.chars();
    match (signs.next(), signs.clone().next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => first.to_lowercase().chain(signs).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_sent_turns_nothing_around() {
        let check =
            |text: &str, max: usize, expected: &str| assert_eq!(plain(text, max), expected, "{text:?}");
        check("a<b>&\"'", 10, "a<b>&\"'");
        check("\u{202e}cod.exe", 20, "⟨202E⟩cod.exe");
        check("a\u{2066}b\u{200b}c\u{ad}\0\r\u{e0041}", 20, "a⟨2066⟩b⟨200B⟩c⟨00AD⟩⟨0000⟩⟨000D⟩⟨E0041⟩");
        check("abcdef", 3, "abc…");
        check("abc", 3, "abc");
        assert!(plain(&"ä".repeat(100_000), CELL).len() < 1000);
        assert_eq!(value("<script>", 9).into_string(), "<bdi class=\"value\">&lt;script&gt;</bdi>");
    }

    #[test]
    fn numbers_are_short_and_never_better_than_they_are() {
        let check = |text: String, expected: &str| assert_eq!(text, expected);
        check(number(0), "0");
        check(number(1_234_567), "1\u{202f}234\u{202f}567");
        check(points(-1.5), "−1.5");
        check(points(-0.001), "0");
        check(points(2.0), "2");
        check(signed(0.5), "+0.5");
        check(signed(0.0), "0");
        check(percent(0.9999), ">99.9 %");
        check(percent(1.0), "100 %");
        check(percent(0.0001), "<0.1 %");
        check(percent(0.0), "0.0 %");
        check(percent(0.256), "26 %");
        check(bytes(1023), "1023 B");
        check(bytes(1536), "1.5 KiB");
        check(bytes(u64::MAX), "16777216 TiB");
        check(clock(Time::from_seconds(1_779_012_000)), "2026-05-17 10:00:00");
        check(inside("Somebody reported"), "somebody reported");
        check(inside("SPF fails"), "SPF fails");
        check(inside(""), "");
    }
}
