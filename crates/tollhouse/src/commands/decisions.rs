//! `tollhouse decisions`: search in past decisions, and following them.

use std::thread::sleep;
use std::time::{Duration, Instant};

use engine::{
    DecisionFilter, DecisionQuery, Directory, FactSelection, KeyChoice, LabelFilter, StatisticsQuery,
};
use event::Time;
use journal::{JournalArchive, ReadBudget, RecordId};
use judge::Action;
use plan::Plan;
use server::api::{
    CommonFactsJson, DecisionPageJson, DecisionStatisticsJson, JudgedCountsJson, ListedDecisionJson,
    MovedLineJson, csv_head, csv_row,
};

use crate::client::ApiClient;
use crate::console::{BOLD, DIM, Output, TableCell, TextTable, colour, cut, error, help, printable, say};
use crate::exit::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::options::{EngineOptions, JsonOption, ServerOptions, time};
use crate::rendering::without_nodes;

/// Decisions that are asked for at once.
const PAGE: usize = 500;
/// The time between two looks for newer decisions.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time after which it is looked whether the user wants to stop.
const STEP: Duration = Duration::from_millis(100);
/// The width of a bin of scores.
const BIN: f64 = 0.5;
/// Most similar decisions that are asked for.
const SIMILAR_MAX: u32 = 100;
/// Characters of a fact in a table.
const FACT_CHARS: usize = 60;

/// Search in past decisions, newest first
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse decisions --data ./data --action reject --from 2026-05-17
  tollhouse decisions --data ./data --kind from --value ann@example.org --facts mail.subject
  tollhouse decisions --data ./data --where \"mail.size > 1000000\" --json
  tollhouse decisions --data ./data --action reject --facts mail.subject --csv
  tollhouse decisions --server http://127.0.0.1:8377 --rule BULK --unlabelled
  tollhouse decisions --server http://127.0.0.1:8377 --action reject --follow
  tollhouse decisions --data ./data --pipeline mail --summary --line reject=12
  tollhouse decisions --server http://127.0.0.1:8377 --similar 01hx3k9q7w2rd --facts mail.subject
  tollhouse decisions --server http://127.0.0.1:8377 --rule BULK --common

