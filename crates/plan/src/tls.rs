//! TLS on listeners: which certificate is shown, and which clients must show one.

use std::path::{Path, PathBuf};

use crate::config::{ConfigProblems, ConfigView, SourceKind};

/// Settings of TLS on a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPlan {
    /// File of the certificate in PEM, and behind it those between it and its authority.
    pub certificate: PathBuf,
    /// File of the certificate's private key in PEM.
    pub key: PathBuf,
    /// Certificates of clients.
    pub clients: ClientCertificates,
    /// File of lists of revoked certificates of clients in PEM.
    pub client_crl: Option<PathBuf>,
    /// Oldest version that is spoken.
    pub minimum: TlsVersion,
}

/// Certificates that clients are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// None is asked for.
    Ignored,
    /// One that is shown must be vouched for by an authority of this file.
    Optional(PathBuf),
    /// One that an authority of this file vouches for must be shown.
    Required(PathBuf),
}

impl ClientCertificates {
    /// Returns the file of the authorities.
    pub fn authorities(&self) -> Option<&Path> {
        match self {
            ClientCertificates::Ignored => None,
            ClientCertificates::Optional(path) | ClientCertificates::Required(path) => Some(path),
        }
    }
}

/// A version of TLS. Older ones are not spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246), with forward secrecy and authenticated encryption alone.
    V1_2,
    /// TLS 1.3 (RFC 8446).
    V1_3,
}

impl TlsPlan {
    /// Returns what the key `tls` of `[server]` says, as [`TlsPlan::compile`] does. The entries of lists alone are checked for what
    /// is missing before they are compiled, and without a key this must not come to no TLS.
    pub(crate) fn compile_of_table(
        server: &ConfigView<'_>,
        problems: &mut ConfigProblems,
    ) -> Option<TlsPlan> {
        let view = server.table("tls")?;
        for (key, what) in [("certificate", "certificate"), ("key", "private key")] {
            if !view.is_given(key) {
                let help = format!("add `{key} = ...`: the file of the {what} in PEM");
                problems.add(view.origin(key), format!("`tls` has no `{key}`"), Some(help));
            }
        }
        TlsPlan::compile(server, problems)
    }

    /// Returns what the key `tls` of a listener says; `None` where it is absent, or failed its check.
    pub(crate) fn compile(listener: &ConfigView<'_>, problems: &mut ConfigProblems) -> Option<TlsPlan> {
        let view = listener.table("tls")?;
        let path = |key: &str| view.str(key).map(|path| beside(&view, key, path));
        let authorities = path("client_ca");
        if let (Some(_), None) = (view.str("client_certificates"), &authorities) {
            let help = "add `client_ca`, the file of their authorities, or remove this";
            let message = "clients' certificates are asked for, and nobody vouches for them".to_owned();
            problems.add(view.origin("client_certificates"), message, Some(help.to_owned()));
        }
        let client_crl = path("client_crl");
        if client_crl.is_some() && authorities.is_none() {
            let help = "add `client_ca`, the file of their authorities, or remove this";
            let message = "certificates of clients are revoked, and none is asked for".to_owned();
            problems.add(view.origin("client_crl"), message, Some(help.to_owned()));
        }
        Some(TlsPlan {
            client_crl,
            certificate: path("certificate")?,
            key: path("key")?,
            clients: match (authorities, view.str("client_certificates")) {
                (None, _) => ClientCertificates::Ignored,
                (Some(path), Some("optional")) => ClientCertificates::Optional(path),
                (Some(path), _) => ClientCertificates::Required(path),
            },
            minimum: if view.str("minimum") == Some("1.3") { TlsVersion::V1_3 } else { TlsVersion::V1_2 },
        })
    }
}

/// Returns the path of a file that a setting names: beside the configuration file that names it.
pub(crate) fn beside(view: &ConfigView<'_>, key: &str, path: &str) -> PathBuf {
    let source = &view.origin(key).source;
    match (source.kind, Path::new(&source.name).parent()) {
        (SourceKind::File, Some(directory)) => directory.join(path),
        _ => PathBuf::from(path),
    }
}
