//! Meaning of `[feedback]` and `[reports]`: classes of feedback, and the weight of reporters.

use content::address::MailAddress;
use content::web::domain::domain_to_ascii;
use event::{Kind, Slot, Span, TableIndex};
use stats::{AggregateColumn, AggregateLayout, Layout, LayoutError, Measure, Tier};

use super::KindPlan;
use super::draft::PipelineDraft;
use super::key_fields::KeyFields;
use super::reputation::{
    EvidenceSource, GradeThresholds, HALF_LIVES, PartMeasure, PartWindows, ReputationFormula, ReputationPart,
};
use crate::config::{ConfigProblems, ConfigView, expected};

/// Kind of reporters, whose statistics say how much they are believed. Configured kinds are numbered below.
pub const REPORTER: Kind = Kind(stats::Catalog::KINDS - 1);
/// Kind of what reporters said last.
pub const REPORT: Kind = Kind(stats::Catalog::KINDS - 2);
/// The name of the kind of reporters.
pub(super) const REPORTER_NAME: &str = "reporter";
/// The class that takes back what was said.
pub const WITHDRAWN: &str = "none";
/// Counters of a reporter's key, in order.
pub(crate) const REPORTER_COUNTERS: [&str; 6] =
    ["reports", "others", "limited", "agreed", "contradicted", "reversed"];
/// The time for which standing and feedback are kept.
const KEEP: Span = Span::days(90);

/// The side of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedbackSide {
    /// The event was unwanted.
    Bad,
    /// The event was wanted.
    Good,
}

impl FeedbackSide {
    /// Returns the side that says the contrary.
    pub fn other(self) -> FeedbackSide {
        match self {
            FeedbackSide::Bad => FeedbackSide::Good,
            FeedbackSide::Good => FeedbackSide::Bad,
        }
    }
}

impl FeedbackSide {
    /// The key of `[reports]` that names its classes.
    pub fn name(self) -> &'static str {
        match self {
            FeedbackSide::Bad => "bad",
            FeedbackSide::Good => "good",
        }
    }
}

/// The kind of a piece of feedback. Judgements and retractions stand in one place, of which the last is kept, and signals in
/// another: what somebody does with an event does not unsay what the same reporter has called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedbackKind {
    /// The judgement of what the event was. Only this is ground truth.
    Judgement,
    /// Takes back what was said, and what classifiers were taught by it.
    Retraction,
    /// The signal of what was done with the event, such as `read`.
    Signal,
}

/// A class of feedback that may be given on an event afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedbackClass {
    /// Its name.
    pub name: String,
    /// Counters that it adds to.
    pub counters: Vec<String>,
    /// The side of the class, which says that an event was wanted, or not; `None` for what says neither.
    pub side: Option<FeedbackSide>,
    /// The kind of the feedback beside other feedback of the same reporter.
    pub sort: FeedbackKind,
    /// The number by which a stored vote names it.
    pub tag: u16,
}

/// The feedback that may be given, and how much those who give it are believed.
#[derive(Clone, Debug)]
pub struct ReportsPlan {
    /// The classes, by name.
    pub classes: Vec<FeedbackClass>,
    /// Classes of each side in the order of the configuration: what a report says that only tells its side.
    first: [Option<String>; 2],
    /// Kinds whose keys events share with their like.
    pub alike: Vec<Kind>,
    /// The kind of reporters.
    pub reporter: KindPlan,
    /// Addresses to which mail is sent to report it, and the class that it is then of.
    addresses: Vec<(String, String)>,
    /// Addresses and domains that may.
    senders: Vec<String>,
    per_day: u64,
    others_per_day: u64,
    /// The place of a day among the windows of a reporter's reading.
    pub day: Option<TableIndex<Span>>,
    /// The weight of a vote by who is neither trusted nor bad.
    pub new: u8,
    /// The weight of a vote by who is trusted.
    pub trusted: u8,
    /// The reputation of reporters, by which their votes weigh.
    pub standing: ReputationFormula,
    /// True if the configuration says what it is.
    is_standing_configured: bool,
}

