//! People of the data directory, and their sessions: a password for a secret that holds while it is used.

use std::path::Path;
use std::sync::Arc;

use access::{
    AccessFileError, FileStamp, Role, Session, SessionTable, StoredPassword, StoredUser, TokenDigest,
    TokenError, TokenFile, TokenSecret, UserError, UserFile, UserStore,
};
use event::Time;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use crate::core::blocking::blocking;

/// The beginning of a session's secret, by which it is told from a token.
const PREFIX: &str = "session_";
/// The name in the audit log by which the first person was added.
const FIRST_VISIT: &str = "first-visit";
/// Passwords that are checked at once: each takes 19 MiB and a processor for some tens of milliseconds.
const PLACES: usize = 2;

/// The people who may begin sessions, and the sessions that hold.
#[derive(Debug)]
pub(crate) struct SessionAuthority {
    file: Option<UserFile>,
    users: RwLock<Arc<UserStore>>,
    stamp: Mutex<Option<FileStamp>>,
    table: Mutex<SessionTable>,
    places: Semaphore,
}

impl SessionAuthority {
    /// Reads the people of a data directory, if there is one; says what could not be read of them.
    pub(crate) fn new(directory: Option<&Path>) -> (SessionAuthority, Option<AccessFileError>) {
        let authority = SessionAuthority {
            file: directory.map(UserFile::in_directory),
            users: RwLock::default(),
            stamp: Mutex::default(),
            table: Mutex::default(),
            places: Semaphore::new(PLACES),
        };
        let error = authority.read_file().err();
        (authority, error)
    }

    /// Returns true if the file has changed since it was read.
    pub(crate) fn has_changed(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.stamp() != *self.stamp.lock())
    }

    /// Reads the file. Sessions of people who were removed, or whose role or password has changed, end. Blocks.
    pub(crate) fn read_file(&self) -> Result<(), AccessFileError> {
        let Some(file) = &self.file else { return Ok(()) };
        // First, so that a change in between is seen the next time.
        *self.stamp.lock() = file.stamp();
        let read = file.read()?.unwrap_or_default();
        let before = std::mem::replace(&mut *self.users.write(), Arc::new(read));
        let now = Arc::clone(&self.users.read());
        let mut table = self.table.lock();
        for user in before.users.iter().filter(|user| !now.users.contains(user)) {
            table.end_of(&user.name);
        }
        Ok(())
    }

    /// Adds the first person, an administrator. Costs what hashing a password costs, and blocks.
    ///
    /// # Errors
    /// [`AccessFileError`], also if somebody is there already; nobody was added then.
    pub(crate) fn add_first(&self, name: &str, password: &str, now: Time) -> Result<(), AccessFileError> {
        let absent = || UserError::Absent(name.to_owned());
        let file = self.file.as_ref().ok_or_else(absent)?;
        let (role, password) = (Role::Administrator, StoredPassword::of(password)?);
        file.change(|store| match store.users.first() {
            Some(user) => Err(UserError::Present(user.name.clone())),
            None => store.add(name, role, password, now),
        })?;
        // The audit log reads changes of people there.
        let directory = file.path().parent().ok_or_else(absent)?;
        TokenFile::in_directory(directory).change(|store| {
            store.note_user("user.add", name, role.scopes(), now, FIRST_VISIT);
            Ok::<(), TokenError>(())
        })?;
        Ok(())
    }

    /// Returns true if there are people.
    pub(crate) fn has_users(&self) -> bool {
        !self.users.read().users.is_empty()
    }

    /// Begins a session, if the password is that of the name; returns its secret, and it. Few are checked at once, and the
    /// others wait.
    pub(crate) async fn begin(
        &self,
        name: &str,
        password: String,
        from: Option<String>,
        now: Time,
    ) -> Option<(String, Session)> {
        let _place = self.places.acquire().await.ok()?;
        let (users, of) = (Arc::clone(&self.users.read()), name.to_owned());
        let user: Option<StoredUser> = blocking(move || users.check(&of, &password).cloned()).await;
        let user = user?;
        // Who was removed meanwhile, or has another role now, begins none.
        if !self.users.read().users.contains(&user) {
            return None;
        }
        self.begin_as(&user.name, user.role, from, now)
    }

    /// Begins a session of somebody whom an identity provider has named; `None` without random numbers.
    pub(crate) fn begin_as(
        &self,
        name: &str,
        role: Role,
        from: Option<String>,
        now: Time,
    ) -> Option<(String, Session)> {
        let random = TokenSecret::generate().ok()?;
        let secret = format!("{PREFIX}{}", random.text().trim_start_matches(TokenSecret::PREFIX));
        let digest = TokenDigest::of(secret.as_bytes());
        let id = self.table.lock().begin(digest, name, role, from.clone(), now);
        let session = Session { id, user: name.to_owned(), role, begun: now, seen: now, from };
        Some((secret, session))
    }

    /// Returns the session of a secret, and notes its use; `None` if it is none, or holds no longer.
    pub(crate) fn find(&self, secret: &[u8], now: Time) -> Option<Session> {
        if !secret.starts_with(PREFIX.as_bytes()) {
            return None;
        }
        self.table.lock().find(secret, now).cloned()
    }

    /// The sessions that hold.
    pub(crate) fn list(&self, now: Time) -> Vec<Session> {
        self.table.lock().list(now)
    }

    /// Ends a session by its name; returns false if there is none.
    pub(crate) fn end(&self, id: &str) -> bool {
        self.table.lock().end(id)
    }
}
