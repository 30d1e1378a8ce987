//! Addresses as text.

use std::net::Ipv4Addr;

/// The text of an address and its length.
pub fn dotted(ip: Ipv4Addr) -> ([u8; 16], usize) {
    let (mut text, mut length) = (0, 0);
    for (at, octet) in ip.octets().into_iter().enumerate() {
        if at > 0 {
            text |= u128::from(b'.') << (8 * length);
            length += 1;
        }
        let [digits @ .., count] = OCTETS[usize::from(octet)];
        let [first, second, third] = digits;
        text |= u128::from(u32::from_le_bytes([first, second, third, 0])) << (8 * length);
        length += usize::from(count);
    }
    (text.to_le_bytes(), length)
}

/// The digits of each octet, zeros behind them, and how many there are.
const OCTETS: [[u8; 4]; 256] = {
    let mut octets = [[0; 4]; 256];
    let mut octet = 0;
    while octet < octets.len() {
        let [hundreds, tens, ones] = [octet / 100, octet / 10 % 10, octet % 10];
        let [hundreds, tens, ones] = [b'0' + hundreds as u8, b'0' + tens as u8, b'0' + ones as u8];
        octets[octet] = match octet {
            0..10 => [ones, 0, 0, 1],
            10..100 => [tens, ones, 0, 2],
            _ => [hundreds, tens, ones, 3],
        };
        octet += 1;
    }
    octets
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_dotted_as_they_are_shown() {
        let check = |octets: [u8; 4]| {
            let ip = Ipv4Addr::from(octets);
            let (text, length) = dotted(ip);
            assert_eq!(text[..length], *ip.to_string().as_bytes());
        };
        for octet in 0..=255 {
            check([octet, 0, 9, 255]);
            check([255, 10, octet, octet]);
        }
    }
}
