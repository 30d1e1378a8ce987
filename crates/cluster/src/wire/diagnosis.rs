//! Diagnosis of a cluster that a node cannot open. A fault that time does not mend is reported at once, with the mend.
//! What time does not mend is told at once, with the mend.

use std::fmt;
use std::io;
use std::sync::Arc;

use futures_util::future::join_all;
use redis::{Cmd, Value, cmd};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::server_fault::ServerFault;
use super::server_link::{ConnectionClass, ConnectionLoss, ExchangeError};
use super::topology::ServerAddress;
use super::{ClusterOpenError, WireCore, slot};
use crate::remote::Partition;

/// The diagnosis of a server: what it said, or what was seen of it.
#[derive(Clone, Debug)]
pub(super) struct ServerDiagnosis {
    pub(super) server: ServerAddress,
    pub(super) why: Arc<str>,
    pub(super) cause: ServerFault,
}

impl ServerDiagnosis {
    pub(super) fn new(
        server: &ServerAddress,
        ConnectionLoss { why, cause }: ConnectionLoss,
    ) -> ServerDiagnosis {
        ServerDiagnosis { server: server.clone(), why, cause }
    }
}

impl fmt::Display for ServerDiagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Errors of connections name the server already.
        match self.why.strip_prefix(&self.server.to_string()) {
            Some(_) => f.write_str(&self.why),
            None => write!(f, "{}: {}", self.server, self.why),
        }
    }
}

/// All that servers said.
pub(super) fn list(said: &[ServerDiagnosis]) -> String {
    let said: Vec<String> = said.iter().map(ServerDiagnosis::to_string).collect();
    said.join("; ")
}

fn error(said: &[ServerDiagnosis]) -> ClusterOpenError {
    let last = said.iter().find(|said| !said.cause.may_pass()).or(said.first());
    let cause = last.map_or(ServerFault::Away, |said| said.cause);
    ClusterOpenError::Unusable { said: list(said), mend: cause.mend(), may_pass: cause.may_pass() }
}

impl WireCore {
    /// Finds out what is wrong with servers none of which is of use.
    pub(super) async fn diagnose(&self, mut said: Vec<ServerDiagnosis>) -> ClusterOpenError {
        let look = said.iter().map(|said| async {
            let within = self.settings.connect_within;
            let is_open = said.cause == ServerFault::Away;
            is_open
                && timeout(within, self.speaks_otherwise(&said.server))
                    .await
                    .is_ok_and(|it| it.unwrap_or(false))
        });
        let otherwise = join_all(look).await;
        for (said, speaks) in said.iter_mut().zip(otherwise) {
            if speaks && self.settings.tls.is_some() {
                (said.why, said.cause) = ("it speaks no TLS".into(), ServerFault::Plain);
            } else if speaks {
                (said.why, said.cause) = ("it speaks TLS, and nothing else".into(), ServerFault::Encrypted);
            }
        }
        error(&said)
    }

    /// Returns true if a server answers without TLS where it is set, and with it where it is not. No password is sent, and
    /// nothing is believed.
    async fn speaks_otherwise(&self, server: &ServerAddress) -> io::Result<bool> {
        let at = self.settings.reached(server);
        let (hello, answers): (Vec<u8>, &[u8]) = match self.settings.tls {
            Some(_) => (b"PING\r\n".to_vec(), b"+-"),
            // A record of a handshake, or an alert.
            None => (client_hello(&at).map_err(io::Error::other)?, &[0x16, 0x15]),
        };
        let mut stream = TcpStream::connect((at.host.as_str(), at.port)).await?;
        stream.write_all(&hello).await?;
        Ok(answers.contains(&stream.read_u8().await?))
    }

    /// Returns the diagnoses of masters that do not let this user do what is needed, or do not answer where the others say
    /// they are.
    pub(super) async fn refusals(&self) -> Vec<ServerDiagnosis> {
        let topology = self.topology();
        let mut masters: Vec<(&Arc<ServerAddress>, Partition)> = Vec::new();
        for partition in (0..self.settings.partitions.count()).map(Partition) {
            let master = topology.master(slot::slot_of(partition, self.settings.partitions));
            if let Some(master) = master.filter(|master| !masters.iter().any(|(known, _)| known == master)) {
                masters.push((master, partition));
            }
        }
        let looks = masters.into_iter().map(|(master, partition)| self.refused(master, partition));
        join_all(looks).await.into_iter().flatten().collect()
    }

    async fn refused(&self, master: &ServerAddress, partition: Partition) -> Option<ServerDiagnosis> {
        let probe = &self.scripts.probe;
        let mut commands: Vec<(&str, Cmd)> = vec![("SCRIPT LOAD", cmd("SCRIPT")), ("ASKING", cmd("ASKING"))];
        commands[0].1.arg("LOAD").arg(probe.text);
        commands.push(("EVALSHA", super::script(probe, vec![self.names.probe(partition)], None)));
        if self.settings.replicas > 0 {
            let mut wait = cmd("WAIT");
            wait.arg(0).arg(1);
            commands.push(("WAIT", wait));
        }
        let (names, commands): (Vec<&str>, Vec<Cmd>) = commands.into_iter().unzip();
        let deadline = Instant::now() + self.settings.connect_within;
        let answers = match self.link(master).exchange(ConnectionClass::Writes, commands, deadline).await {
            Ok(answers) => answers,
            Err(ExchangeError::Open(lost) | ExchangeError::Lost(lost)) => {
                return Some(ServerDiagnosis::new(master, lost));
            }
        };
        let mut refused = Vec::new();
        for (name, answer) in names.into_iter().zip(answers) {
            match answer {
                Value::ServerError(error) if error.code() == "NOPERM" => {
                    let is_key = error.details().is_some_and(|text| text.contains("key"));
                    refused.push(if is_key {
                        "use keys of the prefix".to_owned()
                    } else {
                        format!("run {name}")
                    });
                }
                Value::BulkString(text) if name == "EVALSHA" && !text.is_empty() => {
                    refused.push(format!("run {} in scripts", String::from_utf8_lossy(&text)));
                }
                _ => {}
            }
        }
        let user = self.settings.username.as_deref().unwrap_or("default");
        let why = format!("the user `{user}` may not {}", refused.join(", nor ")).into();
        (!refused.is_empty()).then(|| ServerDiagnosis {
            server: master.clone(),
            why,
            cause: ServerFault::Rights,
        })
    }
}

/// The first bytes of a client that speaks TLS.
fn client_hello(at: &ServerAddress) -> Result<Vec<u8>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let name =
        ServerName::try_from(at.host.clone()).map_err(|_| rustls::Error::General("no name".to_owned()))?;
    let mut hello = Vec::new();
    let mut connection = ClientConnection::new(Arc::new(config), name)?;
    connection.write_tls(&mut hello).map_err(|error| rustls::Error::General(error.to_string()))?;
    Ok(hello)
}
