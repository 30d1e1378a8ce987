//! The client behind trusted proxies: its address, as far as it can be believed.
//!
//! Each proxy puts the address that it saw behind those in `X-Forwarded-For`, so only what trusted proxies have put
//! there is true: the list is read from its end, and the first address that is no trusted proxy's is the client's. What
//! stands before it anybody may have written.

use std::net::{IpAddr, SocketAddr};

use judge::Networks;

/// The address of the client: `peer` has asked, and `forwarded` are the values of its `X-Forwarded-For` fields in their
/// order. An entry that is no address ends the search at the proxy that put it there.
pub fn client<'a>(
    peer: IpAddr,
    forwarded: impl DoubleEndedIterator<Item = &'a [u8]>,
    trusted: &Networks,
) -> IpAddr {
    let mut client = peer.to_canonical();
    for entry in forwarded.rev().flat_map(|value| value.rsplit(|byte| *byte == b',')) {
        if !trusted.contain(client) {
            return client;
        }
        let entry = entry.trim_ascii();
        // An empty member of a list says nothing (RFC 9110, section 5.6.1).
        if entry.is_empty() {
            continue;
        }
        match address(entry) {
            Some(address) => client = address,
            None => return client,
        }
    }
    client
}

/// Returns by what a client is told apart from others: its address, or of IPv6 its network of 64 bits, as whoever has one
/// address of that has all.
pub(crate) fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => IpAddr::from((address.to_bits() & (u128::MAX << 64)).to_be_bytes()),
        address => address,
    }
}

/// An address as proxies write them: with or without port, one of IPv6 with or without brackets.
pub fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().ok().filter(|address| bare.len() == text.len() || address.is_ipv6());
    address.or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip())).map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted() -> Networks {
        Networks::new(["127.0.0.0/8", "10.0.0.0/8", "2001:db8::/32"].iter().map(|text| text.parse().unwrap()))
    }

    #[track_caller]
    fn check(peer: &str, forwarded: &[&str], client: &str) {
        let values = forwarded.iter().map(|value| value.as_bytes());
        let found = super::client(peer.parse().unwrap(), values, &trusted());
        assert_eq!(found.to_string(), client);
    }

    #[test]
    fn the_client_is_the_first_from_the_end_that_is_no_proxy() {
        check("127.0.0.1", &["192.0.2.7"], "192.0.2.7");
        check("127.0.0.1", &["192.0.2.7, 10.1.2.3"], "192.0.2.7");
        check("127.0.0.1", &["198.51.100.1, 192.0.2.7 ,10.1.2.3,"], "192.0.2.7");
        check("127.0.0.1", &["198.51.100.1", "192.0.2.7", "10.1.2.3"], "192.0.2.7");
        check("2001:db8::1", &["[2001:db9::7]:4711"], "2001:db9::7");
        check("::ffff:127.0.0.1", &["::ffff:192.0.2.7"], "192.0.2.7");
        check("127.0.0.1", &["192.0.2.7:4711"], "192.0.2.7");
    }

    #[test]
    fn what_anybody_may_have_written_is_not_believed() {
        check("192.0.2.7", &["198.51.100.1"], "192.0.2.7");
        check("127.0.0.1", &["198.51.100.1, unknown, 10.1.2.3"], "10.1.2.3");
        check("127.0.0.1", &["unknown"], "127.0.0.1");
        check("127.0.0.1", &["[192.0.2.7]"], "127.0.0.1");
        check("127.0.0.1", &[], "127.0.0.1");
        check("127.0.0.1", &["10.9.9.9"], "10.9.9.9");
        check("127.0.0.1", &[" , ,"], "127.0.0.1");
    }
}
