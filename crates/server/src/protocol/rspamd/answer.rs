//! Answers to clients of Rspamd about a message, as JSON and as lines of the old protocol. Pure.

use std::collections::BTreeMap;

use engine::Decision;
use engine::feedback::ID_FIELD;
use judge::{Action, Band};
use plan::{ListenerPlan, MailPlan, MailReply};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::core::log_text::on_one_line;
use crate::protocol::mail::answer::{IdFieldAction, MailAnswer};
use crate::protocol::mail::score::{self, PrintedScore};
use crate::protocol::mail::subject::SUBJECT_BYTES_MAX;

/// Rspamd's actions, from the mildest to the severest.
pub(crate) const ACTIONS: [&str; 6] =
    ["no action", "greylist", "add header", "rewrite subject", "soft reject", "reject"];

/// The word for a message that is delivered with another subject.
const REWRITE_SUBJECT: &str = "rewrite subject";

/// Rspamd's word for what the mail server is asked to do, of those that every client knows. What goes to a mailbox is
/// marked, in its subject if the listener has a tag for it, and where it is to go exactly the member `tollhouse` says; a message to be dropped silently is refused,
/// which loses none.
fn named(reply: MailReply, tags_subject: bool) -> &'static str {
    match reply {
        MailReply::Pass => "no action",
        MailReply::Tag | MailReply::Quarantine | MailReply::Redirect if tags_subject => REWRITE_SUBJECT,
        MailReply::Tag | MailReply::Quarantine | MailReply::Redirect => "add header",
        MailReply::Defer => "soft reject",
        MailReply::Reject | MailReply::Discard => "reject",
    }
}

/// A rule that fired, as JSON.
#[derive(Clone, Debug, Serialize)]
struct RspamdSymbol {
    name: String,
    score: f64,
    metric_score: f64,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    options: Vec<String>,
}

/// The outcome of a message, in Rspamd's terms.
pub(crate) struct RspamdResult {
    /// True if the message was not decided on.
    skipped: bool,
    pub(crate) action: &'static str,
    score: f64,
    required: f64,
    thresholds: BTreeMap<&'static str, f64>,
    symbols: Vec<RspamdSymbol>,
    id_field: IdFieldAction,
    /// Names of fields of which all that the message brings are to be taken away, and fields to add.
    stale: Vec<&'static str>,
    fields: Vec<(&'static str, String)>,
    /// The subject, where it is to be another.
    subject: Option<String>,
    message_id: Option<String>,
    /// The reply that the mail server is to give when it refuses.
    smtp_message: Option<String>,
    own: Value,
}

/// The newer answer, of `/checkv2`.
#[derive(Serialize)]
struct CheckV2Answer<'j> {
    is_skipped: bool,
    score: f64,
    required_score: f64,
    action: &'static str,
    thresholds: &'j BTreeMap<&'static str, f64>,
    symbols: BTreeMap<&'j str, &'j RspamdSymbol>,
    messages: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'j str>,
    #[serde(rename = "message-id")]
    message_id: &'j str,
    time_real: f64,
    milter: Value,
    tollhouse: &'j Value,
}

/// The parts of a message that go into answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnsweredMessage {
    /// Its id, fit for any answer.
    pub(crate) id: Option<String>,
    /// Its subject with the listener's tag; `None` if there is no tag, or the subject has it.
    pub(crate) tagged_subject: Option<String>,
}

