//! The web: requests as access logs have them, links and what poses as one, HTML.

pub mod access_log;
mod access_log_json;
mod attack;
pub mod deobfuscation;
pub mod domain;
pub(crate) mod html;
pub mod impersonation;
mod line_cursor;
pub mod link;
pub mod log_format;
pub mod messenger;
pub mod pattern;
mod proxy_log;
mod recent;
pub mod redirect;
mod request_line;
pub mod request_target;
mod request_traits;
pub mod w3c_log;
