//! A fact cut into the normalised pieces that are hashed into keys.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use event::{Value, dotted};

use crate::address::MailAddress;
use crate::network::{self, PrefixLengths};
use crate::text;
use crate::text::obfuscation;
use crate::web::link;

/// Most pieces that one value gives.
pub const PIECES_MAX: usize = 1_000;
/// Longest piece; what follows in a longer one is not looked at.
pub const PIECE_BYTES_MAX: usize = 64 * 1024;

/// The way in which a piece is normalised before it is hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Normalisation {
    /// The text as it is.
    #[default]
    Exact,
    /// The text by [`obfuscation::normalise`].
    Text,
    /// The address by [`MailAddress::parse`]; a tagged address also gives the one without its tag. What is no address gives
    /// none.
    Address,
    /// The host by [`link::host`].
    Host,
    /// The network of an address, by [`network::network_of`].
    Network(PrefixLengths),
}

impl Normalisation {
    /// All ways but networks, in the order in which they are documented.
    pub const ALL: [Normalisation; 4] =
        [Normalisation::Exact, Normalisation::Text, Normalisation::Address, Normalisation::Host];

    /// The name by which configurations call it.
    pub fn name(self) -> &'static str {
        match self {
            Normalisation::Exact => "exact",
            Normalisation::Text => "text",
            Normalisation::Address => "address",
            Normalisation::Host => "host",
            Normalisation::Network(_) => "network",
        }
    }
}

impl fmt::Display for Normalisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Normalisation::Network(PrefixLengths { v4, v6 }) => write!(f, "/{v4}/{v6}"),
            _ => Ok(()),
        }
    }
}

impl FromStr for Normalisation {
    type Err = ();

    fn from_str(text: &str) -> Result<Normalisation, ()> {
        let network = || {
            let (v4, v6) = text.strip_prefix("network/")?.split_once('/')?;
            Some(Normalisation::Network(PrefixLengths { v4: v4.parse().ok()?, v6: v6.parse().ok()? }))
        };
        Normalisation::ALL.into_iter().find(|how| how.name() == text).or_else(network).ok_or(())
    }
}

/// Hands on the pieces of a value: one for each item of a list, one for any other value, printed as
/// [`Value`]'s `Display` prints it (bytes in hexadecimal). Empty pieces are skipped, equal ones given once, and
/// there are at most [`PIECES_MAX`].
pub fn pieces(value: &Value, how: Normalisation, out: &mut dyn FnMut(&str)) {
    match value {
        Value::List(items) => {
            let mut seen = HashSet::with_capacity(items.len().min(PIECES_MAX));
            for item in items {
                each(item, how, &mut |piece| {
                    if seen.len() < PIECES_MAX && !seen.contains(&piece) {
                        out(&piece);
                        seen.insert(piece);
                    }
                });
                if seen.len() >= PIECES_MAX {
                    break;
                }
            }
        }
        Value::String(text) => each(text, how, &mut |piece| out(&piece)),
        Value::Ip(ip) if let Normalisation::Network(prefixes) = how => out(&network::network(*ip, prefixes)),
        Value::Ip(IpAddr::V4(ip)) if how == Normalisation::Exact => {
            // Every event with an address has such a piece, so it is not left to the formatter.
            let (text, length) = dotted(*ip);
            out(std::str::from_utf8(&text[..length]).unwrap_or_default());
        }
        Value::Bytes(bytes) => {
            let bytes = &bytes[..bytes.len().min(PIECE_BYTES_MAX / 2)];
            each(&HEXLOWER.encode(bytes), how, &mut |piece| out(&piece));
        }
        scalar => each(&scalar.to_string(), how, &mut |piece| out(&piece)),
    }
}

/// The last piece of a text: of an address with a tag the one without it. Copies nothing where nothing is changed.
pub fn last(text: &str, how: Normalisation) -> Option<Cow<'_, str>> {
    let mut last = None;
    each(text, how, &mut |piece| last = Some(piece));
    last
}

