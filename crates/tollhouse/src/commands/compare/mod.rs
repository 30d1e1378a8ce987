//! `tollhouse compare`: the same mail to this program and to another filter, and where and why they differ.

mod peer;

use std::collections::BTreeMap;

use engine::Decision;
use indicatif::HumanCount;
use judge::Action;
use plan::Pipeline;
use plan::preset::Preset;
use serde::Serialize;

use self::peer::{PeerFilter, PeerKind, PeerSeverity, PeerSymbol, PeerVerdict};
use crate::console::{BOLD, DIM, Output, TableCell, TextTable, cut, printable, say};
use crate::exit::{CommandError, Exit};
use crate::input::messages::InputMessage;
use crate::message_reader::{MessageFiles, MessageOptions, PreparedMessage, each_message, message_pipeline};
use crate::options::{EngineOptions, JsonOption, preset_named};
use crate::tally::per_second;

/// Compare with Rspamd or SpamAssassin on the same mail
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse compare rspamd http://127.0.0.1:11333 ~/Maildir
  tollhouse compare spamd 127.0.0.1:783 mail.mbox --examples 20
  tollhouse compare rspamd http://127.0.0.1:11333 --json mail/ | jq 'select(.agree == false)'

Decides on each message in input order, at its own time, and sends it to the other filter with the
same envelope, --threads at once. Neither side learns; without --data it decides in memory.")]
pub(crate) struct CompareArgs {
    /// Protocol of the other filter
    #[arg(value_enum, value_name = "rspamd|spamd")]
    kind: PeerKind,
    /// Filter's URL, or host and port
    #[arg(value_name = "ADDRESS")]
    address: String,
    #[command(flatten)]
    files: MessageFiles,
    #[command(flatten)]
    messages: MessageOptions,
    /// Messages to show where the filters differ most
    #[arg(long, value_name = "N", default_value_t = 10)]
    examples: usize,
    /// Preset for deciding in memory [default: mail]
    #[arg(long, value_name = "NAME", value_parser = preset_named)]
    preset: Option<&'static Preset>,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// A message and both sides. With `--json` a line.
#[derive(Serialize)]
struct ComparedMessage {
    file: String,
    /// True if both pass it, both mark it, or both refuse it; a filter that never refuses agrees by marking.
    agree: bool,
    here: PeerVerdict,
    there: PeerVerdict,
}

impl ComparedMessage {
    /// Returns the distance of the sides from each other: steps of severity, then shares of the score from which each objects
    /// most.
    fn distance(&self) -> (u8, f64) {
        let steps = (self.here.severity as u8).abs_diff(self.there.severity as u8);
        let share = |said: &PeerVerdict| if said.required > 0.0 { said.score / said.required } else { 0.0 };
        (if self.agree { 0 } else { steps }, (share(&self.here) - share(&self.there)).abs())
    }
}

/// The counts over all messages. With `--json` the last line.
#[derive(Serialize)]
struct CompareSummary {
    messages: u64,
    agree: u64,
    /// Messages that the other filter did not answer.
    unanswered: u64,
    seconds: f64,
    /// The number of times that an action here, then an action there, met.
    actions: BTreeMap<String, BTreeMap<String, u64>>,
    /// Symbols that spoke against messages to which only this side objects, by how often.
    only_here: Vec<(String, u64)>,
    /// Symbols that spoke against messages to which only the other side objects, by how often.
    only_there: Vec<(String, u64)>,
}

/// The tally of the messages that were compared so far.
#[derive(Default)]
struct CompareTally {
    kind: Option<PeerKind>,
    messages: u64,
    agree: u64,
    unanswered: u64,
    actions: BTreeMap<String, BTreeMap<String, u64>>,
    only: [BTreeMap<String, u64>; 2],
    /// The pairs that differ most, at most twice as many as are shown.
    examples: Vec<ComparedMessage>,
}

/// Messages in a row that the other filter may leave unanswered before that is an answer.
const UNANSWERED_MAX: u64 = 20;

pub(crate) fn run(args: CompareArgs) -> Result<Exit, CommandError> {
    let started = std::time::Instant::now();
    let mut out = Output::new(args.json.json);
    let peer = PeerFilter::new(args.kind, &args.address)?;
    peer.knock()?;
    let instead = "compare in memory: leave out --data, or give its tollhouse.toml with --config";
    let local = args.engine.open_or_ephemeral(args.preset, "mail", instead)?;
    let options = MessageOptions { message_time: true, ..args.messages.clone() };
    let pipeline = message_pipeline(&local, options.pipeline.as_deref())?;
    let progress = args.files.progress();
    let mut compared = CompareTally { kind: Some(args.kind), ..CompareTally::default() };
    let mut missed_in_a_row = 0;
    let ask = |message: &InputMessage| peer.ask(message.stored.message(), &options.envelope.of(message));
    let take = |ready: PreparedMessage<Result<PeerVerdict, String>>| {
        // One by one: what hangs on a message's verdict is counted before the next is judged.
        let decisions = pollster::block_on(local.engine().decide(vec![ready.prepared]));
        let Some(decision) = decisions.into_iter().next() else { return Ok(()) };
        let there = match ready.also {
            Ok(said) => said,
            Err(error) => {
                missed_in_a_row += 1;
                compared.unanswered += 1;
                progress.say(format_args!("{}: no answer: {}", printable(&ready.name), printable(&error)));
                if missed_in_a_row == UNANSWERED_MAX {
                    return Err(CommandError::new(format_args!("{} does not answer", args.address))
                        .help("is the filter running there, and may this host ask it?"));
                }
                return Ok(());
            }
        };
        missed_in_a_row = 0;
        let here = here(&decision, &pipeline);
        let agree = agree(args.kind, here.severity, there.severity);
        let pair = ComparedMessage { file: ready.name, agree, here, there };
        if out.is_json() {
            progress.suspend(|| out.json(&pair))?;
        }
        compared.add(pair, args.examples);
        Ok(())
    };
    let (exit, _) = each_message(&local, &pipeline, args.files.messages(), &options, &progress, ask, take)?;
    drop(progress);
    local.close()?;
    let seconds = started.elapsed();
    let (messages, unanswered) = (compared.messages, compared.unanswered);
    compared.show(&mut out, seconds.as_secs_f64(), args.examples)?;
    out.flush()?;
    let rate = per_second(messages, seconds).round() as u64;
    say(format_args!(
        "{} messages compared in {:.1} s ({}/s), {unanswered} unanswered",
        HumanCount(messages),
        seconds.as_secs_f64(),
        HumanCount(rate)
    ));
    Ok(if unanswered > 0 && exit == Exit::Fine { Exit::Found } else { exit })
}

/// Returns the verdict here.
fn here(decision: &Decision, pipeline: &Pipeline) -> PeerVerdict {
    let verdict = &decision.verdict;
    let severity = match verdict.action {
        Action::Accept | Action::Challenge => PeerSeverity::Pass,
        Action::Tag | Action::Quarantine | Action::ReviewBefore | Action::ReviewAfter => PeerSeverity::Mark,
        Action::Reject | Action::Throttle | Action::Shadow => PeerSeverity::Refuse,
    };
    let symbol = |reason: &judge::Reason| PeerSymbol { name: reason.rule.clone(), score: reason.score };
    let required = pipeline.rules.bands().as_slice().last().map_or(0.0, |band| band.at);
    let symbols = verdict.reasons.iter().map(symbol).collect();
    PeerVerdict::new(verdict.action.name().to_owned(), severity, verdict.score, required, symbols)
}

/// Returns true if both do the same. A spamd knows no refusal: what it marks it has objected to.
fn agree(kind: PeerKind, here: PeerSeverity, there: PeerSeverity) -> bool {
    match kind {
        PeerKind::Rspamd => here == there,
        PeerKind::Spamd => here.min(PeerSeverity::Mark) == there,
    }
}

impl CompareTally {
    fn add(&mut self, pair: ComparedMessage, examples: usize) {
        self.messages += 1;
        self.agree += u64::from(pair.agree);
        let row = self.actions.entry(pair.here.action.clone()).or_default();
        *row.entry(pair.there.action.clone()).or_default() += 1;
        let objects = [pair.here.severity, pair.there.severity].map(|severity| severity > PeerSeverity::Pass);
        let sides = [&pair.here, &pair.there];
        for (index, side) in
            sides.into_iter().enumerate().filter(|(index, _)| objects[*index] && !objects[1 - *index])
        {
            for symbol in side.symbols.iter().filter(|symbol| symbol.score > 0.0) {
                *self.only[index].entry(symbol.name.clone()).or_default() += 1;
            }
        }
        if pair.agree {
            return;
        }
        self.examples.push(pair);
        if self.examples.len() > examples.saturating_mul(2) {
            self.keep(examples);
        }
    }

