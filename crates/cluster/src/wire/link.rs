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

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

use super::counters::{Circuit, Counters, Shard};
use super::opening::Cause;
use super::settings::Settings;
use super::topology::Address;

/// How servers are connected to.
#[derive(Clone)]
pub(super) struct Dial {
    pub(super) settings: Arc<Settings>,
    /// The authorities' certificates, as they are in their file.
    pub(super) authorities: Option<Vec<u8>>,
}

/// Which of a server's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Reads,
    Writes,
    Takes,
}

/// Why a round trip has no answer.
#[derive(Clone, Debug)]
pub(super) enum Silence {
    /// The circuit is open: nothing was sent. This is what was lost last.
    Open(Lost),
    /// It did not come in time, or the connection broke.
    Lost(Lost),
}

/// Why something is not answered, and what that comes from.
#[derive(Clone, Debug)]
pub(super) struct Lost {
    pub(super) why: Arc<str>,
    pub(super) cause: Cause,
}

impl Lost {
    fn away(why: String) -> Lost {
        Lost { why: why.into(), cause: Cause::Away }
    }

    fn new(server: &str, error: &RedisError) -> Lost {
        Lost { why: format!("{server}: {error}").into(), cause: Cause::of(error) }
    }
}

type Connecting = Shared<BoxFuture<'static, Result<MultiplexedConnection, Lost>>>;

/// A connection that is there or on its way, with its number.
#[derive(Default)]
struct Slot {
    number: u64,
    connecting: Option<Connecting>,
}

struct Breaker {
    circuit: Circuit,
    failures: u32,
    until: Option<Instant>,
    last: Option<Lost>,
}

impl Breaker {
    fn closed() -> Breaker {
        Breaker { circuit: Circuit::Closed, failures: 0, until: None, last: None }
    }
}

/// A server.
pub(super) struct Link {
    address: Address,
    dial: Dial,
    lines: [Mutex<Slot>; 3],
    permits: Semaphore,
    breaker: Mutex<Breaker>,
    counters: Arc<Counters>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    pub(super) fn new(address: Address, dial: Dial, counters: Arc<Counters>) -> Link {
        Link {
            address,
            lines: Default::default(),
            permits: Semaphore::new(dial.settings.in_flight_max.clamp(1, 1 << 16)),
            breaker: Mutex::new(Breaker::closed()),
            dial,
            counters,
        }
    }

