//! Challenges that come back: what was solved is checked, counted, and earns a pass.
//!
//! ```text
//! open_challenge ─► OpenedChallenge ─► is_solved (the one derivation) ─► close_challenge ─► EarnedPass
//!  signature, time, visitor, used once                                    └─► feedback `solved` or `failed` on the decision
//! ```
//!
//! A challenge is used up when it is opened, solved or not: whoever sends wrong solutions makes this node derive one key for each
//! challenge, and no more.

use event::{Span, Time};
use gate::challenge::{ChallengeRefusal, OpenedChallenge};
use gate::keyring::SigningPurpose;
use gate::pass::{Pass, PassMethod, PassRefusal};
use journal::RecordId;
use plan::{FailureMode, Pipeline, ScriptlessMethod};
use stats::LedgerError;

use crate::Engine;
use crate::PreparedEvent;
use crate::metrics::{ChallengeLabel, ChallengeOutcomeLabel, SOLVED};
use crate::pipeline::challenge::IssuedChallenge;
use crate::pipeline::features::UnkeyedEvent;
use crate::pipeline::observe::ObserveMode;
use crate::pipeline::score;
use crate::used_once::UseResult;

/// The feedback class of a challenge that was not solved; that of a solved one is [`SOLVED`].
const FAILED: &str = "failed";

/// A pass that a visitor has earned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarnedPass {
    /// The text to show from now on.
    pub token: String,
    /// The time for which it holds.
    pub lifetime: Span,
}

impl Engine {
    /// Issues a challenge for an event on which nothing is decided, as hard as what is known of its keys now says. Nothing is
    /// counted. `None` where the pipeline has no challenges.
    ///
    /// # Errors
    /// If statistics cannot be had.
    pub async fn offer_challenge(
        &self,
        prepared: PreparedEvent,
    ) -> Result<Option<IssuedChallenge>, LedgerError> {
        let mut observed = self.observe_one(prepared, ObserveMode::Nothing).await?;
        score::score(observed.prepared_mut());
        let PreparedEvent { row, .. } = observed.event(0).prepared;
        Ok(self.issue(row, "", "", false))
    }

    /// Opens a challenge that came with an event, and uses it up. All but the derivation of the key.
    ///
    /// # Errors
    /// If it was not issued here for this pipeline and visitor, is over, or was used before. Where the ledger cannot say whether
    /// it was used, the pipeline's `on_error` decides.
    pub async fn open_challenge(
        &self,
        event: &UnkeyedEvent,
        payload: &[u8],
        now: Time,
    ) -> Result<OpenedChallenge, ChallengeRefusal> {
        let opened = self.try_open(event, payload, now).await;
        if let Err(refusal) = &opened {
            self.count_challenge(event.pipeline(), None, refusal.word());
        }
        opened
    }

    async fn try_open(
        &self,
        event: &UnkeyedEvent,
        payload: &[u8],
        now: Time,
    ) -> Result<OpenedChallenge, ChallengeRefusal> {
        let pipeline = event.pipeline();
        let plan = pipeline.challenge.as_ref().ok_or(ChallengeRefusal::OtherPurpose)?;
        let opened = gate::challenge::open(&self.keyring, payload, now)?;
        opened.is_for(&pipeline.name, plan.visitor(&self.secret, event.facts()))?;
        self.use_for(event, "challenge", opened.token(), opened.expires(), now).await?;
        Ok(opened)
    }

    /// Counts the outcome of an opened challenge, and gives the pass that a solved one earns.
    ///
    /// # Errors
    /// If it is not solved.
    pub fn close_challenge(
        &self,
        event: &UnkeyedEvent,
        opened: &OpenedChallenge,
        is_solved: bool,
        now: Time,
    ) -> Result<EarnedPass, ChallengeRefusal> {
        let pipeline = event.pipeline();
        if !is_solved {
            let refusal = ChallengeRefusal::Unsolved;
            self.count_challenge(pipeline, Some(opened.reason()), refusal.word());
            return Err(refusal);
        }
        let rule = self.count_challenge(pipeline, Some(opened.reason()), SOLVED);
        let took = now.0.saturating_sub(opened.issued().0).max(0) as f64 / 1e6;
        let of = ChallengeLabel { pipeline: pipeline.name.clone(), rule };
        self.metrics.challenges.solved_in(&of, took);
        let lifetime = pipeline.challenge.as_ref().map_or(Span(0), |plan| plan.pass);
        Ok(self.earn(event, PassMethod::Work, lifetime, opened.token(), now))
    }

    /// Returns the sign that a client which waits has loaded what the page shows; `None` where its place is none.
    pub fn mark_rendered(&self, event: &UnkeyedEvent, place: &[u8], now: Time) -> Option<String> {
        let place = self.waiting_place(event, SigningPurpose::Waiting, place, now).ok()?;
        Some(Pass { method: PassMethod::Rendered, ..place }.sign(&self.keyring, SigningPurpose::Rendered))
    }

    /// Gives a pass to a visitor who runs no scripts, and has waited; where the pipeline asks for it also loaded what the page
    /// shows, of which `mark` is the sign. The place is used up.
    ///
    /// # Errors
    /// If the place is none, was used before, or is left too early or without the sign.
    pub async fn finish_waiting(
        &self,
        event: &UnkeyedEvent,
        place: &[u8],
        mark: Option<&[u8]>,
        now: Time,
    ) -> Result<EarnedPass, ChallengeRefusal> {
        let waited = self.waited(event, place, mark, now).await;
        let word = waited.as_ref().map_or_else(|refusal| refusal.word(), |(method, _)| method.word());
        self.count_challenge(event.pipeline(), None, word);
        waited.map(|(_, pass)| pass)
    }

