//! `tollhouse top`: the hottest keys of a kind, those with the worst or the best reputations, and the fullest keys of a limit.

use event::{Span, Time};
use server::api::{
    FullestKeysJson, HotKeyJson, Length, RankedReputationJson, RankedReputationsJson, TopKeysJson,
};

use crate::clock;
use crate::console::Output;
use crate::exit::{CommandError, Exit};
use crate::options::{Backend, EngineOptions, JsonOption, ServerOptions, span, time};
use crate::rendering;

/// Show which senders, addresses, links, ... are hottest
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse top --data ./data from
  tollhouse top --server http://127.0.0.1:8377 ip
  tollhouse top --server http://127.0.0.1:8377 link_domain --counter spam --window 14d --json
  tollhouse top --server http://127.0.0.1:8377 --reputation address
  tollhouse top --server http://127.0.0.1:8377 --fullest signups

Statistics keep hashes; a value is shown where a recent decision still has it.")]
pub(crate) struct TopArgs {
    /// Kind of key
    #[arg(value_name = "KIND", required_unless_present_any = ["reputation", "fullest"])]
    kind: Option<String>,
    /// Show the keys with the worst scores of this reputation counted within `--window` instead
    #[arg(long, value_name = "NAME", conflicts_with_all = ["kind", "counter"])]
    reputation: Option<String>,
    /// With `--reputation`: the best scores
    #[arg(long, conflicts_with_all = ["kind", "counter"])]
    best: bool,
    /// Show the keys that have used most of this limit by now, and those that it has banned, instead
    #[arg(long, value_name = "LIMIT", conflicts_with_all = ["kind", "counter", "reputation", "best", "window", "pipeline"])]
    fullest: Option<String>,
    /// Counter to rank by
    #[arg(long, default_value = "seen", value_name = "NAME")]
    counter: String,
    /// Trailing window
    #[arg(long, default_value = "1h", value_name = "SPAN", value_parser = span)]
    window: Span,
    /// Most keys to show
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// End of the window [default: now]; offline only
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "server")]
    at: Option<Time>,
    /// Pipeline [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    json: JsonOption,
}

pub(crate) fn run(args: TopArgs) -> Result<Exit, CommandError> {
    let mut out = Output::new(args.json.json);
    if let Some(reputation) = &args.reputation {
        return ranked(&mut out, &args, reputation);
    }
    if let Some(limit) = &args.fullest {
        return fullest(&mut out, &args, limit);
    }
    let TopArgs { counter, window, .. } = &args;
    let kind = args.kind.as_deref().unwrap_or_default();
    let (name, limit) = (args.pipeline.as_deref(), usize::try_from(args.limit).unwrap_or(usize::MAX));
    let top = match Backend::open(&args.engine, &args.server)? {
        Backend::Remote(client) => client.top(name, kind, counter, *window, limit)?,
        Backend::Local(local) => {
            let pipeline = local.pipeline(name, |_| true)?;
            let at = args.at.unwrap_or_else(clock::now);
            let asked = engine::Ranking { kind, counter, window: *window, limit };
            let hottest = local.engine().hottest(&pipeline, asked, at, &|| false);
            let keys = pollster::block_on(hottest)?.iter().map(HotKeyJson::from).collect();
            local.close()?;
            let (pipeline, kind, counter) = (pipeline.name.clone(), kind.to_owned(), counter.clone());
            TopKeysJson { pipeline, kind, counter, window: Length(*window), keys }
        }
    };
    if out.is_json() {
        out.json(&top)?;
    } else {
        rendering::top(&mut out, &top)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

/// Shows the keys with the worst or the best scores of a reputation.
fn ranked(out: &mut Output, args: &TopArgs, reputation: &str) -> Result<Exit, CommandError> {
    let (name, limit) = (args.pipeline.as_deref(), usize::try_from(args.limit).unwrap_or(usize::MAX));
    let (order, within) = (if args.best { "best" } else { "worst" }, args.window);
    let ranked = match Backend::open(&args.engine, &args.server)? {
        Backend::Remote(client) => client.reputations(name, reputation, order, within, limit)?,
        Backend::Local(local) => {
            let pipeline = local.pipeline(name, |_| true)?;
            let at = args.at.unwrap_or_else(clock::now);
            let asked = engine::ReputationRanking { name: reputation, is_best: args.best, within, limit };
            let ranked = local.engine().rank_reputations(&pipeline, asked, at, &|| false);
            let keys = pollster::block_on(ranked)?.iter().map(RankedReputationJson::from).collect();
            local.close()?;
            let (pipeline, reputation) = (pipeline.name.clone(), reputation.to_owned());
            RankedReputationsJson {
                pipeline,
                reputation,
                order: order.to_owned(),
                within: Length(within),
                keys,
            }
        }
    };
    if out.is_json() {
        out.json(&ranked)?;
    } else {
        rendering::ranked(out, &ranked)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

/// Shows the keys that have used most of a limit by now.
fn fullest(out: &mut Output, args: &TopArgs, name: &str) -> Result<Exit, CommandError> {
    let count = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let fills = match Backend::open(&args.engine, &args.server)? {
        Backend::Remote(client) => client.fullest(name, count)?,
        Backend::Local(local) => {
            let (plan, at) = (local.engine().plan(), args.at.unwrap_or_else(clock::now));
            let limit = plan.limit(name).cloned().ok_or_else(|| {
                let known = plan::expected(name, plan.limits.iter().map(|limit| &*limit.name));
                CommandError::new(format_args!("there is no limit `{name}`: {known}"))
            })?;
            let fills = pollster::block_on(local.engine().fullest(&[limit], count, at, &|| false))?;
            local.close()?;
            fills.iter().map(FullestKeysJson::new).collect()
        }
    };
    if out.is_json() {
        out.json(&fills)?;
    } else {
        for fill in &fills {
            rendering::fullest(out, fill)?;
        }
        if fills.is_empty() {
            out.line(format_args!("{name} is off: nothing is counted"))?;
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}
