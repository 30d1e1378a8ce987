//! One server: its connections, how many round trips are under way, and whether it is asked at all.
//!
//! ```text
//! closed ──failures_max failures in a row──► open ──pause──► trying ──an answer──► closed
//!                                             ▲                └──a failure──► open
//! ```
//!
//! A circuit breaker (Nygard, "Release It!", 2007): callers of a server that is down are told so at once instead of
//! waiting for their deadlines, and a server that comes back is not met by all of them.
//!
//! Reads, writes, and takes from exact limits have a connection each: a write may wait for replicas, and what comes behind
//! it on its connection waits as well.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo, Pipeline, RedisConnectionInfo,
    RedisError, TlsCertificates, Value,
};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::counters::{CircuitState, ServerStatus, WireCounters};
use super::server_fault::ServerFault;
use super::settings::WireSettings;
use super::topology::ServerAddress;

/// The connector by which servers are connected to.
#[derive(Clone)]
pub(super) struct ServerConnector {
    pub(super) settings: Arc<WireSettings>,
    /// The authorities' certificates, as they are in their file.
    pub(super) authorities: Option<Vec<u8>>,
}

/// The kinds of connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionClass {
    Reads,
    Writes,
    Takes,
}

/// Reasons for a round trip without an answer.
#[derive(Clone, Debug)]
pub(super) enum ExchangeError {
    /// The circuit is open: nothing was sent. This is what was lost last.
    Open(ConnectionLoss),
    /// The answer did not come in time, or the connection broke.
    Lost(ConnectionLoss),
}

/// The loss of a connection, and its cause.
#[derive(Clone, Debug)]
pub(super) struct ConnectionLoss {
    pub(super) why: Arc<str>,
    pub(super) cause: ServerFault,
}

impl ConnectionLoss {
    fn away(why: String) -> ConnectionLoss {
        ConnectionLoss { why: why.into(), cause: ServerFault::Away }
    }

    fn new(server: &str, error: &RedisError) -> ConnectionLoss {
        ConnectionLoss { why: format!("{server}: {error}").into(), cause: ServerFault::of(error) }
    }
}

type ConnectionFuture = Shared<BoxFuture<'static, Result<MultiplexedConnection, ConnectionLoss>>>;

/// A connection that is there or on its way, with its number.
#[derive(Default)]
struct ConnectionSlot {
    number: u64,
    connecting: Option<ConnectionFuture>,
}

struct CircuitBreaker {
    circuit: CircuitState,
    failures: u32,
    until: Option<Instant>,
    last: Option<ConnectionLoss>,
}

impl CircuitBreaker {
    fn closed() -> CircuitBreaker {
        CircuitBreaker { circuit: CircuitState::Closed, failures: 0, until: None, last: None }
    }
}

/// A server.
pub(super) struct ServerLink {
    address: ServerAddress,
    dial: ServerConnector,
    lines: [Mutex<ConnectionSlot>; 3],
    permits: Semaphore,
    breaker: Mutex<CircuitBreaker>,
    counters: Arc<WireCounters>,
}

impl ServerLink {
    pub(super) fn new(
        address: ServerAddress,
        dial: ServerConnector,
        counters: Arc<WireCounters>,
    ) -> ServerLink {
        ServerLink {
            address,
            lines: Default::default(),
            permits: Semaphore::new(dial.settings.in_flight_max.clamp(1, 1 << 16)),
            breaker: Mutex::new(CircuitBreaker::closed()),
            dial,
            counters,
        }
    }

    pub(super) fn shard(&self) -> ServerStatus {
        let breaker = self.breaker.lock();
        let most = self.dial.settings.in_flight_max.clamp(1, 1 << 16);
        ServerStatus {
            address: self.address.clone(),
            circuit: breaker.circuit,
            in_flight: most.saturating_sub(self.permits.available_permits()),
            failures: breaker.failures,
        }
    }

    /// Sends commands in one go, and answers what each was answered: values, or errors as values. Sends them once more
    /// if the connection turns out to be broken, so they must do no harm when they are done twice.
    pub(super) async fn exchange(
        &self,
        line: ConnectionClass,
        commands: Vec<Cmd>,
        deadline: Instant,
    ) -> Result<Vec<Value>, ExchangeError> {
        if !self.admits() {
            WireCounters::add(&self.counters.refused, commands.len() as u64);
            let last = self.breaker.lock().last.clone();
            let unasked = || ConnectionLoss::away(format!("{} did not answer before", self.address));
            return Err(ExchangeError::Open(last.unwrap_or_else(unasked)));
        }
        let answer = timeout_at(deadline, self.send(line, commands)).await;
        let answer = answer.unwrap_or_else(|_| {
            WireCounters::add(&self.counters.timeouts, 1);
            Err(ConnectionLoss::away(format!("{} did not answer in time", self.address)))
        });
        self.settle(answer.as_ref().err());
        answer.map_err(ExchangeError::Lost)
    }