impl RspamdResult {
    pub(crate) fn of(
        decision: &Decision,
        plan: &ListenerPlan<MailPlan>,
        answer: MailAnswer,
        signed_id: IdFieldAction,
        message: AnsweredMessage,
    ) -> RspamdResult {
        let verdict = &decision.verdict;
        let bands = decision.bands.as_slice();
        let symbol = |symbol: score::FiredSymbol<'_>| RspamdSymbol {
            name: symbol.name.to_owned(),
            score: symbol.score,
            metric_score: symbol.score,
            description: symbol.description.to_owned(),
            options: symbol.options,
        };
        let tags_subject = message.tagged_subject.is_some();
        let name = |action| named(score::reply(plan, action), tags_subject);
        let action = name(verdict.action);
        let text = match action {
            "reject" => Some(&plan.settings.reject_text),
            "soft reject" => Some(&plan.settings.defer_text),
            _ => None,
        };
        RspamdResult {
            skipped: false,
            action,
            score: verdict.score,
            required: required(bands, name),
            thresholds: thresholds(bands, name),
            symbols: score::symbols(decision).map(symbol).collect(),
            id_field: signed_id,
            stale: answer.stale,
            fields: answer.fields,
            subject: message.tagged_subject.filter(|_| action == REWRITE_SUBJECT),
            message_id: message.id,
            smtp_message: text.map(|text| text.replace("{id}", &decision.id.to_string())),
            own: json!({
                "id": decision.id.to_string(),
                "action": verdict.action.name(),
                "pipeline": decision.pipeline.name,
                "version": decision.pipeline.version,
                "duplicate": decision.duplicate,
            }),
        }
    }

    /// A message that could not be decided on, and is to pass or to come again.
    pub(crate) fn undecided(
        pass: bool,
        why: &str,
        answer: MailAnswer,
        signed_id: IdFieldAction,
        message: AnsweredMessage,
    ) -> RspamdResult {
        RspamdResult {
            skipped: true,
            action: named(if pass { MailReply::Pass } else { MailReply::Defer }, false),
            score: 0.0,
            required: 0.0,
            thresholds: BTreeMap::new(),
            symbols: Vec::new(),
            id_field: signed_id,
            stale: answer.stale,
            fields: answer.fields,
            subject: None,
            message_id: message.id,
            smtp_message: (!pass).then(|| "Message not taken now, try again later".to_owned()),
            own: json!({"error": why}),
        }
    }

    /// Returns whether Rspamd would count it as spam.
    pub(crate) fn is_spam(&self) -> bool {
        !matches!(self.action, "no action" | "greylist" | "soft reject")
    }

    fn milter(&self) -> Value {
        // A mark of somebody else's says nothing.
        let removed: Map<String, Value> =
            self.stale.iter().map(|name| ((*name).to_owned(), 0.into())).collect();
        let field =
            |(name, value): &(&str, String)| ((*name).to_owned(), json!({"value": value, "order": 0}));
        let added: Map<String, Value> = self.fields.iter().map(field).collect();
        json!({"remove_headers": removed, "add_headers": added})
    }

    /// The answer to `/checkv2`, after so many seconds.
    pub(crate) fn json(&self, seconds: f64) -> Vec<u8> {
        let mut messages = Map::new();
        if let Some(message) = &self.smtp_message {
            messages.insert("smtp_message".to_owned(), message.clone().into());
        }
        let answer = CheckV2Answer {
            is_skipped: self.skipped,
            score: self.score,
            required_score: self.required,
            action: self.action,
            thresholds: &self.thresholds,
            symbols: self.symbols.iter().map(|symbol| (symbol.name.as_str(), symbol)).collect(),
            messages,
            subject: self.subject.as_deref(),
            message_id: self.message_id.as_deref().unwrap_or("undef"),
            time_real: seconds,
            milter: self.milter(),
            tollhouse: &self.own,
        };
        // Nothing in it refuses to be written.
        serde_json::to_vec(&answer).unwrap_or_default()
    }

    /// The answer to the older `/check` and `/symbols`: symbols stand beside the rest, all of it under the name of a
    /// metric.
    pub(crate) fn older_json(&self, seconds: f64) -> Vec<u8> {
        let symbols = self.symbols.iter().map(|symbol| (symbol.name.clone(), json!(symbol)));
        let mut metric: Map<String, Value> = symbols.collect();
        let own = [
            ("is_spam", json!(self.is_spam())),
            ("is_skipped", json!(self.skipped)),
            ("score", json!(self.score)),
            ("required_score", json!(self.required)),
            ("action", json!(self.action)),
        ];
        metric.extend(own.map(|(name, value)| (name.to_owned(), value)));
        if let Some(subject) = &self.subject {
            metric.insert("subject".to_owned(), subject.as_str().into());
        }
        let answer = json!({
            "default": metric,
            "message-id": self.message_id.as_deref().unwrap_or("undef"),
            "time_real": seconds,
            "milter": self.milter(),
            "tollhouse": self.own,
        });
        serde_json::to_vec(&answer).unwrap_or_default()
    }

    /// The answer to `CHECK RSPAMC/1.3`. Its clients compare score and threshold themselves.
    pub(crate) fn lines(&self) -> Vec<u8> {
        let over = self.action == "reject";
        let PrintedScore { score, threshold, .. } = PrintedScore::new(self.score, self.required, over, 2);
        let word = if over { "True" } else { "False" };
        let mut lines = format!(
            "RSPAMD/1.3 0 EX_OK\r\nMetric: default; {word}; {score:.2} / {threshold:.2} / {threshold:.2}\r\n\
             Action: {}\r\n",
            self.action
        );
        for symbol in &self.symbols {
            lines += &format!("Symbol: {}({:.2})\r\n", symbol.name, symbol.score);
        }
        if let Some(subject) = &self.subject {
            lines += &format!("Subject: {}\r\n", on_one_line(subject, SUBJECT_BYTES_MAX));
        }
        if let Some(message) = &self.smtp_message {
            lines += &format!("Message: {message}\r\n");
        }
        if let IdFieldAction::Write(signed_id) = &self.id_field {
            lines += &format!("{ID_FIELD}: {signed_id}\r\n");
        }
        lines += &format!("Message-ID: {}\r\n", self.message_id.as_deref().unwrap_or("undef"));
        lines.into_bytes()
    }
}

