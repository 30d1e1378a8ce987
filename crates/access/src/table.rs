//! The table of all tokens that hold, by their hashes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use event::Time;
use subtle::ConstantTimeEq;

use crate::{AccessScope, ScopeSet, TokenDigest, TokenStore};

/// The rights that come with a token, and the time at which it was last used.
#[derive(Debug)]
pub struct TokenGrant {
    name: String,
    scopes: ScopeSet,
    pipelines: Vec<String>,
    /// In microseconds; `i64::MIN` for never.
    used: AtomicI64,
}

impl TokenGrant {
    /// Makes the rights of a token of this name; without pipelines, those on all.
    pub fn new(name: impl Into<String>, scopes: ScopeSet, pipelines: Vec<String>) -> TokenGrant {
        TokenGrant { name: name.into(), scopes, pipelines, used: AtomicI64::new(i64::MIN) }
    }

    /// The token's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The scopes.
    pub fn scopes(&self) -> ScopeSet {
        self.scopes
    }

    /// Returns true if the scope is granted.
    pub fn has(&self, scope: AccessScope) -> bool {
        self.scopes.contains(scope)
    }

    /// The pipelines that it is limited to; none for no limit.
    pub fn pipelines(&self) -> &[String] {
        &self.pipelines
    }

    /// Returns true if it holds for a pipeline.
    pub fn reaches(&self, pipeline: &str) -> bool {
        self.pipelines.is_empty() || self.pipelines.iter().any(|name| name == pipeline)
    }

    /// The time at which the token was last used.
    pub fn used(&self) -> Option<Time> {
        Some(self.used.load(Ordering::Relaxed)).filter(|used| *used != i64::MIN).map(Time)
    }

    /// Notes a use of the token, unless a later one is noted.
    pub fn note_use(&self, at: Time) {
        self.used.fetch_max(at.0, Ordering::Relaxed);
    }
}

/// Reasons not to take a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenRefusal {
    /// No token is this one.
    Unknown,
    /// The token no longer holds: it has expired, or was rotated out.
    Expired {
        /// The token's name.
        name: String,
    },
}

#[derive(Debug)]
struct TokenEntry {
    digest: TokenDigest,
    until: Option<Time>,
    grant: Arc<TokenGrant>,
}

/// The tokens that are known, found by the first eight bytes of their hash.
///
/// The time of a look-up says nothing about other tokens: who sends a token cannot choose its hash, and whole hashes are
/// compared in constant time.
#[derive(Debug, Default)]
pub struct TokenTable {
    by_prefix: HashMap<u64, Vec<TokenEntry>>,
    grants: Vec<Arc<TokenGrant>>,
}

impl TokenTable {
    /// Adds a secret of a token. One that is known already keeps the rights that it has.
    pub fn add(&mut self, digest: TokenDigest, until: Option<Time>, grant: &Arc<TokenGrant>) {
        let entries = self.by_prefix.entry(prefix(digest)).or_default();
        if entries.iter().all(|entry| entry.digest != digest) {
            entries.push(TokenEntry { digest, until, grant: Arc::clone(grant) });
        }
        if !self.grants.iter().rev().take(1).any(|known| Arc::ptr_eq(known, grant)) {
            self.grants.push(Arc::clone(grant));
        }
    }

    /// Adds all tokens of a file.
    pub fn add_store(&mut self, store: &TokenStore) {
        for token in &store.tokens {
            let grant = TokenGrant::new(token.name.clone(), token.scopes, token.pipelines.clone());
            let grant = Arc::new(grant);
            for secret in &token.secrets {
                self.add(secret.sha256, token.end_of(secret), &grant);
            }
        }
    }

    /// Takes the times of last uses over from the table before it, by the names of tokens.
    pub fn keep_uses(&self, before: &TokenTable) {
        let used: HashMap<&str, Time> =
            before.grants.iter().filter_map(|grant| Some((grant.name(), grant.used()?))).collect();
        for grant in &self.grants {
            if let Some(at) = used.get(grant.name()) {
                grant.note_use(*at);
            }
        }
    }

    /// Returns true if there is no token.
    pub fn is_empty(&self) -> bool {
        self.by_prefix.is_empty()
    }

