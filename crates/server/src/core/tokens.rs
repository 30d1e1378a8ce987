//! Tokens of clients: those of the configuration and those of the data directory, as one table that a change replaces; without
//! tokens, this host alone may ask.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use access::{
    AccessFileError, FileStamp, TokenDigest, TokenFile, TokenGrant, TokenRefusal, TokenStore, TokenTable,
};
use axum::http::{HeaderMap, header};
use event::Time;
use parking_lot::{Mutex, RwLock};
use plan::Plan;

use crate::core::problem::{FORBIDDEN, HttpFailure, UNAUTHORIZED};

/// The field in which bouncers name their token.
const API_KEY: &str = "x-api-key";
/// The help of a request without a token that is accepted.
const HELP: &str =
    "send `Authorization: Bearer TOKEN` with a token of the configuration, or one of `tollhouse token add`";

/// The tokens that are accepted now.
#[derive(Debug)]
pub(crate) struct TokenAuthority {
    table: RwLock<Arc<TokenTable>>,
    /// True once there was a token: that the last was removed opens the node to nobody.
    is_asking: AtomicBool,
    file: Option<TokenFile>,
    sources: Mutex<TokenSources>,
}

/// The origins of the table, as they were read last.
#[derive(Debug, Default)]
struct TokenSources {
    stamp: Option<FileStamp>,
    store: TokenStore,
    uses: BTreeMap<String, Time>,
}

/// Reasons to refuse what a request names as its token.
#[derive(Debug)]
pub(crate) struct RefusedToken {
    pub(crate) failure: HttpFailure,
    /// True if a token was named that nobody has: a guess, which is answered late.
    pub(crate) is_guess: bool,
    /// The name of a token that no longer holds.
    pub(crate) expired: Option<String>,
}

impl TokenAuthority {
    /// Makes the table of a plan, and of the data directory if there is one; says what could not be read of that.
    pub(crate) fn new(plan: &Plan, directory: Option<&Path>) -> (TokenAuthority, Option<AccessFileError>) {
        let file = directory.map(TokenFile::in_directory);
        let is_required = plan.node.server.require_token || file.as_ref().is_some_and(TokenFile::was_made);
        let uses = file.as_ref().map(TokenFile::uses).unwrap_or_default();
        let authority = TokenAuthority {
            table: RwLock::default(),
            is_asking: AtomicBool::new(is_required),
            file,
            sources: Mutex::new(TokenSources { uses: uses.clone(), ..TokenSources::default() }),
        };
        let error = authority.read_file().err();
        authority.rebuild(plan);
        for grant in authority.table.read().grants() {
            if let Some(at) = uses.get(grant.name()) {
                grant.note_use(*at);
            }
        }
        (authority, error)
    }