    /// Keeps the pairs that differ most.
    fn keep(&mut self, examples: usize) {
        self.examples.sort_by(|a, b| {
            let (a, b) = (a.distance(), b.distance());
            b.0.cmp(&a.0).then_with(|| b.1.total_cmp(&a.1))
        });
        self.examples.truncate(examples);
    }

    fn show(mut self, out: &mut Output, seconds: f64, examples: usize) -> Result<(), CommandError> {
        self.keep(examples);
        let [only_here, only_there] = [0, 1].map(|side| often(&self.only[side]));
        if out.is_json() {
            let summary = CompareSummary {
                messages: self.messages,
                agree: self.agree,
                unanswered: self.unanswered,
                seconds,
                actions: self.actions,
                only_here,
                only_there,
            };
            return out.json(&serde_json::json!({ "summary": summary }));
        }
        let other = match self.kind {
            Some(PeerKind::Spamd) => "spamd",
            _ => "rspamd",
        };
        let share = 100.0 * self.agree as f64 / self.messages.max(1) as f64;
        let (agree, messages) = (HumanCount(self.agree), HumanCount(self.messages));
        out.line(format_args!("{BOLD}agree on {agree} of {messages} messages ({share:.1} %){BOLD:#}\n"))?;
        let columns: std::collections::BTreeSet<&String> =
            self.actions.values().flat_map(BTreeMap::keys).collect();
        let mut table = TextTable::default();
        let corner = format!("here, and {other}:");
        table.row(
            [TableCell::text(corner, DIM)]
                .into_iter()
                .chain(columns.iter().map(|name| TableCell::number(cut(name, 20), DIM))),
        );
        for (action, row) in &self.actions {
            let count = |name: &&String| {
                TableCell::number(row.get(*name).copied().unwrap_or(0), anstyle::Style::new())
            };
            table.row([TableCell::text(action, BOLD)].into_iter().chain(columns.iter().map(count)));
        }
        out.line(format_args!("{table}"))?;
        for (side, symbols) in [("here", &only_here), (other, &only_there)] {
            if !symbols.is_empty() {
                let symbols: Vec<String> =
                    symbols.iter().map(|(name, count)| format!("{} {count}", cut(name, 40))).collect();
                out.line(format_args!(
                    "\n{BOLD}speak where only {side} objects{BOLD:#}\n  {}",
                    symbols.join(", ")
                ))?;
            }
        }
        if !self.examples.is_empty() {
            out.line(format_args!("\n{BOLD}differ most{BOLD:#}"))?;
        }
        for pair in &self.examples {
            out.line(printable(&pair.file))?;
            for (side, said) in [("here", &pair.here), (other, &pair.there)] {
                let action = cut(&said.action, 16);
                out.line(format_args!("  {side:<6}  {action:<16} {:>7.1}  {}", said.score, weighty(said)))?;
            }
        }
        Ok(())
    }
}

/// The commonest, with their counts.
fn often(counts: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    const SHOWN: usize = 10;
    let mut counts: Vec<(String, u64)> = counts.iter().map(|(name, count)| (name.clone(), *count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.truncate(SHOWN);
    counts
}

/// The weightiest symbols of a side.
fn weighty(said: &PeerVerdict) -> String {
    const SHOWN: usize = 4;
    let symbols = said.symbols.iter().filter(|symbol| symbol.score != 0.0).take(SHOWN);
    symbols
        .map(|symbol| format!("{} {:+.1}", cut(&symbol.name, 40), symbol.score))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(severity: PeerSeverity, score: f64) -> PeerVerdict {
        let symbols = vec![PeerSymbol { name: format!("S{score}"), score }];
        PeerVerdict::new("a".to_owned(), severity, score, 10.0, symbols)
    }

    fn pair(here: (PeerSeverity, f64), there: (PeerSeverity, f64)) -> ComparedMessage {
        let agree = agree(PeerKind::Rspamd, here.0, there.0);
        ComparedMessage {
            file: format!("{}", here.1),
            agree,
            here: said(here.0, here.1),
            there: said(there.0, there.1),
        }
    }

    #[test]
    fn a_spamd_agrees_by_marking() {
        assert!(agree(PeerKind::Spamd, PeerSeverity::Refuse, PeerSeverity::Mark));
        assert!(!agree(PeerKind::Spamd, PeerSeverity::Pass, PeerSeverity::Mark));
        assert!(!agree(PeerKind::Rspamd, PeerSeverity::Refuse, PeerSeverity::Mark));
    }

    #[test]
    fn what_differs_most_is_kept() {
        use PeerSeverity::{Mark, Pass, Refuse};
        let mut compared = CompareTally::default();
        for score in 0..10 {
            compared.add(pair((Mark, f64::from(score)), (Pass, 0.0)), 2);
        }
        compared.add(pair((Pass, 0.5), (Refuse, 20.0)), 2);
        compared.add(pair((Pass, 0.0), (Pass, 90.0)), 2);
        compared.keep(2);
        let files: Vec<&str> = compared.examples.iter().map(|pair| pair.file.as_str()).collect();
        assert_eq!(files, ["0.5", "9"]);
        assert_eq!((compared.messages, compared.agree), (12, 1));
        assert_eq!(
            compared.only[0].len(),
            9,
            "a symbol without a score says nothing: {:?}",
            compared.only[0]
        );
        assert_eq!(often(&compared.only[1]), [("S20".to_owned(), 1)]);
    }
}