    pub(super) fn shard(&self) -> Shard {
        let breaker = lock(&self.breaker);
        let most = self.dial.settings.in_flight_max.clamp(1, 1 << 16);
        Shard {
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
        line: Line,
        commands: Vec<Cmd>,
        deadline: Instant,
    ) -> Result<Vec<Value>, Silence> {
        if !self.admits() {
            Counters::add(&self.counters.refused, commands.len() as u64);
            let last = lock(&self.breaker).last.clone();
            let unasked = || Lost::away(format!("{} did not answer before", self.address));
            return Err(Silence::Open(last.unwrap_or_else(unasked)));
        }
        let answer = timeout_at(deadline, self.send(line, &commands)).await;
        let answer = answer.unwrap_or_else(|_| {
            Counters::add(&self.counters.timeouts, 1);
            Err(Lost::away(format!("{} did not answer in time", self.address)))
        });
        self.settle(answer.as_ref().err());
        answer.map_err(Silence::Lost)
    }

    async fn send(&self, line: Line, commands: &[Cmd]) -> Result<Vec<Value>, Lost> {
        let _permit = self.permits.acquire().await.map_err(|error| Lost::away(error.to_string()))?;
        let mut pipeline = Pipeline::with_capacity(commands.len());
        commands.iter().for_each(|command| {
            pipeline.add_command(command.clone());
        });
        let mut is_again = false;
        loop {
            let (number, mut connection) = self.connection(line).await?;
            Counters::add(&self.counters.commands, commands.len() as u64);
            Counters::add(&self.counters.round_trips, 1);
            match connection.send_packed_commands(&pipeline, 0, commands.len()).await {
                Ok(values) if values.len() == commands.len() => return Ok(values),
                Ok(_) => {
                    self.forget(line, number);
                    return Err(Lost::away(format!("{} answered less than it was asked", self.address)));
                }
                Err(error) => {
                    self.forget(line, number);
                    Counters::add(&self.counters.broken, 1);
                    if is_again {
                        return Err(Lost::new(&self.address.to_string(), &error));
                    }
                    is_again = true;
                    Counters::add(&self.counters.resent, commands.len() as u64);
                }
            }
        }
    }

    /// The connection; however many ask, it is made once.
    async fn connection(&self, line: Line) -> Result<(u64, MultiplexedConnection), Lost> {
        let (number, connecting) = {
            let mut slot = lock(&self.lines[line as usize]);
            if slot.connecting.is_none() {
                slot.number += 1;
                slot.connecting = Some(connect(self.address.clone(), self.dial.clone()).boxed().shared());
            }
            (slot.number, slot.connecting.clone())
        };
        let Some(connecting) = connecting else {
            return Err(Lost::away("there is no connection".to_owned()));
        };
        let connection = connecting.await;
        if connection.is_err() {
            self.forget(line, number);
            self.counters.broken.fetch_add(1, Ordering::Relaxed);
        }
        Ok((number, connection?))
    }

    /// Lets go of a connection, so that the next is a new one.
    fn forget(&self, line: Line, number: u64) {
        let mut slot = lock(&self.lines[line as usize]);
        if slot.number == number {
            slot.connecting = None;
        }
    }

    fn admits(&self) -> bool {
        let mut breaker = lock(&self.breaker);
        match breaker.circuit {
            Circuit::Closed => true,
            // Whoever tries may never come back; after another pause somebody else does.
            Circuit::Open | Circuit::Trying => {
                let is_time = breaker.until.is_none_or(|until| Instant::now() >= until);
                if is_time {
                    breaker.circuit = Circuit::Trying;
                    breaker.until = Some(Instant::now() + self.dial.settings.pause);
                }
                is_time
            }
        }
    }

    fn settle(&self, lost: Option<&Lost>) {
        let mut breaker = lock(&self.breaker);
        let Some(lost) = lost else {
            *breaker = Breaker::closed();
            return;
        };
        breaker.last = Some(lost.clone());
        breaker.failures = breaker.failures.saturating_add(1);
        if breaker.circuit != Circuit::Closed || breaker.failures >= self.dial.settings.failures_max {
            breaker.circuit = Circuit::Open;
            breaker.until = Some(Instant::now() + self.dial.settings.pause);
            drop(breaker);
            // A connection over a network that was cut can stay silent for minutes after it is whole again.
            self.lines.iter().for_each(|line| lock(line).connecting = None);
        }
    }
}

async fn connect(address: Address, dial: Dial) -> Result<MultiplexedConnection, Lost> {
    let Dial { settings, authorities } = dial;
    let announced = address.to_string();
    let at = settings.reached(&address);
    let failed = |error: RedisError| Lost::new(&announced, &error);
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
        let settings = Settings { failures_max: 2, pause: Duration::ZERO, ..Settings::new(vec![], [0; 16]) };
        let dial = Dial { settings: Arc::new(settings), authorities: None };
        let address = Address { host: "localhost".into(), port: 1 };
        let link = Link::new(address, dial, Arc::default());
        let circuit = || link.shard().circuit;
        let lost = Lost::away("no answer".to_owned());
        link.settle(Some(&lost));
        assert_eq!(circuit(), Circuit::Closed);
        link.settle(Some(&lost));
        assert_eq!(circuit(), Circuit::Open);
        assert!(link.admits());
        assert_eq!(circuit(), Circuit::Trying);
        lock(&link.breaker).until = Some(Instant::now() + Duration::from_secs(60));
        assert!(!link.admits(), "only one tries");
        link.settle(Some(&lost));
        assert_eq!(circuit(), Circuit::Open);
        link.settle(None);
        assert!(link.admits());
        assert_eq!((circuit(), link.shard().failures), (Circuit::Closed, 0));
    }
}
