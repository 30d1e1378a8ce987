//! Requests that find no place: told at once, by their heads alone, and their connections then not read for a moment.
//!
//! Under overload most requests are refused, and whatever a refusal costs is taken from those that are served. So it is
//! a prepared answer, given before the body is looked at; and the connection that it goes to is not read
//! for a pause. A client that asks again at once waits in its socket meanwhile, where it costs nothing. Pauses grow with
//! the number of those that do, so that all refusals together take a bounded share of the processors. `Retry-After` is
//! never shorter than the pause, so whoever heeds it does not notice one.

use parking_lot::Mutex;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::core::problem::{HttpFailure, MEDIA_TYPE};
use crate::core::through::write_through;

/// Refusals a second for each processor: at some 20 µs each, half a hundredth of it.
const REFUSALS_PER_S: u64 = 250;
/// The shortest pause.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest pause, unless half of the node's request time is shorter: a connection on which nothing is read for all
/// of that time is closed.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Bytes of a refused request's body that are heard out, so that its connection can be used again and a client that
/// writes before it reads gets to the answer.
const DRAINED_MAX: u64 = 1 << 20;
/// Looks for a body that came together with its head: the connection hands it over by and by.
const LOOKS: usize = 3;
/// Time for the others.
const DRAINED_IN: Duration = Duration::from_secs(1);

/// Refuses requests, no more of them than can be afforded.
#[derive(Debug)]
pub(crate) struct LoadShedder {
    since: Instant,
    /// The time at which the connection that is refused next may be read again, in microseconds.
    next: AtomicU64,
    gap: u64,
    pause: u64,
    pause_max: u64,
}

/// An answer that is ready before it is needed.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    why: HttpFailure,
    body: Bytes,
}

impl Refusal {
    pub(crate) fn new(why: HttpFailure) -> Refusal {
        // Problems do not refuse to be written.
        let body = serde_json::to_vec(&why.problem()).unwrap_or_default().into();
        Refusal { why, body }
    }

    /// Returns what is the matter.
    pub(crate) fn why(&self) -> &HttpFailure {
        &self.why
    }

    /// Returns it as an answer.
    pub(crate) fn response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        response
    }
}

impl LoadShedder {
    /// A shedder for a node with this patience for requests.
    pub(crate) fn new(patience: Duration) -> LoadShedder {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let longest = PAUSE_MAX.min(patience / 2);
        LoadShedder {
            since: Instant::now(),
            next: AtomicU64::new(0),
            gap: 1_000_000 / (REFUSALS_PER_S * processors).min(1_000_000),
            pause: PAUSE.min(longest).as_micros() as u64,
            pause_max: longest.as_micros() as u64,
        }
    }

    /// Returns how long a connection is not to be read on which a request is refused now.
    fn pause(&self) -> Duration {
        let now = self.since.elapsed().as_micros() as u64;
        let of = |next: u64| next.clamp(now + self.pause, now + self.pause_max);
        let next =
            self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| Some(of(next) + self.gap));
        // It always answers anew, so there is no other case.
        let next = next.unwrap_or_else(|next| next);
        Duration::from_micros(of(next) - now)
    }

    /// Answers a request that finds no place, and lets its connection rest.
    pub(crate) async fn refuse(
        &self,
        mut response: Response<Body>,
        headers: &HeaderMap,
        body: Body,
        rest: ReadPause,
    ) -> Response<Body> {
        let pause = self.pause();
        if response.status() == StatusCode::SERVICE_UNAVAILABLE {
            let seconds = pause.as_micros().div_ceil(1_000_000).max(1) as u64;
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        pass_over(headers, body, response, move || rest.until(Instant::now() + pause)).await
    }
}

