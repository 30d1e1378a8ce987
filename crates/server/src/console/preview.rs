//! A safe preview of what an event says: its logged texts as text, with the words coloured that classifiers know.
//!
//! Nothing of it is markup, a link, or loaded from anywhere. Only what the journal keeps is there: of a message the facts about its
//! texts, and not the message.

use content::text::tokenizer::Tokenization;
use maud::{Markup, html};
use serde_json::Value;

use super::format::{CELL, WHOLE, plain};
use super::texts::t;
use super::visit::ConsoleVisit;
use crate::api::{ClassifierOutputJson, ExplanationJson};
use crate::core::viewer::ViewerRight;

/// Texts that are shown.
const TEXTS: usize = 4;
/// Characters from which on a fact is a text where no classifier says so.
const LONG: usize = 80;
/// Texts of which a list has the beginning.
const EXCERPTS: usize = 2;
/// Characters of such a beginning.
const EXCERPT: usize = 500;

/// A piece of text that a classifier knows, and what it adds to the log-odds.
#[derive(Clone, Debug, PartialEq)]
struct KnownPiece {
    signs: Vec<char>,
    /// True if it stands between other signs than those of words.
    is_word: bool,
    adds: f64,
}

/// The preview of an event, for who may read what events say.
pub(super) fn preview(visit: &ConsoleVisit, of: &ExplanationJson) -> Markup {
    if !visit.viewer.may(ViewerRight::ReadContent) {
        return html! {};
    }
    let learned = learned(visit, &of.pipeline);
    let texts = texts(of, &learned);
    html! {
        @if !texts.is_empty() {
            section {
                h2 { (t("preview.title")) }
                p.dim { (t("preview.help")) }
                @for (fact, text) in texts {
                    figure.chart.preview {
                        figcaption { code.name { (plain(fact, CELL)) } }
                        pre tabindex="0" { (coloured(text, &pieces(&of.classifiers, fact), WHOLE)) }
                    }
                }
            }
        }
    }
}

/// The beginnings of an event's texts, for a list and for who may read what events say.
pub(super) fn excerpts(visit: &ConsoleVisit, of: &ExplanationJson) -> Markup {
    if !visit.viewer.may(ViewerRight::ReadContent) {
        return html! {};
    }
    let learned = learned(visit, &of.pipeline);
    html! {
        @for (fact, text) in texts(of, &learned).into_iter().take(EXCERPTS) {
            p.excerpt { code.dim { (plain(fact, CELL)) } " " (coloured(text, &pieces(&of.classifiers, fact), EXCERPT)) }
        }
    }
}

/// The facts whose texts classifiers of a pipeline learn.
fn learned(visit: &ConsoleVisit, pipeline: &str) -> Vec<String> {
    let plan = visit.node.engine.plan();
    plan.pipeline(Some(pipeline)).map_or_else(Vec::new, |pipeline| {
        let facts = pipeline.classifiers.iter().flat_map(|classifier| &classifier.of);
        facts.filter(|(.., cut)| *cut == Tokenization::Text).map(|(fact, ..)| fact.clone()).collect()
    })
}

/// The facts that are texts: those that classifiers learn, or else long ones.
fn texts<'e>(of: &'e ExplanationJson, learned: &[String]) -> Vec<(&'e str, &'e str)> {
    let all = of.facts.iter().filter_map(|(name, fact)| match fact {
        Value::String(text) if !text.trim().is_empty() => Some((name.as_str(), text.as_str())),
        _ => None,
    });
    let mut found: Vec<(&str, &str)> = all
        .filter(|(name, text)| match learned.is_empty() {
            true => text.chars().nth(LONG).is_some() && text.contains(' '),
            false => learned.iter().any(|fact| fact == name),
        })
        .collect();
    found.truncate(TEXTS);
    found
}

