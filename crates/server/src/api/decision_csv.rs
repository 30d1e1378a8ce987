//! Past decisions as comma-separated values (RFC 4180).
//!
//! Spreadsheets take a cell that begins with `=`, `+`, `-` or `@` for a formula, and what strangers sent stands in cells: such texts get an
//! apostrophe in front (OWASP, "CSV Injection").

use serde_json::Value;

use super::search::ListedDecisionJson;

/// The columns before those of facts.
pub(super) const COLUMNS: [&str; 11] = [
    "id",
    "event_id",
    "pipeline",
    "version",
    "time",
    "action",
    "score",
    "probability",
    "rules",
    "shadow",
    "label",
];

/// Returns the line of names: those of every decision, and those of facts, a column each.
pub fn csv_head(facts: &[String]) -> String {
    let mut text = COLUMNS.join(",");
    for fact in facts {
        text.push(',');
        cell(&mut text, fact);
    }
    text.push_str("\r\n");
    text
}

/// Puts a decision behind others, with these facts.
pub fn csv_row(text: &mut String, one: &ListedDecisionJson, facts: &[String]) {
    let rules: Vec<&str> = one.rules.iter().map(|rule| rule.name.as_str()).collect();
    let cells = [
        one.id.as_str(),
        one.event_id.as_deref().unwrap_or_default(),
        &one.pipeline,
        &one.version,
        &one.time.to_string(),
        one.action.name(),
    ];
    for of in cells {
        cell(text, of);
        text.push(',');
    }
    text.push_str(&format!("{},{},", one.score, one.probability));
    for (index, of) in [&rules.join(" "), &one.shadow.join(" "), one.label.as_deref().unwrap_or_default()]
        .into_iter()
        .enumerate()
    {
        if index > 0 {
            text.push(',');
        }
        cell(text, of);
    }
    for fact in facts {
        text.push(',');
        match one.facts.get(fact) {
            None | Some(Value::Null) => {}
            Some(Value::Number(number)) => text.push_str(&number.to_string()),
            Some(Value::Bool(truth)) => text.push_str(if *truth { "true" } else { "false" }),
            Some(Value::String(of)) => cell(text, of),
            Some(other) => cell(text, &other.to_string()),
        }
    }
    text.push_str("\r\n");
}

/// Writes a text as a cell that is no formula.
fn cell(into: &mut String, text: &str) {
    // Spreadsheets pass over blanks before a formula, and some take what follows a tab or an end of line for one.
    let first = text.trim_start().chars().next();
    let is_formula = first
        .is_some_and(|sign| matches!(sign, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠' | '|'))
        || text.starts_with(['\t', '\r', '\n']);
    let is_quoted = is_formula || text.contains([',', '"', '\r', '\n', ';', '\t']) || text.trim() != text;
    if !is_quoted {
        return into.push_str(text);
    }
    into.push('"');
    if is_formula {
        into.push('\'');
    }
    into.push_str(&text.replace('"', "\"\"").replace('\0', ""));
    into.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_sent_is_no_formula() {
        let check = |text: &str, expected: &str| {
            let mut found = String::new();
            cell(&mut found, text);
            assert_eq!(found, expected, "{text:?}");
        };
        check("ann@example.org", "ann@example.org");
        check("", "");
        check("a,b", "\"a,b\"");
        check("say \"a\"", "\"say \"\"a\"\"\"");
        check("=HYPERLINK(\"http://evil.example\")", "\"'=HYPERLINK(\"\"http://evil.example\"\")\"");
        for sign in ["=", "+", "-", "@", "\t=", " =", "＝", "\r", "\n@"] {
            let text = format!("{sign}1+1");
            let mut found = String::new();
            cell(&mut found, &text);
            assert!(found.starts_with("\"'"), "{text:?}: {found}");
        }
        check("a=1", "a=1");
        check("two\r\nlines", "\"two\r\nlines\"");
    }
}
