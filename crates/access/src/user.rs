//! People of a node: a name, a role, and a password as argon2id stores it.

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use event::Time;
use serde::{Deserialize, Serialize};

use crate::{Role, is_name};

/// Most people of a file.
pub const USERS_MAX: usize = 10_000;
/// Characters that a password must have, and bytes that it may have.
const PASSWORD_CHARS_MIN: usize = 12;
const PASSWORD_BYTES_MAX: usize = 1024;

/// A password as it is stored: argon2id with 19 MiB and two passes (OWASP's choice of 2023), and a salt of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredPassword(String);

/// Reasons not to change people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// The name cannot be one.
    #[error("`{0}` is no name: expected letters, digits, `_`, `-` and `.`, at most 64")]
    Name(String),
    /// Somebody has this name.
    #[error("there is a user `{0}` already")]
    Present(String),
    /// Nobody has this name.
    #[error("there is no user `{0}`")]
    Absent(String),
    /// The password is too short or too long.
    #[error(
        "a password has at least {PASSWORD_CHARS_MIN} characters, and at most {PASSWORD_BYTES_MAX} bytes"
    )]
    Password,
    /// More are there than may be.
    #[error("there are {USERS_MAX} users already")]
    Full,
    /// The system has no random numbers, or too little memory.
    #[error("the password could not be hashed: {0}")]
    Hash(String),
}

impl StoredPassword {
    /// Hashes a password: some tens of milliseconds, and 19 MiB.
    ///
    /// # Errors
    /// [`UserError::Password`] if it is too short or too long, and [`UserError::Hash`].
    pub fn of(password: &str) -> Result<StoredPassword, UserError> {
        if password.chars().count() < PASSWORD_CHARS_MIN || password.len() > PASSWORD_BYTES_MAX {
            return Err(UserError::Password);
        }
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(|error| UserError::Hash(error.to_string()))?;
        let failed = |error: argon2::password_hash::Error| UserError::Hash(error.to_string());
        let salt = SaltString::encode_b64(&salt).map_err(failed)?;
        let hash = Argon2::default().hash_password(password.as_bytes(), &salt).map_err(failed)?;
        Ok(StoredPassword(hash.to_string()))
    }

    /// Returns true if this is the password. Costs what hashing it costs.
    fn fits(&self, password: &str) -> bool {
        let hash = PasswordHash::new(&self.0);
        hash.is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
    }
}

/// Makes a password of 120 random bits, in letters and digits that are not mistaken for each other.
///
/// # Errors
/// If the system has no random numbers.
pub fn generated_password() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 15];
    getrandom::fill(&mut bytes)?;
    Ok(data_encoding::BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
}

/// A person, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredUser {
    /// The name, by which the audit log calls the person.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The password.
    pub password: StoredPassword,
    /// The time at which the person was added.
    #[serde(with = "crate::time_text")]
    pub created: Time,
}

/// All people of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserStore {
    /// The people, in the order in which they were added.
    pub users: Vec<StoredUser>,
}

impl UserStore {
    /// Adds a person.
    ///
    /// # Errors
    /// [`UserError`]; nothing has changed then.
    pub fn add(
        &mut self,
        name: &str,
        role: Role,
        password: StoredPassword,
        now: Time,
    ) -> Result<(), UserError> {
        if !is_name(name) {
            return Err(UserError::Name(name.chars().take(64).collect()));
        }
        if self.users.iter().any(|user| user.name == name) {
            return Err(UserError::Present(name.to_owned()));
        }
        if self.users.len() >= USERS_MAX {
            return Err(UserError::Full);
        }
        self.users.push(StoredUser { name: name.to_owned(), role, password, created: now });
        Ok(())
    }

    /// Gives a person another role, another password, or both.
    ///
    /// # Errors
    /// [`UserError::Absent`] if there is nobody of this name.
    pub fn change(
        &mut self,
        name: &str,
        role: Option<Role>,
        password: Option<StoredPassword>,
    ) -> Result<(), UserError> {
        let user = self.users.iter_mut().find(|user| user.name == name);
        let user = user.ok_or_else(|| UserError::Absent(name.chars().take(64).collect()))?;
        user.role = role.unwrap_or(user.role);
        if let Some(password) = password {
            user.password = password;
        }
        Ok(())
    }

    /// Removes a person.
    ///
    /// # Errors
    /// [`UserError::Absent`] if there is nobody of this name.
    pub fn remove(&mut self, name: &str) -> Result<StoredUser, UserError> {
        let at = self.users.iter().position(|user| user.name == name);
        let at = at.ok_or_else(|| UserError::Absent(name.chars().take(64).collect()))?;
        Ok(self.users.remove(at))
    }

    /// Returns the person whose name and password these are. It takes as long for a name that nobody has: who guesses does not
    /// learn which names there are. Costs some tens of milliseconds and 19 MiB, so callers bound how many run at once.
    pub fn check(&self, name: &str, password: &str) -> Option<&StoredUser> {
        /// The hash of a password that nobody knows: with the parameters of all others, so that it costs the same.
        const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        if password.len() > PASSWORD_BYTES_MAX {
            return None;
        }
        let user = self.users.iter().find(|user| user.name == name);
        let fits = match user {
            Some(user) => user.password.fits(password),
            None => StoredPassword(NOBODY.to_owned()).fits(password),
        };
        user.filter(|_| fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_known_by_their_password_alone() {
        let mut store = UserStore::default();
        let now = Time::from_seconds(1_779_012_000);
        assert_eq!(StoredPassword::of("too short"), Err(UserError::Password));
        assert_eq!(StoredPassword::of(&"x".repeat(1025)), Err(UserError::Password));
        let password = StoredPassword::of("correct horse battery").unwrap();
        store.add("ann", Role::Editor, password.clone(), now).unwrap();
        assert_eq!(
            store.add("ann", Role::Viewer, password.clone(), now),
            Err(UserError::Present("ann".to_owned()))
        );
        assert!(matches!(store.add("a b", Role::Viewer, password, now), Err(UserError::Name(_))));
        let text = serde_json::to_string(&store).unwrap();
        assert!(text.contains("$argon2id$v=19$m=19456,t=2,p=1$") && !text.contains("horse"), "{text}");
        let mut store: UserStore = serde_json::from_str(&text).unwrap();
        let role =
            |store: &UserStore, name: &str, password: &str| store.check(name, password).map(|user| user.role);
        assert_eq!(role(&store, "ann", "correct horse battery"), Some(Role::Editor));
        for (name, password) in
            [("ann", "Correct horse battery"), ("ann", ""), ("bob", "correct horse battery")]
        {
            assert_eq!(role(&store, name, password), None, "{name} {password}");
        }
        let other = StoredPassword::of("another long password").unwrap();
        store.change("ann", Some(Role::Viewer), Some(other)).unwrap();
        assert_eq!(role(&store, "ann", "correct horse battery"), None);
        assert_eq!(role(&store, "ann", "another long password"), Some(Role::Viewer));
        assert_eq!(store.change("bob", None, None), Err(UserError::Absent("bob".to_owned())));
        store.remove("ann").unwrap();
        assert_eq!(role(&store, "ann", "another long password"), None);
        // Hashes of one password differ, and a damaged one fits nothing.
        let [a, b] = [(); 2].map(|()| StoredPassword::of("correct horse battery").unwrap());
        assert_ne!(a, b);
        assert!(!StoredPassword("nonsense".to_owned()).fits(""));
    }
}