    async fn waited(
        &self,
        event: &UnkeyedEvent,
        place: &[u8],
        mark: Option<&[u8]>,
        now: Time,
    ) -> Result<(PassMethod, EarnedPass), ChallengeRefusal> {
        let waiting = self.waiting_place(event, SigningPurpose::Waiting, place, now)?;
        let plan = event.pipeline().challenge.as_ref().ok_or(ChallengeRefusal::OtherPurpose)?;
        let is_marked = || {
            let mark = self.waiting_place(event, SigningPurpose::Rendered, mark.unwrap_or_default(), now);
            mark.is_ok_and(|mark| mark.id == waiting.id)
        };
        let method = match plan.without_scripts.ok_or(ChallengeRefusal::OtherPurpose)? {
            ScriptlessMethod::Waited => PassMethod::Waited,
            ScriptlessMethod::Rendered if is_marked() => PassMethod::Rendered,
            ScriptlessMethod::Rendered => return Err(ChallengeRefusal::Unsolved),
        };
        if now < waiting.issued + plan.wait {
            return Err(ChallengeRefusal::Unsolved);
        }
        self.use_for(event, "waiting", place, waiting.issued + waiting.lifetime, now).await?;
        Ok((method, self.earn(event, method, plan.pass_without_scripts, place, now)))
    }

    fn waiting_place(
        &self,
        event: &UnkeyedEvent,
        purpose: SigningPurpose,
        text: &[u8],
        now: Time,
    ) -> Result<Pass, ChallengeRefusal> {
        let plan = event.pipeline().challenge.as_ref().ok_or(ChallengeRefusal::OtherPurpose)?;
        let visitor = plan.visitor(&self.secret, event.facts());
        Pass::open(&self.keyring, purpose, text, visitor, now).map_err(|refusal| match refusal {
            PassRefusal::Forged => ChallengeRefusal::Forged,
            PassRefusal::Expired => ChallengeRefusal::Expired,
            PassRefusal::Bound => ChallengeRefusal::OtherVisitor,
        })
    }

    /// Uses something up. Where the ledger cannot say whether it was used, the pipeline's `on_error` decides.
    async fn use_for(
        &self,
        event: &UnkeyedEvent,
        purpose: &str,
        token: &[u8],
        expires: Time,
        now: Time,
    ) -> Result<(), ChallengeRefusal> {
        match self.use_once(purpose, token, expires, now).await {
            UseResult::First => Ok(()),
            UseResult::Unknown if event.pipeline().on_error == FailureMode::Open => Ok(()),
            UseResult::Again | UseResult::Unknown => Err(ChallengeRefusal::Used),
        }
    }

    fn earn(
        &self,
        event: &UnkeyedEvent,
        method: PassMethod,
        lifetime: Span,
        token: &[u8],
        now: Time,
    ) -> EarnedPass {
        let pipeline = event.pipeline();
        let bound = |plan: &plan::ChallengePlan| plan.pass_bound(&pipeline.name, &self.secret, event.facts());
        // The token is random and used once, so its hash is a name that no other pass has.
        let name = [b"\0gate\0pass\0".as_slice(), token].concat();
        let pass = Pass {
            method,
            id: self.secret.shingle(&name).0,
            issued: now,
            lifetime,
            bound: pipeline.challenge.as_deref().map_or(0, bound),
        };
        EarnedPass { token: pass.sign(&self.keyring, SigningPurpose::Pass), lifetime }
    }

    /// Tells the decision that asked for a challenge what came of it, so that its keys are counted: feedback `solved` or `failed`,
    /// where the pipeline has these classes. Returns the decision if it must be sought in the journal first, which blocks: see
    /// [`Engine::report_challenge_of`].
    pub async fn report_challenge(
        &self,
        pipeline: &Pipeline,
        opened: &OpenedChallenge,
        is_solved: bool,
        now: Time,
    ) -> Option<RecordId> {
        let class = outcome_class(is_solved);
        if !pipeline.feedback.contains_key(class) {
            return None;
        }
        let id = opened.decision().parse().ok()?;
        match self.feedback_at_hand(id, class, now).await {
            Some(Ok(_)) => None,
            Some(Err(error)) => {
                tracing::debug!(%error, class, "a challenge's outcome is not counted");
                None
            }
            None => Some(id),
        }
    }

    /// Tells a decision what came of the challenge that it asked for. Blocks while the decision is sought.
    pub async fn report_challenge_of(&self, decision: RecordId, is_solved: bool, now: Time) {
        let class = outcome_class(is_solved);
        if let Err(error) = self.feedback(decision, class, now).await {
            tracing::debug!(%error, class, "a challenge's outcome is not counted");
        }
    }

    /// Counts what came of a challenge, by the rule that asked for it, which is returned.
    fn count_challenge(&self, pipeline: &Pipeline, reason: Option<u32>, outcome: &'static str) -> String {
        let named = |reason: u32| {
            let rules = pipeline.rules.rules().iter();
            rules.map(|rule| rule.name.as_str()).find(|name| self.reason_hash(name) == reason)
        };
        let rule = reason.and_then(named).unwrap_or_default().to_owned();
        let label = ChallengeOutcomeLabel { pipeline: pipeline.name.clone(), rule: rule.clone(), outcome };
        self.metrics.challenges.shown.get_or_create(&label).inc();
        rule
    }
}

/// The class of feedback that a challenge's outcome is.
fn outcome_class(is_solved: bool) -> &'static str {
    if is_solved { SOLVED } else { FAILED }
}
