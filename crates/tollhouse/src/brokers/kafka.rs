//! Connections to Kafka.

use std::time::Duration;

use krafka::auth::{AuthConfig, TlsConfig};
use krafka::{Kafka, KafkaBuilder};
use plan::{BrokerSecurity, SaslMechanismName};

/// The time that a broker may take to answer.
pub(crate) const WITHIN: Duration = Duration::from_secs(15);

/// Begins a connection to brokers.
pub(crate) fn builder(brokers: &str, security: &BrokerSecurity) -> KafkaBuilder {
    Kafka::builder(brokers)
        .client_id("tollhouse")
        .security(auth(security))
        .connect_timeout(WITHIN)
        .request_timeout(WITHIN)
}

/// TLS and credentials, as the client has them.
fn auth(security: &BrokerSecurity) -> AuthConfig {
    let auth = match (&security.user, &security.password) {
        (Some(user), Some(password)) => {
            let (user, password) = (user.as_str(), password.as_str());
            match security.mechanism {
                SaslMechanismName::Plain => AuthConfig::sasl_plain(user, password),
                SaslMechanismName::ScramSha256 => AuthConfig::sasl_scram_sha256(user, password),
                SaslMechanismName::ScramSha512 => AuthConfig::sasl_scram_sha512(user, password),
            }
        }
        _ => AuthConfig::plaintext(),
    };
    if !security.is_tls() {
        return auth;
    }
    let mut tls = TlsConfig::new();
    if let Some(ca) = &security.ca {
        tls = tls.with_ca_cert(ca.to_string_lossy());
    }
    if let Some((certificate, key)) = &security.identity {
        tls = tls.with_client_cert(certificate.to_string_lossy(), key.to_string_lossy());
    }
    auth.with_tls(tls)
}
