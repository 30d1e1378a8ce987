//! `tollhouse notify`: the places that a server tells what happens, and tests of them.

use server::api::NotificationJson;

use crate::console::{BOLD, DIM, Output, PLAIN, TableCell, TextTable, printable};
use crate::exit::{CommandError, Exit};
use crate::options::{JsonOption, NearServerOptions};

/// Show a server's notification targets, and send tests
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  tollhouse notify                                   As the server on 127.0.0.1:8377 has them
  tollhouse notify --server http://10.0.0.1:8377 --json
  tollhouse notify test ops                          Send a test to the target `ops`

Exit code 1: a target takes nothing.")]
pub(crate) struct NotifyArgs {
    #[command(subcommand)]
    command: Option<NotifyCommand>,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(clap::Subcommand)]
enum NotifyCommand {
    Test(NotifyTestArgs),
}

/// Send a test to a target, and show the result
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse notify test ops
  tollhouse notify test ops --server http://10.0.0.1:8377

Sends at once, even in quiet hours. Exit code 1: the target did not take it.")]
pub(crate) struct NotifyTestArgs {
    /// Target name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

fn test(args: &NotifyTestArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let client = args.server.client()?;
    let tested = client.test_notification(&args.name)?;
    if out.is_json() {
        out.json(&tested)?;
    } else {
        match &tested.problem {
            None => out.line(format_args!("`{}` has taken it", printable(&tested.name)))?,
            Some(why) => {
                out.line(format_args!("`{}` has not taken it: {}", printable(&tested.name), printable(why)))?
            }
        }
    }
    out.flush()?;
    Ok(if tested.is_sent { Exit::Fine } else { Exit::Found })
}

pub(crate) fn run(args: NotifyArgs) -> Result<Exit, CommandError> {
    if let Some(NotifyCommand::Test(args)) = &args.command {
        return test(args);
    }
    let mut out = Output::new(args.json.json);
    let client = args.server.client()?;
    let places: Vec<NotificationJson> = client.notifications()?.notifications;
    if out.is_json() {
        places.iter().try_for_each(|place| out.json(place))?;
    } else if places.is_empty() {
        out.line("no [[notification]] is configured")?;
    } else {
        let mut table = TextTable::default();
        let heads = ["name", "type", "host", "waiting", "sent", "given up", "dropped", "state"];
        table.row(heads.map(|head| TableCell::text(head, DIM)));
        for place in &places {
            let state = place.fault.as_ref().map_or(place.state.as_str(), |fault| &fault.reason);
            table.row([
                TableCell::text(printable(&place.name), BOLD),
                TableCell::text(&place.form, PLAIN),
                TableCell::text(printable(&place.host), PLAIN),
                TableCell::text(place.waiting.to_string(), PLAIN),
                TableCell::text(place.sent.to_string(), PLAIN),
                TableCell::text(place.failed.to_string(), PLAIN),
                TableCell::text(place.dropped.to_string(), PLAIN),
                TableCell::text(printable(state), PLAIN),
            ]);
        }
        out.line(table)?;
    }
    out.flush()?;
    Ok(if places.iter().all(|place| place.fault.is_none()) { Exit::Fine } else { Exit::Found })
}
