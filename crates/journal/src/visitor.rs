//! Reading of records for those who look at many rows and at little of each: nothing that is passed over is
//! allocated or made. [`RecordVisitor`] is who looks, at either form of a segment; [`look`] reads rows.

use std::fmt;

use event::{Facts, Kind, Shingle, Slot, Time, Type, Value};
use judge::Action;

use super::encoding::{DecisionHead, DecisionOutcome, RecordFormatError, RecordReader, RecordStart, Result};
use super::keys;
use crate::id::{IdRange, RecordId};

/// The properties of decisions that a visitor wants, as far as all versions have them. A decision has to have all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowQuery<'w> {
    /// The ids.
    pub ids: IdRange,
    /// One of these actions; any if there are none.
    pub actions: &'w [Action],
    /// The least score.
    pub score_from: Option<f64>,
    /// The score that is too great, and any above it.
    pub score_below: Option<f64>,
    /// A rule that fired, enforced or in shadow.
    pub rule: Option<&'w str>,
    /// The caller's name for the event.
    pub event_id: Option<&'w str>,
}

impl RowQuery<'_> {
    /// Returns true if an action is wanted.
    pub fn has_action(&self, action: Action) -> bool {
        self.actions.is_empty() || self.actions.contains(&action)
    }

    /// Returns true if a score is wanted.
    pub fn has_score(&self, score: f64) -> bool {
        self.score_from.is_none_or(|from| score >= from) && self.score_below.is_none_or(|below| score < below)
    }

    /// Returns true if a decision is wanted for which this rule fired.
    pub fn has_rule(&self, rule: &str) -> bool {
        self.rule.is_none_or(|wanted| wanted == rule)
    }

    /// Returns true if an event that its caller calls so is wanted.
    pub fn has_event_id(&self, event_id: Option<&str>) -> bool {
        self.event_id.is_none() || self.event_id == event_id
    }
}

/// The facts of decisions that are read: of others it is left open whether they are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FactChoice<'n> {
    /// All facts.
    #[default]
    All,
    /// Facts of these names.
    Named(&'n [String]),
}

/// A value of a fact as it is stored, of which a test makes as much as it needs.
pub trait StoredFact {
    /// The type of the fact.
    fn kind(&self) -> Type;

    /// The bytes of a text, of bytes, or of the text that an address is stored as. `None` if it is missing or of another type.
    fn bytes(&self) -> Option<&[u8]>;

    /// The item of a list with this number, or, with number 0, a text by itself. `None` if it is missing or of another type.
    fn text(&self, number: usize) -> Option<&[u8]>;

    /// The value, which may be missing. `None` if it is none of its type.
    fn value(&self) -> Option<Option<Value>>;
}

/// A test that decisions of a version have to pass for a visitor to want them, and that looks at one fact at a time.
pub trait FactTest: fmt::Debug + Send {
    /// The facts, of which one has to pass.
    fn facts(&self) -> &[Slot];

    /// Returns true if a value passes, which depends on nothing else: values that many decisions share are tested once. `None` if
    /// it is none of its type.
    fn passes(&self, value: &dyn StoredFact) -> Option<bool>;

    /// Returns the bytes of the one value of this type that passes, if no other does, and no missing one.
    fn only(&self, _kind: Type) -> Option<&[u8]> {
        None
    }

    /// Returns the places in these bytes, rising, of which a value of this type with texts among them has one in a text if it
    /// passes: others are not tested. `None` if any value may pass, or a missing one.
    fn places_among(&self, _kind: Type, _texts: &[u8]) -> Option<Vec<usize>> {
        None
    }
}

