//! Requests that are not whole yet: what they take in memory, of one connection and of all, and for how long.
//!
//! HTTP/2 gives each stream a window of its own, and what is read of a message before it is whole is kept. So a client
//! that opens many streams, and ends none, would hold as much as it likes for as long as it likes. Here each byte that is
//! taken in has room, in its connection's share and among all, until the message that it is part of was taken over; and a
//! message that has begun has to be whole within the listener's time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, Request};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use crate::core::node::Node;
use crate::core::pace::{Pace, PaceMeter};
use crate::core::shares::{Caller, Share, Shares};

/// Bytes that a request takes beside its fields and its body.
const REQUEST_BYTES: usize = 1 << 10;
/// Bytes before each message of gRPC: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Room for the requests of one connection.
#[derive(Clone, Debug)]
pub(crate) struct IntakeBudget {
    own: Arc<Semaphore>,
    all: Arc<Shares>,
    caller: Caller,
    gauge: Gauge,
    message_timeout: Duration,
    pace: Pace,
    /// True if requests are one message each, which has to come at once.
    is_unary: bool,
}

impl IntakeBudget {
    /// Returns the room of a connection that may have so many bytes.
    pub(crate) fn new(
        node: &Node,
        bytes: usize,
        patience: Duration,
        is_unary: bool,
        caller: Caller,
    ) -> IntakeBudget {
        IntakeBudget {
            own: Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))),
            all: Arc::clone(&node.grpc.intake),
            caller,
            gauge: node.grpc.unfinished.clone(),
            message_timeout: patience,
            pace: node.pace,
            is_unary,
        }
    }

    /// Takes room for a request that begins. Its body then takes room as it comes.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn open(&self, request: Request<Incoming>) -> Result<Request<MeteredBody<Incoming>>, Status> {
        let held = self.take(REQUEST_BYTES + bytes(request.headers()))?;
        Ok(request.map(|body| MeteredBody::new(body, self.clone(), held)))
    }

    fn take(&self, bytes: usize) -> Result<IntakePermit, Status> {
        let count = u32::try_from(bytes).unwrap_or(u32::MAX);
        let own = Arc::clone(&self.own).try_acquire_many_owned(count);
        let own = own.map_err(|_| crowded("this connection"))?;
        let all = self.all.take(self.caller, bytes).ok_or_else(|| crowded("all connections"))?;
        self.gauge.inc_by(i64::from(count));
        Ok(IntakePermit { own, all, gauge: self.gauge.clone() })
    }
}

fn crowded(of: &str) -> Status {
    Status::resource_exhausted(format!("too much of {of} is not whole yet"))
}

fn bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

/// Room that is taken.
#[derive(Debug)]
struct IntakePermit {
    own: OwnedSemaphorePermit,
    all: Share,
    gauge: Gauge,
}

impl IntakePermit {
    fn bytes(&self) -> usize {
        self.own.num_permits()
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        let count = u32::try_from(bytes).unwrap_or(u32::MAX);
        let own = Arc::clone(self.own.semaphore()).try_acquire_many_owned(count);
        let own = own.map_err(|_| crowded("this connection"))?;
        if !self.all.grow(bytes) {
            return Err(crowded("all connections"));
        }
        self.own.merge(own);
        self.gauge.inc_by(i64::from(count));
        Ok(())
    }

    fn shrink_to(&mut self, bytes: usize) {
        let count = self.bytes().saturating_sub(bytes);
        drop(self.own.split(count));
        self.all.shrink(count);
        self.gauge.dec_by(count as i64);
    }
}

impl Drop for IntakePermit {
    fn drop(&mut self) {
        self.gauge.dec_by(self.bytes() as i64);
    }
}

/// The lengths of messages as they come.
#[derive(Debug, Default)]
struct MessageFraming {
    prefix: [u8; PREFIX_BYTES],
    /// Bytes of the prefix that are there.
    known: usize,
    /// Bytes of the message that are still to come.
    missing: usize,
    /// Bytes of the message, its prefix included, that are there.
    unfinished: usize,
}

impl MessageFraming {
    fn feed(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.known < PREFIX_BYTES {
                let count = data.len().min(PREFIX_BYTES - self.known);
                self.prefix[self.known..self.known + count].copy_from_slice(&data[..count]);
                self.known += count;
                self.unfinished += count;
                data = &data[count..];
                let [_, length @ ..] = self.prefix;
                self.missing = u32::from_be_bytes(length) as usize;
            } else {
                let count = data.len().min(self.missing);
                self.missing -= count;
                self.unfinished += count;
                data = &data[count..];
            }
            if self.known == PREFIX_BYTES && self.missing == 0 {
                (self.known, self.unfinished) = (0, 0);
            }
        }
    }
}

