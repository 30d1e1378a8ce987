//! The bundled samples, for `demo` and `bench`: real mail and a real access log, cleanly licensed. `corpora/README.md`
//! names their sources.

/// A mailbox of a few hundred messages in the order of their times. The line before each names the collection that it
/// is from.
pub(crate) static MAIL: &[u8] = include_bytes!("../../../corpora/mail.mbox");
/// An access log in combined format, in the order of its times.
pub(crate) static WEB: &[u8] = include_bytes!("../../../corpora/web.log");

/// Returns the label that the collection that a message is from gives it, where it gives one.
pub(crate) fn label(origin: &str) -> Option<&'static str> {
    match origin.split('/').nth(1) {
        Some("spam") => Some("spam"),
        Some("nice" | "ham") => Some("ham"),
        _ => None,
    }
}
