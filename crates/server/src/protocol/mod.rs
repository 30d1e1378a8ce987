//! Protocols, a folder each, and the table of those that listeners speak. Beside them is what several of them share: `mail`
//! by those of mail servers, `grpc_transport` by those over gRPC, `input` and `batch` by those that bring events in bodies,
//! `site_gate` by those in which proxies ask, and `limit_group` by those that take from limits.
//! A protocol never imports another one.

mod batch;
pub mod content_encoding;
#[cfg(feature = "grpc")]
mod envoy;
#[cfg(feature = "grpc")]
mod grpc;
#[cfg(feature = "grpc")]
pub mod grpc_transport;
pub(crate) mod http;
pub(crate) mod input;
mod limit_group;
pub mod mail;
pub mod milter;
mod monitoring;
pub mod policy;
pub mod resp;
mod rspamd;
mod site_gate;
mod spamc;
pub(crate) mod syslog;

use std::sync::Arc;

use plan::{MissingFeature, Protocol, ProtocolPlan};

use self::rspamd::RspamdListener;
use crate::core::listener::{ListenerStream, ServeConnection, ShutdownSignal};
use crate::core::listener_context::ListenerContext;
use crate::core::tls::{HTTP_1, HTTP_2};

/// Returns what holds conversations on a listener: the protocols, each with what its conversations share.
///
/// # Errors
/// If the program was built without the protocol.
pub(crate) fn open(listener: Arc<ListenerContext>) -> Result<ServeConnection, MissingFeature> {
    Ok(match &listener.plan.settings {
        ProtocolPlan::Milter(milter) => {
            let mail = listener.with(milter.mail.clone());
            serve(milter::MilterListener { mail, envelope_first: milter.envelope_first }, milter::converse)
        }
        ProtocolPlan::Policy(policy) => {
            let mail = listener.with(policy.mail.clone());
            serve(policy::PolicyListener { mail, counting: policy.counting }, policy::converse)
        }
        ProtocolPlan::Rspamd(mail) => {
            serve(RspamdListener::open(listener.with(mail.clone())), rspamd::converse)
        }
        ProtocolPlan::Spamc(mail) => serve(listener.with(mail.clone()), spamc::converse),
        ProtocolPlan::Resp(resp) => serve(listener.with(resp.clone()), resp::converse),
        ProtocolPlan::Monitoring => serve(listener.with(()), monitoring::converse),
        ProtocolPlan::Syslog => serve(listener.with(()), syslog::converse),
        #[cfg(feature = "grpc")]
        ProtocolPlan::Envoy => serve(listener.with(()), envoy::converse),
        #[cfg(feature = "grpc")]
        ProtocolPlan::Grpc(grpc) => serve(listener.with(grpc.clone()), grpc::converse),
        #[cfg(not(feature = "grpc"))]
        ProtocolPlan::Envoy | ProtocolPlan::Grpc(_) => return Err(MissingFeature(plan::BuildFeature::Grpc)),
    })
}

/// Returns the names of what clients of a protocol speak within TLS (ALPN), if it has names.
pub(crate) fn application_protocols(protocol: Protocol) -> &'static [&'static [u8]] {
    match protocol {
        Protocol::Rspamd | Protocol::Monitoring => HTTP_1,
        Protocol::Envoy | Protocol::Grpc => HTTP_2,
        Protocol::Milter | Protocol::Policy | Protocol::Spamc | Protocol::Resp | Protocol::Syslog => &[],
    }
}

fn serve<T, F>(shared: T, converse: fn(ListenerStream, Arc<T>, ShutdownSignal) -> F) -> ServeConnection
where
    T: Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let shared = Arc::new(shared);
    Box::new(move |stream, stop| Box::pin(converse(stream, Arc::clone(&shared), stop)))
}
