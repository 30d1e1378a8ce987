//! The work of notifications: a task that sees what happens and fills the queues, and one for each place that empties its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::{Anomaly, AnomalySort, Ban, Impact, NodeCondition, RuleNotice};
use event::Time;
use plan::NotificationOccasion;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use crate::core::anomaly_look;
use crate::core::blocking::blocking;
use crate::core::node::Node;
use crate::core::notifications::{Notice, NotificationChannel, send};

/// The interval at which it is looked what has happened, and what is due.
const LOOK: Duration = Duration::from_millis(500);
/// The interval at which is looked for what takes long.
const SCAN: Duration = Duration::from_secs(60);
/// The longest wait between two tries.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// The name of the condition of places that take nothing.
const CONDITION: &str = "notifications-failing";

/// The things that were told and have not ended.
#[derive(Debug, Default)]
struct NotificationState {
    /// The number of the last change of the ban list; `None` while nobody is told of it.
    bans: Option<u64>,
    conditions: BTreeMap<&'static str, NodeCondition>,
    anomalies: BTreeSet<String>,
    is_overdue: bool,
}

/// Tells places what happens, until the server ends.
pub(crate) async fn keep(node: Arc<Node>) {
    for channel in node.notifications.channels() {
        tokio::spawn(work(Arc::clone(&node), channel));
    }
    let mut told = NotificationState::default();
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut scan_due = Instant::now();
    loop {
        ticks.tick().await;
        let plan = node.engine.plan();
        for channel in node.notifications.follow(&plan.notifications) {
            tokio::spawn(work(Arc::clone(&node), channel));
        }
        tell_rules(&node);
        if plan.notifications.is_empty() {
            told = NotificationState::default();
            node.engine.health().set(CONDITION, Impact::Degraded, None);
            continue;
        }
        node.engine.health().set(CONDITION, Impact::Degraded, node.notifications.fault());
        tell_conditions(&node, &mut told);
        told.bans = tell_bans(&node, told.bans).await;
        if Instant::now() >= scan_due {
            scan_due = Instant::now() + SCAN;
            tell_anomalies(&node, &mut told).await;
            tell_reviews(&node, &mut told);
        }
    }
}

/// Sends what waits for a place, one message after the other.
async fn work(node: Arc<Node>, channel: Arc<NotificationChannel>) {
    while !channel.is_ended() && !node.is_stopping() {
        let notices = channel.take(node.now());
        if notices.is_empty() {
            sleep(LOOK / 2).await;
            continue;
        }
        deliver(&node, &channel, notices).await;
    }
}

/// Sends a message until it is taken or given up.
async fn deliver(node: &Arc<Node>, channel: &Arc<NotificationChannel>, notices: Vec<Notice>) {
    let notices: Arc<[Notice]> = notices.into();
    let micros = |span: event::Span| Duration::from_micros(span.0.unsigned_abs());
    let give_up = Instant::now() + micros(channel.plan.give_up);
    let mut wait = micros(channel.plan.retry);
    loop {
        while let Err(due) = channel.admit(Instant::now()) {
            sleep_until(due).await;
        }
        let failure = match send(Arc::clone(channel), Arc::clone(&notices), node.now()).await {
            Ok(true) => return channel.succeed(node.now(), notices.len()),
            Ok(false) => return,
            Err(failure) => failure,
        };
        let pause = jittered(wait).max(failure.wait.unwrap_or_default());
        channel.fail(node.now(), failure.why);
        if failure.is_final || channel.is_ended() || Instant::now() + pause >= give_up {
            channel.failed.inc_by(notices.len() as u64);
            return;
        }
        channel.retried.inc();
        sleep(pause).await;
        wait = (wait * 2).min(WAIT_MAX);
    }
}

/// A wait, longer by chance: many that failed together do not come back together.
fn jittered(wait: Duration) -> Duration {
    let mut chance = [0; 2];
    // Without it they do.
    let _ = getrandom::fill(&mut chance);
    wait + wait.mul_f64(f64::from(u16::from_le_bytes(chance)) / f64::from(u16::MAX) / 2.0)
}

fn tell_rules(node: &Node) {
    let (notices, lost) = node.engine.take_rule_notices();
    for (whom, lost) in lost {
        if let Some(channel) = node.notifications.channel(&whom) {
            channel.drop_notices(lost);
        }
    }
    for notice in notices {
        let Some(channel) = node.notifications.channel(&notice.whom) else { continue };
        if channel.plan.is_about(Some(&notice.pipeline)) {
            channel.put(of_rule(&notice, node.now()));
        }
    }
}

