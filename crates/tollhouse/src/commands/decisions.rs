//! `tollhouse decisions`: search in past decisions, and following them.

use std::thread::sleep;
use std::time::{Duration, Instant};

use engine::{DecisionFilter, DecisionQuery, Directory, FactSelection, KeyChoice, LabelFilter};
use event::Time;
use journal::{JournalArchive, ReadBudget, RecordId};
use judge::Action;
use plan::Plan;
use server::api::{DecisionPageJson, ListedDecisionJson};

use crate::client::ApiClient;
use crate::console::{BOLD, DIM, Output, TableCell, TextTable, colour, cut, error, help, printable, say};
use crate::exit::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::options::{EngineOptions, JsonOption, ServerOptions, time};

/// Decisions that are asked for at once.
const PAGE: usize = 500;
/// The time between two looks for newer decisions.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time after which it is looked whether the user wants to stop.
const STEP: Duration = Duration::from_millis(100);
/// Characters of a fact in a table.
const FACT_CHARS: usize = 60;

/// Search in past decisions, newest first
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse decisions --data ./data --action reject --from 2026-05-17
  tollhouse decisions --data ./data --kind from --value ann@example.org --facts mail.subject
  tollhouse decisions --data ./data --where \"mail.size > 1000000\" --json
  tollhouse decisions --server http://127.0.0.1:8377 --rule BULK --unlabelled
  tollhouse decisions --server http://127.0.0.1:8377 --action reject --follow

A server may run on the directory; its last second is then missing, but not with --server. --where
takes what a rule's `when` takes, of facts and readings that were logged. --follow shows the newest
decisions in the order in which they were made, and goes on with those to come.")]
pub(crate) struct DecisionsArgs {
    /// Only of this pipeline
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Only decided at this time or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Time>,
    /// Only decided before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Time>,
    /// Only with one of these actions
    #[arg(long, value_name = "ACTION", value_delimiter = ',')]
    action: Vec<Action>,
    /// Only with this score or a greater one
    #[arg(long, value_name = "SCORE", allow_hyphen_values = true)]
    score_from: Option<f64>,
    /// Only with a lower score
    #[arg(long, value_name = "SCORE", allow_hyphen_values = true)]
    score_below: Option<f64>,
    /// Only if this rule fired, enforced or in shadow
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Only on the event that its caller calls so
    #[arg(long, value_name = "NAME")]
    event_id: Option<String>,
    /// Only on events with a key of this kind and of `--value`
    #[arg(long, value_name = "KIND", requires = "value")]
    kind: Option<String>,
    /// The value, as it stands in events
    #[arg(long, value_name = "VALUE", requires = "kind")]
    value: Option<String>,
    /// Only on events of which a logged text contains this, in capitals or not
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only if this condition is true of the logged facts and readings
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Only if the last judgement has this class
    #[arg(long, value_name = "CLASS", conflicts_with_all = ["labelled", "unlabelled"])]
    label: Option<String>,
    /// Only judged ones
    #[arg(long, conflicts_with = "unlabelled")]
    labelled: bool,
    /// Only ones that nobody judged
    #[arg(long)]
    unlabelled: bool,
    /// Facts to show; `*` for all that have a value
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    facts: Vec<String>,
    /// Decisions to show, at most
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    limit: u32,
    /// Go on with decisions as they are made
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// The place where decisions are searched.
enum SearchedJournal {
    /// The files of a data directory.
    Files(Directory, Box<Plan>, JournalArchive),
    Server(ApiClient),
}

/// The part of all decisions that a page is of.
#[derive(Clone, Copy, Debug, Default)]
struct PageRange {
    below: Option<RecordId>,
    above: Option<RecordId>,
    limit: usize,
}

impl DecisionsArgs {
    fn query(&self, range: PageRange) -> DecisionQuery {
        let label = match &self.label {
            Some(class) => Some(LabelFilter::Class(class.clone())),
            None if self.labelled => Some(LabelFilter::Labelled),
            None if self.unlabelled => Some(LabelFilter::Unlabelled),
            None => None,
        };
        let key = self.kind.clone().zip(self.value.clone());
        DecisionQuery {
            filter: DecisionFilter {
                from: self.from,
                to: self.to,
                pipeline: self.pipeline.clone(),
                actions: self.action.clone(),
                score_from: self.score_from,
                score_below: self.score_below,
                rule: self.rule.clone(),
                event_id: self.event_id.clone(),
                key: key.map(|(kind, value)| KeyChoice { kind, value }),
                text: self.text.clone().filter(|text| !text.is_empty()),
                condition: self.condition.clone(),
                label,
            },
            facts: match &self.facts[..] {
                [] => FactSelection::None,
                [all] if all == "*" => FactSelection::All,
                names => FactSelection::Named(names.to_vec()),
            },
            below: range.below,
            above: range.above,
            limit: range.limit,
        }
    }

