//! `tollhouse explain`: why a past decision was made.

use engine::RecordId;
use server::api::Explanation;

use crate::console::Output;
use crate::draw;
use crate::exit::{Exit, Failure};
use crate::home;
use crate::options::{EngineOptions, JsonOption, Local, ServerOptions, is_locked};

/// Show what a past decision was made of
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse explain --data ./data 01hx3k9q7w2rd
  tollhouse explain --server http://127.0.0.1:8377 01hx3k9q7w2rd --json

Facts and readings are those that were logged when it was decided, not what is known now. A server
may run on the directory; then only --server tells what classifiers know by now of the tokens, and
decisions of the last second.")]
pub(crate) struct Args {
    /// The decision's id, 13 characters
    #[arg(value_name = "ID")]
    id: RecordId,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let mut out = Output::new(args.json.json);
    let explanation = match args.server.client()? {
        Some(client) => client.explain(&args.id.to_string())?,
        None => local(&args)?,
    };
    if out.is_json() {
        out.json(&explanation)?;
    } else {
        draw::verdict(&mut out, &explanation)?;
        draw::effects(&mut out, &explanation)?;
        draw::closest(&mut out, &explanation)?;
        draw::limits(&mut out, &explanation)?;
        draw::models(&mut out, &explanation)?;
        draw::classifiers(&mut out, &explanation)?;
        draw::keys(&mut out, &explanation)?;
        draw::facts(&mut out, &explanation)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn local(args: &Args) -> Result<Explanation, Failure> {
    let directory = args.engine.directory()?;
    match home::open(&directory, args.engine.plan(&directory)?) {
        Ok(engine) => {
            let local = Local::new(engine);
            let explanation = Explanation::from(&local.engine().explain(args.id)?);
            local.close()?;
            Ok(explanation)
        }
        // The journal needs no lock.
        Err(error) if is_locked(&error) => {
            Ok(Explanation::from(&directory.explain(&args.engine.plan(&directory)?, args.id)?))
        }
        Err(error) => Err(Failure::new(error)),
    }
}
