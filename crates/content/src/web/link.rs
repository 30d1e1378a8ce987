//! Links: found in text, normalised, and cut down to host and registrable domain.

use std::net::IpAddr;

use linkify::{LinkFinder, LinkKind};
use psl::{Psl, Type};
use url::{Host, Url};

use crate::text::truncate;
use crate::web::domain::domain_to_ascii;

/// Longest link that is read; a longer one is cut.
pub const LINK_BYTES_MAX: usize = 2_048;
/// Longest run of text without white space in which links are looked for as a whole; a longer one is taken in
/// pieces of this length. It bounds the finder, which looks back from every dot and colon.
const TOKEN_BYTES_MAX: usize = 1_024;
/// Longest run of text in which links are looked for as a whole if it has more than [`SIGNS_MAX`] of the signs from which the
/// finder looks around.
const DENSE_TOKEN_BYTES_MAX: usize = 128;
const SIGNS_MAX: usize = 64;
/// Steps of a byte of a text that [`find`] looks through.
pub(crate) const STEPS_A_BYTE: u64 = 40;

/// A normalised link to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The URL as the WHATWG standard serialises it (scheme and host in lower case, A-labels, default port and
    /// dot segments removed), without user, password, fragment and parameters that only track.
    pub url: String,
    /// Its host: a domain in A-labels without final dot, or an address without brackets.
    pub host: String,
    /// True if the host is a literal address.
    pub is_ip: bool,
    /// The obfuscation in the link's writing.
    pub obfuscation: LinkObfuscation,
}

/// Ways to write a link so that its reader does not see where it leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkObfuscation {
    /// The user name before an `@`; empty if there is none.
    pub user: String,
    /// True if a literal address is written other than usual: as one number, in octal or hexadecimal, with parts left out.
    pub odd_ip: bool,
    /// The port, where it is neither the scheme's own nor 80, 443, 8080 or 8443.
    pub odd_port: Option<u16>,
    /// True if the link's path is percent-encoded twice.
    pub double_encoded: bool,
}

/// Parameters that tell who clicked where, and nothing of where a link leads: names, and beginnings of names that end
/// in `_`.
const TRACKING: [&str; 17] = [
    "utm_",
    "gclid",
    "fbclid",
    "msclkid",
    "yclid",
    "dclid",
    "mc_",
    "_hsenc",
    "_hsmi",
    "igshid",
    "mkt_tok",
    "vero_",
    "wickedid",
    "oly_",
    "ck_subscriber_id",
    "s_cid",
    "_openstat",
];

impl Link {
    /// Reads an absolute `http`, `https` or `ftp` URL, or one without scheme such as `example.com/a`, taken as
    /// `http`. `None` for everything else, relative references and other schemes included.
    pub fn parse(text: &str) -> Option<Link> {
        let text = truncate(text.trim(), LINK_BYTES_MAX);
        let url = match Url::parse(text) {
            Ok(url) if url.has_host() => Some(url),
            // `example.com:80/a` parses as scheme `example.com`.
            Ok(url) if url.scheme().contains('.') => schemeless(text),
            Err(url::ParseError::RelativeUrlWithoutBase) => schemeless(text),
            _ => None,
        };
        let mut url = url.filter(|url| matches!(url.scheme(), "http" | "https" | "ftp"))?;
        let (host, is_ip) = match url.host()? {
            Host::Domain(domain) => (domain.trim_end_matches('.').to_owned(), false),
            Host::Ipv4(ip) => (ip.to_string(), true),
            Host::Ipv6(ip) => (ip.to_string(), true),
        };
        if host.is_empty() {
            return None;
        }
        let tricks = LinkObfuscation {
            // Without a scheme it is an e-mail address.
            user: if text.contains("//") || text.contains('\\') { url.username() } else { "" }.to_owned(),
            odd_ip: is_ip && !text.contains(&host) && matches!(url.host(), Some(Host::Ipv4(_))),
            odd_port: url.port().filter(|port| ![80, 443, 8080, 8443].contains(port)),
            double_encoded: is_encoded_twice(url.path()),
        };
        url.set_fragment(None);
        drop_tracking(&mut url);
        if !url.username().is_empty() || url.password().is_some() {
            // Neither can fail on a URL that has a host.
            let _ = url.set_username("");
            let _ = url.set_password(None);
        }
        Some(Link { url: url.into(), host, is_ip, obfuscation: tricks })
    }
}

fn is_encoded_twice(path: &str) -> bool {
    path.match_indices("%25").any(|(at, _)| {
        path.as_bytes().get(at + 3..at + 5).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit))
    })
}

fn drop_tracking(url: &mut Url) {
    let is_tracking = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        let is = |known: &&str| name == *known || known.ends_with('_') && name.starts_with(known);
        TRACKING.iter().any(is)
    };
    let Some(query) = url.query().filter(|query| query.split('&').any(|pair| is_tracking(&pair))) else {
        return;
    };
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_tracking(pair)).collect();
    let kept = kept.join("&");
    url.set_query(Some(kept.as_str()).filter(|kept| !kept.is_empty()));
}