/// Returns what an old client is told instead of an answer. It takes it for an error, and goes on as it is configured to.
pub(crate) fn refused_line(code: u16, why: &str) -> Vec<u8> {
    format!("RSPAMD/1.3 {code} {}\r\n", on_one_line(why, 200)).into_bytes()
}

/// The score at which a message is refused; without such a band, the start of the last.
fn required(bands: &[Band], named: impl Fn(Action) -> &'static str) -> f64 {
    let refused = score::begins(bands, |action| named(action) == "reject");
    refused.or_else(|| Some(bands.last()?.at)).unwrap_or_default()
}

/// The score at which each of Rspamd's actions begins.
fn thresholds(bands: &[Band], named: impl Fn(Action) -> &'static str) -> BTreeMap<&'static str, f64> {
    let begins = |name| Some((name, score::begins(bands, |action| named(action) == name)?));
    ACTIONS.into_iter().filter_map(begins).collect()
}

#[cfg(test)]
impl RspamdResult {
    /// A message without fields that could not be decided on in time.
    pub(crate) fn skipped(pass: bool) -> RspamdResult {
        let answer =
            MailAnswer { reply: MailReply::Pass, stale: Vec::new(), fields: Vec::new(), text: String::new() };
        RspamdResult::undecided(pass, "slow", answer, IdFieldAction::Remove, AnsweredMessage::default())
    }
}

#[cfg(test)]
mod tests {
    use plan::Replies;

    use super::*;

    fn bands(bands: &[(f64, Action)]) -> Vec<Band> {
        bands.iter().map(|(at, action)| Band { at: *at, action: *action }).collect()
    }

    /// The names of the usual replies.
    fn usual(action: Action) -> &'static str {
        named(Replies::default().of(action), false)
    }

    fn judged(action: Action, score: f64) -> RspamdResult {
        let bands = bands(&[(4.0, Action::Tag), (7.0, Action::Quarantine), (12.0, Action::Reject)]);
        RspamdResult {
            skipped: false,
            action: usual(action),
            score,
            required: required(&bands, usual),
            thresholds: thresholds(&bands, usual),
            symbols: vec![RspamdSymbol {
                name: "LINKS".to_owned(),
                score: 2.5,
                metric_score: 2.5,
                description: String::new(),
                options: vec!["mail.link_count=12".to_owned()],
            }],
            id_field: IdFieldAction::Write("1-2".to_owned()),
            stale: vec!["X-Spam", ID_FIELD],
            fields: vec![("X-Spam", "Yes".to_owned()), (ID_FIELD, "1-2".to_owned())],
            subject: None,
            message_id: Some("1@x.org".to_owned()),
            smtp_message: None,
            own: json!({"id": "01"}),
        }
    }

    #[test]
    fn every_action_is_one_of_rspamds() {
        for action in Action::ALL {
            assert!(ACTIONS.contains(&usual(action)), "{action}");
            assert!(ACTIONS.contains(&named(Replies::default().of(action), true)), "{action}");
        }
    }

    #[test]
    fn thresholds_are_where_bands_begin() {
        let of = bands(&[(4.0, Action::Tag), (7.0, Action::Quarantine), (12.0, Action::Reject)]);
        assert_eq!(thresholds(&of, usual), BTreeMap::from([("add header", 4.0), ("reject", 12.0)]));
        assert_eq!(required(&of, usual), 12.0);
        assert_eq!(required(&bands(&[(4.0, Action::Tag), (7.0, Action::Throttle)]), usual), 7.0);
        assert_eq!(required(&[], usual), 0.0);
    }

    #[test]
    fn json_is_of_rspamds_shape() {
        let answer: Value = serde_json::from_slice(&judged(Action::Quarantine, 8.25).json(0.5)).unwrap();
        assert_eq!(
            answer,
            json!({
                "is_skipped": false,
                "score": 8.25,
                "required_score": 12.0,
                "action": "add header",
                "thresholds": {"add header": 4.0, "reject": 12.0},
                "symbols": {"LINKS": {
                    "name": "LINKS", "score": 2.5, "metric_score": 2.5, "options": ["mail.link_count=12"],
                }},
                "messages": {},
                "message-id": "1@x.org",
                "time_real": 0.5,
                "milter": {
                    "remove_headers": {"X-Spam": 0, "X-Tollhouse-Id": 0},
                    "add_headers": {
                        "X-Spam": {"value": "Yes", "order": 0}, "X-Tollhouse-Id": {"value": "1-2", "order": 0},
                    },
                },
                "tollhouse": {"id": "01"},
            })
        );
    }

    #[test]
    fn the_older_json_has_a_metric() {
        let answer: Value = serde_json::from_slice(&judged(Action::Accept, 1.0).older_json(0.5)).unwrap();
        let metric = &answer["default"];
        assert_eq!((&metric["is_spam"], &metric["action"]), (&json!(false), &json!("no action")));
        assert_eq!(metric["LINKS"]["score"], 2.5);
        assert_eq!(answer["message-id"], "1@x.org");
    }

    #[test]
    fn lines_are_as_exim_reads_them() {
        let check = |action: Action, score: f64, expected: &str| {
            let lines = String::from_utf8(judged(action, score).lines()).unwrap();
            let expected = format!(
                "RSPAMD/1.3 0 EX_OK\r\nMetric: default; {expected}\r\nSymbol: LINKS(2.50)\r\nX-Tollhouse-Id: 1-2\r\n\
                 Message-ID: 1@x.org\r\n"
            );
            assert_eq!(lines, expected);
        };
        check(Action::Accept, 2.9, "False; 2.90 / 12.00 / 12.00\r\nAction: no action");
        check(Action::Reject, 1.0, "True; 12.00 / 12.00 / 12.00\r\nAction: reject");
        check(Action::Tag, 11.999, "False; 11.99 / 12.00 / 12.00\r\nAction: add header");
    }

    #[test]
    fn a_changed_subject_is_told() {
        let mut judged = judged(Action::Tag, 5.0);
        judged.subject = Some("[SPAM] pills".to_owned());
        let json: Value = serde_json::from_slice(&judged.json(0.5)).unwrap();
        assert_eq!(json["subject"], "[SPAM] pills");
        let older: Value = serde_json::from_slice(&judged.older_json(0.5)).unwrap();
        assert_eq!(older["default"]["subject"], "[SPAM] pills");
        let lines = String::from_utf8(judged.lines()).unwrap();
        assert!(lines.contains("\r\nSubject: [SPAM] pills\r\n"), "{lines}");
    }

    #[test]
    fn what_was_not_decided_passes_or_comes_again() {
        let open: Value = serde_json::from_slice(&RspamdResult::skipped(true).json(0.0)).unwrap();
        assert_eq!((&open["is_skipped"], &open["action"]), (&json!(true), &json!("no action")));
        let closed = RspamdResult::skipped(false);
        let json: Value = serde_json::from_slice(&closed.json(0.0)).unwrap();
        assert_eq!(
            (&json["action"], json["messages"]["smtp_message"].is_string()),
            (&json!("soft reject"), true)
        );
        let lines = String::from_utf8(closed.lines()).unwrap();
        assert!(lines.starts_with(
            "RSPAMD/1.3 0 EX_OK\r\nMetric: default; False; -0.01 / 0.00 / 0.00\r\nAction: soft reject\r\n"
        ));
    }
}
