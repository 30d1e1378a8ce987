//! The characters of a page on their way to its tokenizer, which they keep from running out of stack.
//!
//! The tokenizer goes from one state to the next by a call where that is faster, and from one attribute in double quotes to the
//! next it only ever calls: ten thousand of them in one tag would end the process. A solidus between two attributes says
//! nothing (HTML standard, "unexpected-solidus-in-tag"), but it is one of the characters at which the tokenizer returns from
//! all these calls. So one is put behind each so many values.

use std::convert::Infallible;

use html5gum::{Readable, Reader, StringReader};

/// Values in double quotes between two of which a solidus is put. Each takes some hundred bytes of the stack, and some thousand
/// without optimization.
const VALUES_MAX: u32 = 16;

/// A page that is read.
pub(super) struct Source<'h> {
    html: StringReader<'h>,
    /// Closing quotes since the last solidus, or other quotes.
    quotes: u32,
    /// The last that was read is the quote behind which a solidus is to be put.
    is_due: bool,
}

impl<'h> Source<'h> {
    pub(super) fn new(html: &'h str) -> Source<'h> {
        Source { html: html.to_reader(), quotes: 0, is_due: false }
    }
}

impl Reader for Source<'_> {
    type Error = Infallible;

    fn read_byte(&mut self) -> Result<Option<u8>, Infallible> {
        if !std::mem::take(&mut self.is_due) {
            return self.html.read_byte();
        }
        // Before the end of the tag it would say that the element has no content; and there the tokenizer returns, too.
        if self.html.try_read_string(b">", true)? {
            return Ok(Some(b'>'));
        }
        self.quotes = 0;
        Ok(Some(b'/'))
    }

    fn try_read_string(&mut self, text: &[u8], is_case_sensitive: bool) -> Result<bool, Infallible> {
        self.is_due = false;
        self.html.try_read_string(text, is_case_sensitive)
    }

    fn read_until<'b>(
        &'b mut self,
        needle: &[u8],
        buffer: &'b mut [u8; 4],
    ) -> Result<Option<&'b [u8]>, Infallible> {
        let piece = self.html.read_until(needle, buffer)?;
        // A quote ends a value where quotes are looked for.
        let is_quote = piece == Some(b"\"");
        self.quotes = self.quotes.saturating_add(u32::from(is_quote));
        self.is_due = is_quote && self.quotes >= VALUES_MAX;
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use crate::budget::Budget;
    use crate::web::html::{HtmlPage, PageLimits, read};

    fn page(html: &str) -> HtmlPage {
        read(html, PageLimits { text_bytes: 1 << 20, references: 10 }, &Budget::ample())
    }

    /// However many attributes a tag has, and in whatever quotes, little of the stack is used, and all is read.
    #[test]
    fn many_attributes_take_no_stack() {
        let read = || {
            for attribute in [
                "a=\"b\" ",
                "a=\"b\"",
                "a=\"\"/",
                "a = \"b\"\n",
                "a=\"&\" ",
                "a='b' ",
                "a=b ",
                "a ",
                "a=\" \"=\"\" ",
            ] {
                let attributes = attribute.repeat(20_000);
                let html =
                    format!("<p {attributes}>one <a {attributes} href=\"http://x.example/\">two</a> three");
                let page = page(&html);
                let links: Vec<&str> = page.references.iter().map(|one| one.target.as_str()).collect();
                assert_eq!(
                    (page.text.trim(), links),
                    ("one two three", vec!["http://x.example/"]),
                    "{attribute}"
                );
            }
        };
        std::thread::Builder::new().stack_size(1 << 20).spawn(read).unwrap().join().unwrap();
    }

    /// Text that is put between attributes changes nothing, wherever the tag ends and whatever holds quotes.
    #[test]
    fn pages_are_read_as_they_are() {
        for count in 0..40 {
            let attributes = "a=\"b\" ".repeat(count);
            let tag = |end: &str| format!("<x:y {attributes}c=\"d\"{end}one</x:y>");
            for end in [">", " >", "\n>"] {
                assert_eq!(page(&tag(end)).text.trim(), "one", "{count} {end}");
            }
            let html = format!(
                "<!-- {attributes} --><script {attributes}>\"{attributes}\"</script>\"{attributes}\"<i {attributes}>"
            );
            assert_eq!(page(&html).text.trim(), format!("\"{attributes}\"").trim(), "{count}");
        }
    }
}