    /// The tokens' rights, in the order in which they were added.
    pub fn grants(&self) -> &[Arc<TokenGrant>] {
        &self.grants
    }

    /// Returns the rights of a token as of now.
    ///
    /// # Errors
    /// [`TokenRefusal`]: there is none, or it no longer holds.
    pub fn find(&self, token: &[u8], now: Time) -> Result<&Arc<TokenGrant>, TokenRefusal> {
        let digest = TokenDigest::of(token);
        let entries = self.by_prefix.get(&prefix(digest)).map_or(&[][..], Vec::as_slice);
        let same = |entry: &&TokenEntry| bool::from(entry.digest.0.ct_eq(&digest.0));
        let entry = entries.iter().find(same).ok_or(TokenRefusal::Unknown)?;
        if entry.until.is_some_and(|until| until <= now) {
            return Err(TokenRefusal::Expired { name: entry.grant.name.clone() });
        }
        Ok(&entry.grant)
    }
}

fn prefix(TokenDigest(bytes): TokenDigest) -> u64 {
    let (first, _) = bytes.split_first_chunk().unwrap_or((&[0; 8], &[]));
    u64::from_le_bytes(*first)
}

#[cfg(test)]
mod tests {
    use event::Span;
    use proptest::prelude::*;

    use super::*;
    use crate::{NewToken, TokenSecret};

    #[derive(Clone, Debug)]
    enum Step {
        Add { name: u8, scopes: u8, expires: Option<u8> },
        Rotate { name: u8, keep: u8, expires: Option<u8> },
        Remove { name: u8 },
        Wait(u8),
        Reload,
    }

    fn step() -> impl Strategy<Value = Step> {
        let expires = || proptest::option::of(1..60_u8);
        prop_oneof![
            (0..4_u8, 1..127_u8, expires()).prop_map(|(name, scopes, expires)| Step::Add {
                name,
                scopes,
                expires
            }),
            (0..4_u8, 0..40_u8, expires()).prop_map(|(name, keep, expires)| Step::Rotate {
                name,
                keep,
                expires
            }),
            (0..4_u8).prop_map(|name| Step::Remove { name }),
            (1..30_u8).prop_map(Step::Wait),
            Just(Step::Reload),
        ]
    }

    /// A token of the plain model: every secret that was ever made, with its end.
    struct PlainToken {
        secret: String,
        name: String,
        scopes: ScopeSet,
        /// The end of the secret itself, once it is rotated out.
        until: Option<i64>,
        is_latest: bool,
    }

    #[derive(Default)]
    struct PlainModel {
        tokens: Vec<PlainToken>,
        ends: HashMap<String, Option<i64>>,
    }

    impl PlainModel {
        fn holds(&self, token: &PlainToken, now: i64) -> bool {
            self.ends.get(&token.name).is_some_and(|end| end.is_none_or(|end| now < end))
                && token.until.is_none_or(|until| now < until)
        }
    }

    fn scopes(bits: u8) -> ScopeSet {
        AccessScope::ALL
            .into_iter()
            .enumerate()
            .filter(|(at, _)| bits & (1 << at) != 0)
            .map(|(_, scope)| scope)
            .collect()
    }

