//! One connection: who speaks, what is still to be decided, and what is answered.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use engine::limit::TakeResult;
use engine::{Engine, FeedbackInput, PreparedEvent};
use plan::{Pipeline, Plan};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use serde::Serialize;
use sha2::{Digest, Sha256};
use stats::LedgerError;
use subtle::ConstantTimeEq;
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::RespContext;
use super::answer::{ReplyBuffer, quoted};
use super::codec::{RespCommand, RespLimits, integer};
use super::combining::{TAKES_MAX, TakeBatchSlot};
use super::engine_call::{BUSY, in_time};
use super::table::{self, CommandName};
use super::take::{self, BucketCache, TakeArguments, TakeRequest};
use super::{event, info};
use crate::api;
use crate::core::blocking::blocking;
use crate::core::deadline::Late;
use crate::core::decision_log;
use crate::core::preparation::{LookupMode, SubmittedEvent};
use crate::core::problem::HttpFailure;
use crate::core::reading_pool::{INLINE_BYTES_MAX, asked_by};
use crate::core::shares::Caller;
use crate::core::telemetry::RequestTrace;

/// Longest name of a connection.
const NAME_BYTES_MAX: usize = 256;
/// Events that are decided as one batch.
const EVENTS_MAX: usize = 256;
/// Unknown commands in a row after which a connection is closed.
const UNKNOWN_MAX: usize = 16;
/// The pipeline that the listener names, as commands name it.
const LISTENERS_OWN: &[u8] = b"-";

pub(super) struct RespSession<'f> {
    pub(super) listener: &'f Arc<RespContext>,
    pub(super) answers: ReplyBuffer,
    /// Its number among all connections since the start.
    pub(super) id: i64,
    pub(super) name: Vec<u8>,
    /// True if the client has given its password, or needs none.
    known: bool,
    limits: RespLimits,
    /// Takes that are to be answered next. Either these or `events` wait, never both.
    takes: Vec<TakeRequest>,
    /// Events whose decisions are to be answered next.
    events: Vec<SubmittedEvent>,
    buckets: BucketCache,
    commands: Counter,
    batches: Histogram,
    pub(super) client: Option<IpAddr>,
    /// Unknown commands since the last known one.
    unknown: usize,
    /// The trace of the events that wait, if they are traced.
    trace: Option<Arc<RequestTrace>>,
}