/// A request's body that takes room as it comes.
#[derive(Debug)]
pub(crate) struct MeteredBody<B> {
    body: B,
    intake: IntakeBudget,
    framing: MessageFraming,
    /// Room of the request itself, and behind it that of what has come.
    held: IntakePermit,
    request_bytes: usize,
    unfinished: Option<UnfinishedMessage>,
}

/// A message that has begun to come.
#[derive(Debug)]
struct UnfinishedMessage {
    begun: Instant,
    paced: PaceMeter,
    /// The deadline for the whole message, or for more of it.
    due: Pin<Box<Sleep>>,
}

impl UnfinishedMessage {
    fn new(intake: &IntakeBudget) -> UnfinishedMessage {
        let (begun, paced) = (Instant::now(), intake.pace.body());
        let mut unfinished = UnfinishedMessage { begun, paced, due: Box::pin(sleep_until(begun)) };
        unfinished.add(intake, 0);
        unfinished
    }

    fn add(&mut self, intake: &IntakeBudget, bytes: usize) {
        self.paced.add(bytes);
        let left = self.paced.left().map_or(intake.message_timeout, |left| left.min(intake.message_timeout));
        self.due.as_mut().reset(self.begun + left);
    }
}

impl<B> MeteredBody<B> {
    fn new(body: B, intake: IntakeBudget, held: IntakePermit) -> MeteredBody<B> {
        let unfinished = intake.is_unary.then(|| UnfinishedMessage::new(&intake));
        MeteredBody {
            body,
            framing: MessageFraming::default(),
            request_bytes: held.bytes(),
            held,
            unfinished,
            intake,
        }
    }

    fn take_in(&mut self, data: &Bytes) -> Result<(), Status> {
        self.held.grow(data.len())?;
        self.framing.feed(data);
        if self.framing.unfinished == 0 {
            self.unfinished = None;
        } else {
            let unfinished = self.unfinished.get_or_insert_with(|| UnfinishedMessage::new(&self.intake));
            unfinished.add(&self.intake, data.len());
        }
        Ok(())
    }
}

impl<B> Body for MeteredBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        // Who asks for more has taken over what was whole.
        this.held.shrink_to(this.request_bytes + this.framing.unfinished);
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let taken = frame.data_ref().map_or(Ok(()), |data| this.take_in(data));
                Poll::Ready(Some(taken.map(|()| frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(Status::from_error(error.into())))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => match &mut this.unfinished {
                None => Poll::Pending,
                Some(unfinished) => {
                    ready!(unfinished.due.as_mut().poll(context));
                    Poll::Ready(Some(Err(Status::deadline_exceeded("the request was not whole in time"))))
                }
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However messages are cut, what is unfinished is what came since the last one's end.
        #[test]
        fn lengths_are_found_however_they_are_cut(
            lengths in prop::collection::vec(0usize..40, 1..12),
            cuts in prop::collection::vec(1usize..30, 1..60),
        ) {
            let mut bytes = Vec::new();
            let mut ends = vec![0];
            for length in lengths {
                bytes.push(0);
                bytes.extend_from_slice(&(length as u32).to_be_bytes());
                bytes.resize(bytes.len() + length, 0xff);
                ends.push(bytes.len());
            }
            let (mut framing, mut at) = (MessageFraming::default(), 0);
            for cut in cuts {
                let to = bytes.len().min(at + cut);
                framing.feed(&bytes[at..to]);
                at = to;
                let begun = ends.iter().rev().find(|end| **end <= at).unwrap();
                prop_assert_eq!(framing.unfinished, at - begun);
            }
        }
    }

    fn intake(own: usize, all: &Arc<Shares>) -> IntakeBudget {
        IntakeBudget {
            own: Arc::new(Semaphore::new(own)),
            all: Arc::clone(all),
            caller: Caller::Local,
            gauge: Gauge::default(),
            message_timeout: Duration::from_secs(10),
            pace: Pace::UNBOUNDED,
            is_unary: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_taken_over_makes_room() {
        let all = Arc::new(Shares::for_anybody(100));
        let of = intake(60, &all);
        let held = of.take(10).unwrap();
        let mut body = MeteredBody::new(http_body_util::Empty::<Bytes>::new(), of.clone(), held);
        body.take_in(&Bytes::from_static(&[0, 0, 0, 0, 20, 1, 2, 3])).unwrap();
        assert_eq!((all.free(), body.unfinished.is_some(), of.gauge.get()), (82, true, 18));
        body.take_in(&Bytes::from_static(&[0; 20])).unwrap();
        // Its connection has no more, though there is some among all; and another connection has.
        assert_eq!(of.take(40).unwrap_err().code(), tonic::Code::ResourceExhausted);
        drop(intake(60, &all).take(40).unwrap());
        // Three bytes are of the next message.
        let polled = futures_util::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        assert!(polled.is_none());
        assert_eq!((all.free(), of.gauge.get()), (87, 13));
        drop(body);
        assert_eq!((all.free(), of.own.available_permits(), of.gauge.get()), (100, 60, 0));
    }
}