/// The parts of a reporter's standing where the configuration has none: counters and weights.
const STANDING: [(&str, f64); 3] = [("agreed", 1.0), ("contradicted", -3.0), ("reversed", -3.0)];
/// Its half-life.
const STANDING_HALF_LIFE: Span = Span::days(30);
/// Its prior and grades: ten agreements make somebody trusted, three contradictions bad.
const STANDING_PRIOR: f64 = 90.0;
const STANDING_GRADES: GradeThresholds =
    GradeThresholds { trusted: 10.0, known: 5.0, suspicious: -5.0, bad: -9.0, hysteresis: 1.0 };

impl ReportsPlan {
    /// Returns the number of reports of one reporter that count in a day.
    pub fn per_day(&self, side: Option<FeedbackSide>) -> u64 {
        if side.is_some() { self.per_day } else { self.others_per_day }
    }

    /// Returns true if the configuration says which classes are for and which are against an event; without that all of them
    /// are judgements.
    pub fn has_sides(&self) -> bool {
        self.classes.iter().any(|class| class.side.is_some())
    }

    /// Returns the side that a class takes on an event.
    pub fn side_of(&self, class: &str) -> Option<FeedbackSide> {
        self.classes.iter().find(|known| known.name == class)?.side
    }

    /// The classes that say what an event was.
    pub fn judgements(&self) -> impl Iterator<Item = &FeedbackClass> {
        self.classes.iter().filter(|class| class.sort == FeedbackKind::Judgement)
    }

    /// Returns the class that has this tag.
    pub fn class_of(&self, tag: u16) -> Option<&FeedbackClass> {
        self.classes.iter().find(|class| class.tag == tag)
    }

    /// The class that says no more than its side.
    pub fn class_for(&self, side: FeedbackSide) -> Option<&str> {
        self.first[usize::from(side == FeedbackSide::Good)].as_deref()
    }

    /// The class of mail to these recipients, if one of them is an address for reports.
    pub fn class_of_address(&self, recipients: &[String]) -> Option<&str> {
        recipients.iter().filter_map(|recipient| MailAddress::parse(recipient)).find_map(|recipient| {
            let known = self.addresses.iter().find(|(address, _)| *address == recipient.full);
            known.map(|(_, class)| class.as_str())
        })
    }

    /// Returns true if an envelope sender may report by mail.
    pub fn may_report(&self, sender: &str) -> bool {
        MailAddress::parse(sender).is_some_and(|sender| {
            let listed = |it: &String| *it == sender.full || !it.contains('@') && *it == sender.domain;
            !sender.domain.is_empty() && self.senders.iter().any(listed)
        })
    }

    /// The time for which standing and feedback are kept.
    pub(super) const KEEP: Span = KEEP;

    /// Returns the standing of reporters, if the configuration says what it is.
    pub(super) fn configured_standing(&self) -> Option<&ReputationFormula> {
        self.is_standing_configured.then_some(&self.standing)
    }

    /// Has the configuration say what the standing of reporters is.
    pub(super) fn set_standing(&mut self, standing: ReputationFormula) {
        (self.standing, self.is_standing_configured) = (standing, true);
    }

    /// Returns the part of a standing that a counter is, over these windows.
    pub(super) fn part(
        &mut self,
        counter: TableIndex<String>,
        spans: Vec<Span>,
        weight: f64,
    ) -> ReputationPart {
        let name = format!("{REPORTER_NAME}.{}", self.reporter.counters[counter]);
        let windows = PartWindows::among(&mut self.reporter.windows, spans);
        let measure = PartMeasure::Report { counter, windows };
        ReputationPart { name, measure, weight, source: EvidenceSource::Outcome }
    }

    /// Says why the counters of reporters cannot be read over a window.
    pub(super) fn is_readable(window: Span) -> Result<(), String> {
        layout(vec![window]).map(|_| ()).map_err(|error| error.to_string())
    }

    /// Names windows by their places among those of readings.
    pub(super) fn compile_windows(&mut self) {
        let windows = &self.reporter.windows;
        self.day = windows.position(|window| *window == Span::days(1));
        for part in &mut self.standing.parts {
            if let PartMeasure::Report { windows: of_part, .. } = &mut part.measure {
                of_part.compile(windows);
            }
        }
    }

