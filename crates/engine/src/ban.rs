//! Bans by hand: labels that enforcement points are told of, put on keys and taken off.

use std::net::IpAddr;
use std::sync::Arc;

use event::{Key, Shingle, Span, Time};
use judge::Network;
use plan::{AllowPlan, AllowSource, KindPlan, LabelPlan, Pipeline};
use stats::{LedgerError, ObserveRequest};

use crate::ban_list::AddressRange;
use crate::error::{PieceError, UnknownName};
use crate::{Engine, ban_list, find_kind};

/// Reasons for a refused ban.
#[derive(Debug, thiserror::Error)]
pub enum BanError {
    /// A kind or a label that the pipeline does not have.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// A label that enforcement points are not told of.
    #[error("the label `{0}` has no `decision`: it is for rules alone")]
    NotOnBanList(String),
    /// No piece can be made of the value.
    #[error(transparent)]
    Piece(#[from] PieceError),
    /// A value of a kind of addresses is neither an address nor a network.
    #[error(
        "`{value}` is no address, and no network such as `192.0.2.0/24`: the keys of `{kind}` are addresses"
    )]
    NoAddress {
        /// The kind.
        kind: String,
        /// The value.
        value: String,
    },
    /// A value is an address at which this machine itself is, or has one in it.
    #[error("`{0}` is, or has in it, an address of this machine itself, such as 127.0.0.1")]
    OwnAddress(String),
    /// A value is on the allow list, or a network with an address in it that is.
    #[error("`{value}` is on the allow list ({source_of})")]
    Allowed {
        /// The value.
        value: String,
        /// The part of the list that it is on.
        source_of: AllowSource,
        /// The parts of a network that can be banned.
        parts: Vec<String>,
    },
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Most parts of a network that a refusal names.
const PARTS_MAX: usize = 16;
/// Most keys that are banned at once: the ban list is held for as long as it takes to put them on.
pub const BANS_AT_ONCE: usize = 1000;
const _: () = assert!(BANS_AT_ONCE <= ObserveRequest::OBSERVATIONS_MAX);

/// A label that keys of a kind can be banned by.
#[derive(Clone, Debug)]
pub struct BannableLabel<'p> {
    pipeline: &'p Pipeline,
    kind: &'p KindPlan,
    label: &'p LabelPlan,
    decision: String,
    is_of_addresses: bool,
}

/// A value that may be banned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedBan {
    piece: String,
    shingle: Shingle,
}

impl CheckedBan {
    /// Returns the value as enforcement points are told it.
    pub fn value(&self) -> &str {
        &self.piece
    }
}

impl Engine {
    /// Returns the allow list in force.
    pub fn allow_list(&self) -> Arc<AllowPlan> {
        self.ban_list.allow()
    }

    /// Puts the allow list of a plan in force, with the addresses that names of hosts have and the entries that were posted.
    pub(crate) fn take_over_allow_list(&self, plan: &plan::Plan) {
        let found = self.allowed_addresses.lock().clone();
        let (networks, accounts) = self.posted_values.lock().networks_and_accounts();
        let list = plan.allow.with_addresses(&found).with_posted(networks, accounts);
        let taken = self.ban_list.set_allow(Arc::new(list));
        if taken > 0 {
            tracing::info!(taken, "bans have ended, as the allow list has what they were of");
            self.metrics.count_passed_over("list", "list", taken as u64);
        }
    }

    /// Takes over the addresses that names of the allow list have.
    pub fn allow_addresses(&self, found: Vec<(Arc<str>, Vec<IpAddr>)>) {
        let _only = self.changing.lock();
        *self.allowed_addresses.lock() = found;
        self.take_over_allow_list(&self.plan());
    }

    /// Refuses a value that is on the allow list.
    fn check_allowed(&self, value: &str) -> Result<(), BanError> {
        let list = self.ban_list.allow();
        let Some(source) = list.find(value) else { return Ok(()) };
        let network = value.parse::<Network>().ok().filter(|_| value.contains('/'));
        let parts = network.and_then(|network| list.parts_beside(network, PARTS_MAX));
        let parts = parts.unwrap_or_default().iter().map(ToString::to_string).collect();
        Err(BanError::Allowed { value: value.to_owned(), source_of: source.clone(), parts })
    }

