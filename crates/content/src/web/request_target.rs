//! Request targets: what a request asks for, and the one spelling of its path that all others mean.
//!
//! A path can be written in endless ways (`/login`, `//login`, `/x/../%6Cogin`), and whoever counts what was sent counts each
//! of them apart. [`normal_path`] follows what servers do with a path before they look for a page: nginx decodes it, joins
//! slashes and removes dot segments, Java's servers drop parameters behind `;`, Windows' take a backslash for a slash. Where servers
//! differ it takes for the same what some server takes for the same, so that no spelling escapes its count.

use std::borrow::Cow;
use std::fmt::Write;

use percent_encoding::percent_decode_str;

use crate::text::received;

/// A request target, cut into path and query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestTarget {
    /// The path as it was sent; `*` for a server as a whole.
    pub path: String,
    /// The text that follows the question mark, as it was sent.
    pub query: String,
}

impl RequestTarget {
    /// Reads a target in origin form (`/login?a=b`) or absolute form (`https://example.org/login`). `None` if it is neither,
    /// as then nobody knows which page is meant.
    pub fn read(bytes: &[u8]) -> Option<RequestTarget> {
        let text = escaped(bytes);
        let rest = if text.starts_with('/') || text == "*" { &*text } else { behind_authority(&text)? };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = if path.is_empty() { "/" } else { path };
        Some(RequestTarget { path: path.to_owned(), query: query.to_owned() })
    }
}

/// Returns the text that follows scheme and authority of an absolute URL.
fn behind_authority(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once("://")?;
    let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    named.then(|| &rest[rest.find(['/', '?', '#']).unwrap_or(rest.len())..])
}

/// The text of a target's bytes. Bytes of a text that is no UTF-8 are percent-encoded, which is how they could have been sent as well.
pub(crate) fn escaped(bytes: &[u8]) -> Cow<'_, str> {
    match received(bytes) {
        Cow::Borrowed(text) => Cow::Borrowed(text),
        Cow::Owned(_) => {
            let mut out = String::with_capacity(bytes.len() + 16);
            bytes.iter().for_each(|byte| push_byte(&mut out, *byte, byte.is_ascii()));
            Cow::Owned(out)
        }
    }
}

/// A path without query in its normal form: absolute form without its authority, cut at `#`, parameters behind `;` dropped, percent
/// signs decoded once, backslashes made slashes, slashes joined and dot segments removed. What would be read differently once more
/// (`%`, `?`, `#`, `;`, controls, spaces, what is no UTF-8) is percent-encoded in capitals, so the form of a form is the form itself. Letters keep their case, and
/// a slash at the end stays. Linear in the path; at most three times as long.
pub fn normal_path(path: &str) -> String {
    if is_normal(path) { path.to_owned() } else { rewritten(path) }
}

/// Returns true for a path of which it takes one look to see that it is its own normal form, as nearly all are.
fn is_normal(path: &str) -> bool {
    let mut last = 0;
    let is_plain = path.bytes().all(|byte| {
        let is_behind_slash = last == b'/' && matches!(byte, b'/' | b'.');
        last = byte;
        !is_behind_slash
            && !byte.is_ascii_control()
            && !matches!(byte, b' ' | b'%' | b'?' | b'#' | b';' | b'\\')
    });
    path.starts_with('/') && is_plain
}

fn rewritten(path: &str) -> String {
    let path = if path.starts_with('/') { path } else { behind_authority(path).unwrap_or(path) };
    let path = path.split_once('#').map_or(path, |(path, _)| path);
    if path == "*" {
        return path.to_owned();
    }
    let mut decoded = Vec::with_capacity(path.len());
    for part in path.split_inclusive(['/', '\\']) {
        let (name, slash) = match part.strip_suffix(['/', '\\']) {
            Some(name) => (name, "/"),
            None => (part, ""),
        };
        decoded.extend(percent_decode_str(name.split_once(';').map_or(name, |(name, _)| name)));
        decoded.extend(slash.bytes());
    }
    written(&segments(&decoded))
}

/// The segments that are left; the last is empty for a path that ends in a slash.
fn segments(decoded: &[u8]) -> Vec<&[u8]> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut open = true;
    for segment in decoded.split(|byte| matches!(byte, b'/' | b'\\')) {
        open = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            name => kept.push(name),
        }
    }
    if open {
        kept.push(b"");
    }
    kept
}

fn written(segments: &[&[u8]]) -> String {
    let mut out = String::new();
    for segment in segments {
        out.push('/');
        for chunk in segment.utf8_chunks() {
            for c in chunk.valid().chars() {
                let plain = !c.is_ascii_control() && !matches!(c, ' ' | '%' | '?' | '#' | ';');
                match u8::try_from(c).ok().filter(u8::is_ascii) {
                    Some(byte) => push_byte(&mut out, byte, plain),
                    None => out.push(c),
                }
            }
            chunk.invalid().iter().for_each(|byte| push_byte(&mut out, *byte, false));
        }
    }
    out
}

