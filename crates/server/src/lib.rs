//! Every wire: HTTP/1.1 with JSON, described by the OpenAPI document that the routes themselves generate, and the
//! protocols by which mail servers ask.
//!
//! ```text
//! connection ─► framing ─► guard ─► input ─► engine ─► api
//!               one request,   who, how many,    bytes → event     JSON, or a problem (RFC 9457)
//!               not two        how large, how long
//! ```
//!
//! ```text
//! connection ─► listener ─┬─► milter, policy, rspamd, spamc ─► mail ─► engine     message → outcome, in time
//!               who,      ├─► resp ─► engine                                      commands, in batches
//!               how many  ├─► envoy ─► engine                                     limits, as Envoy asks
//!                         └─► grpc ─► batch ─► engine                             streams of batches
//! ```
//!
//! Where resolvers are configured, the crate `auth` looks up who vouches for a message before it is decided.
//!
//! [`Server`] owns the listeners, the limits and the housekeeping. `core` has what all protocols stand on and knows none of
//! them; [`protocol`] has a folder for each. This is the only crate that reads the clock. It decides nothing itself, and
//! nothing that a client sends ever names a file.

#![forbid(unsafe_code)]

pub mod api;
#[cfg(feature = "arrow")]
pub mod arrow;
mod console;
mod core;
pub mod protocol;
mod server;

pub use self::core::certificates::CertificateStore;
pub use self::core::clock::{Clock, ClockSource, STEADY, SystemClock};
pub use self::core::descriptors::raise_file_limit;
pub use self::core::inherited_sockets::{InheritedSocketError, InheritedSockets};
pub use self::core::listener::ServeError;
pub use self::core::reload::reload;
pub use self::core::service_manager::ServiceManager;
pub use self::core::tls::TlsError;
pub use self::core::tls::validity::CertificateValidity;
pub use self::core::{form_data, framing, trusted_proxies};
#[cfg(feature = "grpc")]
pub use self::protocol::grpc_transport::proto;
pub use self::protocol::input::ARROW as ARROW_MEDIA_TYPE;
pub use self::server::Server;
