//! Sessions of people: a random secret that is known by its hash, a time after which silence ends it, and a time after which it
//! ends in any case. A table in memory, bounded, that a restart empties.

use std::collections::HashMap;

use data_encoding::HEXLOWER;
use event::{Span, Time};

use crate::{Role, TokenDigest};

/// Bounds of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    /// Silence after which a session ends.
    pub idle: Span,
    /// Age at which a session ends.
    pub lasts: Span,
    /// Most sessions of a person; the one that was silent longest makes room.
    pub of_user_max: usize,
    /// Most sessions of all.
    pub sessions_max: usize,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions { idle: Span::minutes(30), lasts: Span::hours(12), of_user_max: 8, sessions_max: 1024 }
    }
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its name in lists, made of the hash of its secret: 16 hexadecimal digits. It lets nobody in.
    pub id: String,
    /// The person.
    pub user: String,
    /// The role that the person had when it began.
    pub role: Role,
    /// The time at which it began.
    pub begun: Time,
    /// The time of its latest request.
    pub seen: Time,
    /// The address that it was begun from.
    pub from: Option<String>,
}

/// The sessions that hold.
#[derive(Debug, Default)]
pub struct SessionTable {
    options: SessionOptions,
    sessions: HashMap<TokenDigest, Session>,
}

impl SessionTable {
    /// Makes a table without a session.
    pub fn new(options: SessionOptions) -> SessionTable {
        SessionTable { options, sessions: HashMap::new() }
    }

    fn holds(&self, session: &Session, now: Time) -> bool {
        now < session.seen + self.options.idle && now < session.begun + self.options.lasts
    }

    /// Begins a session of a person, by the hash of a new random secret. Returns its name. It takes the place of the one of the
    /// same person, or else of anybody, that was silent longest, where there are too many.
    pub fn begin(
        &mut self,
        digest: TokenDigest,
        user: &str,
        role: Role,
        from: Option<String>,
        now: Time,
    ) -> String {
        self.forget(now);
        let of_user = self.sessions.values().filter(|session| session.user == user).count();
        if of_user >= self.options.of_user_max {
            self.evict(|session| session.user == user);
        } else if self.sessions.len() >= self.options.sessions_max {
            self.evict(|_| true);
        }
        let id = HEXLOWER.encode(&digest.0[..8]);
        let session = Session { id: id.clone(), user: user.to_owned(), role, begun: now, seen: now, from };
        self.sessions.insert(digest, session);
        id
    }

    fn evict(&mut self, fits: impl Fn(&Session) -> bool) {
        let fitting = self.sessions.iter().filter(|(_, session)| fits(session));
        let oldest = fitting.min_by_key(|(_, session)| session.seen).map(|(digest, _)| *digest);
        oldest.map(|digest| self.sessions.remove(&digest));
    }

    /// Returns the session of a secret, and notes that it was used now.
    pub fn find(&mut self, secret: &[u8], now: Time) -> Option<&Session> {
        let digest = TokenDigest::of(secret);
        let holds = self.sessions.get(&digest).is_some_and(|session| self.holds(session, now));
        if !holds {
            self.sessions.remove(&digest);
            return None;
        }
        let session = self.sessions.get_mut(&digest)?;
        session.seen = session.seen.max(now);
        Some(session)
    }

    /// Returns the sessions that hold, those used latest first.
    pub fn list(&self, now: Time) -> Vec<Session> {
        let mut sessions: Vec<Session> =
            self.sessions.values().filter(|session| self.holds(session, now)).cloned().collect();
        sessions.sort_unstable_by(|a, b| b.seen.cmp(&a.seen).then_with(|| a.id.cmp(&b.id)));
        sessions
    }

    /// Ends a session by its name; returns false if there is none.
    pub fn end(&mut self, id: &str) -> bool {
        let before = self.sessions.len();
        self.sessions.retain(|_, session| session.id != id);
        self.sessions.len() < before
    }

