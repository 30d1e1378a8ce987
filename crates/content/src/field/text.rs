//! The text that a reader sees of a field or a message, and where it leads.

use std::collections::HashSet;

use event::Facts;

use super::columns::{ITEMS_MAX, LINKS_MAX, TextColumns};
use super::links::LinkFeatures;
use super::set_list;
use super::words::{self, ObfuscationTally};
use crate::budget::Budget;
use crate::text::fingerprint::{self, fingerprints};
use crate::text::language::language;
use crate::text::obfuscation::deobfuscate;
use crate::text::{self, TEXT_BYTES_MAX, name};
use crate::web::html::{self, HtmlPage, PageFeatures, PageLimits};
use crate::web::link::{self, Link};

/// Bytes of the visible text that a classifier reads.
pub(crate) const TEXT_START_BYTES: usize = 2_000;
/// Steps of a byte of text: normalised, counted, looked through for what is hidden in it, folded.
const STEPS_A_TEXT_BYTE: u64 = 50;
/// Steps of facts beside those of each byte, about: of what is hidden, and of links in it.
const FACTS_STEPS: u64 = 1_000_000;
/// Steps of a text by which a page says whose it is, and of a link that may be its owner's.
const NAMES_STEPS: u64 = 20_000;
const LEAD_STEPS: u64 = 3_000;
/// Steps that a byte beyond ASCII costs more.
const STEPS_A_FOREIGN_BYTE: u64 = 200;

/// The content that is seen and clicked.
#[derive(Default)]
pub(crate) struct VisibleText {
    text: String,
    links: LinkFeatures,
    page: PageFeatures,
    names: Vec<String>,
    /// Registrable domains that links of pages lead to, images not counted.
    leads_to: HashSet<String>,
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
        self.add_names(&page, budget);
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

    /// Adds the names by which a page says whose it is, and where it leads.
    fn add_names(&mut self, page: &HtmlPage, budget: &Budget) {
        let owners = owners(budget.cut(&page.text, 1));
        for text in [page.marks.title.as_str(), page.marks.first_alt.as_str()].into_iter().chain(owners) {
            if !budget.spend(NAMES_STEPS) {
                return;
            }
            name::find(text, |name| {
                if self.names.len() < ITEMS_MAX && !self.names.contains(&name) {
                    self.names.push(name);
                }
            });
        }
        if self.names.is_empty() {
            return;
        }
        for reference in page.references.iter().filter(|reference| !reference.is_image) {
            if !budget.spend(LEAD_STEPS) {
                return;
            }
            let link = Link::parse(&reference.target);
            if let Some(domain) = link.as_ref().and_then(|link| link::registrable(&link.host)) {
                self.leads_to.insert(domain.to_owned());
            }
        }
    }

    /// Returns the names by which pages say whose they are, but for those of a domain that they lead to.
    pub(crate) fn names(&self) -> Vec<String> {
        let is_own = |name: &str| self.leads_to.iter().any(|domain| name::is_own_domain(name, domain));
        self.names.iter().filter(|name| !is_own(name)).cloned().collect()
    }

    /// Returns about what the facts will cost.
    pub(crate) fn steps(&self) -> u64 {
        FACTS_STEPS + (STEPS_A_TEXT_BYTE + STEPS_A_FOREIGN_BYTE) * self.text.len() as u64
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

/// Returns what stands behind the first signs of a copyright.
fn owners(text: &str) -> impl Iterator<Item = &str> {
    const OWNERS_MAX: usize = 3;
    const OWNER_BYTES_MAX: usize = 80;
    text.match_indices('\u{a9}').take(OWNERS_MAX).map(|(at, sign)| {
        let line = text[at + sign.len()..].lines().next().unwrap_or_default();
        text::truncate(line, OWNER_BYTES_MAX)
    })
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
