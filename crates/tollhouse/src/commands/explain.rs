//! `tollhouse explain`: why a past decision was made.

use journal::RecordId;
use server::api::ExplanationJson;

use crate::console::Output;
use crate::exit::{CommandError, Exit};
use crate::ledger_home;
use crate::object_journal::JournalOption;
use crate::options::{EngineOptions, JsonOption, LocalEngine, ServerOptions, is_locked};
use crate::rendering;

/// Show why a past decision was made
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse explain --data ./data 01hx3k9q7w2rd
  tollhouse explain --server http://127.0.0.1:8377 01hx3k9q7w2rd --json
  tollhouse explain --data ./data --journal s3://bucket/decisions 01hx3k9q7w2rd   Of any node

Facts and readings are as of the decision. A server may run on the directory; only --server then
shows what classifiers know of the tokens and where bands begin now, and decisions of the last
second.")]
pub(crate) struct ExplainArgs {
    /// Decision id, 13 characters
    #[arg(value_name = "ID")]
    id: RecordId,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    journal: JournalOption,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(args: ExplainArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    let explanation = match args.server.client()? {
        Some(client) if !args.journal.is_named() => client.explain(&args.id.to_string())?,
        _ => local(&args)?,
    };
    if out.is_json() {
        out.json(&explanation)?;
    } else {
        rendering::verdict(&mut out, &explanation)?;
        rendering::effects(&mut out, &explanation)?;
        rendering::challenge(&mut out, &explanation)?;
        rendering::closest(&mut out, &explanation)?;
        rendering::limits(&mut out, &explanation)?;
        rendering::models(&mut out, &explanation)?;
        rendering::classifiers(&mut out, &explanation)?;
        rendering::lines(&mut out, &explanation)?;
        rendering::reputations(&mut out, &explanation.reputations)?;
        rendering::keys(&mut out, &explanation)?;
        rendering::facts(&mut out, &explanation)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn local(args: &ExplainArgs) -> Result<ExplanationJson, CommandError> {
    let directory = args.engine.directory()?;
    if let Some(found) = args.journal.find(args.id)? {
        let explained = directory.explain_in(&found, &args.engine.plan(&directory)?, args.id)?;
        return Ok(ExplanationJson::from(&explained));
    }
    match ledger_home::open(&directory, args.engine.plan(&directory)?) {
        Ok(engine) => {
            let local = LocalEngine::new(engine);
            let explanation = ExplanationJson::from(&local.engine().explain(args.id)?);
            local.close()?;
            Ok(explanation)
        }
        // The journal needs no lock.
        Err(error) if is_locked(&error) => {
            Ok(ExplanationJson::from(&directory.explain(&args.engine.plan(&directory)?, args.id)?))
        }
        Err(error) => Err(CommandError::new(error)),
    }
}
