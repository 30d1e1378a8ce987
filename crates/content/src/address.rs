//! E-mail addresses in the one form in which they are counted and compared.

use crate::web::domain::domain_to_ascii;

/// Longest address that is read; RFC 5321 allows 254 bytes, and A-labels may be longer than what they encode.
pub const ADDRESS_BYTES_MAX: usize = 512;

/// The null reverse-path of bounces (RFC 5321, 4.5.5).
pub const NULL_SENDER: &str = "<>";

/// A normalised address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailAddress {
    /// The whole address, lower case, its domain as A-labels; [`NULL_SENDER`] for the null sender.
    pub full: String,
    /// The part after the last `@`; empty for the null sender and for a bare local name such as `root`.
    pub domain: String,
    /// The address without the tag after `+` in its local part (RFC 5233), if it has one. An extra, not a
    /// replacement: not every server reads `+` as the start of a tag.
    pub untagged: Option<String>,
}

impl MailAddress {
    /// Reads one address such as `Ann+news@BÜCHER.example`, with or without angle brackets, quotes around the
    /// local part or a final dot. `None` if it is empty, longer than [`ADDRESS_BYTES_MAX`] or contains white
    /// space or control characters.
    ///
    /// The local part is made lower case although RFC 5321 lets servers tell case apart: none that matter do.
    pub fn parse(text: &str) -> Option<MailAddress> {
        let text = text.trim();
        if text == NULL_SENDER {
            return Some(MailAddress { full: NULL_SENDER.to_owned(), domain: String::new(), untagged: None });
        }
        let text = text.strip_prefix('<').unwrap_or(text);
        let text = text.strip_suffix('>').unwrap_or(text);
        if text.is_empty()
            || text.len() > ADDRESS_BYTES_MAX
            || text.contains(|c: char| c.is_whitespace() || c.is_control())
        {
            return None;
        }
        let (local, domain) = text.rsplit_once('@').unwrap_or((text, ""));
        let local = local.trim_matches('"').to_lowercase();
        let domain = domain_to_ascii(domain);
        if local.is_empty() {
            return None;
        }
        let join =
            |local: &str| if domain.is_empty() { local.to_owned() } else { format!("{local}@{domain}") };
        let untagged = local.split_once('+').filter(|(base, _)| !base.is_empty()).map(|(base, _)| join(base));
        Some(MailAddress { full: join(&local), untagged, domain })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, full: &str, domain: &str, untagged: Option<&str>) {
        let expected =
            MailAddress { full: full.into(), domain: domain.into(), untagged: untagged.map(str::to_owned) };
        assert_eq!(MailAddress::parse(text), Some(expected), "{text:?}");
    }

    #[test]
    fn addresses_have_one_form() {
        check("Ann@Example.COM.", "ann@example.com", "example.com", None);
        check(" <Ann+News@example.com> ", "ann+news@example.com", "example.com", Some("ann@example.com"));
        check("\"ann\"@example.com", "ann@example.com", "example.com", None);
        check("ann@B\u{FC}cher.example", "ann@xn--bcher-kva.example", "xn--bcher-kva.example", None);
        check("a@b@example.com", "a@b@example.com", "example.com", None);
        check("+x@example.com", "+x@example.com", "example.com", None);
        check("ann@[192.0.2.1]", "ann@[192.0.2.1]", "[192.0.2.1]", None);
        check("root", "root", "", None);
        check("<>", "<>", "", None);
    }

    #[test]
    fn what_is_no_address_is_none() {
        for text in ["", " ", "<", "@example.com", "a b@example.com", "a\u{0}b@example.com"] {
            assert_eq!(MailAddress::parse(text), None, "{text:?}");
        }
        assert_eq!(MailAddress::parse(&"a".repeat(ADDRESS_BYTES_MAX + 1)), None);
    }
}
