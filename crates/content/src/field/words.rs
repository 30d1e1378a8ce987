//! Facts of words beside their meaning: scripts and obfuscation.

use event::Facts;

use super::columns::WordColumns;
use crate::text;
use crate::text::character::is_alphanumeric;
use crate::text::language::ScriptCounts;
use crate::text::obfuscation::{self, DeobfuscatedText, ObfuscationCounts};

/// The obfuscation of some texts, and their length.
#[derive(Debug, Default)]
pub(crate) struct ObfuscationTally {
    pub(crate) counts: ObfuscationCounts,
    chars: usize,
}

impl ObfuscationTally {
    /// Adds a text.
    pub(crate) fn add(&mut self, written: &str) {
        let plain = text::plain(written);
        let undone = obfuscation::deobfuscate(&plain);
        self.counts.count(written);
        self.counts.leet_words += undone.leet_words;
        self.counts.spaced_words += undone.spaced_words;
        self.chars += written.chars().count();
    }

    /// Returns true if there is any.
    pub(crate) fn is_obfuscated(&self) -> bool {
        self.counts.characters() + self.counts.leet_words + self.counts.spaced_words > 0
    }
}

/// Fills the facts about the words of a text, as it is written and deobfuscated, and of those beside it.
pub(crate) fn fill(
    written: &str,
    undone: &DeobfuscatedText<'_>,
    beside: &ObfuscationTally,
    columns: &WordColumns,
    facts: &mut Facts,
) {
    let (mut chars, mut alphanumeric, mut digits) = (0usize, 0usize, 0usize);
    for c in written.chars() {
        chars += 1;
        alphanumeric += usize::from(is_alphanumeric(c));
        digits += usize::from(text::digit(c).is_some());
    }
    if alphanumeric > 0 {
        facts.set(columns.digit_share, digits as f64 / alphanumeric.max(digits) as f64);
    }
    facts.set(columns.text_chars, chars);

    let mut all = ObfuscationCounts {
        leet_words: undone.leet_words,
        spaced_words: undone.spaced_words,
        ..ObfuscationCounts::default()
    };
    all.count(written);
    let sum = |of: fn(&ObfuscationCounts) -> usize| of(&all) + of(&beside.counts);
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
    let chars = chars + beside.chars;
    if chars > 0 {
        facts.set(columns.obfuscated_share, sum(ObfuscationCounts::characters) as f64 / chars as f64);
    }

    let scripts = ScriptCounts::of(written);
    if let Some(share) = scripts.foreign_share() {
        facts.set(columns.scripts, scripts.names());
        facts.set(columns.foreign_letter_share, share);
    }
}