With a server on the directory its last second is missing, except with --server. --where takes
conditions like a rule's `when`, over logged facts and readings. --follow shows the newest
decisions, then those to come. --summary is for one pipeline, by default the first; a server reads
back from the newest for two seconds.")]
pub(crate) struct DecisionsArgs {
    /// Only this pipeline
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Only decided at this time or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Time>,
    /// Only decided before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Time>,
    /// Only these actions
    #[arg(long, value_name = "ACTION", value_delimiter = ',')]
    action: Vec<Action>,
    /// Only from this score up
    #[arg(long, value_name = "SCORE", allow_hyphen_values = true)]
    score_from: Option<f64>,
    /// Only below this score
    #[arg(long, value_name = "SCORE", allow_hyphen_values = true)]
    score_below: Option<f64>,
    /// Only where this rule fired, even in shadow
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Only the event with this `id` of its caller
    #[arg(long, value_name = "NAME")]
    event_id: Option<String>,
    /// Only events with a key of this kind, of `--value`
    #[arg(long, value_name = "KIND", requires = "value")]
    kind: Option<String>,
    /// Value, as in events
    #[arg(long, value_name = "VALUE", requires = "kind")]
    value: Option<String>,
    /// Only where a logged text contains this, in any case
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only where this condition holds for logged facts and readings
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Only where the last judgement has this class
    #[arg(long, value_name = "CLASS", conflicts_with_all = ["labelled", "unlabelled"])]
    label: Option<String>,
    /// Only judged decisions
    #[arg(long, conflicts_with = "unlabelled")]
    labelled: bool,
    /// Only unjudged decisions
    #[arg(long)]
    unlabelled: bool,
    /// Decisions on events nearly like the one of this decision, those with most fingerprints in common first. Of a server
    #[arg(long, value_name = "ID", requires = "server", conflicts_with_all = [
        "follow", "summary", "pipeline", "from", "to", "action", "score_from", "score_below", "rule", "event_id", "kind", "text",
        "condition", "label", "labelled", "unlabelled",
    ])]
    similar: Option<RecordId>,
    /// Show what the newest 500 of these decisions have in common, and as many before them have not: conditions for rules. Of a
    /// server
    #[arg(long, requires = "server", conflicts_with_all = ["follow", "summary", "similar", "facts", "limit", "csv"])]
    common: bool,
    /// Facts to show; `*` for all with a value
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    facts: Vec<String>,
    /// Most decisions to show
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    limit: u32,
    /// Continue with decisions as they are made
    #[arg(long)]
    follow: bool,
    /// Print CSV with a column for each of `--facts`; texts that look like formulas to a spreadsheet get an apostrophe in
    /// front
    #[arg(long, conflicts_with_all = ["json", "summary"])]
    csv: bool,
    /// Show statistics by action, rule, label and score instead
    #[arg(long, conflicts_with_all = ["follow", "limit", "facts"])]
    summary: bool,
    /// With --summary: the band to move, and its new score
    #[arg(long, value_name = "ACTION=SCORE", requires = "summary", value_parser = line)]
    line: Option<(Action, f64)>,
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
    Files(Directory, Box<Plan>, Box<JournalArchive>),
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

    /// The query in words of the server's interface.
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
        Ok(SearchedJournal::Files(directory, Box::new(plan), Box::new(archive)))
    }

    /// Sees what was written since.
    fn renew(&mut self) -> Result<(), CommandError> {
        if let SearchedJournal::Files(directory, _, archive) = self {
            **archive = directory.decisions().map_err(CommandError::new)?;
        }
        Ok(())
    }

    fn statistics(
        &self,
        args: &DecisionsArgs,
        interrupt: &Interrupt,
    ) -> Result<DecisionStatisticsJson, CommandError> {
        let range = PageRange::default();
        match self {
            SearchedJournal::Server(client) => {
                let mut parameters = args.parameters(range);
                parameters.retain(|(name, _)| *name != "limit");
                if let Some((action, score)) = args.line {
                    parameters.push(("line", action.to_string()));
                    parameters.push(("at", score.to_string()));
                }
                Ok(client.decision_statistics(&parameters)?)
            }
            SearchedJournal::Files(directory, plan, archive) => {
                let mut budget = ReadBudget { records: u64::MAX, is_over: &|| interrupt.raised() };
                let query = StatisticsQuery { filter: args.query(range).filter, bin: BIN, line: args.line };
                let made = directory.archive_statistics(archive, plan, &query, &mut budget);
                Ok(DecisionStatisticsJson::from(&made.map_err(CommandError::new)?))
            }
        }
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

/// Reads a line to be moved.
fn line(text: &str) -> Result<(Action, f64), String> {
    let (action, score) = text.split_once('=').ok_or("expected ACTION=SCORE")?;
    let action = action.trim().parse::<Action>().map_err(|error| error.to_string())?;
    let score = score.trim().parse::<f64>().map_err(|error| error.to_string())?;
    if score.is_finite() { Ok((action, score)) } else { Err("expected a number".to_owned()) }
}

pub(crate) fn run(args: DecisionsArgs) -> Result<Exit, CommandError> {
    if args.csv && args.facts.iter().any(|name| name == "*") {
        let failure = CommandError::new("--csv needs names in --facts, as each is a column");
        return Err(failure.help("name them, or use --json"));
    }
    if let Some(id) = args.similar {
        return similar(&args, id);
    }
    if args.common {
        return common(&args);
    }
    let interrupt = Interrupt::watch(None);
    let mut journal = SearchedJournal::open(&args)?;
    let mut out = Output::new(args.json.json);
    if args.summary {
        let made = journal.statistics(&args, &interrupt)?;
        if out.is_json() {
            out.json(&made)?;
        } else {
            summary(&mut out, &made)?;
        }
        out.flush()?;
        return Ok(if interrupt.raised() { Exit::Interrupted } else { Exit::Fine });
    }
    if args.csv {
        out.raw(&csv_head(&args.facts))?;
    }
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

/// Shows decisions on events nearly like another's.
fn similar(args: &DecisionsArgs, id: RecordId) -> Result<Exit, CommandError> {
    let Some(client) = args.server.client()? else {
        return Err(CommandError::new("--similar asks a server: name it by --server"));
    };
    let mut out = Output::new(args.json.json);
    let found =
        client.similar_decisions(&id.to_string(), args.limit.min(SIMILAR_MAX), &args.facts.join(","))?;
    if out.is_json() {
        found.decisions.iter().try_for_each(|one| out.json(one))?;
    } else {
        if args.csv {
            out.raw(&csv_head(&args.facts))?;
        }
        let decisions: Vec<ListedDecisionJson> =
            found.decisions.iter().map(|one| one.decision.clone()).collect();
        show(&mut out, args, &decisions)?;
    }
    out.flush()?;
    if found.fingerprints == 0 {
        say(
            "the event has no near-duplicate fingerprint: its text is too short, or its pipeline counts none",
        );
    }
    Ok(if found.decisions.is_empty() { Exit::Found } else { Exit::Fine })
}

/// Shows what decisions have in common.
fn common(args: &DecisionsArgs) -> Result<Exit, CommandError> {
    let Some(client) = args.server.client()? else {
        return Err(CommandError::new("--common asks a server: name it by --server"));
    };
    let mut parameters = args.parameters(PageRange::default());
    parameters.retain(|(name, _)| *name != "limit");
    let found = client.common_facts(&parameters)?;
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        out.json(&found)?;
    } else {
        common_table(&mut out, &found)?;
    }
    out.flush()?;
    if found.partial {
        say("reading took too long: fewer decisions were looked at than were wanted");
    }
    without_nodes(&found.absent);
    Ok(Exit::Fine)
}

fn common_table(out: &mut Output, found: &CommonFactsJson) -> Result<(), CommandError> {
    let CommonFactsJson { decisions, others, .. } = found;
    let pipeline = printable(&found.pipeline);
    if *decisions == 0 {
        return out.line("no decision fits");
    }
    if found.facts.is_empty() {
        return out.line(format_args!("{decisions} decisions have nothing in common that {others} have not"));
    }
    out.line(format_args!("{BOLD}{decisions}{BOLD:#} decisions of {pipeline}, and {others} before them"))?;
    let mut table = TextTable::default();
    let numbers = ["decisions", "before"].map(|head| TableCell::number(head, DIM));
    table.row(numbers.into_iter().chain([TableCell::text("condition", DIM)]));
    for fact in &found.facts {
        table.row([
            TableCell::number(fact.count, BOLD),
            TableCell::number(fact.before, DIM),
            TableCell::text(printable(&fact.condition), BOLD),
        ]);
    }
    out.line(table)
}

/// Shows what decisions come to.
fn summary(out: &mut Output, made: &DecisionStatisticsJson) -> Result<(), CommandError> {
    let counts = |counts: &JudgedCountsJson| {
        let JudgedCountsJson { good, bad, unjudged } = *counts;
        [good + bad + unjudged, good, bad].map(|count| TableCell::number(count, BOLD))
    };
    let JudgedCountsJson { good, bad, unjudged } = made.decisions;
    out.line(format_args!(
        "{BOLD}{}{BOLD:#} decisions of {}, {good} judged good and {bad} bad",
        good + bad + unjudged,
        printable(&made.pipeline)
    ))?;
    if let Some(reached) = &made.reached {
        out.line(format_args!("{DIM}the newest, back to {reached}{DIM:#}"))?;
    }
    let heads = |heads: &[&str]| -> Vec<TableCell> {
        heads.iter().map(|head| TableCell::number(head, DIM)).collect()
    };
    let mut actions = TextTable::default();
    for (action, count) in &made.actions {
        let style = action.parse().map_or(BOLD, colour);
        actions.row([TableCell::text(action, style), TableCell::number(count, BOLD)]);
    }
    out.line(format_args!("\n{actions}"))?;
    if !made.rules.is_empty() {
        let mut rules = TextTable::default();
        let names = ["fired", "good", "bad", "shadow", "alone", "precision"];
        rules.row([TableCell::text("rule", DIM)].into_iter().chain(heads(&names)));
        for sums in &made.rules {
            let total = |counts: &JudgedCountsJson| counts.good + counts.bad + counts.unjudged;
            let precision = sums.precision.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
            let mut row = vec![TableCell::text(printable(&sums.rule), BOLD)];
            row.extend(counts(&sums.enforced));
            row.push(TableCell::number(total(&sums.shadow), BOLD));
            row.push(TableCell::number(total(&sums.alone), BOLD));
            row.push(TableCell::number(precision, BOLD));
            rules.row(row);
        }
        out.line(format_args!("\n{rules}"))?;
    }
    let mut scores = TextTable::default();
    scores.row(heads(&["score", "decisions", "good", "bad"]).into_iter().chain([TableCell::text("", DIM)]));
    let mut above = f64::NEG_INFINITY;
    for bin in &made.scores {
        let begins = made.bands.iter().filter(|band| above < band.at && band.at <= bin.from);
        let begins: Vec<&str> = begins.map(|band| band.action.name()).collect();
        let mut row = vec![TableCell::number(format_args!("{:.1}", bin.from), DIM)];
        row.extend(counts(&bin.decisions));
        row.push(TableCell::text(begins.join(", "), DIM));
        scores.row(row);
        above = bin.from;
    }
    out.line(format_args!("\n{scores}"))?;
    if let Some(MovedLineJson { action, at, to, between: JudgedCountsJson { good, bad, unjudged } }) =
        &made.moved
    {
        let change = if to < at { "would get it too" } else { "would get it no more" };
        out.line(format_args!(
            "\n{action} from {to} instead of {at}: {} decisions {change}, {good} judged good and {bad} bad",
            good + bad + unjudged
        ))?;
    }
    Ok(())
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
    if args.csv {
        let mut text = String::new();
        decisions.iter().for_each(|decision| csv_row(&mut text, decision, &args.facts));
        return out.raw(&text);
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
