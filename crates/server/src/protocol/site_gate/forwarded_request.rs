//! The request that a proxy has: what it asks for, and of whom.

use std::net::IpAddr;

use axum::http::header::{REFERER, USER_AGENT};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName};
use content::text::received;
use content::web::request_target::{RequestTarget, normal_path};
use event::{Event, Value};

/// The request that the proxy has.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ForwardedRequest {
    pub(crate) ip: String,
    pub(crate) host: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) normal: String,
    pub(crate) query: String,
    pub(crate) agent: String,
    pub(crate) referer: String,
}

impl ForwardedRequest {
    /// Returns the request of this head: its line, the host that it is for, and its fields.
    pub(crate) fn new(
        ip: IpAddr,
        method: String,
        RequestTarget { path, query }: RequestTarget,
        authority: &[u8],
        headers: &HeaderMap,
    ) -> ForwardedRequest {
        let text = |name: HeaderName| headers.get(name).map(|value| received(value.as_bytes()).into_owned());
        let host = received(authority).into_owned();
        let name = host.parse::<Authority>().map(|authority| authority.host().to_owned());
        ForwardedRequest {
            ip: ip.to_string(),
            host: name.unwrap_or(host).to_ascii_lowercase(),
            method,
            normal: normal_path(&path),
            path,
            query,
            agent: text(USER_AGENT).unwrap_or_default(),
            referer: text(REFERER).unwrap_or_default(),
        }
    }

    /// Returns a request of which no more is known than who sends it.
    pub(crate) fn unknown(ip: IpAddr) -> ForwardedRequest {
        ForwardedRequest { ip: ip.to_string(), ..ForwardedRequest::default() }
    }

    /// Path and query as they were sent.
    pub(crate) fn target(&self) -> String {
        if self.query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query) }
    }

    /// Returns true if the request is meant to change something.
    pub(super) fn writes(&self) -> bool {
        ["POST", "PUT", "PATCH", "DELETE"].contains(&self.method.as_str())
    }

    /// A field, by the name that limits call it.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        Some(match name {
            "client.ip" => &self.ip,
            "http.host" => &self.host,
            "http.method" => &self.method,
            "http.path" => &self.path,
            "http.path_normal" => &self.normal,
            "http.query" => &self.query,
            "http.agent" => &self.agent,
            "http.referer" => &self.referer,
            _ => return None,
        })
    }

    /// The request as an event; empty fields are left out.
    pub(crate) fn event(&self, ip: IpAddr) -> Event {
        let mut event = Event::default();
        event.push("client.ip", Value::from(ip));
        for name in &plan::FORWARD_FIELDS[1..] {
            if let Some(value) = self.field(name).filter(|value| !value.is_empty()) {
                event.push(*name, value);
            }
        }
        event
    }
}
