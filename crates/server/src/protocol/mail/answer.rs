//! Answer to a mail server: an outcome as the reply that the listener's settings give to it, with the header fields that
//! report it.

use std::fmt::Write;

use engine::Decision;
use engine::feedback::ID_FIELD;
use judge::{Reason, Verdict};
use plan::{ListenerPlan, MailEnforcement, MailPlan, MailReply};

use super::MessageOutcome;
use super::score::{self, PrintedScore};

/// Names of the fields that are written. Those that a message brings are somebody's forgery, and taken away.
pub(crate) const OWN_FIELDS: [&str; 6] =
    [TOLLHOUSE, ID_FIELD, "X-Spam", "X-Spam-Flag", "X-Spam-Level", "X-Spam-Status"];
pub(crate) const TOLLHOUSE: &str = "X-Tollhouse";

/// Most rules that a field names.
const RULES_MAX: usize = 40;
/// The column at which a field is folded at the latest, if a rule's name ends before.
const LINE_CHARS: usize = 72;
/// Most stars of `X-Spam-Level`.
const STARS_MAX: usize = 50;

/// The treatment of [`ID_FIELD`], by which a report on a message finds the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IdFieldAction {
    /// The field is written, and those of the message are removed.
    Write(String),
    /// The fields of the message are removed: an id of another message would lead its reports astray.
    Remove,
    /// All stays as it is.
    Leave,
}

/// A reply to a mail server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MailAnswer {
    pub(crate) reply: MailReply,
    /// Names of [`OWN_FIELDS`] of which all fields that the message brings are to be taken away.
    pub(crate) stale: Vec<&'static str>,
    /// Fields to add: names of [`OWN_FIELDS`], and values of printable ASCII that are folded with line feeds.
    pub(crate) fields: Vec<(&'static str, String)>,
    /// Enhanced status and text for [`MailReply::Reject`] and [`MailReply::Defer`].
    pub(crate) text: String,
}

impl MailAnswer {
    /// The reply to a message.
    pub(crate) fn of(
        plan: &ListenerPlan<MailPlan>,
        outcome: &MessageOutcome,
        signed_id: &IdFieldAction,
    ) -> MailAnswer {
        let mut answer = match outcome {
            MessageOutcome::Decided(decision) => decided(plan, decision),
            MessageOutcome::FailOpen(_) => undecided(MailReply::Pass, String::new()),
            MessageOutcome::FailClosed(_) => undecided(MailReply::Defer, plan.settings.defer_text.clone()),
        };
        if plan.settings.acting != MailEnforcement::Enforce && answer.reply == MailReply::Defer {
            answer.reply = MailReply::Pass;
        }
        if plan.settings.acting == MailEnforcement::Nothing {
            return MailAnswer {
                reply: MailReply::Pass,
                stale: Vec::new(),
                fields: Vec::new(),
                text: String::new(),
            };
        }
        match signed_id {
            IdFieldAction::Write(signed_id) => answer.fields.push((ID_FIELD, signed_id.clone())),
            IdFieldAction::Remove => {}
            IdFieldAction::Leave => answer.stale.retain(|name| *name != ID_FIELD),
        }
        answer
    }
}

fn undecided(reply: MailReply, text: String) -> MailAnswer {
    let fields = vec![(TOLLHOUSE, "action=undecided".to_owned())];
    MailAnswer { reply, stale: OWN_FIELDS.to_vec(), fields, text }
}

fn decided(plan: &ListenerPlan<MailPlan>, decision: &Decision) -> MailAnswer {
    let verdict = &decision.verdict;
    let reply = score::reply(plan, verdict.action);
    let is_spam = !matches!(reply, MailReply::Pass | MailReply::Defer);
    let printed = score::spam_threshold(plan, decision.bands.as_slice())
        // Where a rule's effect decided, and not the score, the two agree with it all the same.
        .map(|threshold| PrintedScore::new(verdict.score, threshold, is_spam, 1));
    let id = decision.id.to_string();
    let mut fields =
        vec![(TOLLHOUSE, format!("action={}, score={:.2}, id={id}", verdict.action, verdict.score))];
    if is_spam {
        fields.push(("X-Spam", "Yes".to_owned()));
        fields.push(("X-Spam-Flag", "YES".to_owned()));
    }
    // A score that is no number has no stars.
    let score = printed.map_or(verdict.score, |printed| printed.score);
    let stars = (score.max(0.0) as usize).min(STARS_MAX);
    if stars > 0 {
        fields.push(("X-Spam-Level", "*".repeat(stars)));
    }
    fields.push(("X-Spam-Status", status(verdict, printed, is_spam)));
    let text = match reply {
        MailReply::Reject => plan.settings.reject_text.replace("{id}", &id),
        MailReply::Defer => plan.settings.defer_text.replace("{id}", &id),
        _ => String::new(),
    };
    MailAnswer { reply, stale: OWN_FIELDS.to_vec(), fields, text }
}

