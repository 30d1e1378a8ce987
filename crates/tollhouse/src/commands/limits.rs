//! `tollhouse limits`: the limits of a server, their exceptions, and keys that begin anew.

use std::time::Duration;

use event::{Span, Time};
use serde_json::Value;
use server::api::{LimitInfo, LimitOverride, LimitOverrides, LimitReset, LimitValues, Timestamp};

use crate::clock;
use crate::console::{BOLD, DIM, Output, PLAIN, TableCell, TextTable, printable};
use crate::exit::{CommandError, Exit};
use crate::options::{JsonOption, NearServerOptions, span, time};

/// Show a server's limits and their exceptions, make exceptions, and reset keys
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  tollhouse limits                                   As the server on 127.0.0.1:8377 has them
  tollhouse limits exceptions signups
  tollhouse limits except signups --key ip=203.0.113.7 --key device=till-1 --count 500 --for 30d
  tollhouse limits reset signups --key ip=203.0.113.7 --key device=till-1

`tollhouse top --fullest NAME` shows the keys that have used most of a limit.")]
pub(crate) struct LimitsArgs {
    #[command(subcommand)]
    command: Option<LimitsCommand>,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(clap::Subcommand)]
enum LimitsCommand {
    Exceptions(LimitExceptionsArgs),
    Except(LimitExceptArgs),
    Reset(LimitResetArgs),
}

/// Show the keys for which a limit is another
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse limits exceptions signups
  tollhouse limits exceptions signups --json

A posted exception takes precedence over one of the configuration.")]
struct LimitExceptionsArgs {
    /// Limit
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// Make a limit another one for a key, or remove that exception
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["count", "exempt", "remove"]))]
#[command(after_help = "\
Examples:
  tollhouse limits except signups --key ip=203.0.113.7 --key device=till-1 --count 500
  tollhouse limits except api --key user=monitoring --exempt --until 2027-01-01
  tollhouse limits except api --key user=monitoring --remove

An exception takes the place of an earlier one of its key. Exit code 1: there was none to remove.")]
struct LimitExceptArgs {
    /// Limit
    #[arg(value_name = "NAME")]
    name: String,
    /// Value of a field of the limit's key; repeatable, one for each field
    #[arg(long, value_name = "FIELD=VALUE", value_parser = field)]
    key: Vec<(String, String)>,
    /// Most that the key may have
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Do not limit the key
    #[arg(long)]
    exempt: bool,
    /// Remove the posted exception of the key
    #[arg(long)]
    remove: bool,
    /// Time for which it holds [default: without an end]
    #[arg(long = "for", value_name = "TIME", value_parser = span, conflicts_with_all = ["until", "remove"])]
    lasts: Option<Span>,
    /// End of the exception
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "remove")]
    until: Option<Time>,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// Set what a key has used to nothing or to a number, and lift its ban
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse limits reset signups --key ip=203.0.113.7 --key device=till-1
  tollhouse limits reset api --key user=ann --used 90

