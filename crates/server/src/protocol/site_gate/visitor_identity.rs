//! The identity of a visitor, by the signature of a request that a proxy shows: robots (Web Bot Auth) and one's own applications.
//!
//! The signature is of the request that the client sent, and a proxy tells its method, target and host in fields. A client may be able
//! to write those that its proxy does not, so signatures hold for the hosts of the configuration alone.

use axum::http::HeaderMap;
use engine::UseResult;
use event::{Event, Time};
use gate::application::{APPLICATION_TAG, NamedVersion, VersionState, is_host};
use gate::signature::{
    FieldSource, MessageSignature, SignatureRefusal, SignedRequest, VerifiedSignature, WEB_BOT_AUTH,
    read_signatures, signature_agent,
};
use plan::{Pipeline, Plan, RobotsPlan};

use crate::core::node::Node;

/// The scheme that the client has used, as the proxy tells it.
const SCHEME: &str = "x-forwarded-proto";

struct HeaderFields<'a>(&'a HeaderMap);

impl FieldSource for HeaderFields<'_> {
    fn values(&self, name: &str) -> Vec<&[u8]> {
        self.0.get_all(name).iter().map(|value| value.as_bytes()).collect()
    }
}

/// The target of the client's request.
#[derive(Clone, Copy, Debug)]
pub(super) struct VisitedTarget<'a> {
    /// The method.
    pub(super) method: &'a str,
    /// The host, with its port if one was named.
    pub(super) authority: &'a str,
    /// The path, as sent.
    pub(super) path: &'a str,
    /// The query, as sent; empty if there is none.
    pub(super) query: &'a str,
}

/// Adds what the signatures of a request say to its event. Costs nothing where there is none.
pub(super) async fn add(
    node: &Node,
    plan: &Plan,
    pipeline: &Pipeline,
    target: VisitedTarget<'_>,
    headers: &HeaderMap,
    event: &mut Event,
) {
    let applications = pipeline.applications.as_ref().filter(|_| !plan.applications.is_empty());
    if (pipeline.robots.is_none() && applications.is_none()) || !headers.contains_key("signature-input") {
        return;
    }
    let fields = HeaderFields(headers);
    let scheme = headers.get(SCHEME).and_then(|scheme| scheme.to_str().ok()).unwrap_or("https");
    let request = SignedRequest {
        method: target.method,
        scheme,
        authority: target.authority,
        path: target.path,
        query: Some(target.query).filter(|query| !query.is_empty()),
        fields: &fields,
    };
    let now = node.now();
    let signatures = match read_signatures(&fields) {
        Ok(signatures) => signatures,
        // It cannot be known whose it would have been.
        Err(why) => {
            if pipeline.robots.is_some() {
                node.signatures.count("robot", why.name());
                event.push("bot.refused", why.name());
            }
            if applications.is_some() {
                node.signatures.count("application", why.name());
                event.push("app.refused", why.name());
            }
            return;
        }
    };
    if let Some(robots) = &pipeline.robots
        && let Some(signature) = tagged(&signatures, WEB_BOT_AUTH)
    {
        match robot(node, plan, robots, &request, signature, now).await {
            Ok(operator) => {
                node.signatures.count("robot", "verified");
                event.push("bot.verified", true);
                event.push("bot.method", "signature");
                event.push("bot.operator", operator);
            }
            Err(why) => {
                node.signatures.count("robot", why.name());
                event.push("bot.refused", why.name());
            }
        }
    }
    if applications.is_some()
        && let Some(signature) = tagged(&signatures, APPLICATION_TAG)
    {
        let named = signature.key_id().and_then(|id| NamedVersion::find(&plan.applications, id));
        let result = match &named {
            Some(named) => application(node, named, &request, signature, now).await,
            None => Err(SignatureRefusal::UnknownKey),
        };
        // A name is a claim until the key has proved it.
        let is_known = matches!(
            result,
            Ok(()) | Err(SignatureRefusal::Retired | SignatureRefusal::Replayed | SignatureRefusal::Unknown)
        );
        if let Some(named) = named.filter(|_| is_known) {
            event.push("app.name", named.application.name.as_str());
            event.push("app.version", named.version.name.as_str());
            event.push("app.watched", named.version.state == VersionState::Watched);
        }
        match result {
            Ok(()) => {
                node.signatures.count("application", "verified");
                event.push("app.verified", true);
            }
            Err(why) => {
                node.signatures.count("application", why.name());
                event.push("app.refused", why.name());
            }
        }
    }
}

fn tagged<'s>(signatures: &'s [MessageSignature], tag: &str) -> Option<&'s MessageSignature> {
    signatures.iter().find(|signature| signature.tag() == Some(tag))
}

/// Verifies the signature of a robot, and returns who signs.
async fn robot(
    node: &Node,
    plan: &Plan,
    robots: &RobotsPlan,
    request: &SignedRequest<'_>,
    signature: &MessageSignature,
    now: Time,
) -> Result<String, SignatureRefusal> {
    if !is_host(&robots.hosts, request.authority) {
        return Err(SignatureRefusal::Host);
    }
    robots.policy.admit(signature, now)?;
    let agent = signature_agent(request, signature)?;
    let key_id = signature.key_id().ok_or(SignatureRefusal::Parameter)?;
    let known = plan.key_directories.iter().filter(|directory| match &agent {
        Some(agent) => directory.agent.as_ref() == Some(agent),
        None => directory.agent.is_none(),
    });
    for directory in known {
        let keys = node.keys.keys(directory);
        let Some(key) = keys.as_ref().and_then(|keys| keys.key(key_id, now)) else {
            node.keys.miss(directory);
            continue;
        };
        let verified = robots.policy.verify(request, signature, key, now)?;
        used_once(node, "robot", &verified, now).await?;
        return Ok(directory.name.clone());
    }
    Err(SignatureRefusal::UnknownKey)
}

async fn application(
    node: &Node,
    named: &NamedVersion<'_>,
    request: &SignedRequest<'_>,
    signature: &MessageSignature,
    now: Time,
) -> Result<(), SignatureRefusal> {
    let verified = named.verify(request, signature, now)?;
    used_once(node, "application", &verified, now).await
}

/// Uses the nonce of a signature, if it has one.
async fn used_once(
    node: &Node,
    purpose: &str,
    verified: &VerifiedSignature,
    now: Time,
) -> Result<(), SignatureRefusal> {
    let Some(token) = &verified.token else { return Ok(()) };
    match node.engine.use_once(purpose, token, verified.expires, now).await {
        UseResult::First => Ok(()),
        UseResult::Again => Err(SignatureRefusal::Replayed),
        UseResult::Unknown => Err(SignatureRefusal::Unknown),
    }
}
