//! Protocols, a folder each, and beside them what several of them share: `mail` by those of mail servers, `grpc_transport`
//! by those over gRPC, `input` by those that bring events in bodies. A protocol never imports another one.

pub mod content_encoding;
pub(crate) mod envoy;
pub(crate) mod grpc;
pub mod grpc_transport;
pub(crate) mod http;
pub(crate) mod input;
pub mod mail;
pub mod milter;
pub mod policy;
pub mod resp;
pub(crate) mod rspamd;
pub(crate) mod spamc;