/// Somebody who looks at records, in their order.
pub trait RecordVisitor<'w> {
    /// A version whose decisions come: for each fact in order the slot that its value is put in, if any; `None` to be
    /// told of nothing but where they are. Said before the first [`RecordVisitor::decision`] of the version in a block.
    fn version(&mut self, _pipeline: &str, _version: &str) -> Option<&'w [Option<Slot>]> {
        None
    }

    /// The decisions that are wanted, if not all records are: then the visitor may be spared others, and is shown no reports. It has
    /// to look at all that it is shown all the same.
    fn query(&self) -> Option<RowQuery<'w>> {
        None
    }

    /// Tests that decisions of a version have to pass, if there is a query.
    fn tests(&self, _pipeline: &str, _version: &str) -> &'w [Box<dyn FactTest>] {
        &[]
    }

    /// A decision, and where its facts are put; `None` to pass over them and what was decided.
    fn decision(&mut self, _head: &DecisionHead<'_>) -> Option<&mut Facts> {
        None
    }

    /// Returns true if the caller's names of events are wanted.
    fn wants_event_ids(&self) -> bool {
        false
    }

    /// Returns true if the probabilities of decisions are wanted.
    fn wants_probabilities(&self) -> bool {
        false
    }

    /// Returns true if the keys of decisions are wanted.
    fn wants_keys(&self) -> bool {
        false
    }

    /// Takes a key of the decision, after the facts, if keys are wanted.
    fn key(&mut self, _kind: Kind, _shingle: Shingle) {}

    /// A rule that fired, after the facts.
    fn fired(&mut self, _rule: &str, _shadow: bool) {}

    /// Takes the outcome of the decision, after the rules.
    fn decided(&mut self, _decided: DecisionOutcome) {}

    /// A judgement of a decision: the class that labels it, `None` if it took back what had been said before. What counts
    /// nothing is passed over.
    fn feedback(&mut self, _id: RecordId, _decision: RecordId, _class: Option<&str>, _time: Time) {}

    /// Returns true if signals are to be passed to the visitor.
    fn wants_signals(&self) -> bool {
        false
    }

    /// A signal of what was done with a decision's event, on the same terms, if they are wanted.
    fn signal(&mut self, _id: RecordId, _decision: RecordId, _class: Option<&str>, _time: Time) {}
}

/// Pipeline and version of the record before, and what is wanted of theirs.
type PreviousVersion<'b, 'w> = Option<(&'b str, &'b str, Option<&'w [Option<Slot>]>)>;

/// Shows so many records to `look`, and returns their ids and where each begins.
pub(super) fn look<'w>(
    bytes: &[u8],
    count: u32,
    look: &mut dyn RecordVisitor<'w>,
) -> Result<Vec<(RecordId, usize)>> {
    let (mut reader, mut starts) = (RecordReader::new(bytes), Vec::new());
    let mut last: PreviousVersion<'_, 'w> = None;
    for _ in 0..count {
        let begins = bytes.len() - reader.bytes_left();
        let (id, start) = reader.start()?;
        starts.push((id, begins));
        let head = match start {
            RecordStart::Decision { head, .. } => head,
            RecordStart::Report(report) => {
                if let Some(label) = report.label() {
                    look.feedback(id, report.decision, label, report.time);
                }
                if let Some(signal) = report.signalled().filter(|_| look.wants_signals()) {
                    look.signal(id, report.decision, signal, report.time);
                }
                continue;
            }
        };
        let wanted = match last {
            Some((pipeline, version, wanted)) if version == head.version && pipeline == head.pipeline => {
                wanted
            }
            _ => look.version(head.pipeline, head.version),
        };
        last = Some((head.pipeline, head.version, wanted));
        match look.decision(&head) {
            Some(facts) => {
                reader.facts(wanted.unwrap_or_default(), facts)?;
                if look.wants_keys() {
                    let mut again = reader;
                    keys::names(again.content()?, |kind, shingle| look.key(kind, shingle))?;
                }
                let decided = reader.verdict(|rule, shadow| look.fired(rule, shadow))?;
                look.decided(decided);
            }
            None => {
                reader.facts(&[], &mut Facts::default())?;
                reader.verdict(|_, _| ())?;
            }
        }
        reader.effects()?;
    }
    if reader.is_at_end() { Ok(starts) } else { Err(RecordFormatError) }
}
