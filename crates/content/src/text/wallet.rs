//! Addresses of wallets, which carry a check sum: what looks like one is one.

use sha2::{Digest, Sha256};
use sha3::Keccak256;

/// Fewest and most characters of an address that is known here.
const LENGTHS: std::ops::RangeInclusive<usize> = 26..=90;

/// Hands on the wallets named in a text, each with the currency in front: `btc:`, `ltc:`, `doge:`, `tron:`, `eth:`. Linear.
///
/// Base58 with check sum (Bitcoin and what is derived from it, Tron), bech32 and bech32m (BIP 173, BIP 350), and
/// Ethereum with its check sum in the case of the letters (EIP-55), or without one where the case is all the same.
pub fn find(text: &str, mut emit: impl FnMut(String)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_alphanumeric() {
            at += 1;
            continue;
        }
        let length = bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        if LENGTHS.contains(&length) {
            emit_if_some(wallet(&text[at..at + length]), &mut emit);
        }
        at += length;
    }
}

fn emit_if_some(found: Option<String>, emit: &mut impl FnMut(String)) {
    if let Some(found) = found {
        emit(found);
    }
}

fn wallet(word: &str) -> Option<String> {
    match word.as_bytes() {
        [b'0', b'x' | b'X', hex @ ..] if hex.len() == 40 => ethereum(&word[2..]),
        [b'b' | b'B', b'c' | b'C', b'1', ..] | [b'l' | b'L', b't' | b'T', b'c' | b'C', b'1', ..] => {
            segwit(word)
        }
        [b'1' | b'3' | b'L' | b'M' | b'D' | b'T', ..] if word.len() <= 35 => base58(word),
        _ => None,
    }
}

fn ethereum(hex: &str) -> Option<String> {
    if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let lower = hex.to_ascii_lowercase();
    let is_one_case = hex == lower || hex == hex.to_ascii_uppercase();
    let sum = Keccak256::digest(lower.as_bytes());
    let is_checked = || {
        hex.bytes().zip(0..).filter(|(byte, _)| byte.is_ascii_alphabetic()).all(
            |(byte, index): (u8, usize)| {
                let nibbles = sum[index / 2];
                let nibble = if index.is_multiple_of(2) { nibbles >> 4 } else { nibbles & 0xF };
                byte.is_ascii_uppercase() == (nibble >= 8)
            },
        )
    };
    (is_one_case || is_checked()).then(|| format!("eth:0x{lower}"))
}

fn segwit(word: &str) -> Option<String> {
    let (prefix, _, _) = bech32::segwit::decode(word).ok()?;
    let currency = match prefix.to_lowercase().as_str() {
        "bc" => "btc",
        "ltc" => "ltc",
        _ => return None,
    };
    Some(format!("{currency}:{}", word.to_ascii_lowercase()))
}

fn base58(word: &str) -> Option<String> {
    let mut decoded = [0; 40];
    let length = bs58::decode(word).onto(&mut decoded[..]).ok()?;
    let (payload, sum) = decoded[..length].split_last_chunk::<4>()?;
    if length != 25 || Sha256::digest(Sha256::digest(payload))[..4] != sum[..] {
        return None;
    }
    let currency = match payload[0] {
        0x00 | 0x05 => "btc",
        0x30 | 0x32 => "ltc",
        0x1E => "doge",
        0x41 => "tron",
        _ => return None,
    };
    Some(format!("{currency}:{word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        find(text, |wallet| all.push(wallet));
        all
    }

    #[test]
    fn wallets_are_told_by_their_check_sums() {
        // From BIP 173, BIP 350 and EIP-55; the first block's; a token contract's on Tron.
        for (text, expected) in [
            ("pay 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa.", "btc:1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
            ("BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4", "btc:bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"),
            (
                "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
                "btc:bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
            ),
            ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "eth:0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"),
            ("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "tron:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"),
        ] {
            assert_eq!(found(text), [expected], "{text}");
        }
        for text in [
            "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb",
            "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5",
            "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD",
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "",
        ] {
            assert_eq!(found(text), [] as [&str; 0], "{text}");
        }
    }
}
