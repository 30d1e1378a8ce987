//! The effect of teaching: the same later mail, judged by a server that was told of the earlier mail, and by one that was not.

use std::collections::{BTreeMap, HashMap};

use event::Time;
use judge::Action;

use super::{DemoDecision, Sample, table};
use crate::client::ApiClient;
use crate::console::{BOLD, DIM, Output};
use crate::corpora;
use crate::exit::CommandError;
use crate::rendering;

/// The time before which half of the mail came whose source says what it is.
pub(super) fn split(samples: &[(Time, Sample)]) -> Time {
    let labelled = samples.iter().filter_map(|(time, sample)| match sample {
        Sample::Mail(message) => message.stored.origin().and_then(corpora::label).map(|_| *time),
        Sample::Web(_) => None,
    });
    let times: Vec<Time> = labelled.collect();
    times.get(times.len() / 2).copied().unwrap_or(Time::EPOCH)
}

/// The verdicts on one later message.
struct Pair<'a> {
    label: &'static str,
    untrained: &'a DemoDecision,
    trained: &'a DemoDecision,
}

/// The examples, and the verdicts on what came later.
pub(super) struct LearningReport<'a> {
    /// Messages that the server was told of, by what it was told.
    taught: BTreeMap<&'static str, usize>,
    later: Vec<Pair<'a>>,
}

/// Numbers of messages, and of those that something was done about.
struct DetectionCounts {
    spam: usize,
    found: usize,
    ham: usize,
    alarms: usize,
}

impl<'a> LearningReport<'a> {
    pub(super) fn of(
        trained: &'a [DemoDecision],
        untrained: &'a [DemoDecision],
        split: Time,
    ) -> LearningReport<'a> {
        // Both servers were sent the same mail in the same order, and one of them nothing else.
        let trained = trained.iter().filter(|judged| judged.decision.pipeline == "mail");
        let mut learning = LearningReport { taught: BTreeMap::new(), later: Vec::new() };
        for (trained, untrained) in trained.zip(untrained) {
            match trained.label {
                Some(label) if trained.time < split => *learning.taught.entry(label).or_default() += 1,
                Some(label) => learning.later.push(Pair { label, untrained, trained }),
                None => {}
            }
        }
        learning
    }

    pub(super) fn show(&self, client: &ApiClient, out: &mut Output) -> Result<(), CommandError> {
        let LearningReport { taught, later } = self;
        let count = |label: &str| later.iter().filter(|pair| pair.label == label).count();
        let told = |label: &str| taught.get(label).copied().unwrap_or(0);
        out.line(format_args!("\n{BOLD}What learning changes{BOLD:#}"))?;
        out.line(format_args!(
            "  The sources of {} messages say what they are. The server was told so of the {} earlier ones ({} spam, {}
  ham) after each verdict, and of none of the {} later ones ({} spam, {} ham). Those, judged by a server that was
  told nothing (untrained), and by this one (trained):
",
            later.len() + taught.values().sum::<usize>(),
            taught.values().sum::<usize>(),
            told("spam"),
            told("ham"),
            later.len(),
            count("spam"),
            count("ham"),
        ))?;
        let mut rows: Vec<(&str, HashMap<Action, u64>)> =
            ["spam, untrained", "spam, trained", "ham, untrained", "ham, trained"]
                .map(|name| (name, HashMap::new()))
                .into();
        for pair in later {
            let first = if pair.label == "spam" { 0 } else { 2 };
            for (row, judged) in [(first, pair.untrained), (first + 1, pair.trained)] {
                *rows[row].1.entry(judged.decision.action).or_default() += 1;
            }
        }
        out.line(table("  later messages", rows.iter().map(|(name, counts)| (*name, counts))))?;
        out.line("")?;
        for (name, of) in
            [("untrained", self.found(|pair| pair.untrained)), ("trained", self.found(|pair| pair.trained))]
        {
            out.line(format_args!("  {name:<10} {}", of.told()))?;
        }
        out.line(format_args!(
            "  {DIM}So few messages show that it learns, and not how well: docs/internals/benchmarks.md measures that on thousands.{DIM:#}"
        ))?;
        self.show_change(client, out)
    }

    /// Counts the messages on which any action but `accept` was taken.
    fn found(&self, of: impl Fn(&Pair<'a>) -> &'a DemoDecision) -> DetectionCounts {
        let acted = |label: &str| {
            let of_label = self.later.iter().filter(|pair| pair.label == label);
            let (all, hit) = of_label.fold((0, 0), |(all, hit), pair| {
                (all + 1, hit + usize::from(of(pair).decision.action != Action::Accept))
            });
            (all, hit)
        };
        let ((spam, found), (ham, alarms)) = (acted("spam"), acted("ham"));
        DetectionCounts { spam, found, ham, alarms }
    }

    /// Explains the message whose score changed most, of those on which something else is done now if there are any.
    fn show_change(&self, client: &ApiClient, out: &mut Output) -> Result<(), CommandError> {
        let change = |pair: &Pair<'_>| {
            let (before, now) = (&pair.untrained.decision, &pair.trained.decision);
            (before.action != now.action, (now.score - before.score).abs())
        };
        let most = self.later.iter().max_by(|a, b| {
            let ((a, far), (b, further)) = (change(a), change(b));
            a.cmp(&b).then(far.total_cmp(&further))
        });
        let Some(most) = most else { return Ok(()) };
        let before = &most.untrained.decision;
        out.line(format_args!(
            "\n{BOLD}What changed most{BOLD:#}: {}, to which the untrained server says {}, with the score {:.1}\n",
            most.label, before.action, before.score
        ))?;
        let explained = client.explain(&most.trained.decision.id)?;
        rendering::verdict(out, &explained)?;
        rendering::classifiers(out, &explained)
    }
}

impl DetectionCounts {
    fn told(&self) -> String {
        let DetectionCounts { spam, found, ham, alarms } = *self;
        let share = |part: usize, of: usize| match of {
            0 => "none".to_owned(),
            of => format!("{:.0} %", 100.0 * part as f64 / of as f64),
        };
        format!(
            "acts on {found} of {spam} spam (recall {}) and on {alarms} of {ham} ham (false positives {}): {found} of {} \
             are right (precision {})",
            share(found, spam),
            share(alarms, ham),
            found + alarms,
            share(found, found + alarms)
        )
    }
}
