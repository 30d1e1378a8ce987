//! Requests that one's own applications sign, each version with a key of its own.
//!
//! ```text
//! Signature-Input: app=("@method" "@authority" "@path" "@query");created=…;nonce="…";keyid="shop-ios/4.2";tag="tollhouse-app"
//! ```
//!
//! A secret that is in an application that everybody can install is found sooner or later. So each version has its own, which can be
//! retired when the version is, and watched when somebody else seems to have it: requests with it go on, and are seen.

use event::{Span, Time};

use crate::signature::{
    MessageSignature, SignaturePolicy, SignatureRefusal, SignedRequest, VerificationKey, VerifiedSignature,
};

/// The tag of signatures of applications.
pub const APPLICATION_TAG: &str = "tollhouse-app";

/// Components that a signature of an application covers: all of the request's head that says what it does.
const COVERED: &[&[&str]] =
    &[&["@method"], &["@authority", "@target-uri"], &["@path", "@target-uri"], &["@query", "@target-uri"]];

/// The state of a version of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionState {
    /// Its signatures count.
    Active,
    /// Its signatures count, and are to be looked at: others may have the key.
    Watched,
    /// Its signatures do not count any more.
    Retired,
}

impl VersionState {
    /// All states, each with the word of configurations for it.
    pub const WORDS: [(VersionState, &str); 3] = [
        (VersionState::Active, "active"),
        (VersionState::Watched, "watched"),
        (VersionState::Retired, "retired"),
    ];
}

/// A version of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationVersion {
    /// The version's name.
    pub name: String,
    /// The state.
    pub state: VersionState,
    /// The key.
    pub key: VerificationKey,
}

/// An application that signs its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// The name.
    pub name: String,
    /// The hosts that it sends requests to.
    pub hosts: Vec<String>,
    /// The longest time for which a signature holds.
    pub window: Span,
    /// The time by which the clocks of those who run it may be ahead.
    pub skew: Span,
    /// The versions.
    pub versions: Vec<ApplicationVersion>,
}

/// The application and the version that a signature names.
#[derive(Clone, Copy, Debug)]
pub struct NamedVersion<'a> {
    /// The application.
    pub application: &'a Application,
    /// The version.
    pub version: &'a ApplicationVersion,
}

impl<'a> NamedVersion<'a> {
    /// Returns the version that a `keyid` names, as `APPLICATION/VERSION`.
    pub fn find(applications: &'a [Application], key_id: &str) -> Option<NamedVersion<'a>> {
        let (name, version) = key_id.split_once('/')?;
        let application = applications.iter().find(|application| application.name == name)?;
        let version = application.versions.iter().find(|known| known.name == version)?;
        Some(NamedVersion { application, version })
    }

    /// Verifies a signature of the version. That of a retired version is verified, too, before it is refused: so it is known that
    /// whoever sends it has the key.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub fn verify(
        &self,
        request: &SignedRequest<'_>,
        signature: &MessageSignature,
        now: Time,
    ) -> Result<VerifiedSignature, SignatureRefusal> {
        if !is_host(&self.application.hosts, request.authority) {
            return Err(SignatureRefusal::Host);
        }
        let policy = SignaturePolicy {
            covered: COVERED,
            age_max: self.application.window,
            has_expiry: false,
            has_nonce: true,
            skew: self.application.skew,
        };
        let verified = policy.verify(request, signature, &self.version.key, now)?;
        match self.version.state {
            VersionState::Retired => Err(SignatureRefusal::Retired),
            VersionState::Active | VersionState::Watched => Ok(verified),
        }
    }
}

/// Returns true if the host of a request is one of those for which signatures hold. Which host was asked is told by fields that a
/// client may be able to write, so it does not count unless it is known.
pub fn is_host(hosts: &[String], authority: &str) -> bool {
    let plain = authority.strip_suffix(":443").or_else(|| authority.strip_suffix(":80")).unwrap_or(authority);
    hosts.iter().any(|host| host.eq_ignore_ascii_case(plain) || host.eq_ignore_ascii_case(authority))
}