fn each<'t>(text: &'t str, how: Normalisation, out: &mut dyn FnMut(Cow<'t, str>)) {
    let text = text::truncate(text, PIECE_BYTES_MAX);
    let piece = match how {
        Normalisation::Exact => Some(Cow::Borrowed(text)),
        Normalisation::Text => Some(Cow::Owned(obfuscation::normalise(text))),
        Normalisation::Host => link::host(text).map(Cow::Owned),
        Normalisation::Network(prefixes) => network::network_of(text, prefixes).map(Cow::Owned),
        Normalisation::Address => {
            let Some(address) = MailAddress::parse(text) else { return };
            out(Cow::Owned(address.full));
            address.untagged.map(Cow::Owned)
        }
    };
    if let Some(piece) = piece.filter(|piece| !piece.is_empty()) {
        out(piece);
    }
}

#[cfg(test)]
mod tests {
    use event::Time;
    use proptest::prelude::*;

    use super::*;

    fn collect(value: impl Into<Value>, how: Normalisation) -> Vec<String> {
        let mut all = Vec::new();
        pieces(&value.into(), how, &mut |piece| all.push(piece.to_owned()));
        all
    }

    fn check(value: impl Into<Value>, how: Normalisation, expected: &[&str]) {
        assert_eq!(collect(value, how), expected);
    }

    fn list(items: &[&str]) -> Vec<String> {
        items.iter().map(|&item| item.to_owned()).collect()
    }

    #[test]
    fn values_give_their_pieces_once() {
        check("Hello", Normalisation::Exact, &["Hello"]);
        check("", Normalisation::Exact, &[]);
        check("Order  77", Normalisation::Text, &["order 0"]);
        check("Ann+a@Example.com", Normalisation::Address, &["ann+a@example.com", "ann@example.com"]);
        check("not an address", Normalisation::Address, &[]);
        check("<>", Normalisation::Address, &["<>"]);
        check("https://WWW.example.com/x", Normalisation::Host, &["www.example.com"]);
        check(list(&["a", "", "b", "a"]), Normalisation::Exact, &["a", "b"]);
        check(
            list(&["a+1@example.com", "a+2@example.com", "A@example.com"]),
            Normalisation::Address,
            &["a+1@example.com", "a@example.com", "a+2@example.com"],
        );
        let network = Normalisation::Network(PrefixLengths { v4: 16, v6: 48 });
        check(
            list(&["203.0.113.1", "203.0.7.7", "x", "2001:db8::1"]),
            network,
            &["203.0.0.0/16", "2001:db8::/48"],
        );
        check(Value::Ip("203.0.113.1".parse().unwrap()), network, &["203.0.0.0/16"]);
        check(7i64, Normalisation::Exact, &["7"]);
        check(Time::EPOCH, Normalisation::Exact, &["1970-01-01T00:00:00Z"]);
        check(Value::Bytes(Box::new([0, 255])), Normalisation::Exact, &["00ff"]);
        let many: Vec<String> = (0..2 * PIECES_MAX).map(|i| i.to_string()).collect();
        assert_eq!(collect(many, Normalisation::Exact).len(), PIECES_MAX);
    }

    #[test]
    fn the_last_piece_of_a_text_is_that_of_its_value() {
        for how in Normalisation::ALL {
            for text in ["Ann+a@Example.com", "", "Order  77", "https://WWW.example.com/x", "<>"] {
                let pieces = collect(text, how);
                assert_eq!(last(text, how).as_deref(), pieces.last().map(String::as_str), "{text} {how}");
            }
        }
        assert!(matches!(last("as it is", Normalisation::Exact), Some(Cow::Borrowed("as it is"))));
    }

    #[test]
    fn names_read_back() {
        let network = Normalisation::Network(PrefixLengths { v4: 32, v6: 128 });
        for how in Normalisation::ALL.into_iter().chain([network]) {
            assert_eq!(how.to_string().parse(), Ok(how));
        }
        assert_eq!("network".parse::<Normalisation>(), Err(()));
        assert_eq!("Exact".parse::<Normalisation>(), Err(()));
    }

    proptest! {
        #[test]
        fn pieces_are_bounded_and_distinct(items in proptest::collection::vec("\\PC{0,12}", 0..40), how in 0..4usize) {
            let how = Normalisation::ALL[how];
            let all = collect(items.clone(), how);
            prop_assert!(all.len() <= 2 * items.len());
            prop_assert!(all.iter().all(|piece| !piece.is_empty()));
            let distinct: HashSet<_> = all.iter().collect();
            prop_assert_eq!(distinct.len(), all.len());
        }
    }
}