impl<'f> RespSession<'f> {
    pub(super) fn new(listener: &'f Arc<RespContext>, client: Option<IpAddr>) -> RespSession<'f> {
        let metrics = &listener.node.metrics;
        let known = listener.plan.settings.password.is_none();
        let command_bytes_max = usize::try_from(listener.plan.settings.body_max).unwrap_or(usize::MAX);
        RespSession {
            answers: ReplyBuffer::default(),
            id: listener.node.sessions.fetch_add(1, Relaxed),
            name: Vec::new(),
            known,
            limits: RespLimits { command_bytes_max, known },
            takes: Vec::new(),
            events: Vec::new(),
            buckets: BucketCache::default(),
            commands: metrics.resp_commands(&listener.plan.name),
            batches: metrics.resp_batches(&listener.plan.name),
            client,
            unknown: 0,
            trace: None,
            listener,
        }
    }

    /// Returns who asks: one who has said its password is known.
    pub(super) fn caller(&self) -> Caller {
        let has_answered = self.known && self.listener.plan.settings.password.is_some();
        if has_answered { Caller::Known } else { Caller::of_peer(self.client) }
    }

    pub(super) fn limits(&self) -> RespLimits {
        RespLimits { known: self.known, ..self.limits }
    }

    /// Takes in a command: answers it, or has it wait for [`RespSession::settle`]. Limits are those of the plan.
    pub(super) async fn take_in(&mut self, command: RespCommand<'_>, plan: &Plan) -> ControlFlow<()> {
        self.commands.inc();
        let name = command.get(0).unwrap_or_default();
        let found = table::find(name);
        self.unknown = if found.is_some() { 0 } else { self.unknown + 1 };
        if found.is_none() && is_http(command) {
            return self.close("http", "a request of HTTP, which a page in a browser may have sent");
        }
        if self.unknown > UNKNOWN_MAX {
            return self.close("protocol", "too many unknown commands");
        }
        let refused = match found {
            None => Err(unknown(command)),
            Some(entry) if !self.known && !entry.is_for_strangers() => {
                Err("NOAUTH Authentication required.".to_owned())
            }
            Some(entry) if !entry.takes(command.len()) => {
                Err(format!("ERR wrong number of arguments for '{}' command", entry.word))
            }
            Some(entry) => Ok(entry.name),
        };
        match refused {
            Ok(CommandName::Throttle) => {
                match TakeRequest::cell(command, &mut self.buckets, &self.listener.node.engine) {
                    Ok(asked) => self.take_later(asked).await,
                    Err(error) => {
                        self.settle().await;
                        self.answers.error(&error);
                    }
                }
            }
            Ok(name @ (CommandName::Take | CommandName::Peek)) => {
                self.take_or_peek(name, command, plan).await
            }
            Ok(CommandName::Decide) => {
                if let Err(error) = self.decide_later(command).await {
                    self.settle().await;
                    self.answers.error(&error);
                }
            }
            Ok(name) => {
                self.settle().await;
                return self.answer(name, command).await;
            }
            Err(error) => {
                self.settle().await;
                self.answers.error(&error);
            }
        }
        ControlFlow::Continue(())
    }

    /// Ends a connection whose client is none of Redis: nothing more of what it sent is looked at.
    fn close(&self, reason: &'static str, why: &str) -> ControlFlow<()> {
        self.listener.misused(self.client, reason, &why);
        ControlFlow::Break(())
    }

    /// Answers all that waits.
    pub(super) async fn settle(&mut self) {
        if !self.takes.is_empty() {
            self.take().await;
        }
        if !self.events.is_empty() {
            self.decide().await;
        }
    }

    async fn take_later(&mut self, asked: TakeRequest) {
        if !self.events.is_empty() || self.takes.len() >= TAKES_MAX {
            self.settle().await;
        }
        self.takes.push(asked);
    }

    /// Takes all that waits, together with what other conversations take at this moment.
    async fn take(&mut self) {
        let slot = TakeBatchSlot::join(self.listener, &mut self.takes).await;
        match slot.taken(&self.batches).await {
            Ok(taken) => taken.for_each(|(asked, taken)| asked.answer(taken, &mut self.answers)),
            Err(error) => (0..slot.len()).for_each(|_| self.answers.error(error)),
        }
    }

    /// `TOLL.TAKE` and `TOLL.PEEK`.
    async fn take_or_peek(&mut self, name: CommandName, command: RespCommand<'_>, plan: &Plan) {
        let words = match TakeArguments::read(command, "cost", &self.listener.node.engine, plan) {
            Ok(words) => words,
            Err(error) => {
                self.settle().await;
                return self.answers.error(&error);
            }
        };
        let peeks = words.peek || name == CommandName::Peek;
        if !peeks && words.also.is_empty() {
            return self.take_later(TakeRequest::toll(words)).await;
        }
        self.settle().await;
        let takes = words.takes();
        let taken = in_time(self.listener, self.caller(), |engine, now| {
            let takes = &takes;
            async move { if peeks { engine.peek_limits(takes, now).await } else { engine.take(takes, now).await } }
        });
        let node = &self.listener.node;
        // Where there is no place, or no time, the limits' `on_error` decides.
        let taken = taken.await.unwrap_or_else(|_| node.engine.untaken(&takes, node.now()));
        match TakeResult::strictest(&taken) {
            Some(taken) => take::toll(taken, &mut self.answers),
            None => self.answers.null(),
        }
    }

    /// `TOLL.REFUND`, `TOLL.RESET` and `TOLL.SET`.
    async fn correct(&mut self, name: CommandName, command: RespCommand<'_>) -> Result<(), String> {
        let engine = &self.listener.node.engine;
        let amount = if name == CommandName::Set { "used" } else { "cost" };
        let words = TakeArguments::read(command, amount, engine, &engine.plan())?;
        let fits = match name {
            CommandName::Set => words.given,
            CommandName::Reset => !words.given,
            _ => true,
        };
        if words.peek || !fits {
            return Err("ERR syntax error".to_owned());
        }
        let takes = words.takes();
        let corrected = in_time(self.listener, self.caller(), |engine, now| async move {
            for take in takes {
                match name {
                    CommandName::Refund => engine.refund(take, None, now).await?,
                    CommandName::Set => engine.set_used(take, now).await?,
                    _ => engine.reset_limit(take.limit, take.key, now).await?,
                }
            }
            Ok(())
        });
        corrected.await?.map_err(|error: LedgerError| event::failed(&HttpFailure::from(error)))
    }

    async fn answer(&mut self, name: CommandName, command: RespCommand<'_>) -> ControlFlow<()> {
        let mut words = command.from(1);
        match name {
            CommandName::Ping => match (words.next(), words.next()) {
                (None, _) => self.answers.simple("PONG"),
                (Some(message), None) => self.answers.bulk(message),
                _ => self.answers.error("ERR wrong number of arguments for 'ping' command"),
            },
            CommandName::Echo => self.answers.bulk(words.next().unwrap_or_default()),
            CommandName::Quit => {
                self.answers.ok();
                return ControlFlow::Break(());
            }
            CommandName::Select => match words.next().and_then(integer) {
                Some(0) => self.answers.ok(),
                Some(_) => self.answers.error("ERR DB index is out of range"),
                None => self.answers.error("ERR invalid DB index"),
            },
            CommandName::Auth => self.auth(command).await,
            CommandName::Hello => self.hello(command).await,
            CommandName::ResetSession => {
                self.known = self.listener.plan.settings.password.is_none();
                self.answers.resp3 = false;
                self.name.clear();
                self.answers.simple("RESET");
            }
            CommandName::Client => self.client(words),
            CommandName::Command => table::command(words, &mut self.answers),
            CommandName::Config => info::config(self.listener, words, &mut self.answers),
            CommandName::Info => info::info(self.listener, words, &mut self.answers),
            CommandName::Observe => {
                let observed = self.observe(command).await;
                self.respond(observed);
            }
            CommandName::Stats => {
                let timeline = self.stats(command).await;
                self.respond(timeline);
            }
            CommandName::Learn => {
                let learned = self.learn(command).await;
                self.respond(learned);
            }
            CommandName::WaitSync => {
                if let Err(error) = self.wait_sync(command).await {
                    self.answers.error(&error);
                }
            }
            CommandName::Refund | CommandName::Reset | CommandName::Set => {
                match self.correct(name, command).await {
                    Ok(()) => self.answers.ok(),
                    Err(error) => self.answers.error(&error),
                }
            }
            // These wait.
            CommandName::Throttle | CommandName::Take | CommandName::Peek | CommandName::Decide => {}
        }
        ControlFlow::Continue(())
    }

    /// Answers what HTTP would, or what is wrong.
    fn respond(&mut self, outcome: Result<impl Serialize, String>) {
        match outcome.and_then(|answer| serde_json::to_value(answer).map_err(|error| format!("ERR {error}")))
        {
            Ok(value) => self.answers.value(&value),
            Err(error) => self.answers.error(&error),
        }
    }

    async fn auth(&mut self, command: RespCommand<'_>) {
        let (user, password) = match (command.get(1), command.get(2), command.len()) {
            (Some(password), None, _) => (self.listener.plan.settings.user.as_bytes(), password),
            (Some(user), Some(password), 3) => (user, password),
            _ => return self.answers.error("ERR syntax error"),
        };
        if self.listener.plan.settings.password.is_none() && command.len() == 2 {
            return self.answers.error(
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
            );
        }
        match self.knows(user, password).await {
            true => self.answers.ok(),
            false => self.answers.error(WRONG_PASSWORD),
        }
    }

    /// Returns whether this is the password, which also makes the client known. Takes as long whatever was said.
    async fn knows(&mut self, user: &[u8], password: &[u8]) -> bool {
        let digest = |bytes: &[u8]| -> [u8; 32] { Sha256::digest(bytes).into() };
        let plan = &self.listener.plan.settings;
        // Without a password any will do, as in Redis for a user that needs none.
        let right = plan.password.as_ref().map_or(digest(password), |right| digest(right.as_bytes()));
        let equal = digest(plan.user.as_bytes()).ct_eq(&digest(user)) & right.ct_eq(&digest(password));
        let equal = bool::from(equal);
        if equal {
            self.known = true;
        } else {
            self.listener.node.wrong_token(&self.listener.plan.name, self.client).await;
        }
        equal
    }

    async fn hello(&mut self, command: RespCommand<'_>) {
        let resp3 = match command.get(1).map(integer) {
            None => self.answers.resp3,
            Some(Some(2)) => false,
            Some(Some(3)) => true,
            Some(_) => return self.answers.error("NOPROTO unsupported protocol version"),
        };
        let (mut at, mut name) = (2, None);
        while let Some(option) = command.get(at) {
            match (option.to_ascii_lowercase().as_slice(), command.get(at + 1), command.get(at + 2)) {
                (b"auth", Some(user), Some(password)) => {
                    if !self.knows(user, password).await {
                        return self.answers.error(WRONG_PASSWORD);
                    }
                    at += 3;
                }
                (b"setname", Some(given), _) => {
                    name = Some(given);
                    at += 2;
                }
                _ => {
                    let error = format!("ERR Syntax error in HELLO option '{}'", quoted(option));
                    return self.answers.error(&error);
                }
            }
        }
        if !self.known {
            return self.answers.error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
            );
        }
        if let Some(name) = name {
            if !is_name(name) {
                return self.answers.error(WRONG_NAME);
            }
            self.name = name.to_vec();
        }
        self.answers.resp3 = resp3;
        info::hello(self.id, &mut self.answers);
    }

