//! The fields of a key: one, or several in order.

use content::composite::{self, VALUES_MAX};
use content::network::PrefixLengths;
use content::piece::{self, Normalisation};
use event::{Facts, Schema, Slot, Type, Value};

use super::columns::fact;
use crate::config::{ConfigProblems, ConfigView};

/// A field of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyField {
    /// The fact that its pieces are taken from.
    pub slot: Slot,
    /// The way in which a piece is normalised.
    pub normalise: Normalisation,
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
    /// One field as it is.
    pub(crate) fn exact(slot: Slot) -> KeyFields {
        KeyFields(vec![KeyField { slot, normalise: Normalisation::Exact }])
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
            let normalise = match prefix.filter(|_| kind_of(name) == Some(Type::Ip)) {
                Some(prefix) => Normalisation::Network(prefix),
                None => form(at).unwrap_or_default(),
            };
            KeyField { slot: fact(schema, name, origin, problems), normalise }
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
            Some(field) => piece::pieces(&Value::from(value), field.normalise, out),
            None => {
                let Some(values) = composite::values(value, self.0.len()) else { return };
                let values = values.iter().zip(&self.0).map(|(value, field)| (Some(value), field.normalise));
                composite::pieces(values, out);
            }
        }
    }
}
