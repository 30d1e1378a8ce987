//! Subjects with a tag before them, such as `[SPAM] Cheap pills`: for readers whose mail program shows nothing else. Pure.

use std::borrow::Cow;

use content::mail::arf;
use data_encoding::BASE64;

/// The most bytes of a subject that is given a tag. A longer one stays as it is.
pub(crate) const SUBJECT_BYTES_MAX: usize = 8 << 10;

/// The column at which a subject is folded behind its tag.
const LINE_CHARS: usize = 76;
/// The most bytes of text in an encoded word, which has at most 75 characters (RFC 2047, section 2).
const WORD_BYTES_MAX: usize = 45;

/// Returns the value of `Subject` with a tag before it; `None` if it has the tag already, as in a reply, or is too long.
///
/// `value` is what stands behind the colon, as it came: its encoded words and bytes stay as they are. Lines of the returned value end
/// with a line feed alone, and all but the first begin with a blank.
pub(crate) fn tagged(value: &[u8], tag: &str) -> Option<Vec<u8>> {
    let value = value.trim_ascii();
    if value.len() > SUBJECT_BYTES_MAX || decoded(value).contains(tag) {
        return None;
    }
    if value.is_empty() {
        return Some(encoded(tag).into_owned().into_bytes());
    }
    // Blanks between two encoded words are not shown (RFC 2047, section 6.2): the one behind the tag is a part of its word then.
    let tag = match encoded(tag) {
        Cow::Owned(_) if value.starts_with(b"=?") => encoded(&format!("{tag} ")).into_owned(),
        tag => tag.into_owned(),
    };
    let first_line = value.iter().position(|byte| *byte == b'\n').unwrap_or(value.len());
    let column = "Subject: ".len() + tag.rsplit('\n').next().map_or(0, str::len);
    let mut tagged = tag.into_bytes();
    if column + 1 + first_line > LINE_CHARS {
        tagged.push(b'\n');
    }
    tagged.push(b' ');
    for (index, line) in value.split(|byte| *byte == b'\n').enumerate() {
        if index > 0 {
            tagged.push(b'\n');
            if !line.starts_with(b" ") && !line.starts_with(b"\t") {
                tagged.push(b'\t');
            }
        }
        tagged.extend(line.iter().filter(|byte| !matches!(byte, 0 | b'\r')));
    }
    Some(tagged)
}

/// Returns [`tagged`] on one line, for protocols of text. A subject that is no UTF-8 is encoded anew.
pub(crate) fn tagged_text(value: &[u8], tag: &str) -> Option<String> {
    let value = tagged(value, tag)?;
    let text =
        String::from_utf8(value).unwrap_or_else(|error| encoded(&decoded(error.as_bytes())).into_owned());
    Some(text.replace('\n', ""))
}

/// The text that people read.
fn decoded(value: &[u8]) -> String {
    let field = [b"Subject: ", value, b"\r\n\r\n"].concat();
    arf::fields(&field, "Subject").into_iter().next().unwrap_or_default()
}

/// A text as it may stand in a header: in encoded words if it is not plain, or reads as if it were encoded.
fn encoded(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && !text.contains("=?") {
        return Cow::Borrowed(text);
    }
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = rest.len().min(WORD_BYTES_MAX);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (word, more) = rest.split_at(end);
        words.push(format!("=?utf-8?B?{}?=", BASE64.encode(word.as_bytes())));
        rest = more;
    }
    Cow::Owned(words.join("\n "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(value: &str, tag: &str, expected: &str, shown: &str) {
        let tagged = tagged(value.as_bytes(), tag).unwrap();
        assert_eq!(String::from_utf8(tagged.clone()).unwrap(), expected);
        assert_eq!(decoded(&tagged), shown);
    }

    #[test]
    fn tags_stand_before_what_people_read() {
        check(" Cheap pills", "[SPAM]", "[SPAM] Cheap pills", "[SPAM] Cheap pills");
        check("", "[SPAM]", "[SPAM]", "[SPAM]");
        check("=?utf-8?Q?Z=C3=BCge?=", "[SPAM]", "[SPAM] =?utf-8?Q?Z=C3=BCge?=", "[SPAM] Züge");
        check("Züge", "[SPAM]", "[SPAM] Züge", "[SPAM] Züge");
        // A tag that is encoded itself, before text and before an encoded word.
        check("pills", "[СПАМ]", "=?utf-8?B?W9Ch0J/QkNCcXQ==?= pills", "[СПАМ] pills");
        check(
            "=?utf-8?Q?Z=C3=BCge?=",
            "[СПАМ]",
            "=?utf-8?B?W9Ch0J/QkNCcXSA=?= =?utf-8?Q?Z=C3=BCge?=",
            "[СПАМ] Züge",
        );
        check("pills", "=?x", "=?utf-8?B?PT94?= pills", "=?x pills");
    }

    #[test]
    fn lines_are_folded_and_stay_lines() {
        check("one\r\n two\r\n\tthree", "[SPAM]", "[SPAM] one\n two\n\tthree", "[SPAM] one two three");
        check("one\ntwo", "[SPAM]", "[SPAM] one\n\ttwo", "[SPAM] one two");
        let long = "word ".repeat(14);
        check(&long, "[SPAM]", &format!("[SPAM]\n {}", long.trim()), &format!("[SPAM] {}", long.trim()));
    }

    #[test]
    fn nothing_is_tagged_twice() {
        for value in ["[SPAM] pills", "Re: [SPAM] pills", "=?utf-8?B?W1NQQU1dIFrDvGdl?=", "[SPAM]"] {
            assert_eq!(tagged(value.as_bytes(), "[SPAM]"), None, "{value}");
        }
        assert_eq!(tagged("=?utf-8?B?W9Ch0J/QkNCcXQ==?= pills".as_bytes(), "[СПАМ]"), None);
        assert_eq!(tagged(&vec![b'a'; SUBJECT_BYTES_MAX + 1], "[SPAM]"), None, "too long");
    }

    #[test]
    fn text_is_one_line() {
        assert_eq!(tagged_text(b"one\r\n two", "[SPAM]").as_deref(), Some("[SPAM] one two"));
        // Latin-1 without a name.
        let text = tagged_text(b"Z\xfcge", "[SPAM]").unwrap();
        assert!(text.starts_with("=?utf-8?B?") && decoded(text.as_bytes()).starts_with("[SPAM] Z"), "{text}");
    }

    proptest! {
        /// A subject makes no other field and gets one tag, whatever it is.
        #[test]
        fn one_field_stays_one(value in prop::collection::vec(any::<u8>(), 0..300), tag in "[a-zé]{1,20}") {
            let Some(once) = tagged(&value, &tag) else { return Ok(()) };
            let mut lines = once.split(|byte| *byte == b'\n').skip(1);
            prop_assert!(lines.all(|line| line.starts_with(b" ") || line.starts_with(b"\t")));
            prop_assert!(!once.contains(&b'\r') && !once.contains(&0));
            prop_assert!(decoded(&once).starts_with(&tag), "{}", decoded(&once));
            prop_assert_eq!(tagged(&once, &tag), None);
        }
    }
}