fn schemeless(text: &str) -> Option<Url> {
    if text.starts_with(['/', '#', '?', '.', '\\']) {
        return None;
    }
    Url::parse(&format!("http://{text}"))
        .ok()
        .filter(|url| url.host_str().is_some_and(|host| host.contains('.')))
}

/// The registrable domain of a host (one label more than its public suffix, by the Public Suffix List with its
/// private section), e.g. `example.co.uk` of `www.example.co.uk`. `None` for an address, for a public suffix
/// itself and for a name without dot.
pub fn registrable(host: &str) -> Option<&str> {
    let host = host.trim_end_matches('.');
    if host.starts_with('[') || !host.contains('.') || host.parse::<IpAddr>().is_ok() {
        return None;
    }
    let domain = psl::List.domain(host.as_bytes())?;
    std::str::from_utf8(domain.as_bytes()).ok()
}

/// The registrable domain of a host, or the host where there is none: what two hosts are compared by.
pub fn organisation(host: &str) -> &str {
    registrable(host).unwrap_or(host)
}

/// A host from what people write for one: a host, a URL or an e-mail address; `None` if nothing is left.
pub fn host(text: &str) -> Option<String> {
    let text = text.trim();
    if text.contains("://") {
        return Link::parse(text).map(|link| link.host);
    }
    let text = text.rsplit_once('@').map_or(text, |(_, domain)| domain);
    let text = truncate(text, LINK_BYTES_MAX).trim_matches(['[', ']', '<', '>']);
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical().to_string());
    }
    Some(domain_to_ascii(text)).filter(|host| !host.is_empty())
}