    async fn send(&self, line: ConnectionClass, commands: Vec<Cmd>) -> Result<Vec<Value>, ConnectionLoss> {
        let _permit =
            self.permits.acquire().await.map_err(|error| ConnectionLoss::away(error.to_string()))?;
        let count = commands.len();
        let mut pipeline = Pipeline::with_capacity(count);
        commands.into_iter().for_each(|command| {
            pipeline.add_command(command);
        });
        let mut is_again = false;
        loop {
            let (number, mut connection) = self.connection(line).await?;
            WireCounters::add(&self.counters.commands, count as u64);
            WireCounters::add(&self.counters.round_trips, 1);
            match connection.send_packed_commands(&pipeline, 0, count).await {
                Ok(values) if values.len() == count => return Ok(values),
                Ok(_) => {
                    self.forget(line, number);
                    return Err(ConnectionLoss::away(format!(
                        "{} answered less than it was asked",
                        self.address
                    )));
                }
                Err(error) => {
                    self.forget(line, number);
                    WireCounters::add(&self.counters.broken, 1);
                    if is_again {
                        return Err(ConnectionLoss::new(&self.address.to_string(), &error));
                    }
                    is_again = true;
                    WireCounters::add(&self.counters.resent, count as u64);
                }
            }
        }
    }

    /// The connection; however many ask, it is made once.
    async fn connection(
        &self,
        line: ConnectionClass,
    ) -> Result<(u64, MultiplexedConnection), ConnectionLoss> {
        let (number, connecting) = {
            let mut slot = self.lines[line as usize].lock();
            if slot.connecting.is_none() {
                slot.number += 1;
                slot.connecting = Some(connect(self.address.clone(), self.dial.clone()).boxed().shared());
            }
            (slot.number, slot.connecting.clone())
        };
        let Some(connecting) = connecting else {
            return Err(ConnectionLoss::away("there is no connection".to_owned()));
        };
        let connection = connecting.await;
        if connection.is_err() {
            self.forget(line, number);
            self.counters.broken.fetch_add(1, Ordering::Relaxed);
        }
        Ok((number, connection?))
    }

    /// Lets go of a connection, so that the next is a new one.
    fn forget(&self, line: ConnectionClass, number: u64) {
        let mut slot = self.lines[line as usize].lock();
        if slot.number == number {
            slot.connecting = None;
        }
    }

    fn admits(&self) -> bool {
        let mut breaker = self.breaker.lock();
        match breaker.circuit {
            CircuitState::Closed => true,
            // Whoever tries may never come back; after another pause somebody else does.
            CircuitState::Open | CircuitState::Trying => {
                let is_time = breaker.until.is_none_or(|until| Instant::now() >= until);
                if is_time {
                    breaker.circuit = CircuitState::Trying;
                    breaker.until = Some(Instant::now() + self.dial.settings.pause);
                }
                is_time
            }
        }
    }

    fn settle(&self, lost: Option<&ConnectionLoss>) {
        let mut breaker = self.breaker.lock();
        let Some(lost) = lost else {
            *breaker = CircuitBreaker::closed();
            return;
        };
        breaker.last = Some(lost.clone());
        breaker.failures = breaker.failures.saturating_add(1);
        if breaker.circuit != CircuitState::Closed || breaker.failures >= self.dial.settings.failures_max {
            breaker.circuit = CircuitState::Open;
            breaker.until = Some(Instant::now() + self.dial.settings.pause);
            drop(breaker);
            // A connection over a network that was cut can stay silent for minutes after it is whole again.
            self.lines.iter().for_each(|line| line.lock().connecting = None);
        }
    }
}

async fn connect(
    address: ServerAddress,
    dial: ServerConnector,
) -> Result<MultiplexedConnection, ConnectionLoss> {
    let ServerConnector { settings, authorities } = dial;
    let announced = address.to_string();
    let at = settings.reached(&address);
    let failed = |error: RedisError| ConnectionLoss::new(&announced, &error);
    let target = match settings.tls {
        None => ConnectionAddr::Tcp(at.host, at.port),
        Some(_) => ConnectionAddr::TcpTls { host: at.host, port: at.port, insecure: false, tls_params: None },
    };
    let mut user = RedisConnectionInfo::default().set_skip_set_lib_name();
    if let Some(username) = &settings.username {
        user = user.set_username(username);
    }
    if let Some(password) = &settings.password {
        user = user.set_password(password);
    }
    let info = target.into_connection_info().map_err(failed)?;
    let info = info.set_redis_settings(user).set_tcp_settings(TcpSettings::default().set_nodelay(true));
    let client = match settings.tls {
        None => Client::open(info),
        Some(_) => Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert: authorities }),
    };
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(settings.connect_within))
        .set_response_timeout(None);
    let client = client.map_err(failed)?;
    client.get_multiplexed_async_connection_with_config(&config).await.map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_circuit_opens_and_one_call_tries() {
        let settings =
            WireSettings { failures_max: 2, pause: Duration::ZERO, ..WireSettings::new(vec![], [0; 16]) };
        let dial = ServerConnector { settings: Arc::new(settings), authorities: None };
        let address = ServerAddress { host: "localhost".into(), port: 1 };
        let link = ServerLink::new(address, dial, Arc::default());
        let circuit = || link.shard().circuit;
        let lost = ConnectionLoss::away("no answer".to_owned());
        link.settle(Some(&lost));
        assert_eq!(circuit(), CircuitState::Closed);
        link.settle(Some(&lost));
        assert_eq!(circuit(), CircuitState::Open);
        assert!(link.admits());
        assert_eq!(circuit(), CircuitState::Trying);
        link.breaker.lock().until = Some(Instant::now() + Duration::from_secs(60));
        assert!(!link.admits(), "only one tries");
        link.settle(Some(&lost));
        assert_eq!(circuit(), CircuitState::Open);
        link.settle(None);
        assert!(link.admits());
        assert_eq!((circuit(), link.shard().failures), (CircuitState::Closed, 0));
    }
}