    /// Plays steps to a store and to a plain model. Every secret that ever was must hold in the table exactly if the model
    /// says so.
    fn check(steps: &[Step]) {
        let (mut store, mut model) = (TokenStore::default(), PlainModel::default());
        let mut now = 1_000;
        for (at, step) in (0_u8..).zip(steps) {
            let time = Time::from_seconds(now);
            let secret = TokenSecret::of_bytes([at; 32]);
            match step.clone() {
                Step::Add { name, scopes: bits, expires } => {
                    let (name, end) = (format!("t{name}"), expires.map(|after| now + i64::from(after)));
                    let new = NewToken {
                        name: name.clone(),
                        scopes: scopes(bits),
                        pipelines: Vec::new(),
                        expires: end.map(Time::from_seconds),
                    };
                    let is_new = !model.ends.contains_key(&name);
                    assert_eq!(store.add(new, secret.digest(), time, "me").is_ok(), is_new);
                    if is_new {
                        model.ends.insert(name.clone(), end);
                        let (scopes, secret) = (scopes(bits), secret.text().to_owned());
                        model.tokens.push(PlainToken { secret, name, scopes, until: None, is_latest: true });
                    }
                }
                Step::Rotate { name, keep, expires } => {
                    let (name, end) = (format!("t{name}"), expires.map(|after| now + i64::from(after)));
                    let old = model.ends.get(&name).copied();
                    let may = old.is_some_and(|old| end.or(old).is_none_or(|end| now < end));
                    let (keep, at_end) = (Span::seconds(i64::from(keep)), end.map(Time::from_seconds));
                    let done = store.rotate(&name, secret.digest(), keep, at_end, time, "me");
                    assert_eq!(done.is_ok(), may, "{done:?}");
                    if may {
                        let mut granted = ScopeSet::default();
                        for token in model.tokens.iter_mut().filter(|token| token.name == name) {
                            granted = token.scopes;
                            let until =
                                if token.is_latest { now + keep.as_seconds_f64() as i64 } else { now };
                            token.until = Some(token.until.map_or(until, |earlier| earlier.min(until)));
                            token.is_latest = false;
                        }
                        let end = end.or(old.flatten());
                        model.ends.insert(name.clone(), end);
                        let secret = secret.text().to_owned();
                        model.tokens.push(PlainToken {
                            secret,
                            name,
                            scopes: granted,
                            until: None,
                            is_latest: true,
                        });
                    }
                }
                Step::Remove { name } => {
                    let name = format!("t{name}");
                    let was = model.ends.remove(&name).is_some();
                    assert_eq!(store.remove(&name, time, "me").is_ok(), was);
                    model.tokens.retain(|token| token.name != name);
                }
                Step::Wait(seconds) => now += i64::from(seconds),
                Step::Reload => {
                    let bytes = serde_json::to_vec(&store).unwrap();
                    store = serde_json::from_slice(&bytes).unwrap();
                }
            }
            let mut table = TokenTable::default();
            table.add_store(&store);
            let time = Time::from_seconds(now);
            let mut by_name: HashMap<&str, usize> = HashMap::new();
            for token in &model.tokens {
                let found = table.find(token.secret.as_bytes(), time);
                assert_eq!(found.is_ok(), model.holds(token, now), "{found:?} {step:?}");
                if let Ok(grant) = found {
                    assert_eq!((grant.name(), grant.scopes()), (token.name.as_str(), token.scopes));
                    *by_name.entry(token.name.as_str()).or_default() += 1;
                }
            }
            assert!(by_name.values().all(|holding| *holding <= 2), "two hold at a time: {by_name:?}");
            for at in 0..=at {
                let secret = TokenSecret::of_bytes([at; 32]);
                let known = model.tokens.iter().any(|token| token.secret == secret.text());
                assert!(known || table.find(secret.text().as_bytes(), time).is_err(), "it was removed");
            }
        }
    }

    proptest! {
        #[test]
        fn tokens_live_as_in_a_plain_model(steps in proptest::collection::vec(step(), 1..40)) {
            check(&steps);
        }
    }

    #[test]
    fn a_use_outlives_a_change_of_the_table() {
        let mut store = TokenStore::default();
        let secret = TokenSecret::generate().unwrap();
        let new = NewToken {
            name: "site".to_owned(),
            scopes: ScopeSet::ALL,
            pipelines: vec!["web".to_owned()],
            expires: None,
        };
        store.add(new, secret.digest(), Time::from_seconds(1), "me").unwrap();
        let (mut before, mut after) = (TokenTable::default(), TokenTable::default());
        before.add_store(&store);
        let grant = before.find(secret.text().as_bytes(), Time::from_seconds(5)).unwrap();
        assert!(grant.reaches("web") && !grant.reaches("mail"));
        assert_eq!(grant.used(), None);
        grant.note_use(Time::from_seconds(5));
        grant.note_use(Time::from_seconds(3));
        after.add_store(&store);
        after.keep_uses(&before);
        assert_eq!(after.grants()[0].used(), Some(Time::from_seconds(5)));
        assert_eq!(after.find(b"toll_other", Time::from_seconds(5)).unwrap_err(), TokenRefusal::Unknown);
    }
}
