//! `tollhouse token`: the named tokens of a data directory.

use access::{AccessFileError, NewToken, ScopeSet, StoredToken, TokenFile, TokenSecret, UnknownScope};
use event::{Span, Time};
use serde::Serialize;

use crate::audit::{note_tokens, user};
use crate::clock::now;
use crate::console::{BOLD, DIM, Output, TableCell, TextTable, printable, say};
use crate::exit::{CommandError, Exit};
use crate::options::{CredentialOptions, DataOption, JsonOption, span};

/// Create, list, rotate and remove a data directory's named tokens
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tollhouse token add site --scope decide,teach --expires 90d --data ./data
  tollhouse token add bouncer --scope enforce --data ./data
  tollhouse token list --data ./data
  tollhouse token rotate site --keep 1d --data ./data
  tollhouse token remove bouncer --data ./data

Scopes: decide, teach, read, read-content, enforce, rules, administer; none includes another. A
server on the data directory applies changes within a second.")]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(clap::Subcommand)]
enum TokenCommand {
    Add(TokenAddArgs),
    List(TokenListArgs),
    Rotate(TokenRotateArgs),
    Remove(TokenRemoveArgs),
}

/// Create a token and print it, once: it is stored nowhere
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse token add site --scope decide,teach --data ./data
  tollhouse token add ann --scope read,read-content --pipeline mail --expires 90d --data ./data")]
pub(crate) struct TokenAddArgs {
    /// Name in the audit log: letters, digits, `_`, `-` and `.`
    #[arg(value_name = "NAME")]
    name: String,
    /// Scopes, separated by commas
    #[arg(long, value_name = "SCOPES", value_parser = scopes)]
    scope: ScopeSet,
    /// Only for this pipeline; repeatable
    #[arg(long, value_name = "NAME")]
    pipeline: Vec<String>,
    /// Validity, such as 90d [default: until removed]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    expires: Option<Span>,
    #[command(flatten)]
    data: DataOption,
    #[command(flatten)]
    json: JsonOption,
}

/// List the tokens, with their last use and end
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse token list --data ./data
  tollhouse token list --data ./data --json | jq -r 'select(.used == null).name'
  tollhouse token list --server http://127.0.0.1:8377

A server also lists the tokens of its configuration, and needs one with scope administer.")]
pub(crate) struct TokenListArgs {
    #[command(flatten)]
    data: DataOption,
    /// Server to ask instead of the data directory, such as http://127.0.0.1:8377
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    server: Option<String>,
    #[command(flatten)]
    credentials: CredentialOptions,
    #[command(flatten)]
    json: JsonOption,
}

/// Give a token a new secret and print it; the old one holds for a while
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse token rotate site --data ./data                The old one holds for a day
  tollhouse token rotate site --keep 0s --data ./data      It was lost: it ends now
  tollhouse token rotate site --expires 90d --data ./data  The token holds 90 days from now")]
pub(crate) struct TokenRotateArgs {
    /// Token name
    #[arg(value_name = "NAME")]
    name: String,
    /// Time for which the old secret still holds; an older one ends now
    #[arg(long, default_value = "1d", value_name = "SPAN", value_parser = span)]
    keep: Span,
    /// New validity from now on, instead of the former end
    #[arg(long, value_name = "SPAN", value_parser = span)]
    expires: Option<Span>,
    #[command(flatten)]
    data: DataOption,
    #[command(flatten)]
    json: JsonOption,
}

/// Remove a token at once
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse token remove bouncer --data ./data")]
pub(crate) struct TokenRemoveArgs {
    /// Token name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    data: DataOption,
}

fn scopes(text: &str) -> Result<ScopeSet, String> {
    text.parse().map_err(|error: UnknownScope| error.to_string())
}

/// A token in `--json`.
#[derive(Serialize)]
struct TokenLine<'a> {
    name: &'a str,
    scopes: ScopeSet,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pipelines: &'a [String],
    created: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<String>,
    /// The secrets that hold.
    secrets: usize,
    /// The token itself, once.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

