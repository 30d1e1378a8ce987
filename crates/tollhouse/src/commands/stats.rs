//! `tollhouse stats`: what is known of one key, or counted of many.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use engine::{KeyChoice, KeyName, KeyStatistics};
use event::Time;
use journal::ReadBudget;
use server::api::{
    KeyNameJson, KeyStatisticsJson, KnownKeysJson, ReadingsJson, ReadingsRequest, RelatedKeysJson,
    TimelineJson,
};

use crate::clock;
use crate::console::{BOLD, Output, printable};
use crate::exit::{CommandError, Exit};
use crate::options::{Backend, EngineOptions, JsonOption, ServerOptions, pipelines, time};
use crate::rendering;

/// Show the statistics of one sender, address, link, ...
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse stats --data ./data from alice@example.com
  tollhouse stats --data ./data --pipeline web ip 192.0.2.7
  tollhouse stats --server http://127.0.0.1:8377 link_domain example.com --json
  tollhouse stats --data ./data device_of_user ann phone-7
  tollhouse stats --data ./data ip 192.0.2.7 --from 2026-05-17 --to 2026-05-18
  tollhouse stats --server http://127.0.0.1:8377 --keys suspects.txt --json
  tollhouse stats --server http://127.0.0.1:8377 --related ip 192.0.2.7
  tollhouse stats --server http://127.0.0.1:8377 --lookup 192.0.2.7

