//! Connections to NATS.

use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::rustls;
use async_nats::rustls::pki_types::pem::{Error as PemError, PemObject};
use async_nats::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use async_nats::{ConnectErrorKind, ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;
use plan::BrokerSecurity;

use crate::exit::CommandError;

/// The time that the server may take to answer.
pub(crate) const WITHIN: Duration = Duration::from_secs(15);
/// The interval at which a silent server is asked whether it is there. Two such questions may be open.
const PING: Duration = Duration::from_secs(10);

/// The user or token that NATS is told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NatsLogin {
    Password(String, String),
    Token(String),
}

/// The reason for a server of NATS that cannot be used, and the mend.
#[derive(Debug)]
pub(crate) struct NatsProblem {
    pub(crate) why: String,
    pub(crate) help: Option<&'static str>,
}

impl NatsProblem {
    pub(crate) fn new(why: impl Display) -> NatsProblem {
        NatsProblem { why: why.to_string(), help: None }
    }

    pub(crate) fn help(self, help: &'static str) -> NatsProblem {
        NatsProblem { help: Some(help), ..self }
    }

    /// The file that is at fault.
    fn of(path: &Path, why: impl Display) -> NatsProblem {
        NatsProblem::new(format_args!("{}: {why}", path.display()))
    }
}

impl From<NatsProblem> for CommandError {
    fn from(problem: NatsProblem) -> CommandError {
        let failure = CommandError::new(format_args!("NATS: {}", problem.why));
        match problem.help {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}

/// All that is needed to connect, checked as far as it can be without a server.
pub(crate) struct NatsConnection {
    servers: Vec<ServerAddr>,
    login: Option<NatsLogin>,
    /// The text of the credentials file.
    creds: Option<String>,
    tlsca: Option<PathBuf>,
    /// Certificate and key.
    identity: Option<(PathBuf, PathBuf)>,
    is_tls: bool,
}

impl NatsConnection {
    /// Reads addresses, and the files that the settings name. A user in an address comes before that of the settings.
    pub(crate) fn new<'a>(
        addresses: impl IntoIterator<Item = &'a str>,
        security: &BrokerSecurity,
    ) -> Result<NatsConnection, NatsProblem> {
        let servers = servers(addresses)?;
        let BrokerSecurity { user, password, creds, ca, identity, .. } = security;
        let login = login(&servers).or_else(|| {
            let user = user.clone()?;
            Some(match password.clone() {
                Some(password) => NatsLogin::Password(user, password),
                None => NatsLogin::Token(user),
            })
        });
        let creds = creds.as_deref().map(read_creds).transpose()?;
        if let Some(path) = ca {
            check_certificates(path)?;
        }
        if let Some((certificate, key)) = identity {
            check_certificates(certificate)?;
            PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, error, "private key"))?;
        }
        // A server that offers no TLS gets no password.
        let is_tls = security.is_tls() || servers.iter().any(ServerAddr::tls_required);
        Ok(NatsConnection { servers, login, creds, tlsca: ca.clone(), identity: identity.clone(), is_tls })
    }

    /// The servers.
    pub(crate) fn servers(&self) -> &[ServerAddr] {
        &self.servers
    }

    pub(crate) fn options(&self) -> Result<ConnectOptions, NatsProblem> {
        let mut options = ConnectOptions::new()
            .name("tollhouse")
            .connection_timeout(WITHIN)
            .request_timeout(Some(WITHIN))
            .ping_interval(PING)
            // The server's word does not decide who gets the password.
            .ignore_discovered_servers()
            .require_tls(self.is_tls);
        options = match self.login.clone() {
            Some(NatsLogin::Password(user, password)) => options.user_and_password(user, password),
            Some(NatsLogin::Token(token)) => options.token(token),
            None => options,
        };
        if let Some(creds) = &self.creds {
            options = options.credentials(creds).map_err(NatsProblem::new)?;
        }
        if let Some(path) = &self.tlsca {
            options = options.add_root_certificates(path.clone());
        }
        if let Some((certificate, key)) = &self.identity {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        Ok(options)
    }

    /// The servers, without what is secret in their addresses.
    pub(crate) fn place(&self) -> String {
        let places = self.servers.iter().map(|server| match server.host() {
            host if host.contains(':') => format!("[{host}]:{}", server.port()),
            host => format!("{host}:{}", server.port()),
        });
        places.collect::<Vec<_>>().join(", ")
    }
}