fn of_rule(notice: &RuleNotice, now: Time) -> Notice {
    let RuleNotice { pipeline, rule, decision, event_id, action, score, time, address, .. } = notice;
    let of = address.as_ref().map(|address| format!(" of {address}")).unwrap_or_default();
    let summary = format!("`{rule}` fired in `{pipeline}`: `{action}` for an event{of}");
    Notice::new(NotificationOccasion::Rule, now, format!("{decision} {rule}"), &summary)
        .of_pipeline(pipeline)
        .with("rule", rule.as_str())
        .with("action", action.name())
        .with("score", *score)
        .with("decision", decision.to_string())
        .with("event", event_id.clone())
        .with("event_time", time.to_string())
        .with("value", address.clone())
}

/// Tells of keys that were put on the ban list since the last time. Those of block lists are what others have published.
async fn tell_bans(node: &Arc<Node>, since: Option<u64>) -> Option<u64> {
    if !node.notifications.wants(NotificationOccasion::Ban) {
        return None;
    }
    let of = Arc::clone(node);
    blocking(move || {
        let (list, now) = (of.engine.ban_list(), of.now());
        let Some(since) = since else { return Some(list.held(now).next) };
        let changes = list.since(since, now);
        let mut rest = changes.new;
        while rest.is_some() {
            for ban in list.page(&mut rest, now).iter().filter(|ban| !ban.source.pipeline.is_empty()) {
                of.notifications.publish(&of_ban(ban, now));
            }
        }
        Some(changes.next)
    })
    .await
}

fn of_ban(ban: &Ban, now: Time) -> Notice {
    let source = &*ban.source;
    let summary = format!(
        "{} is on the ban list of `{}` until {}: `{}` by {}",
        ban.value, source.pipeline, ban.until, source.decision, source.by
    );
    let key = format!("{} {} {} {} {}", source.pipeline, source.kind, source.label, ban.value, ban.until);
    Notice::new(NotificationOccasion::Ban, now, key, &summary)
        .of_pipeline(&source.pipeline)
        .with("rule", source.by.as_str())
        .with("ban_kind", source.kind.as_str())
        .with("label", source.label.as_str())
        .with("action", source.decision.as_str())
        .with("value", &*ban.value)
        .with("until", ban.until.to_string())
}

/// Tells of conditions that have begun or ended.
fn tell_conditions(node: &Node, told: &mut NotificationState) {
    let now = node.now();
    let standing: BTreeMap<_, _> =
        node.engine.health().list().into_iter().map(|condition| (condition.name, condition)).collect();
    for notice in of_conditions(&told.conditions, &standing, now) {
        node.notifications.publish(&notice);
    }
    told.conditions = standing;
}

fn of_conditions(
    before: &BTreeMap<&'static str, NodeCondition>,
    standing: &BTreeMap<&'static str, NodeCondition>,
    now: Time,
) -> Vec<Notice> {
    let notice = |condition: &NodeCondition, state: &str, summary: String| {
        let impact = if condition.impact == Impact::Unready { "unready" } else { "degraded" };
        let key = format!("{} {state} {now}", condition.name);
        Notice::new(NotificationOccasion::Condition, now, key, &summary)
            .with("condition", condition.name)
            .with("state", state)
            .with("impact", impact)
    };
    let begun = standing
        .values()
        .filter(|condition| before.get(condition.name).is_none_or(|known| known.impact != condition.impact));
    let begun = begun
        .map(|condition| notice(condition, "begun", format!("{}: {}", condition.name, condition.detail)));
    let ended = before.values().filter(|condition| !standing.contains_key(condition.name));
    let ended = ended.map(|condition| notice(condition, "ended", format!("{}: well again", condition.name)));
    begun.chain(ended).collect()
}

/// Tells of anomalies that were not there at the look before.
async fn tell_anomalies(node: &Arc<Node>, told: &mut NotificationState) {
    let wants = |occasion| node.notifications.wants(occasion);
    if !wants(NotificationOccasion::Anomaly) && !wants(NotificationOccasion::Drift) {
        return;
    }
    let Ok(report) = anomaly_look::report(node).await else { return };
    for notice in of_anomalies(&mut told.anomalies, &report.found, report.at) {
        node.notifications.publish(&notice);
    }
}

