//! The fields of a key: one, or several in order.

use content::composite::{self, VALUES_MAX};
use content::network::{PrefixLengths, without_full_length};
use content::piece::{self, Normalisation};
use event::{Facts, Schema, Slot, Type, Value};

use super::columns::fact;
use crate::config::{ConfigProblems, ConfigView};

/// A field of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyField {
    /// The fact that its pieces are taken from.
    pub slot: Slot,
    /// The type of that fact.
    pub kind: Type,
    /// The way in which a piece is normalised.
    pub normalise: Normalisation,
}

impl KeyField {
    /// A value that a person wrote as an event would have it: `::ffff:192.0.2.7` is the address `192.0.2.7`, and `07` is the
    /// integer 7, and `192.0.2.7/32` the address, too. What is none of the type stays a text, such as the name of a network; so do
    /// bytes, whose pieces are digits.
    fn value_of(self, text: &str) -> Value {
        let text = Value::from(&*without_full_length(text));
        match self.kind {
            Type::Bytes => text,
            kind => text.clone().coerce(kind).unwrap_or(text),
        }
    }
}

/// The fields that keys are made of, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFields(Vec<KeyField>);

/// The networks that a kind's addresses are cut into, if they are.
fn prefix(view: ConfigView<'_>) -> Option<PrefixLengths> {
    let prefix = view.table("prefix")?;
    let bits = |key| prefix.integer(key).and_then(|bits| u8::try_from(bits).ok());
    Some(PrefixLengths { v4: bits("ipv4")?, v6: bits("ipv6")? })
}

impl KeyFields {
    /// A text of a fact as it is.
    pub(crate) fn exact(slot: Slot) -> KeyFields {
        KeyFields(vec![KeyField { slot, kind: Type::String, normalise: Normalisation::Exact }])
    }

    /// The fields that `of` names, each normalised as `normalise` says.
    pub(crate) fn compile(view: ConfigView<'_>, schema: &Schema, problems: &mut ConfigProblems) -> KeyFields {
        let names = view.one_or_more("of");
        if let Some((_, origin)) = names.get(VALUES_MAX) {
            let message = format!("`of` has {} fields", names.len());
            problems.add(origin, message, Some(format!("a key has at most {VALUES_MAX}")));
        }
        let twice = names
            .iter()
            .enumerate()
            .find(|(at, (name, _))| names.iter().take(*at).any(|(other, _)| other == name));
        if let Some((_, (name, origin))) = twice {
            let help = "take one of them out: a key of the same field twice is that of the field".to_owned();
            problems.add(origin, format!("`of` has `{name}` twice"), Some(help));
        }
        let forms = view.one_or_more("normalise");
        if view.str("normalise").is_none() && !forms.is_empty() && forms.len() != names.len() {
            let message = format!("`normalise` has {} words, and `of` {} fields", forms.len(), names.len());
            let help = "write one word for all fields, or a list with one for each".to_owned();
            problems.add(view.origin("normalise"), message, Some(help));
        }
        let prefix = prefix(view);
        let kind_of = |name: &str| schema.slot(name).map(|slot| schema.column(slot).kind);
        if view.is_given("prefix")
            && names.iter().all(|(name, _)| kind_of(name).is_some_and(|kind| kind != Type::Ip))
        {
            let help = "it cuts facts of type ip: take it out, or name such a fact in `of`".to_owned();
            problems.add(view.origin("prefix"), "`prefix` has no address to cut", Some(help));
        }
        // A kept version writes the default, too.
        let is_normalised = forms.iter().any(|(word, _)| *word != "exact");
        if let ([_], true, true) = (&names[..], view.is_given("prefix"), is_normalised) {
            let help = "take it out: the network is what is hashed".to_owned();
            problems.add(view.origin("normalise"), "`normalise` does nothing beside `prefix`", Some(help));
        }
        let form = |at: usize| forms.get(at).or(forms.first()).and_then(|(word, _)| word.parse().ok());
        let fields = names.iter().enumerate().map(|(at, (name, origin))| {
            let kind = kind_of(name).unwrap_or(Type::String);
            let normalise = match prefix.filter(|_| kind == Type::Ip) {
                Some(prefix) => Normalisation::Network(prefix),
                None => form(at).unwrap_or_default(),
            };
            KeyField { slot: fact(schema, name, origin, problems), kind, normalise }
        });
        KeyFields(fields.collect())
    }

    /// Returns the fields.
    pub fn as_slice(&self) -> &[KeyField] {
        &self.0
    }

    /// Returns the field, if it is only one.
    pub fn single(&self) -> Option<KeyField> {
        match self.0[..] {
            [field] => Some(field),
            _ => None,
        }
    }

