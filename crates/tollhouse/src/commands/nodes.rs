//! `tollhouse nodes`: the nodes that share statistics, as one of them sees them; and taking out one that is gone.

use server::api::NodeJson;

use crate::console::{BOLD, DIM, Output, PLAIN, TableCell, TextTable};
use crate::exit::{CommandError, Exit};
use crate::options::{JsonOption, NearServerOptions};

/// Show the nodes that share statistics, and their versions
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  tollhouse nodes                                    As the server on 127.0.0.1:8377 sees them
  tollhouse nodes --server http://10.0.0.1:8377 --json
  tollhouse nodes forget 3                           Node 3 is gone for good

A node is `away` after ten silent seconds. Lists pipelines whose versions differ between nodes, and
shared linear models: version (the last training example learned), and how many examples are not
learned or not shared yet. Exit code 1: a node is away, takes no requests, or runs another version.")]
pub(crate) struct NodesArgs {
    #[command(subcommand)]
    command: Option<NodesCommand>,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(clap::Subcommand)]
enum NodesCommand {
    Forget(NodesForgetArgs),
}

/// Remove a dead node from the list; posts no longer name it
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse nodes forget 3
  tollhouse nodes forget 3 --server http://10.0.0.1:8377

The node must be `away`. Its number is not reused; if it starts again on its data directory, it is
back. Its own decisions are lost unless uploaded to object storage.")]
pub(crate) struct NodesForgetArgs {
    /// Node number
    #[arg(value_name = "NUMBER")]
    number: u16,
    #[command(flatten)]
    server: NearServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

fn forget(args: NodesForgetArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let client = args.server.client()?;
    let nodes = client.forget_node(args.number)?.nodes;
    if out.is_json() {
        nodes.iter().try_for_each(|node| out.json(node))?;
    } else {
        out.line(format_args!("node {} is forgotten; {} are left", args.number, nodes.len()))?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

pub(crate) fn run(args: NodesArgs) -> Result<Exit, CommandError> {
    if let Some(NodesCommand::Forget(args)) = args.command {
        return forget(args);
    }
    let mut out = Output::new(args.json.json);
    let nodes = args.server.client()?.nodes()?.nodes;
    let odd = odd_pipelines(&nodes);
    let is_fine = odd.is_empty() && nodes.iter().all(|node| ["here", "ready"].contains(&node.state.as_str()));
    if out.is_json() {
        nodes.iter().try_for_each(|node| out.json(node))?;
    } else {
        let mut table = TextTable::default();
        table.row(["node", "name", "state", "release", "address"].map(|head| TableCell::text(head, DIM)));
        for node in &nodes {
            let state = match (&node.unready, node.silent) {
                (Some(why), _) => format!("{}: {why}", node.state),
                (None, Some(silent)) if node.state == "away" => format!("away for {silent:.0} s"),
                (None, _) if !node.conditions.is_empty() => {
                    format!("{}, {}", node.state, node.conditions.join(", "))
                }
                _ => node.state.clone(),
            };
            table.row([
                TableCell::text(node.number.map_or_else(String::new, |number| number.to_string()), BOLD),
                TableCell::text(&node.name, PLAIN),
                TableCell::text(state, PLAIN),
                TableCell::text(&node.release, PLAIN),
                TableCell::text(node.url.as_deref().unwrap_or("none"), PLAIN),
            ]);
        }
        out.line(table)?;
        if let Some(models) = model_table(&nodes) {
            out.line(models)?;
        }
        for pipeline in &odd {
            out.line(format_args!("`{pipeline}` is not the same version on all nodes"))?;
        }
    }
    out.flush()?;
    Ok(if is_fine { Exit::Fine } else { Exit::Found })
}

/// The version of each shared model on each node, and what it lacks; `None` where nodes share none.
fn model_table(nodes: &[NodeJson]) -> Option<TextTable> {
    let mut table = TextTable::default();
    table.row(["node", "model", "version", "behind", "waiting"].map(|head| TableCell::text(head, DIM)));
    let mut models = 0;
    for node in nodes {
        for (name, model) in &node.models {
            models += 1;
            table.row([
                TableCell::text(node.number.map_or_else(String::new, |number| number.to_string()), BOLD),
                TableCell::text(name, PLAIN),
                TableCell::text(model.version.to_string(), PLAIN),
                TableCell::text(model.lag.to_string(), PLAIN),
                TableCell::text(model.waiting.to_string(), PLAIN),
            ]);
        }
    }
    (models > 0).then_some(table)
}

/// The pipelines of which nodes that are there run different versions, or that some do not have.
fn odd_pipelines(nodes: &[NodeJson]) -> Vec<String> {
    let there: Vec<&NodeJson> = nodes.iter().filter(|node| node.state != "away").collect();
    let mut names: Vec<&String> = there.iter().flat_map(|node| node.pipelines.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let is_odd = |name: &&String| {
        let mut versions = there.iter().map(|node| node.pipelines.get(*name));
        let first = versions.next();
        versions.any(|version| Some(version) != first)
    };
    names.into_iter().filter(is_odd).cloned().collect()
}
