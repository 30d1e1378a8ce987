//! Files of a listener's certificate, and what they come to.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use event::Time;
use plan::{ClientCertificates, TlsPlan, TlsVersion};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::{WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};

use super::validity::CertificateValidity;

/// Bytes of a file that are read: chains have a few kilobytes, the authorities of a whole system 300.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Reasons for a certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {error}{}", .path.display(), mend(.error))]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A file is none of PEM.
    #[error("{}: this is no PEM: {error}", .path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: String,
    },
    /// A file has no certificate.
    #[error("{}: no certificate is in it (`-----BEGIN CERTIFICATE-----`)", .0.display())]
    NoCertificate(PathBuf),
    /// A file has no private key.
    #[error("{}: no private key is in it (`-----BEGIN PRIVATE KEY-----`); one with a passphrase cannot be read", .0.display())]
    NoKey(PathBuf),
    /// A file has no list of revoked certificates.
    #[error("{}: no list of revoked certificates is in it (`-----BEGIN X509 CRL-----`)", .0.display())]
    NoRevocationList(PathBuf),
    /// A key is of a kind that is not spoken.
    #[error("{}: the key cannot be used: {error}; ECDSA (P-256, P-384), Ed25519 and RSA from 2048 bits can", .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: rustls::Error,
    },
    /// The key belongs to another certificate.
    #[error("{}: the key does not match the certificate in {}; that must be the first in its file", .key.display(), .certificate.display())]
    Mismatch {
        /// The file of the key.
        key: PathBuf,
        /// The file of the certificate.
        certificate: PathBuf,
    },
    /// A certificate cannot be understood.
    #[error("{}: the certificate cannot be used: {error}", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: String,
    },
    /// A certificate is not valid any more.
    #[error("{}: the certificate expired at {at}", .path.display())]
    Expired {
        /// The file.
        path: PathBuf,
        /// Its last moment.
        at: Time,
    },
    /// A certificate is not valid yet.
    #[error("{}: the certificate is valid from {at}; is the clock right?", .path.display())]
    Early {
        /// The file.
        path: PathBuf,
        /// Its first moment.
        at: Time,
    },
    /// No thread for handshakes can be started.
    #[error("no thread for handshakes can be started: {0}")]
    Threads(io::Error),
}

/// Returns what to do about a file that cannot be read.
fn mend(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; paths are beside the configuration file",
        io::ErrorKind::PermissionDenied => {
            "; the server's user must be able to read it (LoadCredential= of systemd hands keys over)"
        }
        _ => "",
    }
}

/// The contents of a listener's files, and the digest by which a change is known.
pub(super) struct TlsFiles {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authorities: Vec<u8>,
    revoked: Vec<u8>,
    pub(super) digest: [u8; 32],
}

impl TlsFiles {
    /// Reads the files. Blocks.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(super) fn read(plan: &TlsPlan) -> Result<TlsFiles, TlsError> {
        let [certificate, key] = [&plan.certificate, &plan.key].map(|path| read(path));
        let authorities = plan.clients.authorities().map_or_else(|| Ok(Vec::new()), read);
        let revoked = plan.client_crl.as_deref().map_or_else(|| Ok(Vec::new()), read);
        let (certificate, key, authorities, revoked) = (certificate?, key?, authorities?, revoked?);
        let mut digest = Sha256::new();
        for file in [&certificate, &key, &authorities, &revoked] {
            digest.update((file.len() as u64).to_le_bytes());
            digest.update(file);
        }
        let digest = digest.finalize().into();
        Ok(TlsFiles { certificate, key, authorities, revoked, digest })
    }
}

/// Key material is not left behind in memory that others are given.
impl Drop for TlsFiles {
    fn drop(&mut self) {
        self.key.fill(0);
        std::hint::black_box(&self.key);
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |error| TlsError::File { path: path.to_path_buf(), error };
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    read.map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let what = format!("it is longer than {FILE_BYTES_MAX} bytes");
        return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, what)));
    }
    Ok(bytes)
}

/// A certificate that is ready to be shown, with what its listener asks of clients.
pub(super) struct TlsIdentity {
    pub(super) config: Arc<ServerConfig>,
    pub(super) validity: CertificateValidity,
}