    /// Returns true if each field is a fact that there is.
    pub(crate) fn are_known(&self) -> bool {
        self.0.iter().all(|field| field.slot != Slot(u16::MAX))
    }

    /// Hands on the pieces of a row.
    #[inline]
    pub fn pieces(&self, facts: &Facts, out: &mut dyn FnMut(&str)) {
        match self.single() {
            Some(field) => {
                if let Some(value) = facts.get(field.slot) {
                    piece::pieces(value, field.normalise, out);
                }
            }
            None => {
                let values = self.0.iter().map(|field| (facts.get(field.slot), field.normalise));
                composite::pieces(values, out);
            }
        }
    }

    /// Hands on the pieces of a value as people write it: that of one field, or those of several as a JSON array such as
    /// `["ann","192.0.2.7"]`.
    pub fn pieces_of(&self, value: &str, out: &mut dyn FnMut(&str)) {
        match self.single() {
            Some(field) => piece::pieces(&field.value_of(value), field.normalise, out),
            None => {
                let Some(values) = composite::values(value, self.0.len()) else { return };
                let values: Vec<_> =
                    values.iter().zip(&self.0).map(|(value, field)| field.value_of(value)).collect();
                let fields = self.0.iter().map(|field| field.normalise);
                composite::pieces(values.iter().map(Some).zip(fields), out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use event::Time;
    use proptest::prelude::*;

    use super::*;

    fn fields(of: &[(Type, Normalisation)]) -> KeyFields {
        let field = |((kind, normalise), slot): (&(Type, Normalisation), u16)| KeyField {
            slot: Slot(slot),
            kind: *kind,
            normalise: *normalise,
        };
        KeyFields(of.iter().zip(0..).map(field).collect())
    }

    fn check(of: &[(Type, Normalisation)], value: &str, expected: &[&str]) {
        let mut made = Vec::new();
        fields(of).pieces_of(value, &mut |piece| made.push(piece.to_owned()));
        assert_eq!(made, expected, "{of:?} {value}");
    }

    #[test]
    fn values_that_people_write_are_read_by_the_type_of_the_fact() {
        use Normalisation::{Exact, Network};
        let prefixes = PrefixLengths { v4: 24, v6: 48 };
        check(&[(Type::Ip, Exact)], "::ffff:192.0.2.7", &["192.0.2.7"]);
        check(&[(Type::Ip, Exact)], "2001:0DB8:0::7", &["2001:db8::7"]);
        check(&[(Type::Ip, Exact)], "[2001:db8::7]", &["2001:db8::7"]);
        check(&[(Type::Ip, Network(prefixes))], "::ffff:192.0.2.7", &["192.0.2.0/24"]);
        check(&[(Type::Ip, Network(prefixes))], "192.0.2.0/24", &["192.0.2.0/24"]);
        check(&[(Type::Integer, Exact)], " 07", &["7"]);
        check(&[(Type::Float, Exact)], "1.50", &["1.5"]);
        check(&[(Type::Bytes, Exact)], "00ff", &["00ff"]);
        check(&[(Type::String, Exact)], "::ffff:192.0.2.7", &["::ffff:192.0.2.7"]);
        // What is none of the type is looked for as it is.
        check(&[(Type::Ip, Exact)], "nowhere", &["nowhere"]);
        let composite = [(Type::String, Exact), (Type::Ip, Exact), (Type::Integer, Exact)];
        check(&composite, r#"["007","::FFFF:192.0.2.7","007"]"#, &[r#"["007","192.0.2.7","7"]"#]);
        check(&composite, "007", &[]);
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("no number", |float| float.is_finite()).prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            any::<std::net::IpAddr>().prop_map(Value::from),
            (-8_000_000_000_000_000..8_000_000_000_000_000i64).prop_map(|micros| Value::Time(Time(micros))),
            any::<Vec<u8>>().prop_map(|bytes| Value::Bytes(bytes.into())),
            any::<String>().prop_map(Value::from),
        ]
    }

    proptest! {
        #[test]
        fn pieces_that_are_shown_are_found_again(values in prop::collection::vec(value(), 1..4)) {
            let of: Vec<_> = values.iter().map(|value| (value.type_of(), Normalisation::Exact)).collect();
            let (fields, row) = (fields(&of), Facts::from_values(values.into_iter().map(Some).collect()));
            let mut shown = Vec::new();
            fields.pieces(&row, &mut |piece| shown.push(piece.to_owned()));
            for piece in shown {
                let mut found = Vec::new();
                fields.pieces_of(&piece, &mut |again| found.push(again.to_owned()));
                prop_assert_eq!(found, [piece]);
            }
        }
    }
}
