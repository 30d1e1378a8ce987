//! Trust between a command and the server that it asks over TLS: who vouches for the server, and what it is shown.

use std::path::{Path, PathBuf};

use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use crate::console::say;
use crate::exit::CommandError;

/// The files of a server's authorities and of the own certificate.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct TrustOptions {
    /// PEM authorities of an https server, instead of the system's
    #[arg(long, env = "TOLLHOUSE_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// PEM client certificate for the server
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(crate) client_cert: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub(crate) client_key: Option<PathBuf>,
}

impl TrustOptions {
    /// Returns the settings of connections.
    ///
    /// # Errors
    /// If a file cannot be read, or is not what it should be.
    pub(crate) fn tls(&self) -> Result<TlsConfig, CommandError> {
        let roots = match &self.ca {
            Some(path) => certificates("--ca", path)?,
            None => system_authorities(),
        };
        // A system without any, such as an image from scratch, has those that come with the program.
        let roots = if roots.is_empty() { RootCerts::WebPki } else { RootCerts::new_with_certs(&roots) };
        let own = match (&self.client_cert, &self.client_key) {
            (Some(certificate), Some(key)) => {
                let chain = certificates("--client-cert", certificate)?;
                let text = read("--client-key", key)?;
                let failed = |error| {
                    CommandError::new(format_args!("--client-key {}: {error}", key.display()))
                        .help("expected a private key in PEM, without a passphrase")
                };
                Some(ClientCert::new_with_certs(&chain, PrivateKey::from_pem(&text).map_err(failed)?))
            }
            _ => None,
        };
        Ok(TlsConfig::builder().root_certs(roots).client_cert(own).build())
    }
}

/// Returns the authorities that the system trusts.
fn system_authorities() -> Vec<Certificate<'static>> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        say(format_args!("warning: authorities of the system cannot be read: {error}"));
    }
    found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, CommandError> {
    std::fs::read(path).map_err(|error| CommandError::new(format_args!("{flag} {}: {error}", path.display())))
}

/// Returns the certificates of a file, of which there must be one.
fn certificates(flag: &str, path: &Path) -> Result<Vec<Certificate<'static>>, CommandError> {
    let text = read(flag, path)?;
    let failed = |what: &dyn std::fmt::Display| {
        CommandError::new(format_args!("{flag} {}: {what}", path.display()))
            .help("expected certificates in PEM (`-----BEGIN CERTIFICATE-----`)")
    };
    let mut found = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| failed(&error))? {
            found.push(certificate);
        }
    }
    if found.is_empty() {
        return Err(failed(&"no certificate is in it"));
    }
    Ok(found)
}