Values are normalised like those of events. `tollhouse preset show mail` lists the kinds of the
preset `mail`; `tollhouse learners` shows bands, promises and classifiers.")]
pub(crate) struct StatsArgs {
    /// Kind of key, or name of a distinct count
    #[arg(value_name = "KIND", required_unless_present_any = ["keys", "lookup"])]
    kind: Option<String>,
    /// Value, as in events; for a key of several fields their values in order
    #[arg(value_name = "VALUE", required_unless_present_any = ["keys", "lookup"])]
    value: Vec<String>,
    /// File of keys to count instead, at most 1000, one `KIND VALUE` a line; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "value", "from", "to"])]
    keys: Option<PathBuf>,
    /// Look this value up under every kind that takes it instead, in all pipelines
    #[arg(long, value_name = "VALUE", conflicts_with_all = ["kind", "value", "keys", "related", "from", "to"])]
    lookup: Option<String>,
    /// Show keys that share its latest decisions instead, such as a device's accounts
    #[arg(long, conflicts_with_all = ["keys", "to", "at"])]
    related: bool,
    /// Only buckets that end later than this
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Time>,
    /// Only buckets that begin before this
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<Time>,
    /// End of the trailing windows [default: now]; offline only
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "server")]
    at: Option<Time>,
    /// Pipeline [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(args: StatsArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    if let Some(value) = &args.lookup {
        return lookup(&mut out, &args, value);
    }
    match &args.keys {
        None if args.related => {
            let found = related(&args)?;
            if out.is_json() {
                out.json(&found)?;
            } else {
                rendering::related(&mut out, &found)?;
                rendering::without_nodes(&found.absent);
            }
        }
        Some(path) => {
            let told = readings(&args, path)?;
            if out.is_json() {
                out.json(&told)?;
            } else {
                rendering::readings(&mut out, &told)?;
            }
        }
        None => {
            let told = timeline(&args)?;
            if out.is_json() {
                out.json(&told)?;
            } else {
                rendering::timeline(&mut out, &told)?;
            }
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}

/// The value that was given; of the fields of a key of several one text.
fn value(args: &StatsArgs) -> String {
    match &args.value[..] {
        [value] => value.clone(),
        values => content::composite::text(values),
    }
}

/// Shows the keys of a value, of every kind that takes it.
fn lookup(out: &mut Output, args: &StatsArgs, value: &str) -> Result<Exit, CommandError> {
    let name = args.pipeline.as_deref();
    let known = match Backend::open(&args.engine, &args.server)? {
        Backend::Remote(client) => client.keys_of_value(name, value)?,
        Backend::Local(local) => {
            let plan = local.engine().plan();
            let asked = pipelines(&plan, name)?;
            let at = args.at.unwrap_or_else(clock::now);
            let mut found = Vec::new();
            for pipeline in asked {
                let known = pollster::block_on(local.engine().statistics_of_value(pipeline, value, at))?;
                let keys = known.iter().map(|(kind, known)| KeyStatisticsJson::new(kind, known)).collect();
                found.push(ReadingsJson { pipeline: pipeline.name.clone(), keys });
            }
            local.close()?;
            KnownKeysJson { value: value.to_owned(), pipelines: found }
        }
    };
    if out.is_json() {
        out.json(&known)?;
    } else if known.pipelines.iter().all(|pipeline| pipeline.keys.is_empty()) {
        out.line(format_args!("nothing is counted of {}", printable(value)))?;
    } else {
        for pipeline in known.pipelines.iter().filter(|pipeline| !pipeline.keys.is_empty()) {
            out.line(format_args!("{BOLD}{}{BOLD:#}", printable(&pipeline.pipeline)))?;
            rendering::readings(out, pipeline)?;
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn related(args: &StatsArgs) -> Result<RelatedKeysJson, CommandError> {
    let name = args.pipeline.as_deref();
    let (kind, value) = (args.kind.clone().unwrap_or_default(), value(args));
    Ok(match Backend::open(&args.engine, &args.server)? {
        Backend::Remote(client) => client.related(name, &kind, &value, args.from)?,
        Backend::Local(local) => {
            let pipeline = local.pipeline(name, |_| true)?;
            let mut budget = ReadBudget { records: u64::MAX, is_over: &|| false };
            let key = KeyChoice { kind: kind.clone(), value };
            let found = local.engine().related_keys(&pipeline, key, args.from, &mut budget);
            let found = found.map_err(CommandError::new)?;
            local.close()?;
            RelatedKeysJson::new(&pipeline.name, &kind, &found).shown(&pipeline)
        }
    })
}

fn timeline(args: &StatsArgs) -> Result<TimelineJson, CommandError> {
    let name = args.pipeline.as_deref();
    let kind = args.kind.as_deref().unwrap_or_default();
    let value = value(args);
    if args.from.zip(args.to).is_some_and(|(from, to)| from >= to) {
        return Err(CommandError::new("--to is not after --from"));
    }
    Ok(match Backend::open(&args.engine, &args.server)? {
        Backend::Remote(client) => client.timeline(name, kind, &value, (args.from, args.to))?,
        Backend::Local(local) => {
            let pipeline = local.pipeline(name, |_| true)?;
            let at = args.at.unwrap_or_else(clock::now);
            let mut known = pollster::block_on(local.engine().timeline(&pipeline, kind, &value, at))?;
            local.close()?;
            known.cut(args.from, args.to);
            TimelineJson::new(&pipeline.name, kind, &known)
        }
    })
}

fn readings(args: &StatsArgs, path: &Path) -> Result<ReadingsJson, CommandError> {
    let keys = keys(path)?;
    Ok(match Backend::open(&args.engine, &args.server)? {
        Backend::Remote(client) => {
            client.readings(&ReadingsRequest { pipeline: args.pipeline.clone(), keys })?
        }
        Backend::Local(local) => {
            let pipeline = local.pipeline(args.pipeline.as_deref(), |_| true)?;
            let at = args.at.unwrap_or_else(clock::now);
            let names: Vec<_> =
                keys.iter().map(|key| KeyName { kind: &key.kind, value: &key.value }).collect();
            let known = pollster::block_on(local.engine().key_statistics(&pipeline, &names, at))?;
            local.close()?;
            let told = keys.iter().zip(&known);
            let told = told.map(|(key, known)| KeyStatisticsJson::new(&key.kind, known));
            ReadingsJson { pipeline: pipeline.name.clone(), keys: told.collect() }
        }
    })
}

/// The keys of a file, one a line.
fn keys(path: &Path) -> Result<Vec<KeyNameJson>, CommandError> {
    let failed = |error: io::Error| CommandError::new(format!("{}: {error}", path.display()));
    let lines: Box<dyn BufRead> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(BufReader::new(File::open(path).map_err(failed)?)),
    };
    let mut keys = Vec::new();
    for (number, line) in lines.lines().enumerate() {
        let line = line.map_err(failed)?;
        if line.trim().is_empty() {
            continue;
        }
        let Some((kind, value)) = line.trim().split_once(char::is_whitespace) else {
            let message = format!("{}:{}: expected a kind, a blank and a value", path.display(), number + 1);
            return Err(CommandError::new(message));
        };
        if keys.len() == KeyStatistics::KEYS_MAX {
            let most = KeyStatistics::KEYS_MAX;
            return Err(CommandError::new(format!("{}: more than {most} keys", path.display())));
        }
        keys.push(KeyNameJson { kind: kind.to_owned(), value: value.trim_start().to_owned() });
    }
    Ok(keys)
}
