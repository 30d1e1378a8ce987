//! `tollhouse import`: takes in statistics of another node, lists of Rspamd, limits of Limitador, and what SpamAssassin had
//! learned.

mod bayes;
mod limits;
mod multimap;
mod statistics;

use crate::exit::{CommandError, Exit};

/// Take in statistics that `export --ledger` wrote, or what another program had: lists, limits, learned mail
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  tollhouse import --data ./new statistics.ndjson.zst            Into a directory without statistics
  tollhouse import --data ./data --replace statistics.ndjson     In place of what is there
  tollhouse import --data ./data --merge other-node.ndjson.zst   Added to what is there, once
  tollhouse import multimap --type from --symbol BLOCKED --score 8 blocked.map >> mail.toml
  tollhouse import limits limits.yaml                            Limits of Limitador, as [[limit]]
  tollhouse import bayes --data ./data backup.txt ~/Maildir      Learn what SpamAssassin had learned

Into a `[cluster]`, each key becomes what it is in the export, however often that is
repeated; keys that the export does not have stay. --compare says what differs and changes nothing.

For statistics the directory needs the secret of the one that was exported: copy the file `secret`
before anything is counted. All of it is taken in or nothing, but for a merge that is interrupted.")]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    command: Option<ImportCommand>,
    #[command(flatten)]
    statistics: statistics::StatisticsImportArgs,
}

#[derive(clap::Subcommand)]
enum ImportCommand {
    Limits(limits::LimitsImportArgs),
    Multimap(multimap::MultimapImportArgs),
    Bayes(bayes::BayesImportArgs),
}

pub(crate) fn run(args: ImportArgs) -> Result<Exit, CommandError> {
    match args.command {
        Some(ImportCommand::Limits(args)) => limits::run(&args),
        Some(ImportCommand::Multimap(args)) => multimap::run(args),
        Some(ImportCommand::Bayes(args)) => bayes::run(args),
        None => statistics::run(args.statistics),
    }
}
