//! An authority of tests, and the certificates that it vouches for.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod,
    KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};

/// An authority whose files lie in a directory: `NAME.ca`, and `x.pem` with `x.key` of each certificate `x`.
pub(crate) struct TestAuthority {
    directory: PathBuf,
    pub(crate) path: String,
    issuer: Issuer<'static, KeyPair>,
}

impl TestAuthority {
    pub(crate) fn new(directory: &Path, name: &str) -> TestAuthority {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let path = directory.join(format!("{name}.ca"));
        std::fs::write(&path, params.self_signed(&key).unwrap().pem()).unwrap();
        let path = path.display().to_string();
        TestAuthority { directory: directory.to_path_buf(), path, issuer: Issuer::new(params, key) }
    }

    /// Writes a certificate of this name for the own host, with its key. Answers with the paths of both.
    pub(crate) fn issue(&self, name: &str) -> [String; 2] {
        self.issue_of(name, named(name, &["localhost", "127.0.0.1"]))
    }

    /// Writes a certificate of this name for another host.
    pub(crate) fn issue_for(&self, name: &str, host: &str) -> [String; 2] {
        self.issue_of(name, named(name, &[host]))
    }

    /// Writes a certificate of this name for the own host, which has run out long ago.
    pub(crate) fn issue_old(&self, name: &str) -> [String; 2] {
        let mut params = named(name, &["localhost", "127.0.0.1"]);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.issue_of(name, params)
    }

    /// Writes a certificate of this name and serial number for the own host.
    pub(crate) fn issue_numbered(&self, name: &str, serial: u64) -> [String; 2] {
        let mut params = named(name, &["localhost", "127.0.0.1"]);
        params.serial_number = Some(SerialNumber::from(serial));
        self.issue_of(name, params)
    }

    /// Writes the list of what it has revoked, by serial number. Answers with its path.
    pub(crate) fn revoke(&self, serials: &[u64]) -> String {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2096, 1, 1),
            crl_number: SerialNumber::from(serials.len() as u64 + 1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let path = format!("{}.crl", self.path);
        let fresh = format!("{path}.new");
        std::fs::write(&fresh, list.signed_by(&self.issuer).unwrap().pem().unwrap()).unwrap();
        std::fs::rename(&fresh, &path).unwrap();
        path
    }

    fn issue_of(&self, name: &str, params: CertificateParams) -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let write = |ending: &str, text: String| {
            let path = self.directory.join(format!("{name}.{ending}"));
            // As those who renew certificates do it.
            let fresh = path.with_extension("new");
            std::fs::write(&fresh, text).unwrap();
            std::fs::rename(&fresh, &path).unwrap();
            path.display().to_string()
        };
        [write("pem", certificate.pem()), write("key", key.serialize_pem())]
    }

    /// The value of a listener's setting `tls` with a certificate of this name, and more keys.
    pub(crate) fn setting(&self, name: &str, more: &str) -> String {
        let [certificate, key] = self.issue(name);
        format!("{{ certificate = {certificate:?}, key = {key:?}{more} }}")
    }
}

fn named(name: &str, hosts: &[&str]) -> CertificateParams {
    let mut params =
        CertificateParams::new(hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
