//! Functions of the rule language that read texts as content does.

use std::borrow::Cow;

use content::address::MailAddress;
use content::web::link;
use judge::TextFunction;

/// Returns the function from text to text of this name, as conditions call it.
pub fn text_function(name: &str) -> Option<TextFunction> {
    match name {
        "domain" => Some(domain),
        "registrable" => Some(registrable),
        _ => None,
    }
}

/// The domain of an e-mail address, in lower-case A-labels.
fn domain(address: &str) -> Option<Cow<'_, str>> {
    let domain = MailAddress::parse(address)?.domain;
    (!domain.is_empty()).then_some(Cow::Owned(domain))
}

/// The registrable domain of a host, a URL or an e-mail address.
fn registrable(text: &str) -> Option<Cow<'_, str>> {
    let host = link::host(text)?;
    link::registrable(&host).map(|domain| Cow::Owned(domain.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_those_that_content_reads() {
        let check = |name: &str, text: &str, expected: Option<&str>| {
            assert_eq!(text_function(name).unwrap()(text).as_deref(), expected, "{name}({text:?})");
        };
        check("domain", "Ann@Mail.Example.CO.UK", Some("mail.example.co.uk"));
        check("domain", "ann@b\u{FC}cher.example", Some("xn--bcher-kva.example"));
        check("domain", "ann", None);
        check("domain", "", None);
        check("registrable", "Ann@Mail.Example.CO.UK", Some("example.co.uk"));
        check("registrable", "https://www.example.co.uk/x", Some("example.co.uk"));
        check("registrable", "a.b.example.org.", Some("example.org"));
        check("registrable", "192.0.2.7", None);
        check("registrable", "localhost", None);
        assert!(judge::TEXT_FUNCTIONS.into_iter().all(|name| text_function(name).is_some()));
    }
}