    /// Ends all sessions of a person, as when a role or password changes; returns how many there were.
    pub fn end_of(&mut self, user: &str) -> usize {
        let before = self.sessions.len();
        self.sessions.retain(|_, session| session.user != user);
        before - self.sessions.len()
    }

    /// Forgets sessions that hold no longer.
    pub fn forget(&mut self, now: Time) {
        let SessionOptions { idle, lasts, .. } = self.options;
        self.sessions.retain(|_, session| now < session.seen + idle && now < session.begun + lasts);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Begin { user: u8 },
        Use { secret: u8 },
        End { secret: u8 },
        EndOf { user: u8 },
        Wait(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..3_u8).prop_map(|user| Step::Begin { user }),
            (0..30_u8).prop_map(|secret| Step::Use { secret }),
            (0..30_u8).prop_map(|secret| Step::End { secret }),
            (0..3_u8).prop_map(|user| Step::EndOf { user }),
            (1..20_u8).prop_map(Step::Wait),
        ]
    }

    struct PlainSession {
        secret: u8,
        user: u8,
        begun: i64,
        seen: i64,
    }

    /// Plays steps to a table and to a plain list. A secret is the number of the session.
    fn check(steps: &[Step]) {
        let options = SessionOptions {
            idle: Span::seconds(30),
            lasts: Span::seconds(100),
            of_user_max: 3,
            sessions_max: 5,
        };
        let mut table = SessionTable::new(options);
        let (mut plain, mut now, mut count): (Vec<PlainSession>, _, u8) = (Vec::new(), 1_000_i64, 0);
        for step in steps {
            // Uses lie apart, so that one is always the oldest.
            now += 1;
            let time = Time::from_seconds(now);
            plain.retain(|one| now < one.seen + 30 && now < one.begun + 100);
            match *step {
                Step::Begin { user } => {
                    table.begin(TokenDigest::of(&[count]), &user.to_string(), Role::Viewer, None, time);
                    let is_full = plain.iter().filter(|one| one.user == user).count() >= 3;
                    if is_full || plain.len() >= 5 {
                        let oldest = plain.iter().filter(|one| !is_full || one.user == user);
                        let gone = oldest.min_by_key(|one| one.seen).map(|one| one.secret).unwrap();
                        plain.retain(|one| one.secret != gone);
                    }
                    plain.push(PlainSession { secret: count, user, begun: now, seen: now });
                    count += 1;
                }
                Step::Use { secret } => {
                    let mut known = plain.iter_mut().find(|one| one.secret == secret);
                    let found = table.find(&[secret], time).map(|session| session.user.clone());
                    assert_eq!(found, known.as_ref().map(|one| one.user.to_string()));
                    if let Some(one) = &mut known {
                        one.seen = now;
                    }
                }
                Step::End { secret } => {
                    let was = plain.iter().any(|one| one.secret == secret);
                    let id = HEXLOWER.encode(&TokenDigest::of(&[secret]).0[..8]);
                    table.forget(time);
                    assert_eq!(table.end(&id), was);
                    plain.retain(|one| one.secret != secret);
                }
                Step::EndOf { user } => {
                    let were = plain.iter().filter(|one| one.user == user).count();
                    table.forget(time);
                    assert_eq!(table.end_of(&user.to_string()), were);
                    plain.retain(|one| one.user != user);
                }
                Step::Wait(seconds) => now += i64::from(seconds),
            }
            let now = Time::from_seconds(now);
            let listed: Vec<String> = table.list(now).into_iter().map(|session| session.user).collect();
            let mut held: Vec<&PlainSession> = plain
                .iter()
                .filter(|one| now.seconds() < one.seen + 30 && now.seconds() < one.begun + 100)
                .collect();
            held.sort_unstable_by_key(|one| -one.seen);
            assert_eq!(listed, held.iter().map(|one| one.user.to_string()).collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn sessions_live_as_in_a_plain_list(steps in proptest::collection::vec(step(), 1..60)) {
            check(&steps);
        }
    }
}