    /// Returns true if the file of the data directory has changed since it was read.
    pub(crate) fn has_changed(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.stamp() != self.sources.lock().stamp)
    }

    /// Reads the file of the data directory. What stood in it stays in force if it cannot be read. Blocks.
    pub(crate) fn read_file(&self) -> Result<(), AccessFileError> {
        let Some(file) = &self.file else { return Ok(()) };
        // First, so that a change in between is seen the next time.
        let stamp = file.stamp();
        let read = file.read();
        let mut sources = self.sources.lock();
        sources.stamp = stamp;
        sources.store = read?.unwrap_or_default();
        Ok(())
    }

    /// Makes the table anew, of what was read last and of this plan.
    pub(crate) fn rebuild(&self, plan: &Plan) {
        let mut table = TokenTable::default();
        table.add_store(&self.sources.lock().store);
        for token in &plan.tokens {
            let grant = TokenGrant::new(token.name.clone(), token.scopes, token.pipelines.clone());
            table.add(token.digest, token.expires, &Arc::new(grant));
        }
        let server = &plan.node.server;
        for (token, number) in server.tokens.iter().zip(1..) {
            let grant = TokenGrant::new(format!("server.tokens.{number}"), server.token_scopes, Vec::new());
            table.add(TokenDigest::of(token.as_bytes()), None, &Arc::new(grant));
        }
        if !table.is_empty() || plan.identity_provider.is_some() {
            self.is_asking.store(true, Ordering::Relaxed);
        }
        let mut current = self.table.write();
        table.keep_uses(&current);
        *current = Arc::new(table);
    }

    /// Returns true if there is no token.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.read().is_empty()
    }

    /// The tokens of the data directory's file, as they were read last.
    pub(crate) fn store(&self) -> TokenStore {
        self.sources.lock().store.clone()
    }

    /// The table as it is now.
    pub(crate) fn table(&self) -> Arc<TokenTable> {
        Arc::clone(&self.table.read())
    }

    /// From now on a request must carry a token.
    pub(crate) fn ask(&self) {
        self.is_asking.store(true, Ordering::Relaxed);
    }

    /// Returns true if a request must carry a token.
    pub(crate) fn is_asking(&self) -> bool {
        self.is_asking.load(Ordering::Relaxed)
    }

    /// Writes when tokens were last used, if any was since. Blocks.
    pub(crate) fn write_uses(&self) -> std::io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let table = self.table();
        let used = |grant: &Arc<TokenGrant>| Some((grant.name().to_owned(), grant.used()?));
        let uses: BTreeMap<String, Time> = table.grants().iter().filter_map(used).collect();
        if uses.is_empty() || uses == self.sources.lock().uses {
            return Ok(());
        }
        file.write_uses(&uses)?;
        self.sources.lock().uses = uses;
        Ok(())
    }

    /// Returns the rights of a token as of now, and notes its use.
    pub(crate) fn find(&self, token: &[u8], now: Time) -> Result<Arc<TokenGrant>, TokenRefusal> {
        let table = self.table();
        let grant = table.find(token, now)?;
        grant.note_use(now);
        Ok(Arc::clone(grant))
    }

    /// Returns the rights of the token that a request carries, as a bearer or as bouncers say it.
    pub(crate) fn check(&self, headers: &HeaderMap, now: Time) -> Result<Arc<TokenGrant>, RefusedToken> {
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let refused = |failure: HttpFailure, expired: Option<String>| RefusedToken {
            failure,
            is_guess: expired.is_none() && names_token(headers),
            expired,
        };
        // As bouncers say it.
        let mut keys = headers.get_all(API_KEY).iter();
        if let (Some(key), None, None) = (keys.next(), keys.next(), headers.get(header::AUTHORIZATION)) {
            return self.find(key.as_bytes(), now).map_err(|refusal| match refusal {
                TokenRefusal::Unknown => {
                    let failure = FORBIDDEN.failure("X-Api-Key: not accepted");
                    refused(failure.help("it is one of the node's tokens"), None)
                }
                TokenRefusal::Expired { name } => {
                    let failure = FORBIDDEN.failure(format!("X-Api-Key: the token `{name}` no longer holds"));
                    refused(failure.help("`tollhouse token rotate` gives it a new secret"), Some(name))
                }
            });
        }
        let bearer = given.next().map(|value| {
            let (scheme, token) = value.as_bytes().split_at_checked(b"Bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then(|| self.find(token.trim_ascii(), now))
        });
        match (bearer, given.next()) {
            (Some(Some(Ok(grant))), None) => Ok(grant),
            (Some(Some(Err(TokenRefusal::Expired { name }))), None) => {
                let failure = UNAUTHORIZED.failure(format!("the token `{name}` no longer holds"));
                Err(refused(failure.help("`tollhouse token rotate` gives it a new secret"), Some(name)))
            }
            (None, _) => Err(refused(UNAUTHORIZED.failure("the request carries no token").help(HELP), None)),
            _ => Err(refused(UNAUTHORIZED.failure("the request's token is not accepted").help(HELP), None)),
        }
    }
}

/// Returns what a request carries as a bearer, if it carries one.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) =
        headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// Returns true if a request names a token, be it a wrong one.
fn names_token(headers: &HeaderMap) -> bool {
    headers.contains_key(header::AUTHORIZATION) || headers.contains_key(API_KEY)
}

/// Returns whether a request's `Host` is an address or `localhost`, which no name server can make another host's.
pub(crate) fn names_this_host(host: &str) -> bool {
    let authority = host.parse::<axum::http::uri::Authority>();
    authority.is_ok_and(|authority| {
        let name = authority.host().trim_matches(['[', ']']);
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    })
}
