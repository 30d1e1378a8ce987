//! Flags of connections to brokers: TLS and credentials.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plan::{BrokerSecurity, SaslMechanismName};

/// The user that a broker is told, and TLS. Flags and variables are those of the command `nats`; for Kafka they begin with KAFKA_.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct BrokerOptions {
    /// Broker user; with NATS and no password, a token [env: NATS_USER, KAFKA_USER]
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Password of the broker's user [env: NATS_PASSWORD, KAFKA_PASSWORD]
    #[arg(long, value_name = "PASSWORD", requires = "user")]
    password: Option<String>,
    /// SASL mechanism for Kafka
    #[arg(long, value_name = "NAME", default_value = "scram-sha-512", value_parser = ["plain", "scram-sha-256", "scram-sha-512"])]
    mechanism: String,
    /// Use TLS with Kafka; implied by --tlsca and --tlscert
    #[arg(long)]
    tls: bool,
    /// PEM authorities of the broker, instead of the system's [env: NATS_CA, KAFKA_CA]
    #[arg(long, value_name = "FILE")]
    tlsca: Option<PathBuf>,
    /// PEM client certificate [env: NATS_CERT, KAFKA_CERT]
    #[arg(long, value_name = "FILE", requires = "tlskey")]
    tlscert: Option<PathBuf>,
    /// Its private key, in PEM [env: NATS_KEY, KAFKA_KEY]
    #[arg(long, value_name = "FILE", requires = "tlscert")]
    tlskey: Option<PathBuf>,
}

impl BrokerOptions {
    /// Reads the flags, and the variables of the environment that stand in for them: those that begin with a broker's name.
    pub(super) fn read(&self, creds: Option<&Path>, broker: &str) -> Result<BrokerSecurity, String> {
        let variable = |name: &str| variable_of(&format!("{broker}_{name}"));
        let file = |flag: Option<&Path>, name: &str| {
            flag.map(Path::to_owned).or_else(|| variable(name).map(PathBuf::from))
        };
        let text =
            |flag: &Option<String>, name: &str| flag.clone().or_else(|| variable(name)?.into_string().ok());
        let identity = match (file(self.tlscert.as_deref(), "CERT"), file(self.tlskey.as_deref(), "KEY")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(format!("{broker}_CERT and {broker}_KEY belong together")),
        };
        let user = text(&self.user, "USER");
        Ok(BrokerSecurity {
            // A password alone is nobody's.
            password: user.as_ref().and_then(|_| text(&self.password, "PASSWORD")),
            user,
            mechanism: SaslMechanismName::parse(&self.mechanism).unwrap_or_default(),
            creds: file(creds, "CREDS"),
            tls: self.tls,
            ca: file(self.tlsca.as_deref(), "CA"),
            identity,
        })
    }

    /// Returns true if a flag is given.
    pub(super) fn is_given(&self) -> bool {
        self.tls || self.user.is_some() || self.tlsca.is_some() || self.tlscert.is_some()
    }
}

/// A variable of the environment that says something.
fn variable_of(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
