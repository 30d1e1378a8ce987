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
//! connection ─► listen ─► mail::… ─► mail ─► engine
//!               who, how many     a protocol     message → outcome, in time
//! ```
//!
//! ```text
//! connection ─► listen ─► resp ─► engine
//!               who, how many  commands of clients of Redis, in batches
//! ```
//!
//! ```text
//! connection ─► listen ─► grpc ─┬─► envoy ─► engine          limits, as Envoy asks
//!               who, how many   └─► http::batch ─► engine    streams of batches
//! ```
//!
//! Where resolvers are configured, `auth` looks up who vouches for a message before it is decided, through `dns`.
//!
//! [`Server`] owns the listeners, the limits and the housekeeping; `guard` is what every request passes, `input`
//! makes events of bodies, `http` holds the routes. This is the only crate that reads the clock and the only one
//! that knows an async runtime. It decides nothing itself, and nothing that a client sends ever names a file.

pub mod api;
pub mod arrow;
mod auth;
mod core;
mod dns;
pub mod protocol;
mod server;

pub use self::auth::NameService;
pub use self::core::clock::{Clock, ClockSource, STEADY, SystemClock};
pub use self::core::descriptors::raise_file_limit;
pub use self::core::{framing, trusted_proxies};
pub use self::protocol::grpc_transport::proto;
pub use self::server::{ServeError, Server, reload};
