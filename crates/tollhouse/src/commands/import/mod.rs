//! `tollhouse import`: takes in statistics of another node, jails of fail2ban, scenarios of CrowdSec, lists of Rspamd, limits of Limitador, what
//! SpamAssassin had learned, what filters know of senders, and lists of addresses to ban.

mod bans;
mod bayes;
mod crowdsec;
mod fail2ban;
mod limits;
mod multimap;
mod reputation;
mod statistics;

use crate::exit::{CommandError, Exit};

/// Import statistics of `export --ledger`, or other programs' jails, scenarios, lists, limits, learned mail or reputations
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  tollhouse import --data ./new statistics.ndjson.zst            Into a directory without statistics
  tollhouse import --data ./data --replace statistics.ndjson     In place of what is there
  tollhouse import --data ./data --merge other-node.ndjson.zst   Added to what is there, once
  tollhouse import bans --server http://127.0.0.1:8377 --label scanner --for 7d bad.txt
  tollhouse import fail2ban --output ./bans /etc/fail2ban        Jails of fail2ban, as pipelines
  tollhouse import crowdsec --output ./bans /etc/crowdsec        Scenarios of CrowdSec, as rules
  tollhouse import multimap --type from --symbol BLOCKED --score 8 blocked.map >> mail.toml
  tollhouse import limits limits.yaml                            Limits of Limitador, as [[limit]]
  tollhouse import bayes --data ./data backup.txt ~/Maildir      Learn what SpamAssassin had learned
  tollhouse import reputation --data ./data --source txrep txrep.tsv   Count known senders

Into a `[cluster]` each key becomes as exported, also when repeated; other keys stay. --compare only
shows differences.

Statistics need the exported directory's secret: copy the file `secret` before anything is counted.
An import is complete or changes nothing, except for an interrupted merge.")]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    command: Option<ImportCommand>,
    #[command(flatten)]
    statistics: statistics::StatisticsImportArgs,
}

#[derive(clap::Subcommand)]
enum ImportCommand {
    Bans(bans::BansImportArgs),
    Fail2ban(fail2ban::Fail2banImportArgs),
    Crowdsec(crowdsec::CrowdsecImportArgs),
    Limits(limits::LimitsImportArgs),
    Multimap(multimap::MultimapImportArgs),
    Bayes(bayes::BayesImportArgs),
    Reputation(reputation::ReputationImportArgs),
}

pub(crate) fn run(args: ImportArgs) -> Result<Exit, CommandError> {
    match args.command {
        Some(ImportCommand::Bans(args)) => bans::run(&args),
        Some(ImportCommand::Fail2ban(args)) => fail2ban::run(&args),
        Some(ImportCommand::Crowdsec(args)) => crowdsec::run(&args),
        Some(ImportCommand::Limits(args)) => limits::run(&args),
        Some(ImportCommand::Multimap(args)) => multimap::run(args),
        Some(ImportCommand::Bayes(args)) => bayes::run(args),
        Some(ImportCommand::Reputation(args)) => reputation::run(&args),
        None => statistics::run(args.statistics),
    }
}