/// Answers a request whose body is not wanted. What has come of it, and a bounded length of what comes soon, is heard out,
/// and its end told; a longer one ends the connection.
pub(crate) async fn pass_over(
    headers: &HeaderMap,
    body: Body,
    mut response: Response<Body>,
    heard: impl FnOnce() + Send + 'static,
) -> Response<Body> {
    if body.is_end_stream() {
        heard();
        return response;
    }
    if !is_heard_out(headers, &body) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    let mut drained = Box::pin(drain(body));
    for _ in 0..LOOKS {
        if poll_fn(|context| Poll::Ready(drained.as_mut().poll(context).is_ready())).await {
            heard();
            return response;
        }
        yield_now().await;
    }
    // The answer does not wait for a body that is still on its way.
    tokio::spawn(async move {
        // Given up, the body is dropped, and the connection closed with it.
        let _ = timeout(DRAINED_IN, drained).await;
        heard();
    });
    response
}

/// Returns whether the rest of a refused request is read: not that of a client which waits to be asked for it, and no more than
/// a bounded length.
fn is_heard_out(headers: &HeaderMap, body: &Body) -> bool {
    !headers.contains_key(header::EXPECT) && body.size_hint().lower() <= DRAINED_MAX
}

async fn drain(mut body: Body) {
    let mut length = 0;
    while length <= DRAINED_MAX
        && let Some(Ok(frame)) = body.frame().await
    {
        length += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
}

/// Until when a connection is not read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadPause(Arc<Mutex<Option<Instant>>>);

impl ReadPause {
    fn until(&self, end: Instant) {
        *self.0.lock() = Some(end);
    }

    fn end(&self) -> Option<Instant> {
        *self.0.lock()
    }

    fn is_over(&self) {
        *self.0.lock() = None;
    }
}

/// A stream that is not read while its connection rests.
pub(crate) struct PausedStream<S> {
    stream: S,
    rest: ReadPause,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> PausedStream<S> {
    pub(crate) fn new(stream: S, rest: ReadPause) -> PausedStream<S> {
        PausedStream { stream, rest, timer: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PausedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(end) = self.rest.end() {
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
            if timer.deadline() != end {
                timer.as_mut().reset(end);
            }
            ready!(timer.as_mut().poll(context));
            self.rest.is_over();
            self.timer = None;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

write_through!(PausedStream);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{advance, sleep};

    use super::*;

    /// Refusals that come faster than can be afforded wait longer and longer, up to a bound, and later ones no more.
    #[tokio::test(start_paused = true)]
    async fn pauses_grow_with_those_that_ask() {
        let shed = LoadShedder::new(Duration::from_secs(60));
        assert_eq!(shed.pause(), PAUSE);
        let affordable = 1_000_000 / shed.gap;
        let pauses: Vec<Duration> = (0..2 * affordable).map(|_| shed.pause()).collect();
        assert!(pauses.is_sorted());
        let last = *pauses.last().unwrap();
        assert!(last > Duration::from_secs(2) && last < Duration::from_secs(3), "{last:?}");
        (0..100 * affordable).for_each(|_| _ = shed.pause());
        assert_eq!(shed.pause(), PAUSE_MAX);
        advance(PAUSE_MAX).await;
        assert_eq!(shed.pause(), PAUSE);
        // Never as long as a connection may be idle.
        assert_eq!(LoadShedder::new(Duration::from_millis(100)).pause(), Duration::from_millis(50));
    }

    #[tokio::test(start_paused = true)]
    async fn a_resting_stream_is_written_and_not_read() {
        let (near, mut far) = tokio::io::duplex(64);
        let rest = ReadPause::default();
        let mut near = PausedStream::new(near, rest.clone());
        far.write_all(b"abc").await.unwrap();
        assert_eq!(near.read_u8().await.unwrap(), b'a');
        let start = Instant::now();
        rest.until(start + PAUSE);
        near.write_all(b"x").await.unwrap();
        assert_eq!((far.read_u8().await.unwrap(), start.elapsed()), (b'x', Duration::ZERO));
        // The rest may be prolonged while somebody waits for its end.
        let longer = async {
            sleep(PAUSE / 2).await;
            rest.until(start + PAUSE * 2);
        };
        let (read, ()) = tokio::join!(near.read_u8(), longer);
        assert_eq!((read.unwrap(), start.elapsed()), (b'b', PAUSE * 2));
        assert_eq!((near.read_u8().await.unwrap(), start.elapsed()), (b'c', PAUSE * 2));
    }
}
