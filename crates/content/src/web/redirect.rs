//! Links inside links: where a redirector, a click counter or a mail filter's rewriter leads on to.

use std::borrow::Cow;

use mail_parser::decoders::base64::base64_decode;
use percent_encoding::percent_decode_str;

use crate::text::truncate;
use crate::web::link::{LINK_BYTES_MAX, Link, organisation};

/// Most links that are unwrapped one from another.
pub const DEPTH_MAX: usize = 4;
/// Most times that a target is percent-decoded before it reads as a URL.
const DECODINGS_MAX: usize = 3;

/// Parameters whose value may be a target without its scheme.
const NAMES: [&str; 14] = [
    "url",
    "u",
    "q",
    "to",
    "link",
    "target",
    "dest",
    "destination",
    "redirect",
    "redirect_uri",
    "redir",
    "goto",
    "adurl",
    "continue",
];

/// The link that a link names as its target, if it is one of another organisation: of a parameter (`url=`, Google, Yahoo,
/// Outlook SafeLinks, Barracuda, ...), behind a `http:` in its path, of Bing (base64), Yahoo search (`RU=`) and
/// Proofpoint (versions 1 to 3). Not what a click counter alone knows. Linear in the link.
pub fn target(link: &Link) -> Option<Link> {
    let (_, rest) = link.url.split_once("://")?;
    let (_, rest) = rest.split_once('/')?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let found = match link.host.as_str() {
        "urldefense.com" => {
            let inner = rest.strip_prefix("v3/__")?;
            url_in(inner.split_once("__;").map_or(inner, |(inner, _)| inner))
        }
        "urldefense.proofpoint.com" if path.starts_with("v2/") => {
            let value = value_of(query, "u")?;
            url_in(&value.replace('-', "%").replace('_', "/"))
        }
        host if host.ends_with("bing.com") && path == "ck/a" => bing(value_of(query, "u")?),
        host if host.ends_with("yahoo.com") && path.contains("RU=") => {
            url_in(path.split('/').find_map(|segment| segment.strip_prefix("RU="))?)
        }
        _ => None,
    };
    let found = found.or_else(|| in_query(query)).or_else(|| in_path(rest))?;
    (organisation(&found.host) != organisation(&link.host)).then_some(found)
}

fn value_of<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

fn in_query(query: &str) -> Option<Link> {
    query.split(['&', ';']).find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let named = NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
        url_in(value).or_else(|| {
            // `//host` and `www.host` are targets only where one is expected.
            let value = percent_decode_str(value).decode_utf8().ok().filter(|_| named)?;
            let host = value.strip_prefix("//").unwrap_or(&value);
            if value.len() > host.len() || host.starts_with("www.") {
                Link::parse(&format!("http://{host}"))
            } else {
                None
            }
        })
    })
}

/// `/redirect/http://host/path`, as directories of links and old click counters have it.
fn in_path(rest: &str) -> Option<Link> {
    let at = ["http:/", "https:/", "http%3a", "https%3a", "http%3A", "https%3A"]
        .iter()
        .filter_map(|scheme| rest.find(scheme))
        .min()?;
    url_in(&rest[at..])
}

/// The URL that a text is, after it was decoded as often as needed.
fn url_in(text: &str) -> Option<Link> {
    let mut text = Cow::Borrowed(truncate(text, LINK_BYTES_MAX));
    for _ in 0..=DECODINGS_MAX {
        let scheme = text.get(..8).unwrap_or(&text).to_ascii_lowercase();
        if scheme.starts_with("http:/") || scheme.starts_with("https:/") {
            return Link::parse(&text);
        }
        if !text.contains('%') {
            return None;
        }
        text = Cow::Owned(percent_decode_str(&text).decode_utf8().ok()?.into_owned());
    }
    None
}

/// `a1` and the target in base64 with the alphabet of URLs, without padding.
fn bing(value: &str) -> Option<Link> {
    let mut code = value.strip_prefix("a1")?.replace('-', "+").replace('_', "/");
    while !code.len().is_multiple_of(4) {
        code.push('=');
    }
    let target = base64_decode(code.as_bytes())?;
    url_in(std::str::from_utf8(&target).ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leads_to(url: &str) -> Option<String> {
        target(&Link::parse(url)?).map(|link| link.url)
    }

    #[test]
    fn targets_are_unwrapped() {
        for (url, expected) in [
            (
                "https://www.google.com/url?sa=t&q=https%3A%2F%2Fevil.example%2Fa%3Fb%3D1&usg=x",
                "https://evil.example/a?b=1",
            ),
            ("http://r.example/?url=http://evil.example/", "http://evil.example/"),
            ("http://r.example/?x=1&goto=www.evil.example", "http://www.evil.example/"),
            ("http://r.example/?next=%252568ttp%25253A%25252F%25252Fevil.example", "http://evil.example/"),
            ("http://rd.yahoo.com/M=1/*http://evil.example/x", "http://evil.example/x"),
            (
                "https://r.search.yahoo.com/_ylt=A/RV=2/RE=1/RO=10/RU=https%3a%2f%2fevil.example%2f/RK=2/RS=x-",
                "https://evil.example/",
            ),
            (
                "https://www.bing.com/ck/a?!&&p=1&u=a1aHR0cHM6Ly9ldmlsLmV4YW1wbGUv&ntb=1",
                "https://evil.example/",
            ),
            (
                "https://eur01.safelinks.protection.outlook.com/?url=https%3A%2F%2Fevil.example%2F&data=05",
                "https://evil.example/",
            ),
            (
                "https://urldefense.proofpoint.com/v2/url?u=https-3A__evil.example_a-5Fb&d=x",
                "https://evil.example/a_b",
            ),
            ("https://urldefense.com/v3/__https://evil.example/a?b=1__;!!x", "https://evil.example/a?b=1"),
        ] {
            assert_eq!(leads_to(url).as_deref(), Some(expected), "{url}");
        }
        for url in [
            "https://example.com/login?continue=https://www.example.com/x",
            "https://example.com/?q=http",
            "https://example.com/a/b",
            "https://example.com/?page=//x",
        ] {
            assert_eq!(leads_to(url), None, "{url}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_read(rest in "[a-z0-9%/?&=:.*_;-]{0,80}", host in "(urldefense.com/v3/__|urldefense.proofpoint.com/v2/url|bing.com/ck/a|r.search.yahoo.com/RU=|a.example/)") {
            if let Some(link) = Link::parse(&format!("https://{host}{rest}")) {
                let mut link = Some(link);
                for _ in 0..DEPTH_MAX {
                    link = link.and_then(|link| target(&link));
                }
            }
        }
    }
}