    /// Finds a label of a kind, which must be one that enforcement points are told of.
    ///
    /// # Errors
    /// A kind or a label that the pipeline does not have; a label for rules alone.
    pub fn ban_target<'p>(
        &self,
        pipeline: &'p Pipeline,
        kind: &str,
        label: &str,
    ) -> Result<BannableLabel<'p>, BanError> {
        let plan = find_kind(pipeline, kind)?;
        let found =
            pipeline.labels.iter().find(|own| own.name == label && pipeline.kinds[own.of].kind == plan.kind);
        let found = found.ok_or_else(|| {
            let help = plan::expected(label, pipeline.labels.iter().map(|label| label.name.as_str()));
            UnknownName { what: "label", name: label.to_owned(), help }
        })?;
        let decision = found.decision.clone().ok_or_else(|| BanError::NotOnBanList(label.to_owned()))?;
        let column =
            plan.fields.single().and_then(|field| pipeline.schema.columns().get(usize::from(field.slot.0)));
        let is_of_addresses = column.is_some_and(|column| column.kind == event::Type::Ip);
        Ok(BannableLabel { pipeline, kind: plan, label: found, decision, is_of_addresses })
    }

    /// Checks that the key of a value may be banned, and changes nothing. For a kind of addresses it may be a network.
    ///
    /// # Errors
    /// [`BanError`], but for the ledger's.
    pub fn check_ban(&self, target: &BannableLabel<'_>, value: &str) -> Result<CheckedBan, BanError> {
        let kind = &target.kind.name;
        let range = AddressRange::parse(value.trim());
        if target.is_of_addresses && range.is_none() {
            return Err(BanError::NoAddress { kind: kind.clone(), value: value.to_owned() });
        }
        if range.is_some_and(AddressRange::is_of_this_machine) {
            return Err(BanError::OwnAddress(value.to_owned()));
        }
        let range = range.filter(|_| target.is_of_addresses).map(|range| range.to_string());
        let (piece, shingle) = self.piece(target.kind, range.as_deref().unwrap_or(value))?;
        // A value may be less than the key that is made of it, as an address of its network.
        for value in [range.as_deref().unwrap_or(value), &piece] {
            self.check_allowed(value)?;
        }
        Ok(CheckedBan { piece, shingle })
    }

    /// Puts a label on the key of a value, as a rule would; for a kind of addresses also on all of a network. The label must be
    /// one that enforcement points are told of. The reason is shown wherever the ban is. Answers until when it holds, and the value as
    /// they are told it.
    ///
    /// # Errors
    /// [`BanError`]; then nothing has changed.
    pub async fn mark(
        &self,
        pipeline: &Pipeline,
        kind: &str,
        label: &str,
        value: &str,
        (lasts, why): (Span, Option<&str>),
        now: Time,
    ) -> Result<(Time, String), BanError> {
        let target = self.ban_target(pipeline, kind, label)?;
        let checked = self.check_ban(&target, value).inspect_err(|error| self.count_refused_ban(error))?;
        let told = checked.piece.clone();
        self.keep_bans(&target, vec![(checked, lasts)], why, now).await?;
        Ok((now + lasts.min(target.label.keep), told))
    }

    /// Counts a ban that the allow list has refused.
    pub fn count_refused_ban(&self, error: &BanError) {
        if let BanError::Allowed { source_of, .. } = error {
            self.metrics.count_passed_over("post", source_of.name(), 1);
        }
    }

    /// Puts a label on keys that were checked, each for so long, but no longer than the label holds: on all, or on none. At most
    /// [`BANS_AT_ONCE`].
    ///
    /// # Errors
    /// The ledger's; then nothing has changed.
    pub async fn keep_bans(
        &self,
        target: &BannableLabel<'_>,
        bans: Vec<(CheckedBan, Span)>,
        why: Option<&str>,
        now: Time,
    ) -> Result<(), LedgerError> {
        let BannableLabel { pipeline, kind, label, decision, .. } = target;
        let until = |lasts: &Span| now + (*lasts).min(label.keep);
        let mark = |(ban, lasts): &(CheckedBan, Span)| stats::Observation {
            key: Key { space: pipeline.space, kind: label.kind, shingle: ban.shingle },
            time: now,
            add: stats::Addition::Value(Some(until(lasts).0)),
        };
        let observations = bans.iter().map(mark).collect();
        self.ledger.observe(&[ObserveRequest { observations, ..ObserveRequest::default() }]).await?;
        let puts = bans.into_iter().map(|(ban, lasts)| ban_list::NewBan {
            pipeline: pipeline.name.clone(),
            kind: kind.name.clone(),
            label: label.name.clone(),
            decision: decision.clone(),
            value: ban.piece,
            by: "API".to_owned(),
            since: now,
            until: until(&lasts),
            cause: ban_list::BanCause { decision: None, why: why.map(str::to_owned) },
        });
        self.ban_list.put(puts.collect());
        Ok(())
    }

    /// Takes the labels that enforcement points are told of off the keys of a value, as of a time: rules see them for events
    /// that arrived before it alone. In a cluster, where what was said of a key cannot be taken back, rules see them until they
    /// end. Answers how many.
    ///
    /// # Errors
    /// The ledger's; then nothing was taken off.
    pub async fn lift(&self, value: &str, now: Time) -> Result<usize, LedgerError> {
        let plan = self.plan();
        let mut observations = Vec::new();
        for (source, piece) in self.ban_list.labels_of(value) {
            let shingle = self.secret.shingle(piece.as_bytes());
            // What is gone from the configuration no rule can see.
            let Some(pipeline) = plan.pipeline(Some(&source.pipeline)) else { continue };
            let found = pipeline
                .labels
                .iter()
                .find(|own| own.name == source.label && pipeline.kinds[own.of].name == source.kind);
            observations.extend(found.map(|label| stats::Observation {
                key: Key { space: pipeline.space, kind: label.kind, shingle },
                time: now,
                add: stats::Addition::Lower(now.0),
            }));
        }
        let requests: Vec<ObserveRequest> = observations
            .chunks(ObserveRequest::OBSERVATIONS_MAX)
            .map(|part| ObserveRequest { observations: part.to_vec(), ..ObserveRequest::default() })
            .collect();
        if self.ledger.embedded().is_some() {
            self.ledger.observe(&requests).await?;
        }
        Ok(self.ban_list.lift(value))
    }
}
