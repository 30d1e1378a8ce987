//! Challenges on their way through the pipeline: a pass that an event shows is looked at with its content, and where the
//! verdict asks for a challenge, one is issued.

use data_encoding::HEXLOWER;
use event::{Span, Value};
use gate::challenge::ChallengeTerms;
use gate::keyring::SigningPurpose;
use gate::pass::{Pass, PassMethod, PassRefusal};
use journal::RecordId;
use judge::{Action, Verdict};
use plan::ChallengePlan;

use super::fields::RowDraft;
use crate::Engine;
use crate::metrics::ChallengeLabel;

/// A challenge that was issued for an event.
#[derive(Clone, Debug, PartialEq)]
pub struct IssuedChallenge {
    /// JSON in ALTCHA's format.
    pub json: String,
    /// The work that was asked for, in thousands of iterations of SHA-256.
    pub units: f64,
    /// The place among those who wait, for a visitor who runs no scripts, and the time to wait.
    pub waiting: Option<(String, Span)>,
    /// The cause, as far as the visitor is told.
    pub cause: ChallengeCause,
}

/// The cause of a challenge, as far as the visitor is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeCause {
    /// Nothing is known of the visitor yet.
    New,
    /// The site has more to do than usual.
    Busy,
    /// The request looks like those of programs.
    Suspicious,
    /// Challenges before were not solved.
    Failures,
    /// The pass of a former challenge has run out.
    Expired,
}

/// The time that a place among those who wait holds beyond the waiting itself.
const PATIENCE: Span = Span::minutes(10);

impl Engine {
    /// Fills the facts of a pass that an event shows. What was shown is taken out of the row.
    pub(crate) fn read_pass(&self, row: &mut RowDraft) {
        let Some(plan) = &row.pipeline.challenge else { return };
        let (columns, facts) = (&plan.columns, &mut row.facts);
        facts.clear(columns.solution);
        let Some(Value::String(text)) = facts.clear(columns.pass_token) else { return };
        let bound = plan.pass_bound(&row.pipeline.name, &self.secret, facts);
        let opened = Pass::open(&self.keyring, SigningPurpose::Pass, text.as_bytes(), bound, row.arrival);
        facts.set(columns.pass, opened.is_ok());
        match opened {
            Ok(pass) => {
                facts.set(columns.pass_id, HEXLOWER.encode(&pass.id.to_be_bytes()));
                facts.set(columns.pass_method, pass.method.word());
                let age = row.arrival.0.saturating_sub(pass.issued.0).max(0) / 1_000_000;
                facts.set(columns.pass_age, age);
            }
            Err(refusal) => facts.set(columns.pass_refused, refusal.word()),
        }
    }

    /// Issues the challenge that a verdict asks for, if it asks for one.
    pub(crate) fn issue_challenge(
        &self,
        row: &RowDraft,
        id: RecordId,
        verdict: &Verdict,
    ) -> Option<IssuedChallenge> {
        if row.pipeline.challenge.is_none() || !ChallengePlan::is_for(verdict.action) {
            return None;
        }
        let reason = verdict.reasons.first().map_or("", |reason| reason.rule.as_str());
        self.issue(row, &id.to_string(), reason, verdict.action == Action::Throttle)
    }

    /// Issues a challenge for a row, if its pipeline has challenges.
    pub(crate) fn issue(
        &self,
        row: &RowDraft,
        decision: &str,
        reason: &str,
        is_suspicious: bool,
    ) -> Option<IssuedChallenge> {
        let pipeline = &row.pipeline;
        let plan = pipeline.challenge.as_ref()?;
        let (facts, visitor) = (&row.facts, plan.visitor(&self.secret, &row.facts));
        let (units, doublings) = plan.units(facts);
        let json = gate::challenge::issue(
            &self.keyring,
            &ChallengeTerms {
                algorithm: plan.algorithm,
                cost: units,
                purpose: &pipeline.name,
                visitor,
                decision,
                reason: self.reason_hash(reason),
                issued: row.arrival,
                lifetime: plan.expires,
            },
        )?;
        let label = ChallengeLabel { pipeline: pipeline.name.clone(), rule: reason.to_owned() };
        self.metrics.challenges.issued.get_or_create(&label).inc();
        let waiting = plan.without_scripts.map(|_| {
            let place = Pass {
                method: PassMethod::Waited,
                id: self.secret.shingle(format!("\0gate\0waiting\0{decision}").as_bytes()).0,
                issued: row.arrival,
                lifetime: Span(plan.wait.0.saturating_add(PATIENCE.0)),
                bound: visitor,
            };
            (place.sign(&self.keyring, SigningPurpose::Waiting), plan.wait)
        });
        let is = |slot, word: &str| matches!(facts.get(slot), Some(Value::String(text)) if **text == *word);
        let is_busy = matches!(facts.get(plan.columns.load), Some(Value::Float(load)) if *load >= 1.0);
        let cause = if is(plan.columns.pass_refused, PassRefusal::Expired.word()) {
            ChallengeCause::Expired
        } else if doublings >= 1.0 {
            ChallengeCause::Failures
        } else if is_suspicious {
            ChallengeCause::Suspicious
        } else if is_busy {
            ChallengeCause::Busy
        } else {
            ChallengeCause::New
        };
        Some(IssuedChallenge { json, units, waiting, cause })
    }

    /// A keyed hash of a value that must not be kept as it is, 16 hexadecimal digits; the same value of another field has another.
    pub fn hash_field(&self, field: &str, value: &str) -> String {
        self.secret.shingle(format!("\0field\0{field}\0{value}").as_bytes()).to_string()
    }

    /// A hash of a rule's name, by which a challenge that comes back tells why it was issued.
    pub(crate) fn reason_hash(&self, rule: &str) -> u32 {
        (self.secret.shingle(format!("\0gate\0reason\0{rule}").as_bytes()).0 >> 32) as u32
    }
}
