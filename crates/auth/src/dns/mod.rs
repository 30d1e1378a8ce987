//! Name service: questions and answers, a cache, and the resolvers behind it.
//!
//! ```text
//! lookup ─► cache ─► flight ─► upstream
//!           fresh?   one a name, however many ask; each waits until its own deadline
//! ```
//!
//! Nothing here is used unless the configuration names resolvers, and nothing asks anybody else.

mod cache;
mod upstream;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

pub(crate) use cache::{DnsCache, DnsCacheLimits};
pub(crate) use upstream::HickoryResolver;

/// The type of record that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DnsRecordType {
    A,
    Aaaa,
    Mx,
    Ptr,
    Txt,
}

/// One record, of the type that was asked for. Names are lower case, without the final dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DnsRecord {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Mx(u16, Box<str>),
    Ptr(Box<str>),
    /// All strings of the record, joined.
    Txt(Box<[u8]>),
}

/// The answer that is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DnsAnswer {
    /// At least one record.
    Found(Arc<[DnsRecord]>),
    /// The name exists, without records of the type.
    Nothing,
    /// The name does not exist, nor does any below it.
    NoName,
    /// The resolvers failed, or too many questions are open.
    Failed,
    /// No answer came before the deadline.
    TimedOut,
}

impl DnsAnswer {
    /// The records; none where there are none.
    pub(crate) fn records(&self) -> &[DnsRecord] {
        match self {
            DnsAnswer::Found(records) => records,
            _ => &[],
        }
    }

    /// A word for metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            DnsAnswer::Found(_) => "found",
            DnsAnswer::Nothing => "nothing",
            DnsAnswer::NoName => "no-name",
            DnsAnswer::Failed => "failed",
            DnsAnswer::TimedOut => "timed-out",
        }
    }

    /// Returns whether it is unknown what the answer would have been.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, DnsAnswer::Failed | DnsAnswer::TimedOut)
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.records().iter().filter_map(|record| match record {
            DnsRecord::A(ip) => Some(IpAddr::V4(*ip)),
            DnsRecord::Aaaa(ip) => Some(IpAddr::V6(*ip)),
            _ => None,
        })
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.records().iter().filter_map(|record| match record {
            DnsRecord::Txt(text) => Some(&**text),
            _ => None,
        })
    }

    /// Mail exchangers with their preference.
    pub(crate) fn exchanges(&self) -> impl Iterator<Item = (u16, &str)> {
        self.records().iter().filter_map(|record| match record {
            DnsRecord::Mx(preference, name) => Some((*preference, &**name)),
            _ => None,
        })
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.records().iter().filter_map(|record| match record {
            DnsRecord::Ptr(name) => Some(&**name),
            _ => None,
        })
    }
}

/// An answer of the resolvers, and how long they say it holds; `None` where they do not say.
#[derive(Clone, Debug)]
pub(crate) struct DnsReply {
    pub(crate) answer: DnsAnswer,
    pub(crate) ttl: Option<Duration>,
}

/// The upstream that is asked what the cache does not know.
pub(crate) trait DnsUpstream: Send + Sync {
    /// Asks for the records of a type that a name has: lower case, absolute, without the final dot. Comes to an end
    /// by itself. An answer is one of the first three, or [`DnsAnswer::Failed`].
    fn query(&self, name: Box<str>, kind: DnsRecordType) -> BoxFuture<'static, DnsReply>;
}

/// The name under which reverse DNS has an address.
pub(crate) fn reverse_name(ip: IpAddr) -> String {
    match ip.to_canonical() {
        IpAddr::V4(ip) => format!("{}.in-addr.arpa", reversed(IpAddr::V4(ip))),
        IpAddr::V6(ip) => format!("{}.ip6.arpa", reversed(IpAddr::V6(ip))),
    }
}

/// An address as the labels of a name, the last part first: numbers of IPv4, nibbles of IPv6.
pub(crate) fn reversed(ip: IpAddr) -> String {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}")
        }
        IpAddr::V6(ip) => {
            let bits = ip.to_bits();
            let nibbles = (0..32).map(|nibble| format!("{:x}", bits >> (4 * nibble) & 0xF));
            nibbles.collect::<Vec<_>>().join(".")
        }
    }
}

/// A name in the form in which it is kept; `None` for what can be no name on the wire.
pub(crate) fn normal(name: &str) -> Option<Box<str>> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let sound = name.len() <= 253
        && name.is_ascii()
        && !name.bytes().any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control() || byte == b'\\')
        && name.split('.').all(|label| (1..=63).contains(&label.len()));
    sound.then(|| name.to_ascii_lowercase().into_boxed_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_names() {
        assert_eq!(reverse_name("192.0.2.1".parse().unwrap()), "1.2.0.192.in-addr.arpa");
        assert_eq!(reverse_name("::ffff:192.0.2.1".parse().unwrap()), "1.2.0.192.in-addr.arpa");
        assert_eq!(
            reverse_name("2001:db8::567:89ab".parse().unwrap()),
            "b.a.9.8.7.6.5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
        );
    }

    #[test]
    fn names_have_one_form() {
        let check =
            |name: &str, expected: Option<&str>| assert_eq!(normal(name).as_deref(), expected, "{name}");
        check("Example.ORG.", Some("example.org"));
        check("_dmarc.example.org", Some("_dmarc.example.org"));
        check("", None);
        check(".", None);
        check("a..b", None);
        check("a b.org", None);
        check("bücher.example", None);
        check(&format!("{}.org", "a".repeat(64)), None);
        check(&["abcdefg"; 32].join("."), None);
    }
}
