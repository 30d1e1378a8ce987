//! Other scores for the rules of a posted text.

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

/// A text of rules in which these rules have these scores: where the text names a rule, its score is replaced, and what it lacks
/// is added behind the rest. Comments and all else stay as they are.
///
/// # Errors
/// If the text is no TOML.
pub fn with_scores<'a>(
    text: &str,
    scores: impl IntoIterator<Item = (&'a str, f64)>,
) -> Result<String, toml_edit::TomlError> {
    let mut document: DocumentMut = text.parse()?;
    let held = document.entry("rule").or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let Ok(mut rules) = std::mem::take(held).into_array_of_tables() else { return Ok(text.to_owned()) };
    for (name, score) in scores {
        let is_it = |rule: &Table| rule.get("name").and_then(Item::as_str) == Some(name);
        let place = rules.iter().position(is_it);
        match place.and_then(|place| rules.get_mut(place)) {
            Some(rule) => match rule.get_mut("score").and_then(Item::as_value_mut) {
                Some(old) => {
                    // What stands around the number, such as a comment behind it, stays.
                    let decor = old.decor().clone();
                    *old = score.into();
                    *old.decor_mut() = decor;
                }
                None => drop(rule.insert("score", value(score))),
            },
            None => {
                let mut rule = Table::new();
                rule.insert("name", value(name));
                rule.insert("score", value(score));
                rules.push(rule);
            }
        }
    }
    *held = Item::ArrayOfTables(rules);
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(text: &str, scores: &[(&str, f64)]) -> String {
        with_scores(text, scores.iter().copied()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn scores_are_replaced_where_they_stand_and_added_behind() {
        let text = "# ours\n[[rule]]\nname = \"A\"\nwhen = \"x > 1\"\nscore = 2 # high\n\n[[rule]]\nname = \"B\"\nmode = \"shadow\"\n";
        let expected = "# ours\n[[rule]]\nname = \"A\"\nwhen = \"x > 1\"\nscore = 1.5 # high\n\n[[rule]]\nname = \"B\"\nmode = \"shadow\"\nscore = -0.25\n\n[[rule]]\nname = 'C \"quoted\"'\nscore = 3.0\n";
        let scores = [("A", 1.5), ("B", -0.25), ("C \"quoted\"", 3.0)];
        let once = scored(text, &scores);
        assert_eq!(once, expected);
        assert_eq!(scored(&once, &scores), once, "the same again changes nothing");
    }

    #[test]
    fn an_empty_text_and_one_with_an_inline_list_take_scores() {
        let rule = |text: &str| {
            let document: DocumentMut = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            let rules = document["rule"].as_array_of_tables().map(|rules| rules.len());
            let rule = &document["rule"][0];
            (rules, rule["name"].as_str().map(str::to_owned), rule["score"].as_float())
        };
        let added = (Some(1), Some("A".to_owned()), Some(1.0));
        assert_eq!(rule(&scored("", &[("A", 1.0)])), added);
        assert_eq!(rule(&scored("rule = [{ name = \"A\", score = 7 }]\n", &[("A", 1.0)])), added);
        let kept = "rule = \"no list\"\n";
        assert_eq!(scored(kept, &[("A", 1.0)]), kept, "the mistake is not ours to mend");
        assert!(with_scores("[[rule", []).is_err());
    }
}
