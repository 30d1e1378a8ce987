//! The protocol of Redis, so that every client of Redis is one of Tollhouse: limits, events and statistics as commands.
//!
//! ```text
//! bytes ─► codec ─► table ─► session ─► engine
//!          commands  known?   runs of takes, and of decisions, as one batch each
//! ```
//!
//! What is pipelined is decided together: all takes that stand next to each other in what was read are one batch of the
//! engine, with those of other connections that were read at the same moment, and their answers one write. A client that
//! does not read what it asked for is let go.

mod answer;
pub mod codec;
mod combining;
mod engine_call;
mod event;
mod info;
mod session;
mod table;
mod take;

use std::future::pending;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use self::codec::RespDecoder;
use self::session::RespSession;
use crate::core::listener::{ListenerStream, ShutdownSignal};
use crate::core::listener_context::ListenerContext;
use crate::core::pace::PaceMeter;
use crate::core::shares::{Caller, Share};

/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;
/// Bytes of a command that is not whole yet for which no room among the node's bodies is asked.
const FREE_BYTES: usize = 64 << 10;
/// Answers are written once they are this long, or nothing more is to be answered.
const WRITE_BYTES: usize = 64 << 10;

/// A listener of Redis' clients.
pub(crate) type RespContext = ListenerContext<plan::RespPlan>;

/// Holds a conversation to its end.
pub(crate) async fn converse(
    mut stream: ListenerStream,
    listener: Arc<RespContext>,
    mut stop: ShutdownSignal,
) {
    let mut session = RespSession::new(&listener, stream.client());
    let mut decoder = RespDecoder::default();
    let mut held: Option<HeldCommand> = None;
    // Both live as long as the conversation: to wait for them anew with each read would cost as much as a take.
    let mut stopping = pin!(stop.wanted());
    let mut silence = pin!(sleep(listener.idle()));
    loop {
        let going = hear(&mut session, &mut decoder, &mut stream).await;
        if going.is_break() {
            return;
        }
        if !has_room(&listener, session.caller(), &mut held, decoder.waiting()) {
            listener.node.metrics.listener_failure(&listener.plan.name, "overloaded");
            session
                .answers
                .error("OOM the commands being read are too large together, try again a little later");
            let _ = stream.write_all(session.answers.bytes()).await;
            return;
        }
        let input = decoder.room();
        input.reserve(READ_BYTES);
        let since = Instant::now();
        let left = held.as_ref().and_then(|held| held.paced.left());
        let slow = async {
            match left {
                Some(left) => sleep(left).await,
                None => pending().await,
            }
        };
        let mut slow = pin!(slow);
        let read = loop {
            tokio::select! {
                biased;
                read = stream.read_buf(input) => break read,
                () = &mut slow => {
                    if let Some(held) = &held {
                        session.answers.error(&format!("ERR the command: {}", held.paced.too_slow()));
                        listener.misused(session.client, "slow-body", &held.paced.too_slow());
                    }
                    let _ = stream.write_all(session.answers.bytes()).await;
                    return;
                }
                () = &mut stopping => return,
                () = &mut silence => {
                    let end = since + listener.idle();
                    if end <= Instant::now() {
                        return;
                    }
                    silence.as_mut().reset(end);
                }
            }
        };
        match read {
            Ok(read) if read > 0 => {
                if let Some(held) = &mut held {
                    held.paced.has_waited(since.elapsed());
                    held.paced.add(read);
                }
            }
            _ => return,
        }
    }
}

/// Answers all commands that are whole.
async fn hear(
    session: &mut RespSession<'_>,
    decoder: &mut RespDecoder,
    stream: &mut ListenerStream,
) -> ControlFlow<()> {
    let plan = session.listener.node.engine.plan();
    let mut going = ControlFlow::Continue(());
    while going.is_continue() {
        match decoder.next_command(session.limits()) {
            Ok(Some(command)) => going = session.take_in(command, &plan).await,
            Ok(None) => break,
            Err(error) => {
                session.settle().await;
                session.answers.error(&format!("ERR {error}"));
                session.listener.misused(session.client, "protocol", &error);
                going = ControlFlow::Break(());
            }
        }
        if session.answers.len() >= WRITE_BYTES {
            write(session, stream).await?;
        }
    }
    session.settle().await;
    write(session, stream).await?;
    going
}

async fn write(session: &mut RespSession<'_>, stream: &mut ListenerStream) -> ControlFlow<()> {
    if session.answers.len() > 0 && stream.write_all(session.answers.bytes()).await.is_err() {
        return ControlFlow::Break(());
    }
    session.answers.clear();
    ControlFlow::Continue(())
}

/// The share of the node that a long command takes that is not whole yet, and how fast it comes.
struct HeldCommand {
    room: Share,
    paced: PaceMeter,
}

/// Returns whether a command that is not whole yet may grow on: beyond a little it takes part in the room that the node has
/// for all bodies.
fn has_room(listener: &RespContext, caller: Caller, held: &mut Option<HeldCommand>, waiting: usize) -> bool {
    let Some(beyond) = waiting.checked_sub(FREE_BYTES).filter(|beyond| *beyond > 0) else {
        *held = None;
        return true;
    };
    match held {
        Some(held) => held.room.grow(beyond.saturating_sub(held.room.amount())),
        None => {
            let room = listener.node.room().take(caller, beyond);
            *held = room.map(|room| HeldCommand { room, paced: listener.node.pace.body() });
            held.is_some()
        }
    }
}
