//! `tollhouse reviews`: the queue of what people are to look at.

use journal::RecordId;
use judge::Action;
use server::api::{
    ReviewAgreementJson, ReviewDecisionJson, ReviewJson, ReviewTextJson, ReviewedJson, ReviewerJson,
    ReviewsDecisionJson, ReviewsOutcomeJson,
};

use crate::console::{BOLD, DIM, Output, TableCell, TextTable, colour, printable, say};
use crate::exit::{CommandError, Exit};
use crate::options::TargetServerOptions;

/// List, claim and decide reviews
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tollhouse reviews list --server http://127.0.0.1:8377
  tollhouse reviews show 01hx3k9q7w2rd --server http://127.0.0.1:8377
  tollhouse reviews decide 01hx3k9q7w2rd refuse --by ann --server http://127.0.0.1:8377
  tollhouse reviews alike link https://cash.example/ refuse --by ann --dry-run \\
    --server http://127.0.0.1:8377")]
pub(crate) struct ReviewsArgs {
    #[command(subcommand)]
    command: ReviewsCommand,
}

#[derive(clap::Subcommand)]
enum ReviewsCommand {
    List(ReviewsListArgs),
    Show(ReviewsShowArgs),
    Claim(ReviewsClaimArgs),
    Release(ReviewsReleaseArgs),
    Decide(ReviewsDecideArgs),
    Alike(ReviewsAlikeArgs),
    Escalate(ReviewsEscalateArgs),
    Comment(ReviewsCommentArgs),
    Agreement(ReviewsAgreementArgs),
}

/// A reviewer and a review.
#[derive(clap::Args)]
struct ReviewTargetArgs {
    /// Decision id, 13 characters
    #[arg(value_name = "ID")]
    id: RecordId,
    /// Reviewer
    #[arg(long, env = "USER", hide_env_values = true, value_name = "NAME")]
    by: String,
    #[command(flatten)]
    at: TargetServerOptions,
}

/// List reviews, longest waiting first
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse reviews list --server http://127.0.0.1:8377
  tollhouse reviews list --sort exposed --state open --server http://127.0.0.1:8377
  tollhouse reviews list --kind link --value https://cash.example/ --server http://127.0.0.1:8377
  tollhouse reviews list --state decided --json --server http://127.0.0.1:8377")]
pub(crate) struct ReviewsListArgs {
    /// Only this pipeline
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Only this state: open, claimed, escalated or decided [default: all but decided]
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only where this rule fired
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Only this action: `review_before` or `review_after`
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// Only with a key of this kind, of `--value`
    #[arg(long, value_name = "KIND", requires = "value")]
    kind: Option<String>,
    /// Value, as in events
    #[arg(long, value_name = "VALUE", requires = "kind")]
    value: Option<String>,
    /// Order: oldest or most exposed first
    #[arg(long, default_value = "oldest", value_name = "ORDER")]
    sort: String,
    /// Most reviews to show
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    limit: u64,
    #[command(flatten)]
    at: TargetServerOptions,
}

/// Show a review, and how many share its keys
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse reviews show 01hx3k9q7w2rd --server http://127.0.0.1:8377
  tollhouse explain 01hx3k9q7w2rd --server http://127.0.0.1:8377    The event, and why it is held")]
pub(crate) struct ReviewsShowArgs {
    /// Decision id, 13 characters
    #[arg(value_name = "ID")]
    id: RecordId,
    #[command(flatten)]
    at: TargetServerOptions,
}

/// Claim a review so that nobody else works on it
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse reviews claim 01hx3k9q7w2rd --by ann --server http://127.0.0.1:8377

A claim holds for the time of `claim` of [review]; claim again to extend it.")]
pub(crate) struct ReviewsClaimArgs {
    #[command(flatten)]
    of: ReviewTargetArgs,
}

/// Release a claimed review
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse reviews release 01hx3k9q7w2rd --by ann --server http://127.0.0.1:8377")]
pub(crate) struct ReviewsReleaseArgs {
    #[command(flatten)]
    of: ReviewTargetArgs,
}

/// Decide a review: publish or refuse
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse reviews decide 01hx3k9q7w2rd publish --by ann --server http://127.0.0.1:8377
  tollhouse reviews decide 01hx3k9q7w2rd refuse --class spam --by ann --server http://127.0.0.1:8377