/// Reads addresses. Of the protocols that carry NATS, web sockets are not spoken.
fn servers<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<ServerAddr>, NatsProblem> {
    let read = |url: &str| {
        let is_spoken = url.starts_with("nats://") || url.starts_with("tls://");
        let server = is_spoken.then(|| url.parse::<ServerAddr>().ok()).flatten();
        // The text may have a password in it, so it is not repeated.
        server.filter(|server| !server.host().is_empty()).ok_or_else(|| {
            NatsProblem::new("no address of a server")
                .help("expected nats://[USER:PASSWORD@]HOST[:PORT], or tls://...; or several with commas")
        })
    };
    texts.into_iter().map(read).collect()
}

/// The user or token of the first address that has one.
fn login(servers: &[ServerAddr]) -> Option<NatsLogin> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    servers.iter().find_map(|server| {
        let user = decoded(server.username()?);
        Some(match server.password() {
            Some(password) => NatsLogin::Password(user, decoded(password)),
            None => NatsLogin::Token(user),
        })
    })
}

fn read_creds(path: &Path) -> Result<String, NatsProblem> {
    let text = fs::read_to_string(path).map_err(|error| NatsProblem::of(path, error))?;
    match ConnectOptions::new().credentials(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(NatsProblem::of(path, error).help("expected a credentials file as `nsc` makes it")),
    }
}

/// Makes sure that a file has certificates: the client takes one without any, and then trusts nobody.
fn check_certificates(path: &Path) -> Result<(), NatsProblem> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all {
        Ok(all) if all.is_empty() => Err(unusable(path, PemError::NoItemsFound, "certificate")),
        Ok(_) => Ok(()),
        Err(error) => Err(unusable(path, error, "certificate")),
    }
}

fn unusable(path: &Path, error: PemError, wanted: &str) -> NatsProblem {
    match error {
        PemError::NoItemsFound => NatsProblem::of(path, format_args!("no {wanted} in PEM is in it")),
        PemError::Io(error) => NatsProblem::of(path, error),
        error => NatsProblem::of(path, error),
    }
}

/// An error and its causes, each once.
pub(crate) fn reasons(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// The advice on what to do about a connection that was not made.
pub(crate) fn advice(error: &async_nats::ConnectError) -> &'static str {
    let mut source = error.source();
    let mut is_tls = error.kind() == ConnectErrorKind::Tls;
    while let Some(cause) = source {
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        is_tls |= inner.is_some_and(|inner| inner.is::<rustls::Error>());
        source = cause.source();
    }
    match error.kind() {
        _ if is_tls => {
            "does the server offer TLS? --tlsca FILE names an authority that the system does not know"
        }
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            "say who asks: --creds FILE, --user and --password, or nats://USER:PASSWORD@HOST"
        }
        _ => "does it run there? Its clients' port is 4222 unless it is configured otherwise",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_servers_and_a_user() {
        let check = |text: &str, expected: &[(&str, u16, bool)], user: Option<NatsLogin>| {
            let found = servers(text.split(',')).unwrap();
            let places: Vec<_> =
                found.iter().map(|server| (server.host(), server.port(), server.tls_required())).collect();
            assert_eq!(places, expected, "{text}");
            assert_eq!(login(&found), user, "{text}");
        };
        let password = |user: &str, password: &str| Some(NatsLogin::Password(user.into(), password.into()));
        check("nats://127.0.0.1:4333", &[("127.0.0.1", 4333, false)], None);
        check("nats://user:p%40ss@nats.example/", &[("nats.example", 4222, false)], password("user", "p@ss"));
        check("tls://token@[::1]", &[("::1", 4222, true)], Some(NatsLogin::Token("token".into())));
        check("tls://a,nats://b:1", &[("a", 4222, true), ("b", 1, false)], None);
        for wrong in
            ["", "nats.example", "ws://nats.example", "nats://", "nats://host:port", "nats://a,", "tls://,"]
        {
            assert!(servers(wrong.split(',')).is_err(), "{wrong}");
        }
    }
}