/// The status as SpamAssassin writes it, for filters that read it: `Yes, score=5.2 required=4.0 tests=A,B`.
fn status(verdict: &Verdict, printed: Option<PrintedScore>, is_spam: bool) -> String {
    let mut text = if is_spam { "Yes".to_owned() } else { "No".to_owned() };
    // Nothing that is written to a string fails.
    let _ = match printed {
        Some(PrintedScore { score, threshold, .. }) => {
            write!(text, ", score={score:.1} required={threshold:.1}")
        }
        None => write!(text, ", score={:.1}", verdict.score),
    };
    text.push_str(" tests=");
    if verdict.reasons.is_empty() {
        text.push_str("none");
    }
    let mut line = text.len() + "X-Spam-Status: ".len();
    for (Reason { rule, .. }, index) in verdict.reasons.iter().take(RULES_MAX).zip(0..) {
        if index > 0 {
            text.push(',');
            line += 1;
        }
        if line + rule.len() > LINE_CHARS {
            text.push_str("\n\t");
            line = 8;
        }
        // Names of rules have no other characters; what is written into a message is checked where it is written.
        text.extend(rule.chars().filter(char::is_ascii_graphic));
        line += rule.len();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::Engine;
    use event::Time;
    use judge::Action;
    use plan::{Config, Overrides, Plan};

    use super::*;
    use crate::core::listener_context::DecisionFailure;

    fn plan(keys: &str) -> (ListenerPlan<MailPlan>, Arc<Engine>) {
        let text = format!(
            "preset = \"mail\"\n[[listener]]\nname = \"m\"\nprotocol = \"milter\"\nlisten = \"[::1]:0\"\n{keys}\n"
        );
        let plan = Plan::compile(&Config::from_text("test.toml", &text, &Overrides::default()));
        let plan = plan.unwrap_or_else(|problems| panic!("{problems}"));
        let listener = &plan.node.listeners[0];
        let listener = listener.with(listener.settings.mail().unwrap().clone());
        (listener, Arc::new(Engine::ephemeral(plan).unwrap()))
    }

    fn decision(engine: &Engine, action: Action, score: f64, rules: &[&str]) -> MessageOutcome {
        let pipeline = Arc::clone(engine.plan().pipeline(None).unwrap());
        let event =
            content::mail::message::event(b"\r\n".to_vec(), content::mail::message::Envelope::default());
        let prepared = engine.prepare(&pipeline, event, Time::from_seconds(1_779_012_000));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut decision = runtime.block_on(engine.decide(vec![prepared])).remove(0);
        let reason = |rule: &&str| Reason {
            rule: (*rule).to_owned(),
            score: 1.0,
            detail: String::new(),
            values: Vec::new(),
        };
        decision.verdict.action = action;
        decision.verdict.score = score;
        decision.verdict.reasons = rules.iter().map(reason).collect();
        MessageOutcome::Decided(Box::new(decision))
    }

    fn field<'a>(answer: &'a MailAnswer, name: &str) -> Option<&'a str> {
        answer.fields.iter().find(|(own, _)| *own == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn fields_say_what_was_found() {
        let (plan, engine) = plan("");
        let answer = MailAnswer::of(
            &plan,
            &decision(&engine, Action::Tag, 5.25, &["A", "B_2"]),
            &IdFieldAction::Remove,
        );
        assert_eq!((answer.reply, field(&answer, "X-Spam-Flag")), (MailReply::Tag, Some("YES")));
        assert_eq!(field(&answer, "X-Spam-Status"), Some("Yes, score=5.3 required=4.0 tests=A,B_2"));
        assert_eq!(field(&answer, "X-Spam-Level"), Some("*****"));
        assert!(field(&answer, TOLLHOUSE).unwrap().starts_with("action=tag, score=5.25, id="));

        let answer =
            MailAnswer::of(&plan, &decision(&engine, Action::Accept, -1.0, &[]), &IdFieldAction::Remove);
        assert_eq!(
            (answer.reply, field(&answer, "X-Spam"), field(&answer, "X-Spam-Level")),
            (MailReply::Pass, None, None)
        );
        assert_eq!(field(&answer, "X-Spam-Status"), Some("No, score=-1.0 required=4.0 tests=none"));
        assert!(answer.fields.iter().all(|(name, _)| OWN_FIELDS.contains(name)));
    }

    #[test]
    fn long_lists_are_folded_and_end() {
        let (plan, engine) = plan("");
        let names: Vec<String> = (0..100).map(|number| format!("RULE_OF_NUMBER_{number}\r\n")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let answer =
            MailAnswer::of(&plan, &decision(&engine, Action::Reject, 1e9, &names), &IdFieldAction::Remove);
        let status = field(&answer, "X-Spam-Status").unwrap();
        assert!(status.split("\n\t").all(|line| line.len() < 78 && !line.contains(['\r', '\n'])), "{status}");
        assert_eq!(status.matches("RULE_OF").count(), RULES_MAX);
        assert_eq!(field(&answer, "X-Spam-Level").unwrap().len(), STARS_MAX);
        assert!(answer.text.starts_with("5.7.1 Message refused, reference 1"), "{}", answer.text);
    }

    /// A status never contradicts itself: the score that filters read agrees with a rule's effect.
    #[test]
    fn a_status_never_contradicts_itself() {
        let (plan, engine) = plan("");
        let status = |action: Action, score: f64| {
            let answer =
                MailAnswer::of(&plan, &decision(&engine, action, score, &["GTUBE"]), &IdFieldAction::Remove);
            answer.fields.into_iter().find(|(name, _)| *name == "X-Spam-Status").unwrap().1
        };
        assert_eq!(status(Action::Reject, 1.4), "Yes, score=4.0 required=4.0 tests=GTUBE");
        assert_eq!(status(Action::Accept, 9.0), "No, score=3.9 required=4.0 tests=GTUBE");
    }

    /// Stars, status and flag agree, whatever made the action: filters read any of them.
    #[test]
    fn fields_agree_with_each_other() {
        let check = |keys: &str, action: Action, score: f64, flag: bool, stars: usize, status: &str| {
            let (plan, engine) = plan(keys);
            let answer =
                MailAnswer::of(&plan, &decision(&engine, action, score, &[]), &IdFieldAction::Remove);
            let shown =
                (field(&answer, "X-Spam-Flag").is_some(), field(&answer, "X-Spam-Level").map_or(0, str::len));
            assert_eq!(shown, (flag, stars), "{keys} {action}");
            assert!(field(&answer, "X-Spam-Status").unwrap().starts_with(status), "{:?}", answer.fields);
            assert_eq!(field(&answer, "X-Spam").is_some(), flag);
        };
        check("", Action::Tag, 1.4, true, 4, "Yes, score=4.0 required=4.0");
        check("", Action::Accept, 9.0, false, 3, "No, score=3.9 required=4.0");
        check("act = \"tag\"", Action::Reject, 13.0, true, 13, "Yes, score=13.0 required=4.0");
        // What is to come again is delivered here, and nobody has called it spam.
        check("act = \"tag\"", Action::Throttle, 2.0, false, 2, "No, score=2.0 required=4.0");
        check("replies = { tag = \"pass\" }", Action::Tag, 5.0, false, 5, "No, score=5.0 required=7.0");
    }

    #[test]
    fn settings_choose_the_reply() {
        let check = |keys: &str, action: Action, expected: MailReply| {
            let (plan, engine) = plan(keys);
            assert_eq!(
                MailAnswer::of(&plan, &decision(&engine, action, 9.0, &[]), &IdFieldAction::Remove).reply,
                expected,
                "{keys} {action}"
            );
        };
        check("", Action::Shadow, MailReply::Discard);
        check("", Action::Throttle, MailReply::Defer);
        check("replies = { reject = \"discard\" }", Action::Reject, MailReply::Discard);
        check("replies = { reject = \"discard\" }", Action::Quarantine, MailReply::Quarantine);
        check("act = \"tag\"", Action::Reject, MailReply::Tag);
        check("act = \"tag\"", Action::Accept, MailReply::Pass);
        check("act = \"none\"", Action::Reject, MailReply::Pass);
        let (silent, engine) = plan("act = \"none\"");
        let signed_id = IdFieldAction::Write("1-2".to_owned());
        let answer = MailAnswer::of(&silent, &decision(&engine, Action::Reject, 9.0, &[]), &signed_id);
        assert!(answer.fields.is_empty() && answer.stale.is_empty(), "the message stays as it is");
        let slow = MessageOutcome::FailClosed(DecisionFailure::Slow);
        assert_eq!(MailAnswer::of(&silent, &slow, &IdFieldAction::Remove).reply, MailReply::Pass);
        let (plan, _) = plan("");
        assert_eq!(MailAnswer::of(&plan, &slow, &IdFieldAction::Remove).reply, MailReply::Defer);
        let open =
            MailAnswer::of(&plan, &MessageOutcome::FailOpen(DecisionFailure::Slow), &IdFieldAction::Remove);
        assert_eq!((open.reply, open.stale), (MailReply::Pass, OWN_FIELDS.to_vec()));
    }

    #[test]
    fn signed_ids_are_written_taken_away_or_left() {
        let (plan, engine) = plan("");
        let check = |signed_id: IdFieldAction, written: Option<&str>, taken: bool| {
            let answer = MailAnswer::of(&plan, &decision(&engine, Action::Accept, 0.0, &[]), &signed_id);
            assert_eq!(field(&answer, ID_FIELD), written, "{signed_id:?}");
            assert_eq!(answer.stale.contains(&ID_FIELD), taken, "{signed_id:?}");
            assert!(answer.stale.contains(&TOLLHOUSE), "{signed_id:?}");
        };
        check(IdFieldAction::Write("1-2".to_owned()), Some("1-2"), true);
        check(IdFieldAction::Remove, None, true);
        check(IdFieldAction::Leave, None, false);
    }
}