The verdict is also feedback on the decision, with the reviewer's standing.")]
pub(crate) struct ReviewsDecideArgs {
    /// Decision id, 13 characters
    #[arg(value_name = "ID")]
    id: RecordId,
    /// Verdict: publish or refuse
    #[arg(value_name = "VERDICT")]
    verdict: engine::ReviewVerdict,
    /// Feedback class [default: the pipeline's first for this verdict]
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Reviewer
    #[arg(long, env = "USER", hide_env_values = true, value_name = "NAME")]
    by: String,
    #[command(flatten)]
    at: TargetServerOptions,
}

/// Decide all reviews that share a key, such as all posts with a link
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse reviews alike link https://cash.example/ refuse --by ann --dry-run \\
    --server http://127.0.0.1:8377
  tollhouse reviews alike link https://cash.example/ refuse --published --by ann \\
    --server http://127.0.0.1:8377    Also what was accepted with it, to be taken down
  tollhouse reviews alike user bob publish --by ann --server http://127.0.0.1:8377

Reviews claimed by others are skipped and listed.")]
pub(crate) struct ReviewsAlikeArgs {
    /// Kind of the key
    #[arg(value_name = "KIND")]
    kind: String,
    /// Value, as in events
    #[arg(value_name = "VALUE")]
    value: String,
    /// Verdict: publish or refuse
    #[arg(value_name = "VERDICT")]
    verdict: engine::ReviewVerdict,
    /// Feedback class [default: the pipeline's first for this verdict]
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Pipeline [default: the first]
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Most reviews to decide, oldest first
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// Only show these reviews
    #[arg(long)]
    dry_run: bool,
    /// Also accepted events that have the key, newest first
    #[arg(long)]
    published: bool,
    /// Reviewer
    #[arg(long, env = "USER", hide_env_values = true, value_name = "NAME")]
    by: String,
    #[command(flatten)]
    at: TargetServerOptions,
}

/// Escalate a review to a lead
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse reviews escalate 01hx3k9q7w2rd 'Is this satire?' --by ann --server http://127.0.0.1:8377")]
pub(crate) struct ReviewsEscalateArgs {
    #[command(flatten)]
    of: ReviewTargetArgs,
    /// Reason
    #[arg(value_name = "WHY")]
    why: String,
}

/// Comment on a review
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse reviews comment 01hx3k9q7w2rd 'I wrote to her.' --by ann --server http://127.0.0.1:8377")]
pub(crate) struct ReviewsCommentArgs {
    #[command(flatten)]
    of: ReviewTargetArgs,
    /// Comment
    #[arg(value_name = "TEXT")]
    text: String,
}

/// Show how reviewers agree, and what was decided both ways
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse reviews agreement --server http://127.0.0.1:8377
  tollhouse reviews agreement --pipeline posts --json --server http://127.0.0.1:8377

Cohen's kappa is 1 where two reviewers always agree and 0 where they do as often as by chance.")]
pub(crate) struct ReviewsAgreementArgs {
    /// Only this pipeline
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    #[command(flatten)]
    at: TargetServerOptions,
}

pub(crate) fn run(args: ReviewsArgs) -> Result<Exit, CommandError> {
    match args.command {
        ReviewsCommand::List(args) => list(&args),
        ReviewsCommand::Show(args) => show(&args),
        ReviewsCommand::Claim(args) => changed(&args.of, "claim", None),
        ReviewsCommand::Release(args) => changed(&args.of, "release", None),
        ReviewsCommand::Escalate(args) => changed(&args.of, "escalate", Some(args.why)),
        ReviewsCommand::Comment(args) => changed(&args.of, "comment", Some(args.text)),
        ReviewsCommand::Decide(args) => decide(args),
        ReviewsCommand::Alike(args) => alike(args),
        ReviewsCommand::Agreement(args) => agreement(&args),
    }
}

/// Reviews that are asked for at once.
const PAGE: usize = 500;

