//! Roles of people: names for sets of scopes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{AccessScope, ScopeSet};

/// The part that a person has. Each has all that the one before it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Looks at decisions, statistics and the ban list, without what events say.
    Viewer,
    /// Reads what events say, gives feedback, works the queue of reviews.
    Reviewer,
    /// Changes rules, bans and exceptions.
    Editor,
    /// Does everything.
    Administrator,
}

/// A word that is no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no role; there are: {list}", list = Role::ALL.map(Role::word).join(", "))]
pub struct UnknownRole(pub String);

impl Role {
    /// All roles, from the least on.
    pub const ALL: [Role; 4] = [Role::Viewer, Role::Reviewer, Role::Editor, Role::Administrator];

    /// Returns the word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Reviewer => "reviewer",
            Role::Editor => "editor",
            Role::Administrator => "administrator",
        }
    }

    /// Returns the scopes that it stands for.
    pub fn scopes(self) -> ScopeSet {
        let scopes: &[AccessScope] = match self {
            Role::Viewer => &[AccessScope::Read, AccessScope::Enforce],
            Role::Reviewer => {
                &[AccessScope::Read, AccessScope::Enforce, AccessScope::ReadContent, AccessScope::Teach]
            }
            Role::Editor => &[
                AccessScope::Read,
                AccessScope::Enforce,
                AccessScope::ReadContent,
                AccessScope::Teach,
                AccessScope::Rules,
            ],
            Role::Administrator => &AccessScope::ALL,
        };
        scopes.iter().copied().collect()
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(word: &str) -> Result<Role, UnknownRole> {
        let found = Role::ALL.into_iter().find(|role| role.word() == word);
        found.ok_or_else(|| UnknownRole(word.chars().take(40).collect()))
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Role, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_all_of_the_one_before() {
        for pair in Role::ALL.windows(2) {
            let (less, more) = (pair[0].scopes(), pair[1].scopes());
            assert!(less.iter().all(|scope| more.contains(scope)) && less != more, "{pair:?}");
        }
        for role in Role::ALL {
            assert_eq!(role.word().parse(), Ok(role));
        }
        assert!(!Role::Viewer.scopes().contains(AccessScope::ReadContent));
        assert!("root".parse::<Role>().is_err());
    }
}
