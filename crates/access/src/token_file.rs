//! The file of the tokens: `tokens.json` in the data directory. The times at which tokens were last used are in a file of their
//! own, which the server alone writes.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use event::Time;

use crate::sealed_file::{SealedFile, read_sealed};
use crate::{TokenStore, UserStore};

/// The file of the tokens.
pub type TokenFile = SealedFile<TokenStore>;

/// The file of the people.
pub type UserFile = SealedFile<UserStore>;

impl SealedFile<UserStore> {
    /// The file's name in a data directory.
    pub const NAME: &'static str = "users.json";

    /// Returns the file of a data directory.
    pub fn in_directory(directory: &Path) -> UserFile {
        SealedFile::at(directory.join(UserFile::NAME))
    }
}

impl SealedFile<TokenStore> {
    /// The file's name in a data directory.
    pub const NAME: &'static str = "tokens.json";

    /// Returns the file of a data directory.
    pub fn in_directory(directory: &Path) -> TokenFile {
        SealedFile::at(directory.join(TokenFile::NAME))
    }

    /// Returns true if the file is there, or once was: then tokens are asked for, although there may be none. Tokens of
    /// `[server] tokens` are not in it: a configuration that names none any more asks for none.
    pub fn was_made(&self) -> bool {
        self.path().exists() || self.uses().keys().any(|name| !name.starts_with("server.tokens."))
    }

    /// Reads when each token was last used. What cannot be read is not known.
    pub fn uses(&self) -> BTreeMap<String, Time> {
        let Ok(Some(Ok(text))) = read_sealed(&self.beside("used.json")) else { return BTreeMap::new() };
        let texts: BTreeMap<String, String> = serde_json::from_slice(&text).unwrap_or_default();
        texts.into_iter().filter_map(|(name, time)| Some((name, time.parse().ok()?))).collect()
    }

    /// Writes when each token was last used.
    ///
    /// # Errors
    /// As the operating system has it.
    pub fn write_uses(&self, uses: &BTreeMap<String, Time>) -> io::Result<()> {
        let texts: BTreeMap<&str, String> =
            uses.iter().map(|(name, time)| (name.as_str(), time.to_string())).collect();
        let bytes = serde_json::to_vec_pretty(&texts)?;
        disk::replace(&self.beside("used.json"), &disk::seal(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::{AccessFileError, NewToken, ScopeSet, TokenError, TokenSecret};

    #[test]
    fn tokens_are_kept_without_their_text() {
        let directory = tempfile::tempdir().unwrap();
        let file = TokenFile::in_directory(directory.path());
        assert!(!file.was_made() && file.read().unwrap().is_none() && file.stamp().is_none());
        let secret = TokenSecret::generate().unwrap();
        let new = |name: &str| NewToken {
            name: name.to_owned(),
            scopes: ScopeSet::ALL,
            pipelines: Vec::new(),
            expires: None,
        };
        let now = Time::from_seconds(1_779_012_000);
        file.change(|store| store.add(new("site"), secret.digest(), now, "ann")).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(!text.contains(secret.text()) && text.contains(&secret.digest().to_string()), "{text}");
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
        let stamp = file.stamp();
        let again = file.change(|store| store.add(new("site"), secret.digest(), now, "ann"));
        assert!(matches!(again, Err(AccessFileError::Token(TokenError::Present(_)))), "{again:?}");
        assert_eq!(file.stamp(), stamp, "a refused change writes nothing");
        let store = file.read().unwrap().unwrap();
        assert_eq!(
            (store.changed, store.changes[0].action.as_str(), store.changes[0].by.as_str()),
            (1, "token.add", "ann")
        );
        file.write_uses(&BTreeMap::from([("site".to_owned(), now)])).unwrap();
        assert_eq!(file.uses()["site"], now);
        // A lost file does not open the node.
        fs::remove_file(file.path()).unwrap();
        assert!(file.was_made());
        fs::write(file.path(), text.replace("site", "bite")).unwrap();
        assert!(matches!(file.read(), Err(AccessFileError::Damaged { .. })));
    }
}
