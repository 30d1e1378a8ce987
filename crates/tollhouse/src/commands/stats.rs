//! `tollhouse stats`: what is known of one key.

use event::Time;
use server::api::TimelineJson;

use crate::clock;
use crate::console::Output;
use crate::exit::{CommandError, Exit};
use crate::options::{Backend, EngineOptions, JsonOption, ServerOptions, time};
use crate::rendering;

/// Show the statistics of one sender, address, link, ...
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse stats --data ./data from alice@example.com
  tollhouse stats --data ./data --pipeline web ip 192.0.2.7
  tollhouse stats --server http://127.0.0.1:8377 link_domain example.com --json
  tollhouse stats --data ./data device_of_user ann phone-7

The value is normalised as those of events are. `tollhouse preset show mail` lists the kinds of the
preset `mail`.")]
pub(crate) struct StatsArgs {
    /// The kind of key, or the name of a distinct count
    #[arg(value_name = "KIND")]
    kind: String,
    /// The value, as it stands in events; those of the fields of a key of several, in order
    #[arg(value_name = "VALUE", required = true)]
    value: Vec<String>,
    /// Time at which the trailing windows end, instead of now; offline only
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "server")]
    at: Option<Time>,
    /// Pipeline that counts, instead of the first one
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
    let name = args.pipeline.as_deref();
    let value = match &args.value[..] {
        [value] => value.clone(),
        values => content::composite::text(values),
    };
    let timeline = match Backend::open(&args.engine, &args.server)? {
        Backend::Remote(client) => client.timeline(name, &args.kind, &value)?,
        Backend::Local(local) => {
            let pipeline = local.pipeline(name, |_| true)?;
            let at = args.at.unwrap_or_else(clock::now);
            let known = pollster::block_on(local.engine().timeline(&pipeline, &args.kind, &value, at))?;
            local.close()?;
            TimelineJson::new(&pipeline.name, &args.kind, &known)
        }
    };
    if out.is_json() {
        out.json(&timeline)?;
    } else {
        rendering::timeline(&mut out, &timeline)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}