    /// Returns the measures that are kept: kind, name of the kind, and how.
    pub(crate) fn measures(&self) -> Result<[(Kind, &'static str, Measure); 2], LayoutError> {
        let standing = layout(self.reporter.windows.as_slice().to_vec())?;
        let words = AggregateLayout::new(vec![AggregateColumn::Count, AggregateColumn::Max], KEEP)?;
        Ok([
            (REPORTER, REPORTER_NAME, Measure::Windows(standing)),
            (REPORT, "report", Measure::Aggregate(words)),
        ])
    }
}

/// The layout of the counters of reporters.
fn layout(windows: Vec<Span>) -> Result<Layout, LayoutError> {
    let counters = REPORTER_COUNTERS.iter().map(|name| (*name).to_owned()).collect();
    let tiers = [Tier { width: Span::hours(1), buckets: 24 }, Tier { width: Span::days(1), buckets: 90 }];
    Layout::new(counters, &tiers, windows, None)
}

fn reporters() -> KindPlan {
    KindPlan {
        counters: REPORTER_COUNTERS.iter().map(|name| (*name).to_owned()).collect(),
        windows: vec![Span::days(1), KEEP].into(),
        ..KindPlan::new(REPORTER, REPORTER_NAME.to_owned(), KeyFields::exact(Slot(u16::MAX)), None)
    }
}

impl PipelineDraft<'_> {
    /// Names of the counters that feedback adds to, of which something can be taken back.
    pub(crate) fn counters_of_feedback(&self) -> Vec<&str> {
        let classes = self.document.section("feedback");
        let names = classes.iter().flat_map(ConfigView::map).flat_map(|(.., names)| names);
        names.map(|(name, _)| name).collect()
    }

