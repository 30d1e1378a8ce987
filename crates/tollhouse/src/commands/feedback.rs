//! `tollhouse feedback`: says of past decisions what the events were.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use journal::RecordId;
use server::api::{BatchError, FeedbackJson, FeedbackLine, FeedbackOutcomeJson};

use crate::client::ApiClient;
use crate::clock;
use crate::console::{Output, printable, say};
use crate::exit::{CommandError, Exit};
use crate::input::lines::{InputLine, InputLineIter};
use crate::input::messages::STDIN;
use crate::options::{Backend, EngineOptions, JsonOption, LocalEngine, ServerOptions};

/// Give feedback on a past decision by its id, or on many by a file of labels
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse feedback --data ./data 01hx3k9q7w2rd spam
  tollhouse feedback --server http://127.0.0.1:8377 01hx3k9q7w2rd ham --by ann@example.org
  tollhouse feedback --server http://127.0.0.1:8377 --file labels.csv
  tollhouse feedback --data ./data --by ann@example.org --file - < labels.ndjson

Files have a label a line: JSON objects {\"id\": ..., \"class\": ..., \"by\": ...}, or CSV of id, class
and an optional by, with or without a header. The same feedback counts once, so you can send a file
again; class none withdraws feedback.")]
pub(crate) struct FeedbackArgs {
    /// Decision id, 13 characters
    #[arg(value_name = "ID", required_unless_present = "file", requires = "class")]
    id: Option<RecordId>,
    /// Feedback class of the pipeline; none withdraws feedback
    #[arg(value_name = "CLASS")]
    class: Option<String>,
    /// File of labels, or - for standard input
    #[arg(short, long, value_name = "FILE|-", conflicts_with_all = ["id", "class"])]
    file: Option<PathBuf>,
    /// Reporter, such as an address [default: the operator]; a `by` in the file wins
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// Labels that are sent together.
const LABELS_MAX: usize = 1000;
/// Bad labels that are named one by one.
const NAMED_MAX: u64 = 20;

pub(crate) fn run(args: FeedbackArgs) -> Result<Exit, CommandError> {
    let mut told = FeedbackTally { out: Output::new(args.json.json), taken: 0, duplicates: 0, bad: 0 };
    let backend = Backend::open(&args.engine, &args.server)?;
    match (&args.file, args.id) {
        (Some(file), _) => from_file(&args, file, &backend, &mut told)?,
        (None, id) => {
            let id = id.map(|id| id.to_string()).unwrap_or_default();
            let class = args.class.clone().unwrap_or_default();
            let label = LabelLine { line: 1, said: FeedbackJson { id, class, by: args.by.clone() } };
            told.send(&backend, vec![label])?;
        }
    }
    if let Backend::Local(local) = backend {
        local.close()?;
    }
    told.out.flush()?;
    let FeedbackTally { taken, duplicates, bad, .. } = told;
    say(format_args!("{taken} labels accepted, {duplicates} of them known before, {bad} refused"));
    Ok(if bad > 0 { Exit::Found } else { Exit::Fine })
}

/// A label, and the line that it was on.
struct LabelLine {
    line: u64,
    said: FeedbackJson,
}

/// The tally of the outcomes of labels.
struct FeedbackTally {
    out: Output,
    taken: u64,
    duplicates: u64,
    bad: u64,
}

impl FeedbackTally {
    fn send(&mut self, backend: &Backend, labels: Vec<LabelLine>) -> Result<(), CommandError> {
        if labels.is_empty() {
            return Ok(());
        }
        let (lines, said): (Vec<u64>, Vec<FeedbackJson>) =
            labels.into_iter().map(|label| (label.line, label.said)).unzip();
        let answers = match backend {
            Backend::Remote(client) => remote(client, &said)?,
            Backend::Local(local) => taken_in(local, &said)?,
        };
        for (line, answer) in lines.into_iter().zip(answers) {
            match answer {
                Ok(said) => {
                    self.taken += 1;
                    self.duplicates += u64::from(said.duplicate);
                    if self.out.is_json() {
                        self.out.json(&said)?;
                    }
                }
                Err(why) => self.refused(line, &why),
            }
        }
        Ok(())
    }

    fn refused(&mut self, line: u64, why: &str) {
        self.bad += 1;
        if self.bad <= NAMED_MAX {
            say(format_args!("line {line}: {}", printable(why)));
        } else if self.bad == NAMED_MAX + 1 {
            say("further lines that are refused are only counted");
        }
    }
}

fn remote(
    client: &ApiClient,
    said: &[FeedbackJson],
) -> Result<Vec<Result<FeedbackOutcomeJson, String>>, CommandError> {
    let answers = client.feedback_all(said)?;
    let answer = |answer| match answer {
        FeedbackLine::Outcome(said) => Ok(said),
        FeedbackLine::Error(BatchError { error, .. }) => Err(error.detail),
    };
    Ok(answers.into_iter().map(answer).collect())
}

fn taken_in(
    local: &LocalEngine,
    said: &[FeedbackJson],
) -> Result<Vec<Result<FeedbackOutcomeJson, String>>, CommandError> {
    let ids: Vec<Result<RecordId, String>> = said
        .iter()
        .map(|said| said.id.parse().map_err(|error: journal::RecordIdError| error.to_string()))
        .collect();
    let sound = ids.iter().zip(said).filter_map(|(id, said)| {
        Some((*id.as_ref().ok()?, engine::FeedbackInput { class: &said.class, by: said.by.as_deref() }))
    });
    let sound: Vec<_> = sound.collect();
    let mut outcomes = pollster::block_on(local.engine().feedback_all(&sound, clock::now()))?.into_iter();
    let answer = |(id, said): (Result<RecordId, String>, &FeedbackJson)| {
        let id = id?;
        let outcome = outcomes.next().unwrap_or(Err(engine::DecisionLookupError::NoDecision(id).into()));
        let outcome = outcome.map_err(|error| error.to_string())?;
        Ok(FeedbackOutcomeJson::new(id.to_string(), said.class.clone(), outcome))
    };
    Ok(ids.into_iter().zip(said).map(answer).collect())
}

fn from_file(
    args: &FeedbackArgs,
    file: &Path,
    backend: &Backend,
    told: &mut FeedbackTally,
) -> Result<(), CommandError> {
    let unreadable = |error: io::Error| CommandError::new(format_args!("{}: {error}", file.display()));
    let reader: Box<dyn BufRead> = match file.as_os_str() == STDIN {
        true => Box::new(BufReader::new(io::stdin())),
        false => Box::new(BufReader::new(File::open(file).map_err(unreadable)?)),
    };
    let mut columns = CsvColumns::default();
    let mut labels = Vec::new();
    for line in InputLineIter::new(reader) {
        let (number, line) = line.map_err(unreadable)?;
        let label = match line {
            InputLine::TooLong => Err("the line is too long".to_owned()),
            InputLine::Bytes(bytes) => columns.label(&bytes),
        };
        match label {
            Ok(None) => {}
            Ok(Some(mut said)) => {
                said.by = said.by.or_else(|| args.by.clone());
                labels.push(LabelLine { line: number, said });
            }
            Err(why) => told.refused(number, &why),
        }
        if labels.len() == LABELS_MAX {
            told.send(backend, std::mem::take(&mut labels))?;
        }
    }
    told.send(backend, labels)
}

/// The columns of labels in CSV.
#[derive(Debug)]
struct CsvColumns {
    id: usize,
    class: usize,
    by: Option<usize>,
    /// A line that names columns may still come.
    is_first: bool,
}

impl Default for CsvColumns {
    fn default() -> CsvColumns {
        CsvColumns { id: 0, class: 1, by: Some(2), is_first: true }
    }
}

impl CsvColumns {
    /// The label of a line; `None` for one that names the columns.
    fn label(&mut self, line: &[u8]) -> Result<Option<FeedbackJson>, String> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        if line.first() == Some(&b'{') {
            return serde_json::from_slice(line).map(Some).map_err(|error| format!("no label: {error}"));
        }
        let line = std::str::from_utf8(line).map_err(|_| "no label: expected UTF-8".to_owned())?;
        let cells = cells(line)?;
        let at = |name: &str| cells.iter().position(|cell| cell.trim().eq_ignore_ascii_case(name));
        if let (true, Some(id), Some(class)) = (is_first, at("id"), at("class").or_else(|| at("label"))) {
            (self.id, self.class, self.by) = (id, class, at("by"));
            return Ok(None);
        }
        let cell = |at: usize| cells.get(at).map(|cell| cell.trim()).filter(|cell| !cell.is_empty());
        match (cell(self.id), cell(self.class)) {
            (Some(id), Some(class)) => {
                let by = self.by.and_then(cell).map(str::to_owned);
                Ok(Some(FeedbackJson { id: id.to_owned(), class: class.to_owned(), by }))
            }
            _ => Err("no label: expected id,class or a JSON object with these members".to_owned()),
        }
    }
}

/// The cells of a line of CSV (RFC 4180): quoted ones may have commas, and quotes as two of them.
fn cells(line: &str) -> Result<Vec<String>, String> {
    let mut cells = vec![String::new()];
    let mut chars = line.chars().peekable();
    let mut is_quoted = false;
    while let Some(next) = chars.next() {
        let Some(cell) = cells.last_mut() else { break };
        match next {
            '"' if is_quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' if is_quoted || cell.is_empty() => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            other => cell.push(other),
        }
    }
    if is_quoted { Err("no label: a quote is not closed".to_owned()) } else { Ok(cells) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_are_read_from_either_form() {
        let check = |lines: &[&str], expected: &[Option<(&str, &str, Option<&str>)>]| {
            let mut columns = CsvColumns::default();
            let read: Vec<_> = lines
                .iter()
                .filter_map(|line| columns.label(line.as_bytes()).transpose())
                .map(|label| label.ok().map(|said| (said.id, said.class, said.by)))
                .collect();
            let expected = expected.iter().map(|label| {
                label.map(|(id, class, by)| (id.to_owned(), class.to_owned(), by.map(str::to_owned)))
            });
            assert_eq!(read, expected.collect::<Vec<_>>(), "{lines:?}");
        };
        check(&["a,spam", "b, ham ,ann"], &[Some(("a", "spam", None)), Some(("b", "ham", Some("ann")))]);
        check(&["class,x,id", "spam,1,a"], &[Some(("a", "spam", None))]);
        check(&["id,label", "a,spam", "id,class"], &[Some(("a", "spam", None)), Some(("id", "class", None))]);
        check(&[r#"a,spam,"Ann ""A"", B""#], &[Some(("a", "spam", Some(r#"Ann "A", B"#)))]);
        check(
            &[r#"{"id":"a","class":"ham"}"#, "{}", "a", ",", "\"a,b"],
            &[Some(("a", "ham", None)), None, None, None, None],
        );
    }

    proptest! {
        #[test]
        fn any_line_is_a_label_or_none(line in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = CsvColumns::default().label(&line);
        }
    }
}
