//! Scopes: what a token, or a person, may do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A group of operations that is granted as a whole. No scope includes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessScope {
    /// Sends events: decide, count, look up an event's keys, take from limits, issue challenges and forms.
    Decide,
    /// Says what events are: feedback, learning, reports, reviews.
    Teach,
    /// Reads what is decided and known: decisions, statistics, rules, metrics.
    Read,
    /// Reads what events say: texts and addresses in explanations, pieces of keys.
    ReadContent,
    /// Reads the ban list, as bouncers and firewalls do.
    Enforce,
    /// Changes what is decided: rules, bans, exceptions from limits.
    Rules,
    /// Administers the node: snapshots, the audit log, the list of tokens.
    Administer,
}

/// A word that is no scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no scope; there are: {list}", list = AccessScope::WORDS.join(", "))]
pub struct UnknownScope(pub String);

impl AccessScope {
    /// All scopes.
    pub const ALL: [AccessScope; 7] = [
        AccessScope::Decide,
        AccessScope::Teach,
        AccessScope::Read,
        AccessScope::ReadContent,
        AccessScope::Enforce,
        AccessScope::Rules,
        AccessScope::Administer,
    ];
    /// The words of all scopes, in their order.
    pub const WORDS: &'static [&'static str] =
        &["decide", "teach", "read", "read-content", "enforce", "rules", "administer"];

    /// Returns the word that configurations and problems have for it.
    pub const fn word(self) -> &'static str {
        match self {
            AccessScope::Decide => "decide",
            AccessScope::Teach => "teach",
            AccessScope::Read => "read",
            AccessScope::ReadContent => "read-content",
            AccessScope::Enforce => "enforce",
            AccessScope::Rules => "rules",
            AccessScope::Administer => "administer",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for AccessScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for AccessScope {
    type Err = UnknownScope;

    fn from_str(word: &str) -> Result<AccessScope, UnknownScope> {
        let found = AccessScope::ALL.into_iter().find(|scope| scope.word() == word);
        found.ok_or_else(|| UnknownScope(word.chars().take(40).collect()))
    }
}

/// A set of scopes. As text: their words, with commas between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScopeSet(u8);

impl ScopeSet {
    /// The set of all scopes.
    pub const ALL: ScopeSet = ScopeSet((1 << AccessScope::ALL.len()) - 1);

    /// Returns true if the scope is in the set.
    pub const fn contains(self, scope: AccessScope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Returns true if there is none in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the scopes, in their order.
    pub fn iter(self) -> impl Iterator<Item = AccessScope> {
        AccessScope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }
}

impl FromIterator<AccessScope> for ScopeSet {
    fn from_iter<I: IntoIterator<Item = AccessScope>>(scopes: I) -> ScopeSet {
        ScopeSet(scopes.into_iter().fold(0, |set, scope| set | scope.bit()))
    }
}

impl fmt::Display for ScopeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, scope) in self.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            f.write_str(scope.word())?;
        }
        Ok(())
    }
}

impl FromStr for ScopeSet {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<ScopeSet, UnknownScope> {
        text.split(',').map(|word| word.trim().parse()).collect()
    }
}

impl Serialize for ScopeSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(AccessScope::word))
    }
}

impl<'de> Deserialize<'de> for ScopeSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ScopeSet, D::Error> {
        let words = Vec::<String>::deserialize(deserializer)?;
        words.iter().map(|word| word.parse::<AccessScope>().map_err(serde::de::Error::custom)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_sets_are_read_back() {
        for (scope, word) in AccessScope::ALL.into_iter().zip(AccessScope::WORDS) {
            assert_eq!((scope.word(), word.parse()), (*word, Ok(scope)));
            let alone: ScopeSet = [scope].into_iter().collect();
            assert_eq!(alone.iter().collect::<Vec<_>>(), [scope], "no scope includes another");
        }
        assert_eq!(ScopeSet::ALL.iter().count(), AccessScope::ALL.len());
        let set: ScopeSet = "teach, decide".parse().unwrap();
        assert_eq!(set.to_string(), "decide,teach");
        assert_eq!(serde_json::to_string(&set).unwrap(), r#"["decide","teach"]"#);
        assert_eq!(serde_json::from_str::<ScopeSet>(r#"["teach","decide"]"#).unwrap(), set);
        for wrong in ["", "all", "decide,,teach", "Decide"] {
            assert!(wrong.parse::<ScopeSet>().is_err(), "{wrong}");
        }
    }
}