    /// Answers `CLIENT` and its subcommands.
    fn client<'a>(&mut self, mut words: impl Iterator<Item = &'a [u8]>) {
        let subcommand = words.next().unwrap_or_default().to_ascii_lowercase();
        let words: Vec<&[u8]> = words.collect();
        match (subcommand.as_slice(), words.as_slice()) {
            (b"setname", [name]) => self.rename(name),
            (b"getname", []) if self.name.is_empty() => self.answers.null(),
            (b"getname", []) => self.answers.bulk(&self.name),
            (b"id", []) => self.answers.integer(self.id),
            (b"info", []) => {
                let (proto, id) = (if self.answers.resp3 { 3 } else { 2 }, self.id);
                let name = String::from_utf8_lossy(&self.name).into_owned();
                self.answers.text(&format!("id={id} name={name} db=0 resp={proto}\n"));
            }
            (b"setinfo", [name, _]) => {
                if [&b"lib-name"[..], b"lib-ver"].iter().any(|known| name.eq_ignore_ascii_case(known)) {
                    self.answers.ok();
                } else {
                    self.answers.error("ERR Unrecognized option: expected LIB-NAME or LIB-VER");
                }
            }
            (b"no-evict" | b"no-touch", [word]) if is(word, &["on", "off"]) => self.answers.ok(),
            (b"reply", [word]) if is(word, &["on"]) => self.answers.ok(),
            (b"tracking", [word]) if is(word, &["off"]) => self.answers.ok(),
            (b"reply" | b"tracking", [_, ..]) => {
                self.answers
                    .error("ERR this is not offered: every command is answered, and nothing else is sent");
            }
            (b"setname" | b"getname" | b"id" | b"info" | b"setinfo" | b"no-evict" | b"no-touch", _) => {
                self.answers.error("ERR syntax error");
            }
            (other, _) => {
                self.answers.unknown_subcommand(other, "CLIENT SETNAME, GETNAME, ID, INFO or SETINFO");
            }
        }
    }

    /// Names the connection.
    fn rename(&mut self, name: &[u8]) {
        if !is_name(name) {
            return self.answers.error(WRONG_NAME);
        }
        self.name = name.to_vec();
        self.answers.ok();
    }

    fn pipeline(&self, name: &[u8]) -> Result<Arc<Pipeline>, String> {
        let name = if name == LISTENERS_OWN { self.listener.plan.settings.pipeline.as_bytes() } else { name };
        let name = String::from_utf8_lossy(name);
        self.listener.node.pipeline(Some(&name)).map_err(|failure| event::failed(&failure))
    }

    /// The event of a command whose words from one on are its fields.
    async fn event(
        &self,
        command: RespCommand<'_>,
        from: usize,
        lookups: LookupMode,
    ) -> Result<SubmittedEvent, String> {
        let pipeline = self.pipeline(command.get(1).unwrap_or_default())?;
        let (node, arrival) = (&self.listener.node, self.listener.node.now());
        let reading = async {
            let bytes = command.from(from).map(<[u8]>::len).sum();
            let (event, warnings) = if bytes <= INLINE_BYTES_MAX {
                // However many are pipelined, others are answered between two of them.
                yield_now().await;
                event::event(&node.engine, &pipeline, arrival, command.from(from))
            } else {
                let words: Vec<Box<[u8]>> = command.from(from).map(Box::from).collect();
                let (of, engine) = (Arc::clone(&pipeline), Arc::clone(&node.engine));
                let read = node.reading.read(bytes, move |_| {
                    event::event(&engine, &of, arrival, words.iter().map(|word| &word[..]))
                });
                read.await.map_err(late)?
            }?;
            let id = event.id.clone();
            let prepared = node.prepare(&pipeline, event, arrival, lookups).await.map_err(late)?;
            Ok(SubmittedEvent { id, prepared, warnings, pass: None })
        };
        self.listener.deadline().bound(asked_by(self.caller(), reading)).await
    }

    async fn decide_later(&mut self, command: RespCommand<'_>) -> Result<(), String> {
        if self.events.is_empty() {
            // One for all that are decided together. A client of Redis has no way to name its own.
            self.trace = self.listener.node.begin_trace(Instant::now(), None, false, None);
        }
        let trace = self.trace.clone();
        let event = match trace {
            None => self.event(command, 2, LookupMode::Configured).await?,
            trace => {
                let reading = self.event(command, 2, LookupMode::Configured);
                RequestTrace::bound(trace, Box::pin(reading)).await?
            }
        };
        if !self.takes.is_empty() || self.events.len() >= EVENTS_MAX {
            self.settle().await;
        }
        self.events.push(event);
        Ok(())
    }

    async fn decide(&mut self) {
        let started = Instant::now();
        let events = std::mem::take(&mut self.events).into_iter();
        let (events, warnings): (Vec<PreparedEvent>, Vec<Vec<String>>) =
            events.map(|event| (event.prepared, event.warnings)).unzip();
        let pipelines: Vec<Arc<Pipeline>> = events.iter().map(|event| Arc::clone(event.pipeline())).collect();
        let trace = self.trace.take();
        let node = Arc::clone(&self.listener.node);
        let listener = self.listener.plan.name.clone();
        let deciding = self.at_work(|_| async move { node.decide_for(&listener, events).await });
        let decided = match &trace {
            None => deciding.await,
            Some(trace) => RequestTrace::bound(Some(Arc::clone(trace)), Box::pin(deciding)).await,
        };
        if let Some(trace) = trace {
            let answer = if decided.is_ok() { "answered" } else { "undecided" };
            trace.finish_listener("TOLL.DECIDE", &self.listener.plan.name, answer, decided.is_err());
        }
        self.batches.observe(started.elapsed().as_secs_f64());
        match decided {
            Ok(decisions) => {
                for (decision, warnings) in decisions.iter().zip(warnings) {
                    self.respond(Ok(api::DecisionJson { warnings, ..decision.into() }));
                }
            }
            // What that means the pipelines say.
            Err(why) => {
                let node = &self.listener.node;
                for (pipeline, warnings) in pipelines.into_iter().zip(warnings) {
                    node.metrics.undecided(&pipeline.name);
                    let decision = node.engine.undecided(&pipeline, node.now(), &why);
                    decision_log::undecided(node.decision_log, &self.listener.plan.name, &decision, &why);
                    let error = Some(why.clone());
                    self.respond(Ok(api::DecisionJson { error, warnings, ..(&decision).into() }));
                }
            }
        }
    }

    async fn observe(&mut self, command: RespCommand<'_>) -> Result<api::ExplanationJson, String> {
        let SubmittedEvent { prepared, warnings, .. } =
            self.event(command, 2, LookupMode::Configured).await?;
        let seen = self.attempt(|engine| async move { engine.observe(prepared).await }).await?;
        Ok(api::ExplanationJson { warnings, ..api::ExplanationJson::from(&seen) })
    }

    /// `WAITAOF`, as Redis answers it: how many of this node and of its replicas have all on disk by now. What does not sync,
    /// or not in time, is none.
    async fn wait_sync(&mut self, command: RespCommand<'_>) -> Result<(), String> {
        const WRONG: &str = "ERR value is not an integer or out of range";
        let number = |at: usize| command.get(at).and_then(integer).filter(|number| *number >= 0);
        let local = number(1).ok_or(WRONG)?;
        let (_, patience) = number(2).zip(number(3)).ok_or(WRONG)?;
        if local > 1 {
            return Err("ERR WAITAOF: there is one node that syncs, this one".to_owned());
        }
        let synced = local == 1 && {
            let patience = match u64::try_from(patience) {
                Ok(millis) if millis > 0 => Duration::from_millis(millis),
                _ => Duration::MAX,
            };
            let synced = self.attempt(|engine| async move { engine.sync().await });
            timeout(patience, synced).await.is_ok_and(|synced| synced.is_ok())
        };
        self.answers.array(2);
        self.answers.integer(i64::from(synced));
        self.answers.integer(0);
        Ok(())
    }

    async fn stats(&mut self, command: RespCommand<'_>) -> Result<api::TimelineJson, String> {
        let pipeline = self.pipeline(command.get(1).unwrap_or_default())?;
        let text = |index| String::from_utf8_lossy(command.get(index).unwrap_or_default()).into_owned();
        // Several values are those of a key of several fields.
        let values: Vec<_> = command.from(3).map(String::from_utf8_lossy).collect();
        let value = match &values[..] {
            [value] => value.clone().into_owned(),
            values => content::composite::text(values),
        };
        let (kind, now, of) = (text(2), self.listener.node.now(), Arc::clone(&pipeline));
        let work = |engine: Arc<Engine>| async move {
            // Buckets may be on disk alone.
            blocking(move || {
                let known = Handle::current().block_on(engine.timeline(&of, &kind, &value, now));
                known.map(|known| (kind, known))
            })
            .await
        };
        let (kind, known) = self.attempt(work).await?;
        Ok(api::TimelineJson::new(&pipeline.name, &kind, &known))
    }

    async fn learn(&mut self, command: RespCommand<'_>) -> Result<api::FeedbackOutcomeJson, String> {
        let plan = &self.listener.plan.settings;
        if !plan.learn && plan.password.is_none() {
            return Err(
                "NOPERM nothing is learned here: set `learn`, or a `password`, for this listener".to_owned()
            );
        }
        let class = String::from_utf8_lossy(command.get(2).unwrap_or_default()).into_owned();
        let SubmittedEvent { id, prepared, warnings, .. } = self.event(command, 3, LookupMode::None).await?;
        // Without an id the same fields are the same event.
        let mut same = Vec::new();
        for word in command.from(3) {
            same.extend_from_slice(&(word.len() as u64).to_le_bytes());
            same.extend_from_slice(word);
        }
        let (node, said) = (Arc::clone(&self.listener.node), class.clone());
        let work = |_| async move {
            node.learn(prepared, id, &same, FeedbackInput { class: &said, by: None }).await
        };
        let (id, outcome) = self.attempt(work).await?;
        Ok(api::FeedbackOutcomeJson { warnings, ..api::FeedbackOutcomeJson::new(id, class, outcome) })
    }

    /// Has the engine do something that may fail, as [`RespSession::at_work`] does.
    async fn attempt<T, E, W>(&self, work: impl FnOnce(Arc<Engine>) -> W) -> Result<T, String>
    where
        T: Send + 'static,
        E: Send + 'static,
        HttpFailure: From<E>,
        W: Future<Output = Result<T, E>> + Send + 'static,
    {
        let done = self.at_work(work).await?;
        done.map_err(|error| event::failed(&HttpFailure::from(error)))
    }

    /// Has the engine do something in time, if there is a place for it, in a task of its own: the deadline ends the
    /// waiting and not the work.
    async fn at_work<T, W>(&self, work: impl FnOnce(Arc<Engine>) -> W) -> Result<T, String>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let place = self.listener.place(self.caller()).map_err(|_| BUSY.to_owned())?;
        let work = work(Arc::clone(&self.listener.node.engine));
        let work = async move {
            let done = work.await;
            drop(place);
            done
        };
        match self.listener.within_timeout(work).await {
            Ok(done) => Ok(done),
            Err(failure) => {
                let listener = &self.listener.plan.name;
                self.listener.node.metrics.listener_failure(listener, failure.name());
                Err(format!("TRYAGAIN {failure}"))
            }
        }
    }
}

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const WRONG_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