fn list(args: &ReviewsListArgs) -> Result<Exit, CommandError> {
    let client = args.at.client()?;
    let given = [
        ("pipeline", &args.pipeline),
        ("state", &args.state),
        ("rule", &args.rule),
        ("action", &args.action),
        ("kind", &args.kind),
        ("value", &args.value),
    ];
    let mut query: Vec<(&str, &str)> =
        given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    query.push(("sort", &args.sort));
    let wanted = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let (mut reviews, mut after) = (Vec::new(), None);
    while reviews.len() < wanted {
        let page = client.reviews(&query, PAGE.min(wanted - reviews.len()), after.as_deref())?;
        reviews.extend(page.reviews);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let mut out = Output::new(args.at.json.json);
    if out.is_json() {
        reviews.iter().try_for_each(|review| out.json(review))?;
    } else {
        table(&mut out, &reviews)?;
    }
    out.flush()?;
    if after.is_some() {
        say("there are more: --limit shows them");
    }
    Ok(Exit::Fine)
}

/// Shows reviews, one a line.
fn table(out: &mut Output, reviews: &[ReviewJson]) -> Result<(), CommandError> {
    let mut table = TextTable::default();
    for review in reviews {
        let state = match (&review.verdict, &review.claim) {
            (Some(verdict), _) => verdict.to_string(),
            (None, Some(claim)) => format!("{} by {}", review.state, printable(&claim.by)),
            (None, None) => review.state.clone(),
        };
        let rules: Vec<&str> = review.rules.iter().map(String::as_str).collect();
        table.row([
            TableCell::text(&review.id, BOLD),
            TableCell::text(review.time.to_string(), DIM),
            TableCell::text(review.action.name(), colour(review.action)),
            TableCell::text(state, BOLD),
            TableCell::number(format_args!("{:.1}", review.exposure), DIM),
            TableCell::text(printable(&rules.join(", ")), DIM),
        ]);
    }
    out.line(table)
}

fn show(args: &ReviewsShowArgs) -> Result<Exit, CommandError> {
    let review = args.at.client()?.review(&args.id.to_string())?;
    let mut out = Output::new(args.at.json.json);
    if out.is_json() {
        out.json(&review)?;
    } else {
        shown(&mut out, &review)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

/// Shows one review with all that was done with it.
fn shown(out: &mut Output, review: &ReviewJson) -> Result<(), CommandError> {
    let style = colour(review.action);
    out.line(format_args!(
        "{style}{}{style:#}  {}  score {:.1}  exposure {:.1}  {}  {}",
        review.action,
        review.verdict.map_or(review.state.clone(), |verdict| verdict.to_string()),
        review.score,
        review.exposure,
        review.pipeline,
        review.id
    ))?;
    out.line(format_args!("  came {}, due {}", review.time, review.due))?;
    if !review.rules.is_empty() {
        out.line(format_args!("  rules {}", printable(&review.rules.join(", "))))?;
    }
    if let Some(claim) = &review.claim {
        out.line(format_args!("  claimed by {} until {}", printable(&claim.by), claim.until))?;
    }
    if let Some(of) = &review.escalation {
        let by = of.by.as_deref().map(|by| format!(" by {}", printable(by))).unwrap_or_default();
        out.line(format_args!("  {}  escalated{by}: {}", of.time, printable(&of.why)))?;
    }
    for vote in &review.votes {
        out.line(format_args!("  {}  {} by {}", vote.time, vote.verdict, printable(&vote.by)))?;
    }
    for comment in &review.comments {
        let (by, text) = (printable(&comment.by), printable(&comment.text));
        out.line(format_args!("  {}  {by}: {text}", comment.time))?;
    }
    for key in review.keys.iter().filter(|key| key.waiting > 1) {
        out.line(format_args!("  {} reviews wait that have the same {}", key.waiting, key.kind))?;
    }
    Ok(())
}

fn changed(of: &ReviewTargetArgs, what: &str, text: Option<String>) -> Result<Exit, CommandError> {
    let (client, id, by) = (of.at.client()?, of.id.to_string(), of.by.clone());
    let review = match text {
        Some(text) => client.change_review(&id, what, &ReviewTextJson { by, text })?,
        None => client.change_review(&id, what, &ReviewerJson { by })?,
    };
    let mut out = Output::new(of.at.json.json);
    if out.is_json() {
        out.json(&review)?;
    } else {
        shown(&mut out, &review)?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn decide(args: ReviewsDecideArgs) -> Result<Exit, CommandError> {
    let ReviewsDecideArgs { id, verdict, class, by, at } = args;
    let word = ReviewDecisionJson { by, verdict, class };
    let reviewed: ReviewedJson = at.client()?.decide_review(&id.to_string(), &word)?;
    let mut out = Output::new(at.json.json);
    if out.is_json() {
        out.json(&reviewed)?;
    } else {
        shown(&mut out, &reviewed.review)?;
    }
    out.flush()?;
    if let Some(error) = &reviewed.feedback_error {
        say(format_args!("the word is no feedback yet, say it again: {}", printable(error)));
        return Ok(Exit::Found);
    }
    Ok(Exit::Fine)
}

fn alike(args: ReviewsAlikeArgs) -> Result<Exit, CommandError> {
    let ReviewsAlikeArgs { kind, value, verdict, class, pipeline, limit, dry_run, published, by, at } = args;
    let limit = usize::try_from(limit).ok();
    let word = ReviewsDecisionJson { pipeline, kind, value, by, verdict, class, limit, dry_run, published };
    let outcome: ReviewsOutcomeJson = at.client()?.decide_reviews(&word)?;
    let mut out = Output::new(at.json.json);
    if out.is_json() {
        out.json(&outcome)?;
    } else {
        table(&mut out, &outcome.reviews)?;
        let mut accepted = TextTable::default();
        for event in outcome.published.iter().flatten() {
            accepted.row([
                TableCell::text(&event.id, BOLD),
                TableCell::text(event.time.to_string(), DIM),
                TableCell::text(Action::Accept.name(), colour(Action::Accept)),
                TableCell::text(printable(event.event_id.as_deref().unwrap_or_default()), DIM),
            ]);
        }
        if outcome.published.as_ref().is_some_and(|published| !published.is_empty()) {
            out.line(accepted)?;
        }
    }
    out.flush()?;
    for passed in &outcome.passed_over {
        say(format_args!("{} is passed over: {}", passed.id, printable(&passed.why)));
    }
    let done = if dry_run { "would be decided" } else { "are decided, or wait for another reviewer" };
    say(format_args!("{} reviews {done}", outcome.reviews.len()));
    if let Some(published) = &outcome.published {
        let done = if dry_run { "would be judged" } else { "are judged" };
        say(format_args!("{} accepted events {done}", published.len()));
    }
    for node in &outcome.absent {
        say(format_args!("the events of node {} are missing: it does not answer", printable(node)));
    }
    if outcome.more {
        say("there are more: say it again");
    }
    Ok(Exit::Fine)
}

fn agreement(args: &ReviewsAgreementArgs) -> Result<Exit, CommandError> {
    let found = args.at.client()?.review_agreement(args.pipeline.as_deref())?;
    let mut out = Output::new(args.at.json.json);
    if out.is_json() {
        out.json(&found)?;
    } else {
        compared(&mut out, &found)?;
    }
    out.flush()?;
    if found.partial {
        say("not all was counted: there was not enough time, or there is too much");
    }
    for node in &found.absent {
        say(format_args!("the reviews of node {} are missing: it does not answer", printable(node)));
    }
    Ok(Exit::Fine)
}

/// Shows how reviewers agree.
fn compared(out: &mut Output, found: &ReviewAgreementJson) -> Result<(), CommandError> {
    let ReviewAgreementJson { reviews, publish, refuse, escalated, in_time, .. } = found;
    out.line(format_args!(
        "{reviews} decided reviews: {publish} published, {refuse} refused, {escalated} by a lead, {in_time} in time"
    ))?;
    let mut table = TextTable::default();
    for of in &found.reviewers {
        let median = of.median_seconds.map_or("none".to_owned(), |seconds| format!("{seconds:.0} s"));
        table.row([
            TableCell::text(printable(&of.by), BOLD),
            TableCell::number(format_args!("{} votes", of.votes), DIM),
            TableCell::number(format_args!("{} agreed", of.agreed), DIM),
            TableCell::number(format_args!("{} overturned", of.overturned), DIM),
            TableCell::number(format_args!("half within {median}"), DIM),
        ]);
    }
    out.line(table)?;
    let mut table = TextTable::default();
    for of in &found.pairs {
        let kappa = of.kappa.map_or("none".to_owned(), |kappa| format!("{kappa:.2}"));
        table.row([
            TableCell::text(format!("{}, {}", printable(&of.first), printable(&of.second)), BOLD),
            TableCell::number(format_args!("{} shared", of.shared), DIM),
            TableCell::number(format_args!("{:.0} % alike", of.agreement * 100.0), DIM),
            TableCell::number(format_args!("kappa {kappa}"), BOLD),
        ]);
    }
    if !found.pairs.is_empty() {
        out.line(table)?;
    }
    for of in &found.unequal {
        let (kind, shingle) = (printable(&of.kind), printable(&of.shingle));
        let (published, refused) = (printable(&of.published), printable(&of.refused));
        out.line(format_args!(
            "{kind} {shingle}: {} published, last {published}; {} refused, last {refused}",
            of.publish, of.refuse
        ))?;
    }
    Ok(())
}
