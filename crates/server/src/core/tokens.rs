//! Tokens of clients; without tokens, this host alone may ask.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, header};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::core::problem::{FORBIDDEN, HttpFailure, UNAUTHORIZED};

/// The field in which bouncers name their token.
const API_KEY: &str = "x-api-key";

/// The tokens of a configuration, as their SHA-256, so that all are equally long.
#[derive(Debug)]
pub(crate) struct Tokens(Vec<[u8; 32]>);

impl Tokens {
    pub(crate) fn new<'a>(tokens: impl IntoIterator<Item = &'a str>) -> Tokens {
        Tokens(tokens.into_iter().map(|token| Sha256::digest(token).into()).collect())
    }

    /// Returns whether there is none, so that none is asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether this is one of the tokens. Takes as long whichever it is, or none.
    pub(crate) fn contain(&self, token: &[u8]) -> bool {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let found = self.0.iter().fold(Choice::from(0), |found, known| found | known.ct_eq(&digest));
        found.into()
    }

    /// Checks that a request carries one of the tokens, as a bearer or as bouncers say it.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), HttpFailure> {
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let bearer = |value: &HeaderValue| {
            let (scheme, token) = value.as_bytes().split_at_checked(b"Bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then(|| self.contain(token.trim_ascii()))
        };
        let help = "send `Authorization: Bearer TOKEN` with a token of the configuration";
        // As bouncers say it.
        let mut keys = headers.get_all(API_KEY).iter();
        if let (Some(key), None, None) = (keys.next(), keys.next(), headers.get(header::AUTHORIZATION)) {
            return if self.contain(key.as_bytes()) {
                Ok(())
            } else {
                Err(FORBIDDEN
                    .failure("X-Api-Key: not accepted")
                    .help("it is one of the configuration's tokens"))
            };
        }
        match (given.next().map(bearer), given.next()) {
            (Some(Some(true)), None) => Ok(()),
            (None, _) => Err(UNAUTHORIZED.failure("the request carries no token").help(help)),
            _ => Err(UNAUTHORIZED.failure("the request's token is not accepted").help(help)),
        }
    }
}

/// Returns whether a request names a token, be it a wrong one.
pub(crate) fn names_token(headers: &HeaderMap) -> bool {
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