impl TlsIdentity {
    /// Returns what the files come to.
    ///
    /// # Errors
    /// If they are no certificate with its key, or no authorities.
    pub(super) fn of(plan: &TlsPlan, files: &TlsFiles, protocols: &[&[u8]]) -> Result<TlsIdentity, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(&plan.certificate, &files.certificate)?;
        let of_certificate = |error: String| TlsError::Certificate { path: plan.certificate.clone(), error };
        let first = chain.first().ok_or_else(|| TlsError::NoCertificate(plan.certificate.clone()))?;
        let validity = CertificateValidity::of_der(first);
        let validity = validity.ok_or_else(|| of_certificate("its time cannot be read".to_owned()))?;
        let key = PrivateKeyDer::from_pem_slice(&files.key).map_err(|error| match error {
            pem::Error::NoItemsFound => TlsError::NoKey(plan.key.clone()),
            error => TlsError::Pem { path: plan.key.clone(), error: error.to_string() },
        })?;
        let certified = CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                TlsError::Mismatch { key: plan.key.clone(), certificate: plan.certificate.clone() }
            }
            rustls::Error::InvalidCertificate(error) => of_certificate(format!("{error:?}")),
            error => TlsError::Key { path: plan.key.clone(), error },
        })?;
        let versions = match plan.minimum {
            TlsVersion::V1_2 => &[&TLS13, &TLS12][..],
            TlsVersion::V1_3 => &[&TLS13],
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let of_versions = builder.with_protocol_versions(versions);
        let builder = of_versions.map_err(|error| of_certificate(error.to_string()))?;
        let builder = match verifier(plan, files, provider)? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        // A client that comes again needs no new signature; nothing is kept of it here.
        match ring::Ticketer::new() {
            Ok(ticketer) => config.ticketer = ticketer,
            Err(error) => tracing::warn!(%error, "sessions of TLS are not resumed"),
        }
        Ok(TlsIdentity { config: Arc::new(config), validity })
    }

    /// Checks that the certificate is valid now.
    ///
    /// # Errors
    /// If it is not.
    pub(super) fn check_validity(&self, plan: &TlsPlan, now: Time) -> Result<(), TlsError> {
        let CertificateValidity { not_before, not_after } = self.validity;
        if now > not_after {
            return Err(TlsError::Expired { path: plan.certificate.clone(), at: not_after });
        }
        if now < not_before {
            return Err(TlsError::Early { path: plan.certificate.clone(), at: not_before });
        }
        Ok(())
    }
}

/// Returns who checks certificates of clients, if they are asked for.
fn verifier(
    plan: &TlsPlan,
    files: &TlsFiles,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let Some(path) = plan.clients.authorities() else { return Ok(None) };
    let failed = |error: String| TlsError::Certificate { path: path.to_path_buf(), error };
    let mut roots = RootCertStore::empty();
    for authority in certificates(path, &files.authorities)? {
        roots.add(authority).map_err(|error| failed(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(TlsError::NoCertificate(path.to_path_buf()));
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = match &plan.client_crl {
        // Who has no list of an authority does not know what it has revoked, so such certificates are refused.
        Some(path) => verifier.with_crls(revocation_lists(path, &files.revoked)?),
        None => verifier,
    };
    let verifier = match &plan.clients {
        ClientCertificates::Optional(_) => verifier.allow_unauthenticated(),
        ClientCertificates::Required(_) | ClientCertificates::Ignored => verifier,
    };
    verifier.build().map(Some).map_err(|error| failed(error.to_string()))
}

fn revocation_lists(
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let read = CertificateRevocationListDer::pem_slice_iter(bytes).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(|error| TlsError::Pem { path: path.to_path_buf(), error: error.to_string() })?;
    if read.is_empty() {
        return Err(TlsError::NoRevocationList(path.to_path_buf()));
    }
    Ok(read)
}

fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_slice_iter(bytes).collect::<Result<Vec<_>, _>>();
    read.map_err(|error| TlsError::Pem { path: path.to_path_buf(), error: error.to_string() })
}
