//! The domain that a link's host imitates.
//!
//! By letters that look like others (UTS #39: `раураl.com` in Cyrillic, `paypa1.com`, `rnicrosoft.com`), by names in
//! front of the real one (`paypal.com.example.net`), or by a user name (`http://paypal.com@example.net`). Whether that
//! is somebody worth imitating is for a list of names to say.

use crate::text::AsciiLookalike;
use crate::web::link::{host, registrable};

/// Most domains that one host is said to imitate.
const DOMAINS_MAX: usize = 8;
/// Endings that make labels in front of a host look like a host.
const ENDINGS: [&str; 16] =
    ["com", "net", "org", "co", "de", "fr", "uk", "it", "es", "nl", "ru", "gov", "edu", "io", "us", "eu"];

/// The impersonation by a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// Domains that it may be taken for, never its own.
    pub domains: Vec<String>,
    /// True if the host's registrable domain is written in another script and reads as ASCII.
    pub is_homograph: bool,
}

/// Returns the impersonation by a host in A-labels, with the user name of its link, empty if there is none.
pub fn of(host_name: &str, user: &str) -> Impersonation {
    let mut impersonation = Impersonation::default();
    let own = registrable(host_name);
    let mut add = |domain: String| {
        if Some(domain.as_str()) != own
            && impersonation.domains.len() < DOMAINS_MAX
            && !impersonation.domains.contains(&domain)
        {
            impersonation.domains.push(domain);
        }
    };
    let named = user.split(':').next().unwrap_or_default();
    if is_name(named)
        && let Some(domain) = host(named).as_deref().and_then(registrable)
    {
        add(domain.to_owned());
    }
    let Some(own) = own else { return impersonation };
    let front = host_name.strip_suffix(own).unwrap_or_default();
    let labels: Vec<&str> = front.split('.').filter(|label| !label.is_empty()).collect();
    for pair in labels.windows(2).take(DOMAINS_MAX) {
        let ending = pair[1].split('-').next().unwrap_or_default();
        if ENDINGS.contains(&ending) && pair[0] != "www" {
            add(format!("{}.{ending}", pair[0]));
        }
    }
    // `paypal.com-secure.example.net`, where the ending begins the registrable label.
    if let (Some(last), Some((ending, _))) = (labels.last(), own.split_once('-'))
        && ENDINGS.contains(&ending)
        && *last != "www"
    {
        add(format!("{last}.{ending}"));
    }
    let (name, suffix) = own.split_once('.').unwrap_or((own, ""));
    let (shown, _) =
        if name.starts_with("xn--") { idna::domain_to_unicode(name) } else { (name.to_owned(), Ok(())) };
    let Some(read) = as_ascii(&shown) else { return impersonation };
    add(format!("{read}.{suffix}"));
    add(format!("{}.{suffix}", read.replace("rn", "m").replace("vv", "w")));
    impersonation.is_homograph = !shown.is_ascii();
    impersonation
}

/// Returns true if a text is written like the name of a host: a dot in it, and letters behind the last.
fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let ending = text.rsplit_once('.').map_or("", |(_, ending)| ending);
    text.bytes().all(is_of_name) && ending.len() >= 2 && ending.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Returns a label as it reads; `None` where a character of it imitates no ASCII.
fn as_ascii(label: &str) -> Option<String> {
    let mut read = String::with_capacity(label.len());
    for c in label.chars() {
        match c {
            '0' => read.push('o'),
            '1' => read.push('l'),
            _ if c.is_ascii() => read.push(c),
            _ => read.extend(AsciiLookalike::by(c)?.chars()),
        }
    }
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, user: &str, domains: &[&str], is_homograph: bool) {
        let impersonation = of(host, user);
        assert_eq!(
            (impersonation.domains, impersonation.is_homograph),
            (domains.iter().map(|&it| it.to_owned()).collect(), is_homograph),
            "{host}"
        );
    }

    #[test]
    fn hosts_are_read_as_people_read_them() {
        let cyrillic = crate::web::domain::domain_to_ascii("www.р\u{430}ypal.com");
        check(&cyrillic, "", &["paypal.com"], true);
        check("paypa1.com", "", &["paypal.com"], false);
        check("login.rnicrosoft.com", "", &["microsoft.com"], false);
        check("paypal.com.evil.example.net", "", &["paypal.com"], false);
        check("www.paypal.com-secure.net", "", &["paypal.com"], false);
        check("evil.example.net", "paypal.com", &["paypal.com"], false);
        check("www.paypal.com", "joe", &[], false);
        check("192.0.2.1", "www.paypal.com:443", &["paypal.com"], false);
        check(&crate::web::domain::domain_to_ascii("b\u{FC}cher.de"), "", &[], false);
        check("evil.example.net", "key%3d.90955", &[], false);
        check("localhost", "", &[], false);
    }
}