    /// The same in words of the server's interface.
    fn parameters(&self, range: PageRange) -> Vec<(&'static str, String)> {
        let actions: Vec<&str> = self.action.iter().map(|action| action.name()).collect();
        let lists = [("action", actions.join(",")), ("facts", self.facts.join(","))];
        let labelled = (self.labelled || self.unlabelled).then_some(self.labelled);
        let texts = [
            ("pipeline", self.pipeline.clone()),
            ("from", self.from.map(|time| time.to_string())),
            ("to", self.to.map(|time| time.to_string())),
            ("score_from", self.score_from.map(|score| score.to_string())),
            ("score_below", self.score_below.map(|score| score.to_string())),
            ("rule", self.rule.clone()),
            ("event_id", self.event_id.clone()),
            ("kind", self.kind.clone()),
            ("value", self.value.clone()),
            ("text", self.text.clone()),
            ("where", self.condition.clone()),
            ("label", self.label.clone()),
            ("labelled", labelled.map(|labelled| labelled.to_string())),
            ("after", range.below.map(|id| id.to_string())),
            ("since", range.above.map(|id| id.to_string())),
            ("limit", Some(range.limit.to_string())),
        ];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        lists.chain(texts.into_iter().filter_map(|(name, text)| Some((name, text?)))).collect()
    }
}

impl SearchedJournal {
    fn open(args: &DecisionsArgs) -> Result<SearchedJournal, CommandError> {
        if let Some(client) = args.server.client()? {
            return Ok(SearchedJournal::Server(client));
        }
        let directory = args.engine.directory()?;
        let plan = args.engine.plan(&directory)?;
        let archive = directory.decisions().map_err(CommandError::new)?;
        Ok(SearchedJournal::Files(directory, Box::new(plan), archive))
    }

    /// Sees what was written since.
    fn renew(&mut self) -> Result<(), CommandError> {
        if let SearchedJournal::Files(directory, _, archive) = self {
            *archive = directory.decisions().map_err(CommandError::new)?;
        }
        Ok(())
    }