fn late(late: Late) -> String {
    format!("TRYAGAIN {late}")
}

/// Returns whether an unknown command is a line of a request of HTTP. What follows it are lines of a body, which any page may
/// have chosen; Redis, too, closes on these.
fn is_http(command: RespCommand<'_>) -> bool {
    let name = command.get(0).unwrap_or_default();
    let last = command.get(command.len() - 1).unwrap_or_default();
    name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"HOST:") || last.starts_with(b"HTTP/")
}

fn is(word: &[u8], known: &[&str]) -> bool {
    known.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

fn is_name(name: &[u8]) -> bool {
    name.len() <= NAME_BYTES_MAX && name.iter().all(u8::is_ascii_graphic)
}

fn unknown(command: RespCommand<'_>) -> String {
    const ARGUMENTS_SHOWN: usize = 3;
    let name = quoted(command.get(0).unwrap_or_default());
    let mut error = format!("ERR unknown command '{name}', with args beginning with: ");
    for argument in command.from(1).take(ARGUMENTS_SHOWN) {
        error += &format!("'{}' ", quoted(argument));
    }
    error
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use plan::{Config, Overrides, ProtocolPlan};

    use super::*;
    use crate::core::node::Node;
    use crate::protocol::resp::codec::RespDecoder;

    /// A client that has pipelined events does not keep its thread from others until all of them are read.
    #[tokio::test]
    async fn others_are_answered_between_events() {
        let pair = |(name, value): (&str, &str)| (format!("listener.m.{name}"), value.to_owned());
        let flags = [("protocol", "resp"), ("listen", "[::1]:0")].map(pair).to_vec();
        let config = Config::from_preset("web", &Overrides { flags, ..Overrides::default() });
        let plan = Plan::compile(&config).unwrap_or_else(|problems| panic!("{problems}"));
        let engine = Arc::new(Engine::ephemeral(plan).unwrap());
        let plan = engine.plan();
        let node = Node::new(engine, crate::Clock::of(crate::SystemClock, None));
        let listener = &plan.node.listeners[0];
        let ProtocolPlan::Resp(resp) = &listener.settings else { panic!("{listener:?}") };
        let listener = listener.with(resp.clone());
        let listener = Arc::new(RespContext::new(Arc::new(node), listener));

        // Those that are refused take as long to read.
        for client in ["192.0.2.1", "x"] {
            let turns = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&turns);
            let other = tokio::spawn(async move {
                loop {
                    counted.fetch_add(1, Relaxed);
                    yield_now().await;
                }
            });
            let mut decoder = RespDecoder::default();
            let line = format!("TOLL.DECIDE web client.ip {client}\r\n");
            decoder.room().extend_from_slice(line.repeat(EVENTS_MAX / 2).as_bytes());
            let (mut session, mut commands) = (RespSession::new(&listener, None), 0);
            while let Some(command) = decoder.next_command(session.limits()).unwrap() {
                assert!(session.take_in(command, &plan).await.is_continue());
                commands += 1;
            }
            other.abort();
            let turns = turns.load(Relaxed);
            assert!(commands == EVENTS_MAX / 2 && turns >= commands, "{turns} turns in {commands} events");
        }
    }
}