/// The notices of anomalies that are new. Those that are not there any more are forgotten, and new when they come again.
fn of_anomalies(told: &mut BTreeSet<String>, found: &[Anomaly], at: Time) -> Vec<Notice> {
    let key = |one: &Anomaly| {
        // A sentence has numbers that change; of a drift there is nothing else.
        let sentence: String = match one.sort {
            AnomalySort::Drift => one.detail.chars().filter(|sign| !sign.is_ascii_digit()).collect(),
            _ => String::new(),
        };
        format!("{} {} {} {:?} {sentence}", one.sort.name(), one.pipeline, one.subject, one.piece)
    };
    let mut notices = Vec::new();
    let before = std::mem::take(told);
    for one in found {
        let key = key(one);
        if !before.contains(&key) && !told.contains(&key) {
            let occasion = match one.sort {
                AnomalySort::Drift => NotificationOccasion::Drift,
                _ => NotificationOccasion::Anomaly,
            };
            let value = one.piece.as_ref().map(|piece| format!("{piece}: ")).unwrap_or_default();
            let notice = Notice::new(occasion, at, format!("{key} {at}"), &format!("{value}{}", one.detail));
            notices.push(
                notice
                    .of_pipeline(&one.pipeline)
                    .with("sort", one.sort.name())
                    .with("subject", one.subject.as_str())
                    .with("value", one.piece.clone())
                    .with("seen", one.seen)
                    .with("expected", one.expected),
            );
        }
        told.insert(key);
    }
    notices
}

/// Tells once that reviews should be decided by now, until none is.
fn tell_reviews(node: &Node, told: &mut NotificationState) {
    if !node.notifications.wants(NotificationOccasion::ReviewOverdue) {
        return;
    }
    let now = node.now();
    let overdue = node.engine.reviews().census(&node.engine.plan().node.review, now).overdue;
    if overdue > 0 && !told.is_overdue {
        let summary = format!("{overdue} reviews should be decided by now");
        let notice = Notice::new(NotificationOccasion::ReviewOverdue, now, now.to_string(), &summary);
        node.notifications.publish(&notice.with("overdue", overdue));
    }
    told.is_overdue = overdue > 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anomaly_is_told_once_until_it_ends() {
        let one = |sort: AnomalySort, subject: &str, seen: u64| Anomaly {
            sort,
            pipeline: "web".to_owned(),
            subject: subject.to_owned(),
            piece: None,
            seen: Some(seen),
            expected: Some(1.0),
            detail: format!("{seen} of {subject}"),
        };
        let mut told = BTreeSet::new();
        let mut check = |found: &[Anomaly], expected: &[&str]| {
            let notices = of_anomalies(&mut told, found, Time(0));
            let summaries: Vec<&str> = notices.iter().map(|notice| &*notice.summary).collect();
            assert_eq!(summaries, expected);
        };
        let rule = |seen| one(AnomalySort::Rule, "A", seen);
        check(&[rule(20)], &["20 of A"]);
        check(&[rule(25)], &[]);
        check(&[rule(25), one(AnomalySort::Rule, "B", 9)], &["9 of B"]);
        check(&[one(AnomalySort::Drift, "", 7)], &["7 of "]);
        check(&[one(AnomalySort::Drift, "", 8), rule(30)], &["30 of A"]);
    }

    #[test]
    fn a_condition_is_told_when_it_begins_and_when_it_ends() {
        let condition = |name, impact| (name, NodeCondition { name, impact, detail: "why".to_owned() });
        let check = |before: &[(&'static str, Impact)], now: &[(&'static str, Impact)], expected: &[&str]| {
            let all = |of: &[(&'static str, Impact)]| -> BTreeMap<_, _> {
                of.iter().map(|(name, impact)| condition(*name, *impact)).collect()
            };
            let notices = of_conditions(&all(before), &all(now), Time(0));
            let summaries: Vec<&str> = notices.iter().map(|notice| &*notice.summary).collect();
            assert_eq!(summaries, expected);
        };
        let (a, worse) = (("a", Impact::Degraded), ("a", Impact::Unready));
        check(&[], &[], &[]);
        check(&[], &[a], &["a: why"]);
        check(&[a], &[a], &[]);
        check(&[a], &[worse], &["a: why"]);
        check(&[worse], &[], &["a: well again"]);
    }

    #[test]
    fn a_wait_is_longer_by_a_half_at_most() {
        for _ in 0..1000 {
            let wait = jittered(Duration::from_millis(100));
            assert!((100..=150).contains(&wait.as_millis()), "{wait:?}");
        }
    }
}
