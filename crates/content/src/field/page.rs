//! Facts of a page beside its visible text.

use event::Facts;

use super::columns::{ITEM_BYTES_MAX, PageColumns};
use crate::text::{self, truncate};
use crate::web::html::PageFeatures;

impl PageFeatures {
    /// Sets the facts.
    pub(crate) fn fill(&self, columns: &PageColumns, facts: &mut Facts) {
        facts.set(columns.html_images, self.images);
        facts.set(columns.html_image_links, self.image_links);
        facts.set(columns.html_external_images, self.external_images);
        facts.set(columns.html_pixels, self.pixels);
        facts.set(columns.html_form, self.has_form);
        facts.set(columns.html_form_posts, self.posts);
        facts.set(columns.html_password, self.has_password);
        facts.set(columns.html_script, self.has_script);
        facts.set(columns.html_frame, self.has_frame);
        facts.set(columns.html_refresh, self.has_refresh);
        facts.set(columns.html_base, self.has_base);
        facts.set(columns.html_data_urls, self.data_urls);
        facts.set(columns.html_hidden_chars, self.hidden_chars);
        facts.set(columns.html_hidden_links, self.hidden_links);
        facts.set(columns.html_split_words, self.split_words);
        facts.set(columns.html_unknown_elements, self.unknown_elements);
        let all = self.hidden_chars + self.seen_chars;
        if all > 0 {
            facts.set(columns.html_hidden_share, self.hidden_chars as f64 / all as f64);
        }
        let preheader = truncate(self.preheader.trim(), ITEM_BYTES_MAX);
        if !preheader.is_empty() {
            facts.set(columns.html_preheader, preheader);
        }
        let hidden = text::normalise(&self.hidden);
        if !hidden.is_empty() {
            facts.set(columns.html_hidden_text, hidden);
        }
    }
}
