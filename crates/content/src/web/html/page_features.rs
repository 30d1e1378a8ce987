//! Features of pages beside their visible text.

use super::HIDDEN_BYTES_MAX;
use crate::text::truncate;

/// The features that were noted of a page, or of all pages of a message.
#[derive(Debug, Default)]
pub(crate) struct PageFeatures {
    pub(crate) images: usize,
    /// Images that are fetched when the page is shown, and those of them of at most a pixel a side.
    pub(crate) external_images: usize,
    pub(crate) pixels: usize,
    /// Links around an image.
    pub(crate) image_links: usize,
    pub(crate) has_form: bool,
    /// True if a form is sent to another host.
    pub(crate) posts: bool,
    pub(crate) has_password: bool,
    pub(crate) has_script: bool,
    pub(crate) has_frame: bool,
    pub(crate) has_refresh: bool,
    pub(crate) has_base: bool,
    /// References that hold what they refer to.
    pub(crate) data_urls: usize,
    /// Hidden text but for the preheader, and how many letters and digits it has.
    pub(crate) hidden: String,
    pub(crate) hidden_chars: usize,
    /// Letters and digits that are seen.
    pub(crate) seen_chars: usize,
    /// Hidden text before all that is seen, and how many letters and digits it has.
    pub(crate) preheader: String,
    pub(super) preheader_chars: usize,
    /// Links in elements that are not shown.
    pub(crate) hidden_links: usize,
    /// Words that comments or hidden text stand within.
    pub(crate) split_words: usize,
    /// Elements that no standard knows.
    pub(crate) unknown_elements: usize,
    /// The texts by which a page says whose it is: its title, and what stands for its first image.
    pub(crate) title: String,
    pub(crate) first_alt: String,
}

impl PageFeatures {
    /// Adds those of another page.
    pub(crate) fn add(&mut self, other: PageFeatures) {
        self.images += other.images;
        self.external_images += other.external_images;
        self.pixels += other.pixels;
        self.image_links += other.image_links;
        self.has_form |= other.has_form;
        self.posts |= other.posts;
        self.has_password |= other.has_password;
        self.has_script |= other.has_script;
        self.has_frame |= other.has_frame;
        self.has_refresh |= other.has_refresh;
        self.has_base |= other.has_base;
        self.data_urls += other.data_urls;
        self.hidden_chars += other.hidden_chars;
        self.preheader_chars += other.preheader_chars;
        self.seen_chars += other.seen_chars;
        self.hidden_links += other.hidden_links;
        self.split_words += other.split_words;
        self.unknown_elements += other.unknown_elements;
        for (kept, more) in [(&mut self.hidden, other.hidden), (&mut self.preheader, other.preheader)] {
            let left = HIDDEN_BYTES_MAX.saturating_sub(kept.len());
            kept.push_str(truncate(&more, left));
        }
    }
}
