//! Any fields are a way through proxies: the client is an address of the list, or the peer, and never one that stands
//! before an untrusted hop.
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let trusted = judge::Networks::new(["127.0.0.0/8", "::/16"].iter().filter_map(|text| text.parse().ok()));
    let peer = IpAddr::from([127, 0, 0, 1]);
    let fields: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let client = server::trusted_proxies::client(peer, fields.iter().copied(), &trusted);
    let entries: Vec<&[u8]> = fields.iter().flat_map(|field| field.split(|byte| *byte == b',')).collect();
    let found = entries
        .iter()
        .rposition(|entry| server::trusted_proxies::address(entry.trim_ascii()) == Some(client));
    assert!(found.is_some() || client == peer);
    // Whatever is put before changes nothing, unless every hop is trusted.
    if !trusted.contain(client) {
        let mut longer = b"192.0.2.1, 127.0.0.9,".to_vec();
        longer.extend_from_slice(bytes);
        let fields: Vec<&[u8]> = longer.split(|byte| *byte == b'\n').collect();
        assert_eq!(server::trusted_proxies::client(peer, fields.iter().copied(), &trusted), client);
    }
});