impl<'a> TokenLine<'a> {
    fn of(stored: &'a StoredToken, used: Option<Time>, now: Time) -> TokenLine<'a> {
        let holds = |end: Option<Time>| end.is_none_or(|end| now < end);
        TokenLine {
            name: &stored.name,
            scopes: stored.scopes,
            pipelines: &stored.pipelines,
            created: stored.created.to_string(),
            expires: stored.expires.map(|time| time.to_string()),
            used: used.map(|time| time.to_string()),
            secrets: stored.secrets.iter().filter(|secret| holds(stored.end_of(secret))).count(),
            token: None,
        }
    }
}

pub(crate) fn run(args: TokenArgs) -> Result<Exit, CommandError> {
    match args.command {
        TokenCommand::Add(args) => add(args),
        TokenCommand::List(args) => list(&args),
        TokenCommand::Rotate(args) => rotate(&args),
        TokenCommand::Remove(args) => remove(&args),
    }
}

fn add(args: TokenAddArgs) -> Result<Exit, CommandError> {
    let directory = args.data.directory()?;
    let (secret, now) = (generate()?, now());
    let new = NewToken {
        name: args.name.clone(),
        scopes: args.scope,
        pipelines: args.pipeline,
        expires: args.expires.map(|span| now + span),
    };
    let file = TokenFile::in_directory(directory.path());
    let changed = file.change(|store| store.add(new, secret.digest(), now, &user()));
    let (_, store) = changed.map_err(refused)?;
    let stored = store.tokens.iter().find(|token| token.name == args.name);
    print(stored, &secret, args.json)?;
    note_tokens(&directory)?;
    say(
        "It is shown this once: send it as `Authorization: Bearer TOKEN`, or as TOLLHOUSE_TOKEN to commands.",
    );
    Ok(Exit::Fine)
}

fn rotate(args: &TokenRotateArgs) -> Result<Exit, CommandError> {
    let directory = args.data.directory()?;
    let (secret, now) = (generate()?, now());
    let file = TokenFile::in_directory(directory.path());
    let end = args.expires.map(|span| now + span);
    let changed =
        file.change(|store| store.rotate(&args.name, secret.digest(), args.keep, end, now, &user()));
    let (_, store) = changed.map_err(refused)?;
    let stored = store.tokens.iter().find(|token| token.name == args.name);
    print(stored, &secret, args.json)?;
    note_tokens(&directory)?;
    let old = stored.and_then(|stored| stored.secrets.get(1)?.until);
    match old {
        Some(until) => say(format_args!("It is shown this once. The old one holds until {until}.")),
        None => say("It is shown this once. The old one no longer holds."),
    }
    Ok(Exit::Fine)
}

fn remove(args: &TokenRemoveArgs) -> Result<Exit, CommandError> {
    let directory = args.data.directory()?;
    let file = TokenFile::in_directory(directory.path());
    let changed = file.change(|store| store.remove(&args.name, now(), &user()));
    let (_, store) = changed.map_err(refused)?;
    note_tokens(&directory)?;
    say(format_args!("`{}` is removed.", args.name));
    if store.tokens.is_empty() {
        say(
            "It was the last one here: a server still asks for tokens, and has only those of its configuration.",
        );
    }
    Ok(Exit::Fine)
}

fn list(args: &TokenListArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let mut table = TextTable::default();
    if let Some(server) = &args.server {
        for token in args.credentials.client(server)?.tokens()?.tokens {
            if out.is_json() {
                out.json(&token)?;
            } else {
                table.row(token_row(&TokenRow {
                    name: &token.name,
                    scopes: token.scopes.join(","),
                    pipelines: &token.pipelines,
                    expires: token.expires.map(|time| time.to_string()),
                    used: token.used.map(|time| time.to_string()),
                    secrets: token.secrets,
                }));
            }
        }
    } else {
        let directory = args.data.directory()?;
        let file = TokenFile::in_directory(directory.path());
        let store = file.read().map_err(refused)?.unwrap_or_default();
        let (uses, now) = (file.uses(), now());
        for stored in &store.tokens {
            let line = TokenLine::of(stored, uses.get(&stored.name).copied(), now);
            if out.is_json() {
                out.json(&line)?;
            } else {
                table.row(token_row(&TokenRow {
                    name: line.name,
                    scopes: line.scopes.to_string(),
                    pipelines: line.pipelines,
                    expires: line.expires,
                    used: line.used,
                    secrets: line.secrets,
                }));
            }
        }
    }
    if !out.is_json() {
        out.line(table)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

/// A token as the table has it.
struct TokenRow<'a> {
    name: &'a str,
    scopes: String,
    pipelines: &'a [String],
    expires: Option<String>,
    used: Option<String>,
    /// The secrets that hold.
    secrets: usize,
}

fn token_row(token: &TokenRow<'_>) -> [TableCell; 6] {
    let end = match (token.secrets, &token.expires) {
        (0, _) => "no longer holds".to_owned(),
        (_, Some(end)) => format!("until {end}"),
        (_, None) => "until removed".to_owned(),
    };
    let pipelines =
        if token.pipelines.is_empty() { "all pipelines".to_owned() } else { token.pipelines.join(",") };
    let used = token.used.as_ref().map_or_else(|| "never used".to_owned(), |used| format!("used {used}"));
    let rotated = if token.secrets > 1 { "two secrets" } else { "" };
    [
        TableCell::text(printable(token.name), BOLD),
        TableCell::text(printable(&token.scopes), BOLD),
        TableCell::text(printable(&pipelines), DIM),
        TableCell::text(end, DIM),
        TableCell::text(used, DIM),
        TableCell::text(rotated, DIM),
    ]
}

fn generate() -> Result<TokenSecret, CommandError> {
    TokenSecret::generate()
        .map_err(|error| CommandError::new(format_args!("there are no random numbers: {error}")))
}

fn refused(error: AccessFileError) -> CommandError {
    CommandError::new(error)
}

/// Prints a secret alone on standard output, so that a script can take it.
fn print(stored: Option<&StoredToken>, secret: &TokenSecret, json: JsonOption) -> Result<(), CommandError> {
    let mut out = Output::new(json.json);
    match stored {
        Some(stored) if out.is_json() => {
            out.json(&TokenLine { token: Some(secret.text()), ..TokenLine::of(stored, None, now()) })?;
        }
        _ => out.line(secret.text())?,
    }
    out.flush()
}
