//! The places that are told what happens, and tests of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Json;
use axum::extract::{Path, State};
use plan::NotificationOccasion;

use crate::api::{self, Timestamp};
use crate::core::node::Node;
use crate::core::notifications::{Notice, NotificationChannel, send};
use crate::core::problem::{HttpFailure, OVERLOADED, ProblemResponses, UNKNOWN_NAME, shown};

/// Lists the targets of notifications: what was sent, what waits, and what is wrong.
#[utoipa::path(
    get,
    path = "/v1/notifications",
    tag = "node",
    responses((status = 200, description = "The places", body = api::NotificationsJson), ProblemResponses),
)]
pub(crate) async fn notifications(State(node): State<Arc<Node>>) -> Json<api::NotificationsJson> {
    let notifications = node.notifications.channels().iter().map(|channel| described(channel)).collect();
    Json(api::NotificationsJson { notifications })
}

fn described(channel: &NotificationChannel) -> api::NotificationJson {
    let plan = &channel.plan;
    let fault = channel.fault();
    api::NotificationJson {
        name: plan.name.to_string(),
        form: plan.form.name().to_owned(),
        host: plan.url.host().to_owned(),
        on: plan.on.iter().map(|occasion| occasion.name().to_owned()).collect(),
        state: if fault.is_some() { "failing" } else { "well" }.to_owned(),
        waiting: channel.waiting() as u64,
        sent: channel.sent.get(),
        retried: channel.retried.get(),
        failed: channel.failed.get(),
        dropped: channel.dropped.get(),
        last_sent: channel.last_sent().map(Timestamp),
        fault: fault.map(|(since, reason)| api::NotificationFaultJson { since: Timestamp(since), reason }),
    }
}

/// The right to test a place, which one has at a time.
struct TestRight<'c>(&'c AtomicBool);

impl Drop for TestRight<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Sends a test at once, even in quiet hours, and returns the result. Does not test AbuseIPDB, since a report would accuse
/// somebody.
#[utoipa::path(
    post,
    path = "/v1/notifications/{name}/test",
    tag = "node",
    operation_id = "test_notification",
    params(("name" = String, Path, description = "The name of the place")),
    responses((status = 200, description = "The outcome", body = api::NotificationTestJson), ProblemResponses),
)]
pub(crate) async fn test(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
) -> Result<Json<api::NotificationTestJson>, HttpFailure> {
    let channel = node.notifications.channel(&name).ok_or_else(|| {
        let failure = UNKNOWN_NAME.failure(format!("there is no notification `{}`", shown(&name)));
        failure.help("`GET /v1/notifications` lists them")
    })?;
    if channel.is_tested.swap(true, Ordering::Acquire) {
        return Err(OVERLOADED.failure("a test of it is sent already").help("try again in a second"));
    }
    let now = node.now();
    let notice =
        Notice::new(NotificationOccasion::Test, now, now.to_string(), "A test of Tollhouse: it works");
    let of = Arc::clone(&channel);
    // It goes on, and is the only one, if nobody waits for it any more.
    let sent = tokio::spawn(async move {
        let _right = TestRight(&of.is_tested);
        send(Arc::clone(&of), Arc::from([notice]), now).await
    });
    let problem = match sent.await.unwrap_or(Ok(false)) {
        Ok(true) => {
            channel.succeed(node.now(), 1);
            None
        }
        Ok(false) => Some("there is nothing in a test that it takes".to_owned()),
        Err(failure) => {
            channel.fail(node.now(), failure.why.clone());
            Some(failure.why)
        }
    };
    let name = channel.plan.name.to_string();
    Ok(Json(api::NotificationTestJson { name, is_sent: problem.is_none(), problem }))
}
