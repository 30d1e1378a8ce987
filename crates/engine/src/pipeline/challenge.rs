//! Challenges on their way through the pipeline: a pass that an event shows is looked at with its content, and where the
//! verdict asks for a challenge, one is issued.

use data_encoding::HEXLOWER;
use gate::challenge::ChallengeTerms;
use gate::pass::Pass;
use judge::Verdict;
use journal::RecordId;
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
}

impl Engine {
    /// Fills the facts of a pass that an event shows. What was shown is taken out of the row.
    pub(crate) fn read_pass(&self, row: &mut RowDraft) {
        let Some(plan) = &row.pipeline.challenge else { return };
        let (columns, facts) = (&plan.columns, &mut row.facts);
        facts.clear(columns.solution);
        let Some(event::Value::String(text)) = facts.clear(columns.pass_token) else { return };
        let bound = plan.pass_bound(&row.pipeline.name, &self.secret, facts);
        let opened = Pass::open(&self.keyring, text.as_bytes(), bound, row.arrival);
        facts.set(columns.pass, opened.is_ok());
        match opened {
            Ok(pass) => {
                facts.set(columns.pass_id, HEXLOWER.encode(&pass.id.to_be_bytes()));
                facts.set(columns.pass_way, pass.way.word());
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
        let pipeline = &row.pipeline;
        let plan = pipeline.challenge.as_ref().filter(|_| ChallengePlan::is_for(verdict.action))?;
        let reason = verdict.reasons.first().map_or("", |reason| reason.rule.as_str());
        let units = plan.units(&row.facts);
        let json = gate::challenge::issue(
            &self.keyring,
            &ChallengeTerms {
                algorithm: plan.algorithm,
                cost: units,
                purpose: &pipeline.name,
                visitor: plan.visitor(&self.secret, &row.facts),
                decision: &id.to_string(),
                reason: self.reason_hash(reason),
                issued: row.arrival,
                lifetime: plan.expires,
            },
        )?;
        let label = ChallengeLabel { pipeline: pipeline.name.clone(), rule: reason.to_owned() };
        self.metrics.challenges.issued.get_or_create(&label).inc();
        Some(IssuedChallenge { json, units })
    }

    /// A hash of a rule's name, by which a challenge that comes back tells why it was issued.
    pub(crate) fn reason_hash(&self, rule: &str) -> u32 {
        (self.secret.shingle(format!("\0gate\0reason\0{rule}").as_bytes()).0 >> 32) as u32
    }
}