Also resets the limits that are taken with it.")]
struct LimitResetArgs {
    /// Limit
    #[arg(value_name = "NAME")]
    name: String,
    /// Value of a field of the limit's key; repeatable, one for each field
    #[arg(long, value_name = "FIELD=VALUE", value_parser = field)]
    key: Vec<(String, String)>,
    /// Amount that the key is to have used
    #[arg(long, default_value_t = 0, value_name = "N")]
    used: u64,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

fn field(text: &str) -> Result<(String, String), String> {
    let (field, value) = text.split_once('=').ok_or_else(|| "expected FIELD=VALUE".to_owned())?;
    Ok((field.to_owned(), value.to_owned()))
}

fn values(key: Vec<(String, String)>) -> LimitValues {
    key.into_iter().map(|(field, value)| (field, Value::from(value))).collect()
}

pub(crate) fn run(args: LimitsArgs) -> Result<Exit, CommandError> {
    match args.command {
        None => {}
        Some(LimitsCommand::Exceptions(args)) => return exceptions(&args),
        Some(LimitsCommand::Except(args)) => return except(args),
        Some(LimitsCommand::Reset(args)) => return reset(args),
    }
    let limits = args.server.client()?.limits()?;
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        limits.iter().try_for_each(|limit| out.json(limit))?;
    } else if limits.is_empty() {
        out.line("no [[limit]] is configured")?;
    } else {
        table(&mut out, &limits)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn table(out: &mut Output, limits: &[LimitInfo]) -> Result<(), CommandError> {
    let mut table = TextTable::default();
    let heads = ["limit", "key", "count", "per", "mode", "enforcement", "also", "exceptions"];
    table.row(heads.map(|head| match head {
        "count" | "per" | "exceptions" => TableCell::number(head, DIM),
        _ => TableCell::text(head, DIM),
    }));
    for limit in limits {
        table.row([
            TableCell::text(printable(&limit.name), BOLD),
            TableCell::text(printable(&limit.key.join(", ")), PLAIN),
            TableCell::number(limit.count, PLAIN),
            TableCell::number(length(limit.window), PLAIN),
            TableCell::text(&limit.mode, PLAIN),
            TableCell::text(&limit.enforcement, PLAIN),
            TableCell::text(printable(&limit.also.join(", ")), PLAIN),
            TableCell::number(limit.overrides, PLAIN),
        ]);
    }
    out.line(table)
}

/// A length of time that was written in seconds.
fn length(seconds: f64) -> Span {
    let length = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Span(i64::try_from(length.as_micros()).unwrap_or(i64::MAX))
}

fn exceptions(args: &LimitExceptionsArgs) -> Result<Exit, CommandError> {
    let found = args.server.client()?.limit_exceptions(&args.name)?;
    let mut out = Output::new(args.json.json);
    if out.is_json() {
        out.json(&found)?;
    } else if found.overrides.is_empty() && found.configured.is_empty() {
        out.line(format_args!("{} has no exceptions", printable(&args.name)))?;
    } else {
        exception_table(&mut out, &found)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn exception_table(out: &mut Output, found: &LimitOverrides) -> Result<(), CommandError> {
    let mut table = TextTable::default();
    table.row(["key", "count", "until", ""].map(|head| TableCell::text(head, DIM)));
    let posted = found.overrides.iter().map(|exception| (exception, "posted"));
    let configured = found.configured.iter().map(|exception| (exception, "configured"));
    for (exception, origin) in posted.chain(configured) {
        let count = exception.count.map_or_else(String::new, |count| count.to_string());
        table.row([
            TableCell::text(key(&exception.key), BOLD),
            TableCell::text(if exception.exempt { "not limited".to_owned() } else { count }, PLAIN),
            TableCell::text(exception.until.map_or_else(String::new, |until| until.to_string()), PLAIN),
            TableCell::text(origin, DIM),
        ]);
    }
    out.line(table)
}

/// The values of a key, as they are typed.
fn key(values: &LimitValues) -> String {
    let texts = values.iter().map(|(field, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{}={}", printable(field), printable(&text))
    });
    texts.collect::<Vec<_>>().join(" ")
}

fn except(args: LimitExceptArgs) -> Result<Exit, CommandError> {
    let client = args.server.client()?;
    let mut out = Output::new(args.json.json);
    let until = args.until.or_else(|| args.lasts.map(|lasts| clock::now() + lasts));
    let wanted = LimitOverride {
        key: values(args.key),
        count: args.count,
        exempt: args.exempt,
        until: until.map(Timestamp),
    };
    // A removal is answered alike whether there was an exception or not.
    let before = if args.remove { Some(client.limit_exceptions(&args.name)?) } else { None };
    let now = client.put_limit_exception(&args.name, &wanted)?;
    let is_missing = before.is_some_and(|before| {
        let is_left = |old: &LimitOverride| now.overrides.iter().any(|new| new.key == old.key);
        before.overrides.iter().all(is_left)
    });
    if out.is_json() {
        out.json(&now)?;
    } else {
        let (name, key) = (printable(&args.name), key(&wanted.key));
        let end = until.map_or_else(String::new, |until| format!(" until {until}"));
        match args.count {
            _ if is_missing => out.line(format_args!("{name} has no posted exception for {key}"))?,
            _ if args.remove => out.line(format_args!("{name} is the same for {key} as for others"))?,
            Some(count) => out.line(format_args!("{name} is {count} for {key}{end}"))?,
            None => out.line(format_args!("{name} does not limit {key}{end}"))?,
        }
    }
    out.flush()?;
    Ok(if is_missing { Exit::Found } else { Exit::Fine })
}

fn reset(args: LimitResetArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let request = LimitReset { key: values(args.key), used: args.used };
    let answer = args.server.client()?.reset_limit(&args.name, &request)?;
    if out.is_json() {
        out.json(&answer)?;
    } else {
        for state in &answer.limits {
            let name = printable(&state.limit);
            out.line(format_args!(
                "{name}: {} of {} used by {}",
                state.used,
                state.quota,
                key(&request.key)
            ))?;
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}