fn push_byte(out: &mut String, byte: u8, plain: bool) {
    if plain {
        out.push(char::from(byte));
    } else {
        // Writing to a text cannot fail.
        let _ = write!(out, "%{byte:02X}");
    }
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_spellings_of_a_path_are_one() {
        for path in [
            "/login",
            "//login",
            "/./login",
            "/x/../login",
            "/%6cogin",
            "/%6Cogin",
            "\\login",
            "/x/%2e%2E/login",
            "/x/..%2flogin",
            "/..;/login",
            "/login;jsessionid=1",
            "/;a=b/login",
            "/x\\..\\login",
            "/%5clogin",
            "login",
            "/../../login",
            "https://example.org/login",
            "/login#top",
            "/x;a/%2e%2e;b/login",
        ] {
            assert_eq!(normal_path(path), "/login", "{path}");
        }
        for (path, normal) in [
            ("", "/"),
            ("/", "/"),
            ("*", "*"),
            ("///", "/"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/login/", "/login/"),
            ("/Login", "/Login"),
            ("/%2541", "/%2541"),
            ("/%zz", "/%25zz"),
            ("/a%3bb", "/a%3Bb"),
            ("/a%3fb", "/a%3Fb"),
            ("/a%00%20", "/a%00%20"),
            ("/%c3%a4", "/ä"),
            ("/%c0%af", "/%C0%AF"),
            ("https://example.org", "/"),
            ("/a...b/...", "/a...b/..."),
        ] {
            assert_eq!(normal_path(path), normal, "{path}");
        }
    }

    #[test]
    fn a_target_is_read_or_refused() {
        let check = |bytes: &[u8], expected: Option<(&str, &str)>| {
            let found = RequestTarget::read(bytes);
            let found = found.as_ref().map(|target| (&*target.path, &*target.query));
            assert_eq!(found, expected, "{}", bytes.escape_ascii());
        };
        check(b"/login?a=b?c", Some(("/login", "a=b?c")));
        check(b"/?q=<script>\xff", Some(("/", "q=<script>%FF")));
        check(b"/login?\xff", Some(("/login", "%FF")));
        check(b"/l\xffgin", Some(("/l%FFgin", "")));
        check("/lögin?ä".as_bytes(), Some(("/lögin", "ä")));
        check(b"/login?<1>", Some(("/login", "<1>")));
        check(b"https://example.org/login?a", Some(("/login", "a")));
        check(b"https://example.org?a", Some(("/", "a")));
        check(b"*", Some(("*", "")));
        for refused in [b"".as_slice(), b"login", b"?a", b"\xff", b"example.org:443", b"1://x/", b"://x/"] {
            check(refused, None);
        }
    }

    /// Names that no server reads as anything else.
    fn name() -> impl Strategy<Value = String> {
        "[a-zA-Z0-9_~äß€%?#; -]{1,6}"
    }

    /// One of many ways to write a path of these segments.
    fn spelled(names: &[String], draws: &[u8]) -> String {
        let mut draws = draws.iter().copied().cycle();
        let mut draw = || draws.next().unwrap_or_default();
        let mut out = String::new();
        for name in names {
            out += ["/", "//", "/./", "/x/../", "\\", "/%2E/", "/a/%2e./", "/;p=1/", "/./%2e/"]
                [usize::from(draw()) % 9];
            for c in name.chars() {
                let mut bytes = [0; 4];
                let bytes = c.encode_utf8(&mut bytes).bytes();
                match (c, draw() % 3) {
                    (_, 0) => bytes.for_each(|byte| write!(out, "%{byte:02x}").unwrap()),
                    ('%' | '?' | '#' | ';', _) | (_, 1) => {
                        bytes.for_each(|byte| write!(out, "%{byte:02X}").unwrap())
                    }
                    _ => out.push(c),
                }
            }
            out += ["", ";v=1", ";"][usize::from(draw()) % 3];
        }
        out
    }

    proptest! {
        #[test]
        fn every_path_has_a_form_that_is_its_own(path in "[/.%\\\\;#?a-c2EefF0-9 \u{0}é:]{0,40}|\\PC{0,20}") {
            let normal = normal_path(&path);
            prop_assert_eq!(normal_path(&normal), normal.clone());
            prop_assert_eq!(rewritten(&path), normal.clone(), "the look takes none for what it is not");
            prop_assert!(normal == "*" || normal.starts_with('/'));
            prop_assert!(!normal.contains("//") && !normal.contains("/../") && !normal.contains("/./"));
            prop_assert!(normal.len() <= 3 * path.len() + 1);
        }

        #[test]
        fn spellings_of_one_path_are_one_and_others_are_others(
            names in prop::collection::vec(name(), 1..5),
            others in prop::collection::vec(name(), 1..5),
            draws in prop::collection::vec(any::<u8>(), 1..40),
        ) {
            let normal = normal_path(&spelled(&names, &[0]));
            prop_assert_eq!(&normal_path(&spelled(&names, &draws)), &normal);
            prop_assert_eq!(normal_path(&spelled(&others, &draws)) == normal, names == others);
        }

        #[test]
        fn any_bytes_behind_a_slash_are_a_target(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let target = RequestTarget::read(&[b"/", &*bytes].concat()).expect("it begins with a slash");
            let query = if bytes.contains(&b'?') { format!("?{}", target.query) } else { String::new() };
            let said: Vec<u8> = percent_decode_str(&(target.path + &query)).collect();
            let sent: Vec<u8> = percent_decode(&[b"/", &*bytes].concat()).collect();
            prop_assert_eq!(said, sent, "decoded, nothing of it is lost");
        }
    }
}
