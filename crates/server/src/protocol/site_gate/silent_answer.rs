//! The answer to a request that is refused silently: it looks like the application's to one that passes, and takes as long.

use std::time::{Duration, Instant};

use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use plan::{ForwardPlan, SilentAnswer};

use super::challenge_answer::STATUS;

/// The status of a refusal where a proxy hands on any other than a 2xx.
const HANDED_ON: u16 = StatusCode::TOO_MANY_REQUESTS.as_u16();

/// The time from the request on at which its answer is to leave. It stands beside a response that is ready, so that nothing is
/// held while it waits.
#[derive(Clone, Copy, Debug)]
struct AnswerDelay(Duration);

/// Returns the answer to a proxy's question. A proxy that knows 401 and 403 only asks for the client's answer by a step, and must not
/// wait for this one, as it would let the request pass.
pub(super) fn for_proxy(answer: &SilentAnswer, refuse: u16) -> Response {
    if refuse == HANDED_ON {
        return for_client(answer);
    }
    let mut response = StatusCode::from_u16(refuse).unwrap_or(StatusCode::FORBIDDEN).into_response();
    response.headers_mut().insert(STATUS, HeaderValue::from(answer.status));
    response
}

/// Returns the client's answer where a proxy asks for it that was told this status by [`for_proxy`].
pub(crate) fn by_step(forward: &ForwardPlan, told: Option<&HeaderValue>) -> Option<Response> {
    let answer = forward.silent.as_ref().filter(|_| forward.refuse != HANDED_ON)?;
    (*told? == HeaderValue::from(answer.status)).then(|| for_client(answer))
}

fn for_client(answer: &SilentAnswer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::SEE_OTHER);
    let mut response = (status, answer.body.clone()).into_response();
    response.headers_mut().remove(CONTENT_TYPE);
    for (name, value) in [(LOCATION, &answer.location), (CONTENT_TYPE, &answer.content_type)] {
        if let Some(value) = value.as_ref().and_then(|value| HeaderValue::try_from(value).ok()) {
            response.headers_mut().insert(name, value);
        }
    }
    response.extensions_mut().insert(AnswerDelay(drawn(answer)));
    response
}

/// Draws a time: early ones are likelier, as they are among answers of applications.
fn drawn(answer: &SilentAnswer) -> Duration {
    let mut chance = [0; 4];
    // Without chance it is the latest, as one that is early at all times would stand out more.
    let drawn = getrandom::fill(&mut chance)
        .map_or(1.0, |()| f64::from(u32::from_le_bytes(chance)) / f64::from(u32::MAX));
    answer.earliest + answer.latest.saturating_sub(answer.earliest).mul_f64(drawn * drawn)
}

/// Waits until an answer may leave. `started` is when its request came.
pub(crate) fn wait(response: &Response, started: Instant) -> impl Future<Output = ()> + Send + use<> {
    // A response cannot be held while another thread may go on.
    let delay = response.extensions().get().map(|AnswerDelay(delay)| *delay);
    async move {
        if let Some(delay) = delay {
            tokio::time::sleep_until((started + delay).into()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: SilentAnswer = SilentAnswer {
        status: 303,
        location: None,
        content_type: None,
        body: String::new(),
        earliest: Duration::from_millis(40),
        latest: Duration::from_millis(120),
    };

    #[test]
    fn times_are_drawn_between_the_bounds_and_more_of_them_early() {
        let times: Vec<Duration> = (0..1000).map(|_| drawn(&ANSWER)).collect();
        assert!(times.iter().all(|time| (ANSWER.earliest..=ANSWER.latest).contains(time)), "{times:?}");
        let early = times.iter().filter(|time| **time < Duration::from_millis(60)).count();
        // Half of them are within a quarter of the way; 1,000 draws leave it by 0.1 once in 10^10.
        assert!((400..600).contains(&early), "{early}");
        let fixed = SilentAnswer { latest: ANSWER.earliest, ..ANSWER };
        assert_eq!(drawn(&fixed), fixed.earliest);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_for_its_time_and_others_do_not() {
        let started = tokio::time::Instant::now();
        wait(&StatusCode::OK.into_response(), started.into_std()).await;
        assert_eq!(started.elapsed(), Duration::ZERO);
        wait(&for_client(&ANSWER), started.into_std()).await;
        // A timer of the runtime rounds up to milliseconds.
        let limit = ANSWER.latest + Duration::from_millis(2);
        assert!((ANSWER.earliest..=limit).contains(&started.elapsed()), "{:?}", started.elapsed());
    }
}