/// The pieces of a fact that move classifiers most.
fn pieces(classifiers: &[ClassifierOutputJson], fact: &str) -> Vec<KnownPiece> {
    let tokens = classifiers.iter().flat_map(|classifier| &classifier.tokens);
    let mut pieces = Vec::new();
    for token in tokens.filter(|token| token.adds != 0.0) {
        let Some((how, cut)) =
            token.token.strip_prefix(fact).and_then(|rest| rest.strip_prefix(' ')?.split_once(' '))
        else {
            continue;
        };
        let is_word = match how {
            "word" => true,
            "run" | "raw" => false,
            _ => continue,
        };
        let signs: Vec<char> = cut.chars().map(small).collect();
        if !signs.is_empty() {
            pieces.push(KnownPiece { signs, is_word, adds: token.adds });
        }
    }
    pieces
}

/// A sign as classifiers see it, as far as one sign becomes one.
fn small(sign: char) -> char {
    if sign.is_whitespace() { ' ' } else { sign.to_lowercase().next().unwrap_or(sign) }
}

/// The sum of what the pieces add that each sign is in.
fn weights(text: &[char], pieces: &[KnownPiece]) -> Vec<f64> {
    let seen: Vec<char> = text.iter().copied().map(small).collect();
    let mut weights = vec![0.0; seen.len()];
    for piece in pieces {
        let length = piece.signs.len();
        for at in 0..seen.len().saturating_sub(length - 1) {
            let is_edge =
                |at: Option<usize>| at.and_then(|at| seen.get(at)).is_none_or(|sign| !sign.is_alphanumeric());
            if seen[at..at + length] == piece.signs[..]
                && (!piece.is_word || is_edge(at.checked_sub(1)) && is_edge(Some(at + length)))
            {
                weights[at..at + length].iter_mut().for_each(|weight| *weight += piece.adds);
            }
        }
    }
    weights
}

/// The beginning of a text, with the parts marked that speak for the event or against it.
fn coloured(text: &str, pieces: &[KnownPiece], chars_max: usize) -> Markup {
    let signs: Vec<char> = text.chars().take(chars_max).collect();
    let weights = weights(&signs, pieces);
    let side = |weight: f64| {
        if weight > 0.0 {
            1
        } else if weight < 0.0 {
            -1
        } else {
            0
        }
    };
    let mut parts: Vec<(i32, String)> = Vec::new();
    for (sign, weight) in signs.iter().zip(weights) {
        match parts.last_mut().filter(|(of, _)| *of == side(weight)) {
            Some((_, part)) => part.push(*sign),
            None => parts.push((side(weight), sign.to_string())),
        }
    }
    html! {
        @for (side, part) in &parts {
            @match side {
                1 => { mark.bad { (plain(part, WHOLE)) } }
                -1 => { mark.good { (plain(part, WHOLE)) } }
                _ => { (plain(part, WHOLE)) }
            }
        }
        @if text.chars().nth(chars_max).is_some() { "…" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::TokenEvidenceJson;

    fn classifier(tokens: &[(&str, f64)]) -> ClassifierOutputJson {
        let tokens = tokens.iter().map(|(token, adds)| TokenEvidenceJson {
            token: (*token).to_owned(),
            bad: 1,
            good: 1,
            adds: *adds,
        });
        let (name, tokens) = ("learned".to_owned(), tokens.collect());
        ClassifierOutputJson { name, probability: 0.5, tokens, linear: None, site: None, others: 0.0 }
    }

    #[test]
    fn known_words_are_marked_and_nothing_is_markup() {
        let known = [classifier(&[
            ("text word cheap", 2.0),
            ("text word cheap pills", 1.0),
            ("text word minutes", -1.0),
            ("text run <img", 0.5),
            ("text whole x", 5.0),
            ("texts word and", 5.0),
            ("text word the", 0.0),
        ])];
        let check = |text: &str, expected: &str| {
            let found = coloured(text, &pieces(&known, "text"), WHOLE).into_string();
            let found = found.replace(" class=\"bad\"", "+").replace(" class=\"good\"", "-");
            assert_eq!(found, expected, "{text:?}");
        };
        check("Cheap pills and the cheapest", "<mark+>Cheap pills</mark> and the cheapest");
        check("MINUTES: x", "<mark->MINUTES</mark>: x");
        check("<img src=x>\u{202e}", "<mark+>&lt;img</mark> src=x&gt;⟨202E⟩");
        check("", "");
        let long = "a".repeat(100_000);
        assert!(coloured(&long, &pieces(&known, "text"), WHOLE).into_string().len() < 5_000);
    }
}
