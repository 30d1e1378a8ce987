//! The text that a reader sees of a field or a message, and where it leads.

use event::Facts;

use super::columns::{LINKS_MAX, TextColumns};
use super::links::LinkFeatures;
use super::set_list;
use super::words::{self, ObfuscationTally};
use crate::budget::Budget;
use crate::text::fingerprint::{self, fingerprints};
use crate::text::language::language;
use crate::text::obfuscation::deobfuscate;
use crate::text::{self, TEXT_BYTES_MAX};
use crate::web::html::{self, PageFeatures, PageLimits};
use crate::web::link;

/// Bytes of the visible text that a classifier reads.
pub(crate) const TEXT_START_BYTES: usize = 2_000;
/// Steps of a byte of text: normalised, counted, looked through for what is hidden in it, folded.
const STEPS_A_TEXT_BYTE: u64 = 50;
/// Steps that a byte beyond ASCII costs more.
const STEPS_A_FOREIGN_BYTE: u64 = 200;

/// The content that is seen and clicked.
#[derive(Default)]
pub(crate) struct VisibleText {
    text: String,
    links: LinkFeatures,
    page: PageFeatures,
}

impl VisibleText {
    /// Adds a plain text.
    pub(crate) fn add_plain(&mut self, source: &str, budget: &Budget) {
        self.add_links(source, budget);
        let left = TEXT_BYTES_MAX.saturating_sub(self.text.len());
        self.text.push_str(text::truncate(source, left));
        self.text.push('\n');
    }

    /// Adds the links of a text that is not seen itself.
    pub(crate) fn add_links(&mut self, source: &str, budget: &Budget) {
        self.links.add_text(text::truncate(source, TEXT_BYTES_MAX), budget);
    }

    /// Adds a page.
    pub(crate) fn add_page(&mut self, source: &str, budget: &Budget) {
        let text_bytes = TEXT_BYTES_MAX.saturating_sub(self.text.len());
        let page = html::read(source, PageLimits { text_bytes, references: LINKS_MAX }, budget);
        self.page.add(page.marks);
        for reference in &page.references {
            if !budget.spend(link::STEPS_A_BYTE * reference.text.len() as u64) {
                break;
            }
            self.links.add(&reference.target, budget);
            self.links.compare(&reference.target, &reference.text);
        }
        self.links.add_text(&page.outside, budget);
        self.text.push_str(&page.text);
        self.text.push('\n');
    }

    /// Sets the facts. What is obfuscated beside the text, as in a subject, is counted with it.
    pub(crate) fn fill(
        mut self,
        beside: &ObfuscationTally,
        budget: &Budget,
        columns: &TextColumns,
        facts: &mut Facts,
    ) {
        let text = affordable(self.text.trim(), budget);
        let mut plain = text::plain(text);
        // Signs that stand for several characters make more of it.
        let grown = plain.len().saturating_sub(text.len());
        let paid = budget.afford(grown, STEPS_A_TEXT_BYTE + STEPS_A_FOREIGN_BYTE);
        plain.truncate(plain.floor_char_boundary(plain.len() - grown + paid));
        let undone = deobfuscate(&plain);
        words::fill(text, &undone, beside, &columns.words, facts);
        self.links.add_contacts(text, &plain, &undone.text, budget, &columns.contacts, facts);
        let normalised = text::fold(&undone.text);
        if let Some(prose) = &columns.prose {
            facts.set(prose.empty, normalised.is_empty());
            if let Some(language) = language(text) {
                facts.set(prose.language, language);
            }
            set_list(facts, prose.fingerprints, fingerprints(&normalised));
            if !normalised.is_empty() {
                facts.set(prose.text_start, text::truncate(&normalised, TEXT_START_BYTES));
            }
        }
        if let Some(copies) = &columns.copies {
            let skeleton = fingerprint::skeleton(&normalised);
            set_list(facts, copies.short_fingerprints, fingerprint::short_fingerprints(&skeleton));
            if let Some(template) = fingerprint::template(&skeleton) {
                facts.set(copies.template, template);
            }
        }
        if !normalised.is_empty() {
            facts.set(columns.words.text, normalised);
        }
        if let Some(page) = &columns.page {
            self.page.fill(page, facts);
        }
        self.links.fill_contacts(&columns.contacts, facts);
        self.links.fill(&columns.links, facts);
    }
}

/// Cuts a text to what can be paid for.
fn affordable<'t>(text: &'t str, budget: &Budget) -> &'t str {
    let text = budget.cut(text, STEPS_A_TEXT_BYTE);
    let mut foreign = text.bytes().enumerate().filter(|(_, byte)| !byte.is_ascii()).map(|(at, _)| at);
    let count = foreign.clone().count();
    match budget.afford(count, STEPS_A_FOREIGN_BYTE) {
        paid if paid < count => text::truncate(text, foreign.nth(paid).unwrap_or_default()),
        _ => text,
    }
}
