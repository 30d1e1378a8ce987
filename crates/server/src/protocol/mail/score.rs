//! A decision as those clients are told it that know a score, a threshold and a list of symbols.

use engine::Decision;
use event::Value;
use judge::{Action, Band};
use plan::{ListenerPlan, MailEnforcement, MailPlan, MailReply};

use crate::core::log_text::on_one_line;

/// Score and threshold as they are printed. Clients compare the two themselves, so they always agree with what was
/// decided: a score that rounding would lift to the threshold stays below it, and where an effect of a rule decided
/// and not the score, the score is moved to where its action begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PrintedScore {
    /// True if the score reaches the threshold.
    pub(crate) over: bool,
    pub(crate) score: f64,
    pub(crate) threshold: f64,
}

impl PrintedScore {
    /// A score and a threshold that are printed with this many decimals.
    pub(crate) fn new(score: f64, threshold: f64, over: bool, decimals: i32) -> PrintedScore {
        // Beyond this no digit behind the point is left, and clients' number fields end.
        const MOST: f64 = 1e9;
        let unit = 10f64.powi(decimals);
        let rounded = |number: f64| (number.clamp(-MOST, MOST) * unit).round();
        let (score, threshold) = (rounded(score), rounded(threshold));
        let score = if over { score.max(threshold) } else { score.min(threshold - 1.0) };
        // No client expects a negative zero.
        PrintedScore { over, score: score / unit + 0.0, threshold: threshold / unit + 0.0 }
    }
}

/// A rule that fired.
pub(crate) struct FiredSymbol<'d> {
    pub(crate) name: &'d str,
    pub(crate) score: f64,
    /// The description that the configuration gives of it; empty if it gives none.
    pub(crate) description: &'d str,
    /// The values that it saw, e.g. `mail.link_count=12`; on one line each, without control characters, cut where they are
    /// long.
    pub(crate) options: Vec<String>,
}

/// Most values of a symbol.
const OPTIONS_MAX: usize = 16;
/// Characters of one of them.
const OPTION_CHARS_MAX: usize = 200;

/// The rules of a decision that fired, the weightiest first.
pub(crate) fn symbols(decision: &Decision) -> impl Iterator<Item = FiredSymbol<'_>> {
    decision.verdict.reasons.iter().map(|reason| {
        let rule = decision.pipeline.rules.rule(&reason.rule);
        let values = reason.values.iter().take(OPTIONS_MAX);
        FiredSymbol {
            name: &reason.rule,
            score: reason.score,
            description: rule.map_or("", |rule| rule.description.as_str()),
            options: values.filter_map(|(name, value)| Some(option(name, value.as_ref()?))).collect(),
        }
    })
}

fn option(name: &str, value: &Value) -> String {
    let text = match journal::json_value(value) {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    on_one_line(&format!("{name}={text}"), OPTION_CHARS_MAX)
}

/// Returns what the mail server is asked to do for an action, by the listener's settings.
pub(crate) fn reply(plan: &ListenerPlan<MailPlan>, action: Action) -> MailReply {
    match (plan.settings.replies.of(action), plan.settings.acting) {
        (_, MailEnforcement::Nothing) | (MailReply::Pass, _) => MailReply::Pass,
        // Mail that is to come again is not yet called spam.
        (MailReply::Defer, MailEnforcement::Tag) => MailReply::Pass,
        (_, MailEnforcement::Tag) => MailReply::Tag,
        (reply, MailEnforcement::Enforce) => reply,
    }
}

/// Returns whether a message that could not be decided on is to come again, where the listener fails closed.
pub(crate) fn defers(plan: &ListenerPlan<MailPlan>) -> bool {
    plan.settings.acting == MailEnforcement::Enforce
}

/// Returns the score from which mail is called spam; `None` if no band says so.
pub(crate) fn spam_threshold(plan: &ListenerPlan<MailPlan>, bands: &[Band]) -> Option<f64> {
    begins(bands, |action| !matches!(reply(plan, action), MailReply::Pass | MailReply::Defer))
}

/// The start of the first band that asks for one of these actions.
pub(crate) fn begins(bands: &[Band], wanted: impl Fn(Action) -> bool) -> Option<f64> {
    bands.iter().find(|band| wanted(band.action)).map(|band| band.at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn scores_agree_with_what_was_decided() {
        let check = |score: f64, over: bool, expected: (f64, f64)| {
            let scored = PrintedScore::new(score, 4.0, over, 1);
            assert_eq!((scored.score, scored.threshold), expected, "{score} {over}");
        };
        check(3.97, false, (3.9, 4.0));
        check(3.9, false, (3.9, 4.0));
        check(-0.04, false, (0.0, 4.0));
        check(4.0, true, (4.0, 4.0));
        check(12.34, true, (12.3, 4.0));
        check(0.0, true, (4.0, 4.0));
        check(99.0, false, (3.9, 4.0));
    }

    proptest! {
        #[test]
        fn clients_that_compare_what_is_printed_are_right(
            score in any::<f64>(), threshold in any::<f64>(), over: bool, decimals in 1i32..3,
        ) {
            let scored = PrintedScore::new(score, threshold, over, decimals);
            let printed = |number: f64| format!("{number:.*}", decimals as usize).parse::<f64>().unwrap();
            if !score.is_nan() && !threshold.is_nan() {
                prop_assert_eq!(printed(scored.score) >= printed(scored.threshold), over);
            }
        }

        #[test]
        fn lines_are_single_and_short(text in "(?s).{0,300}") {
            let line = on_one_line(&text, 100);
            prop_assert!(line.chars().count() <= 101 && !line.chars().any(char::is_control));
        }
    }
}