    fn page(
        &self,
        args: &DecisionsArgs,
        range: PageRange,
        interrupt: &Interrupt,
    ) -> Result<DecisionPageJson, CommandError> {
        match self {
            SearchedJournal::Server(client) => Ok(client.decisions(&args.parameters(range))?),
            SearchedJournal::Files(directory, plan, archive) => {
                let mut budget = ReadBudget { records: u64::MAX, is_over: &|| interrupt.raised() };
                let page = directory.search_archive(archive, plan, &args.query(range), &mut budget);
                Ok(DecisionPageJson::from(&page.map_err(CommandError::new)?))
            }
        }
    }
}

pub(crate) fn run(args: DecisionsArgs) -> Result<Exit, CommandError> {
    let interrupt = Interrupt::watch(None);
    let mut journal = SearchedJournal::open(&args)?;
    let mut out = Output::new(args.json.json);
    let mut damaged = 0;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    if args.follow {
        let mut newest = None;
        let mut limit = limit;
        while !interrupt.raised() {
            let range = PageRange { above: newest, limit, ..PageRange::default() };
            let mut decisions = Vec::new();
            pages(&journal, &args, range, &interrupt, &mut |page| {
                damaged += page.damaged;
                decisions.extend(page.decisions);
                Ok(())
            })?;
            if let Some(last) = decisions.first() {
                newest = Some(last.id.parse().map_err(CommandError::new)?);
            }
            decisions.reverse();
            show(&mut out, &args, &decisions)?;
            out.flush()?;
            // All that are newer are shown from now on.
            limit = usize::MAX;
            wait(&interrupt);
            journal.renew()?;
        }
    } else {
        let range = PageRange { limit, ..PageRange::default() };
        let has_more = pages(&journal, &args, range, &interrupt, &mut |page| {
            damaged += page.damaged;
            show(&mut out, &args, &page.decisions)
        })?;
        out.flush()?;
        if has_more && !interrupt.raised() {
            say("there are more: --limit shows them");
        }
    }
    if damaged > 0 {
        error(format_args!("{damaged} stretches of the journal are damaged and were passed over"));
        help("`tollhouse verify` says where files are damaged");
    }
    Ok(match (interrupt.raised(), damaged) {
        (true, _) => Exit::Interrupted,
        (false, 0) => Exit::Fine,
        (false, _) => Exit::Found,
    })
}

/// Asks for pages until there are enough decisions, and returns true if there are more.
fn pages(
    journal: &SearchedJournal,
    args: &DecisionsArgs,
    range: PageRange,
    interrupt: &Interrupt,
    each: &mut dyn FnMut(DecisionPageJson) -> Result<(), CommandError>,
) -> Result<bool, CommandError> {
    let (mut left, mut below) = (range.limit, None);
    loop {
        let page = journal.page(args, PageRange { below, limit: left.min(PAGE), ..range }, interrupt)?;
        left = left.saturating_sub(page.decisions.len());
        let next = page.next.as_deref().map(str::parse::<RecordId>).transpose();
        below = next.map_err(CommandError::new)?;
        each(page)?;
        if below.is_none() || left == 0 || interrupt.raised() {
            return Ok(below.is_some());
        }
    }
}

fn wait(interrupt: &Interrupt) {
    let begun = Instant::now();
    while begun.elapsed() < INTERVAL && !interrupt.raised() {
        sleep(STEP);
    }
}

/// Shows decisions, one a line.
fn show(
    out: &mut Output,
    args: &DecisionsArgs,
    decisions: &[ListedDecisionJson],
) -> Result<(), CommandError> {
    if out.is_json() {
        return decisions.iter().try_for_each(|decision| out.json(decision));
    }
    if decisions.is_empty() {
        return Ok(());
    }
    let mut table = TextTable::default();
    for decision in decisions {
        let rules = decision.rules.iter().map(|rule| rule.name.as_str());
        let rules: Vec<String> = rules.map(|rule| printable(rule).into_owned()).collect();
        let mut row = vec![
            TableCell::text(&decision.id, BOLD),
            TableCell::text(decision.time.to_string(), DIM),
            TableCell::text(printable(&decision.pipeline), DIM),
            TableCell::text(decision.action.name(), colour(decision.action)),
            TableCell::number(format_args!("{:.1}", decision.score), BOLD),
            TableCell::text(decision.label.as_deref().map_or("-".into(), printable), DIM),
        ];
        let facts: Vec<(String, String)> =
            decision.facts.iter().map(|(name, value)| fact(name, value)).collect();
        match &args.facts[..] {
            [] => {}
            [all] if all == "*" => {
                let texts = facts.iter().map(|(name, value)| format!("{name}={value}"));
                row.push(TableCell::text(texts.collect::<Vec<_>>().join(" "), DIM));
            }
            names => row.extend(names.iter().map(|name| {
                let known = facts.iter().find(|(known, _)| known == name);
                TableCell::text(known.map_or("-", |(_, value)| value), BOLD)
            })),
        }
        row.push(TableCell::text(rules.join(", "), DIM));
        table.row(row);
    }
    out.line(table)
}

/// The name and the text of a fact.
fn fact(name: &str, value: &serde_json::Value) -> (String, String) {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    (name.to_owned(), cut(&text, FACT_CHARS))
}
