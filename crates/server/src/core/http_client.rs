//! Requests of our own: to hosts that the configuration names, and to nowhere else.

use std::time::Duration;

use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// The most bytes of an answer's header.
const HEADER_BYTES_MAX: usize = 16 << 10;

/// Makes a client that follows no redirections and asks no proxy. Public authorities vouch for hosts, or those of certificates in
/// PEM. An answer of any status is one, if `is_any_status`; or else only a good one.
pub(crate) fn http_client(authority: Option<&str>, timeout: Duration, is_any_status: bool) -> Agent {
    let roots = match authority {
        None => RootCerts::WebPki,
        Some(pem) => RootCerts::new_with_certs(&certificates(pem)),
    };
    Agent::config_builder()
        .tls_config(TlsConfig::builder().root_certs(roots).build())
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .max_redirects_will_error(!is_any_status)
        .http_status_as_error(!is_any_status)
        .max_response_header_size(HEADER_BYTES_MAX)
        .proxy(None)
        .user_agent(concat!("tollhouse/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

/// Returns the certificates of a text in PEM.
pub(crate) fn certificates(pem: &str) -> Vec<Certificate<'static>> {
    let items = parse_pem(pem.as_bytes()).filter_map(|item| match item.ok()? {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    });
    items.collect()
}
