//! What a message's words show besides their meaning: language, scripts, disguises.

use event::{Facts, Value};

use crate::mail::columns::MailColumns;
use crate::text;
use crate::text::language::{ScriptCounts, language};
use crate::text::obfuscation::{self, ObfuscationCounts};

/// Fills the facts about the words of a message whose subject and shown name are filled already: its text as it is
/// written and as [`text::plain`] reads it. Gives the text in the form in which it is compared.
pub(crate) fn fill(written: &str, plain: &str, columns: &MailColumns, facts: &mut Facts) -> String {
    let undone = obfuscation::deobfuscate(plain);
    let mut all = ObfuscationCounts {
        leet_words: undone.leet_words,
        spaced_words: undone.spaced_words,
        ..ObfuscationCounts::default()
    };
    all.count(written);
    let mut chars = written.chars().count();

    let mut shown = ObfuscationCounts::default();
    for slot in [columns.display_name, columns.subject] {
        let said = facts.get(slot).and_then(Value::as_str).unwrap_or_default();
        let before = shown.emoji;
        shown.count(said);
        let plain = text::plain(said);
        let undone = obfuscation::deobfuscate(&plain);
        shown.leet_words += undone.leet_words;
        shown.spaced_words += undone.spaced_words;
        chars += said.chars().count();
        if slot == columns.subject {
            let emoji = shown.emoji - before;
            facts.set(columns.subject_emoji, emoji);
        }
    }
    let hides = shown.characters() + shown.leet_words + shown.spaced_words > 0;
    facts.set(columns.subject_disguised, hides);

    let sum = |of: fn(&ObfuscationCounts) -> usize| of(&all) + of(&shown);
    facts.set(columns.mixed_scripts, sum(|it| it.mixed_words));
    facts.set(columns.look_alikes, sum(|it| it.look_alikes));
    facts.set(columns.styled_letters, sum(|it| it.styled));
    facts.set(columns.zero_width, sum(|it| it.invisible));
    facts.set(columns.bidi_controls, sum(|it| it.bidi));
    facts.set(columns.tag_characters, sum(|it| it.tags));
    facts.set(columns.stacked_marks, sum(|it| it.stacked));
    facts.set(columns.leet_words, sum(|it| it.leet_words));
    facts.set(columns.spaced_words, sum(|it| it.spaced_words));
    facts.set(columns.emoji, sum(|it| it.emoji));
    if chars > 0 {
        facts.set(columns.disguised_share, sum(ObfuscationCounts::characters) as f64 / chars as f64);
    }

    if let Some(language) = language(written) {
        facts.set(columns.language, language);
    }
    let scripts = ScriptCounts::of(written);
    if let Some(share) = scripts.foreign_share() {
        facts.set(columns.scripts, scripts.names());
        facts.set(columns.foreign_letter_share, share);
    }
    text::fold(&undone.text)
}