    /// Classes and settings of reports.
    pub(crate) fn reports(&mut self, problems: &mut ConfigProblems) {
        let view = self.document.section("reports");
        let names = |key: &str| view.map(|view| view.strings(key)).unwrap_or_default();
        let number = |key: &str| view.and_then(|view| u64::try_from(view.integer(key)?).ok()).unwrap_or(0);
        let known = || self.pipeline.feedback.keys().map(String::as_str);
        let mut first = [None, None];
        for (side, first) in [FeedbackSide::Bad, FeedbackSide::Good].into_iter().zip(&mut first) {
            for (name, origin) in names(side.name()) {
                if !self.pipeline.feedback.contains_key(name) {
                    let help = expected(name, known());
                    problems.add(origin, format!("[feedback] has no class `{name}`"), Some(help));
                } else if side == FeedbackSide::Good && names("bad").iter().any(|(bad, _)| *bad == name) {
                    let help = "an event is wanted or not: leave it out of one".to_owned();
                    problems.add(origin, format!("`{name}` is in `bad` and in `good`"), Some(help));
                } else {
                    first.get_or_insert_with(|| name.to_owned());
                }
            }
        }
        let has_sides = first.iter().any(Option::is_some);
        let classifiers = self.document.list("classifier");
        let retractions: Vec<&str> = classifiers
            .iter()
            .flat_map(|classifier| classifier.strings("forget"))
            .map(|(name, _)| name)
            .collect();
        let is_of = |key: &str, class: &str| names(key).iter().any(|(name, _)| *name == class);
        let mut classes: Vec<FeedbackClass> = Vec::new();
        for (name, origin, _) in self.document.section("feedback").iter().flat_map(ConfigView::map) {
            let Some(counters) = self.pipeline.feedback.get(name) else { continue };
            if name == WITHDRAWN {
                let help = "call the class something else".to_owned();
                problems.add(
                    origin,
                    format!("`{WITHDRAWN}` is reserved: it takes feedback back"),
                    Some(help),
                );
                continue;
            }
            let tag = tag(name);
            if let Some(other) = classes.iter().find(|other| other.tag == tag) {
                let message = format!("`{name}` and `{}` cannot be told apart in storage", other.name);
                problems.add(origin, message, Some("call one of them something else".to_owned()));
            }
            let side = if is_of("bad", name) {
                Some(FeedbackSide::Bad)
            } else {
                is_of("good", name).then_some(FeedbackSide::Good)
            };
            let sort = match side {
                Some(_) => FeedbackKind::Judgement,
                None if retractions.contains(&name) => FeedbackKind::Retraction,
                None if has_sides => FeedbackKind::Signal,
                None => FeedbackKind::Judgement,
            };
            classes.push(FeedbackClass {
                name: name.to_owned(),
                counters: counters.clone(),
                side,
                sort,
                tag,
            });
        }
        let mut alike = Vec::new();
        for (name, origin) in names("alike") {
            let kind = self.kind(name, origin, problems);
            alike.extend(kind.map(|kind| self.pipeline.kinds[kind].kind));
        }
        if classes.is_empty() {
            return;
        }
        if let Some(kind) = self.pipeline.kinds.iter().find(|kind| kind.name == REPORTER_NAME) {
            let message = format!("the kind `{}` has the name of the kind of reporters", kind.name);
            let origin =
                self.document.list("kind").into_iter().find(|view| view.str("name") == Some(REPORTER_NAME));
            let origin = origin.map_or(self.document.top().origin("name"), |view| view.origin("name"));
            problems.add(origin, message, Some("call it something else".to_owned()));
        }
        let mut addresses: Vec<(String, String)> = Vec::new();
        for (class, origin, texts) in
            self.document.section("report_addresses").iter().flat_map(ConfigView::map)
        {
            if !classes.iter().any(|known| known.name == class) {
                let help = expected(class, classes.iter().map(|class| class.name.as_str()));
                problems.add(origin, format!("[feedback] has no class `{class}`"), Some(help));
            }
            for (text, origin) in texts {
                match MailAddress::parse(text).filter(|address| !address.domain.is_empty()) {
                    None => problems.add(origin, format!("`{text}` is no address"), None),
                    Some(address) if addresses.iter().any(|(other, _)| *other == address.full) => {
                        problems.add(origin, format!("`{text}` is there twice"), None);
                    }
                    Some(address) => addresses.push((address.full, class.to_owned())),
                }
            }
        }
        let senders = names("senders").into_iter().map(|(text, _)| match text.split_once('@') {
            Some(_) => MailAddress::parse(text).map_or_else(|| text.to_lowercase(), |address| address.full),
            None => domain_to_ascii(text),
        });
        let senders = senders.collect();
        let weight = |key: &str| u8::try_from(number(key)).unwrap_or(1);
        let mut reports = ReportsPlan {
            classes,
            first,
            alike,
            reporter: reporters(),
            addresses,
            senders,
            per_day: number("per_day"),
            others_per_day: number("others_per_day"),
            day: None,
            new: weight("weight_new"),
            trusted: weight("weight_trusted"),
            standing: ReputationFormula::none(REPORTER_NAME, STANDING_PRIOR, STANDING_GRADES),
            is_standing_configured: false,
        };
        for (counter, weight) in STANDING {
            let spans = (1..).map(|times| STANDING_HALF_LIFE.times(times));
            let spans = spans.take(HALF_LIVES).take_while(|span| *span <= KEEP).collect();
            let counter = reports.reporter.counters.position(|name| name == counter);
            let part = counter.map(|counter| reports.part(counter, spans, weight));
            reports.standing.parts.extend(part);
        }
        self.pipeline.reports = Some(reports);
    }
}

/// The name of a reporter as it is hashed.
pub fn reporter(by: &str) -> String {
    by.trim().to_lowercase()
}

/// Bits of the tag of a class.
pub const CLASS_TAG_BITS: u32 = 12;

/// The tag of a class: 12 bits of a hash of its name, never 0, which stands for no class. A name has the same tag for ever; the
/// classes of a pipeline are checked to have different ones.
pub(crate) fn tag(class: &str) -> u16 {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(class.as_bytes());
    let low = digest.iter().take(2).fold(0, |low, byte| low << 8 | u16::from(*byte));
    low % ((1 << CLASS_TAG_BITS) - 1) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_stable_and_none_is_that_of_no_class() {
        let tags: Vec<u16> =
            ["spam", "ham", "complaint", "pardon", "read"].iter().map(|name| tag(name)).collect();
        assert!(tags.iter().all(|tag| (1..4096).contains(tag)), "{tags:?}");
        let mut different = tags.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), tags.len());
    }
}