/// The references that [`find`] meets in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextReference<'t> {
    /// A URL, perhaps without its scheme.
    Url(&'t str),
    /// An e-mail address.
    Address(&'t str),
}

/// Hands on the links and addresses of a plain text in order, until `emit` returns false.
///
/// A name without scheme counts if it starts with `www.`, has a path, or ends in a public suffix that is not
/// also a common file ending: `cheap.example.com` does, `README.md` does not, nor does the `end.Next` of a
/// forgotten space.
pub fn find<'t>(text: &'t str, mut emit: impl FnMut(TextReference<'t>) -> bool) {
    let mut finder = LinkFinder::new();
    finder.url_must_have_scheme(false);
    let tokens = text.split(char::is_whitespace).filter(|token| token.contains(['.', ':', '@']));
    for mut token in tokens {
        while !token.is_empty() {
            let (piece, rest) = token.split_at(token.floor_char_boundary(piece_bytes(token)));
            token = rest;
            for link in finder.links(piece) {
                let found = match link.kind() {
                    LinkKind::Email => TextReference::Address(link.as_str()),
                    _ if is_link(link.as_str()) => TextReference::Url(link.as_str()),
                    _ => continue,
                };
                if !emit(found) {
                    return;
                }
            }
        }
    }
}

/// Returns the number of bytes of a run that are looked through at once.
fn piece_bytes(token: &str) -> usize {
    let start = &token.as_bytes()[..token.len().min(TOKEN_BYTES_MAX)];
    let signs = start.iter().filter(|byte| matches!(byte, b'.' | b':' | b'@')).count();
    if signs > SIGNS_MAX { DENSE_TOKEN_BYTES_MAX } else { TOKEN_BYTES_MAX }
}

/// Public suffixes that a bare name in a text more often has as a file's ending.
const FILE_ENDINGS: [&str; 14] =
    ["ai", "app", "cc", "java", "md", "mov", "pl", "pm", "ps", "py", "rs", "sh", "so", "zip"];

fn is_link(text: &str) -> bool {
    if text.contains("://") {
        return true;
    }
    let end = text.find(['/', '?', '#', ':']).unwrap_or(text.len());
    let (written, rest) = text.split_at(end);
    let name = written.to_ascii_lowercase();
    let Some(suffix) = psl::List.suffix(name.as_bytes()) else { return false };
    let known = suffix.typ() == Some(Type::Icann);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    // A name that ends in a dot has an empty ending, with no letter to look at.
    let first = written.as_bytes().get(written.len().saturating_sub(ending.len()));
    let is_sentence = written.len() > ending.len()
        && first.is_some_and(u8::is_ascii_uppercase)
        && written.bytes().any(|byte| byte.is_ascii_lowercase());
    known && (name.starts_with("www.") || !rest.is_empty() || !FILE_ENDINGS.contains(&ending) && !is_sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_one_form() {
        for (text, url, host) in [
            (
                "HTTP://User:pw@WWW.Example.COM:80/a/../b?q=1#frag",
                "http://www.example.com/b?q=1",
                "www.example.com",
            ),
            ("example.com/a", "http://example.com/a", "example.com"),
            ("example.com:8080/a", "http://example.com:8080/a", "example.com"),
            ("http:\\\\evil.example\\x", "http://evil.example/x", "evil.example"),
            ("https://b\u{FC}cher.example/", "https://xn--bcher-kva.example/", "xn--bcher-kva.example"),
            ("http://0x7f.1/", "http://127.0.0.1/", "127.0.0.1"),
            ("http://[2001:DB8::1]/", "http://[2001:db8::1]/", "2001:db8::1"),
            ("https://example.com./", "https://example.com./", "example.com"),
            ("ht\ntps://exa\tmple.com", "https://example.com/", "example.com"),
        ] {
            let link = Link::parse(text).unwrap_or_else(|| panic!("{text:?}"));
            assert_eq!((link.url.as_str(), link.host.as_str()), (url, host), "{text:?}");
            assert_eq!(link.is_ip, host.parse::<IpAddr>().is_ok());
        }
        for text in [
            "",
            "#top",
            "/a",
            "mailto:a@example.com",
            "javascript:alert(1)",
            "data:text/html,x",
            "cid:1",
            "word",
        ] {
            assert_eq!(Link::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn tricks_are_told_and_tracking_is_dropped() {
        let link = |text: &str| Link::parse(text).unwrap_or_else(|| panic!("{text:?}"));
        assert_eq!(link("http://paypal.com@evil.example/").obfuscation.user, "paypal.com");
        assert_eq!(link("joe@example.com").obfuscation, LinkObfuscation::default());
        for text in ["http://3221225985/", "http://0300.0.2.1/", "http://0xC0.0x0.2.1/x", "http://192.513/"] {
            let link = link(text);
            assert_eq!((link.host.as_str(), link.obfuscation.odd_ip), ("192.0.2.1", true), "{text}");
        }
        assert_eq!(
            link("http://192.0.2.1:81/").obfuscation,
            LinkObfuscation { odd_port: Some(81), ..LinkObfuscation::default() }
        );
        assert_eq!(link("http://a.example:8080/").obfuscation, LinkObfuscation::default());
        assert!(link("http://a.example/%252e%252E/x").obfuscation.double_encoded);
        assert!(!link("http://a.example/100%25x?u=%2525").obfuscation.double_encoded);
        assert_eq!(link("http://a.example/?utm_source=x&id=1&fbclid=y#z").url, "http://a.example/?id=1");
        assert_eq!(link("http://a.example/?utm_source=x&mc_cid=1").url, "http://a.example/");
        assert_eq!(link("http://a.example/?b&a=%20").url, "http://a.example/?b&a=%20");
    }

    #[test]
    fn a_name_may_end_in_a_dot() {
        for (text, expected) in [
            ("www.example.org.", true),
            ("example.org.:80", true),
            ("Example.Org.", true),
            (".", false),
            ("word.", false),
        ] {
            assert_eq!(is_link(text), expected, "{text:?}");
        }
    }

    #[test]
    fn domains_follow_the_public_suffix_list() {
        for (host, expected) in [
            ("www.example.co.uk", Some("example.co.uk")),
            ("example.com.", Some("example.com")),
            ("a.b.github.io", Some("b.github.io")),
            ("co.uk", None),
            ("localhost", None),
            ("192.0.2.1", None),
            ("2001:db8::1", None),
            ("[192.0.2.1]", None),
        ] {
            assert_eq!(registrable(host), expected, "{host}");
        }
    }

    #[test]
    fn hosts_are_read_from_what_people_write() {
        for (text, expected) in [
            ("WWW.Example.com.", Some("www.example.com")),
            ("https://Example.com/x", Some("example.com")),
            ("Ann@Example.com", Some("example.com")),
            ("[192.0.2.1]", Some("192.0.2.1")),
            ("::ffff:192.0.2.1", Some("192.0.2.1")),
            ("", None),
        ] {
            assert_eq!(host(text).as_deref(), expected, "{text:?}");
        }
    }

    fn found(text: &str) -> Vec<TextReference<'_>> {
        let mut all = Vec::new();
        find(text, |found| {
            all.push(found);
            true
        });
        all
    }

    #[test]
    fn links_are_found_in_prose() {
        use TextReference::{Address, Url};
        for (text, expected) in [
            (
                "see <http://example.com/a>, or www.example.org.",
                vec![Url("http://example.com/a"), Url("www.example.org")],
            ),
            ("mail ann@example.com now", vec![Address("ann@example.com")]),
            ("cheap-pills.com rocks", vec![Url("cheap-pills.com")]),
            ("read README.md and e.g.this", vec![]),
            ("docs.rs/url", vec![Url("docs.rs/url")]),
            ("end.Next sentence", vec![]),
        ] {
            assert_eq!(found(text), expected, "{text:?}");
        }
    }
}
