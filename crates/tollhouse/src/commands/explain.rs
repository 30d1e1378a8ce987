//! `tollhouse explain`: why a past decision was made.

use engine::RecordId;
use server::api::Explanation;

use crate::console::Output;
use crate::draw;
use crate::exit::{Exit, Failure};
use crate::options::{Backend, EngineOptions, JsonOption, ServerOptions};

/// Show what a past decision was made of
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse explain --data ./data 01hx3k9q7w2rd
  tollhouse explain --server http://127.0.0.1:8377 01hx3k9q7w2rd --json

Facts and readings are those that were logged when it was decided, not what is known now.")]
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
    let explanation = match Backend::open(&args.engine, &args.server)? {
        Backend::Remote(client) => client.explain(&args.id.to_string())?,
        Backend::Local(local) => {
            let explanation = Explanation::from(&local.engine().explain(args.id)?);
            local.close()?;
            explanation
        }
    };
    if out.is_json() {
        out.json(&explanation)?;
    } else {
        draw::verdict(&mut out, &explanation)?;
        draw::effects(&mut out, &explanation)?;
        draw::closest(&mut out, &explanation)?;
        draw::models(&mut out, &explanation)?;
        draw::classifiers(&mut out, &explanation)?;
        draw::keys(&mut out, &explanation)?;
        draw::facts(&mut out, &explanation)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}
