//! The client of a Tollhouse server: the HTTP interface as calls, in the shapes of [`server::api`].
//!
//! Over an open network it is asked at `https://`, and vouched for by the system's authorities or those of `--ca`.

use std::net::IpAddr;
use std::time::Duration;

use access::audit::AuditHead;
use content::mail::message::Envelope;
use content::network::without_full_length;
use event::{Span, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use server::api::{
    AllowEntryJson, AllowListJson, AllowRequest, AnomaliesJson, AuditJson, AuditVerificationJson,
    BacktestJson, BacktestRequest, BanEntry, BanImportJson, BanPage, BatchError, BatchLine, CanaryRequest,
    CommonFactsJson, ComparisonJson, CorrectionJson, CorrectionRequest, DecisionCountsJson, DecisionJson,
    DecisionPageJson, DecisionStatisticsJson, EraseJson, EraseRequest, ExplanationJson, FeedbackJson,
    FeedbackLine, FeedbackOutcomeJson, FullestKeysJson, HealthJson, KnownKeysJson, LabelOutcome,
    LabelRequest, LearnersJson, LiftOutcome, LimitAnswer, LimitInfo, LimitOverride, LimitOverrides,
    LimitReset, MailReportJson, NodesJson, NoteRequest, NotificationTestJson, NotificationsJson,
    PipelinesJson, ProblemJson, RankedReputationsJson, ReadingsJson, ReadingsRequest, RelatedKeysJson,
    RelearningJson, ReloadOutcomeJson, RemovedJson, ReviewAgreementJson, ReviewDecisionJson, ReviewJson,
    ReviewedJson, ReviewsDecisionJson, ReviewsJson, ReviewsOutcomeJson, RollbackRequest, RuleImpactJson,
    RuleNamesJson, RulesJson, SearchRequest, SearchesJson, SessionsJson, SetEntriesJson, SetsJson,
    SettingsJson, SimilarDecisionsJson, SinksJson, SnapshotJson, SnapshotsJson, SourcesJson, TimelineJson,
    TokensJson, TopKeysJson, ValueNoteJson, ValueNotesJson, VersionTextJson,
};
use ureq::http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use ureq::{Agent, Body};

use crate::exit::CommandError;
use crate::input::messages::{EnvelopeOption, InputMessage};
use crate::trust::TrustOptions;

/// Longest time for one exchange; the server's own limit is shorter.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Bodies above this wait for the server to take them: one that refuses by their length closes the connection while they
/// are sent, and its answer would be lost.
const UNASKED_BYTES_MAX: usize = 256 << 10;
/// Connections that are kept for further requests: as many as `follow` has requests at once.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// Largest answer that is read.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// The route of linear models that are made anew.
const RELEARN: &str = "/v1/learners/relearn";

/// Largest list of bans that is read.
const BANS_BYTES_MAX: u64 = 4 << 30;

/// A server that is asked.
#[derive(Clone)]
pub(crate) struct ApiClient {
    agent: Agent,
    base: String,
    token: Option<String>,
}

/// Reasons for a call without an answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The server refused it and says why, and after which time it may be asked again.
    Refused(Box<ProblemJson>, Option<Duration>),
    /// The server is missing, or its answer could not be understood.
    Failed(CommandError),
}

impl From<CallError> for CommandError {
    fn from(error: CallError) -> CommandError {
        match error {
            CallError::Failed(failure) => failure,
            CallError::Refused(problem, _) => {
                let failure = CommandError::new(&problem.detail);
                match problem.help {
                    Some(help) => failure.help(help),
                    None => failure,
                }
            }
        }
    }
}

impl CallError {
    /// Returns the fault of the event, if that is the reason: the next one may do.
    pub(crate) fn of_report(self) -> Result<String, CommandError> {
        match self {
            CallError::Refused(problem, _) if problem.kind.ends_with("not-applicable") => Ok(problem.detail),
            other => other.of_event(),
        }
    }

    /// Returns true if the server may take the same later.
    pub(crate) fn is_for_now(&self) -> bool {
        const FOR_NOW: [&str; 4] = ["overloaded", "unavailable", "slow-request", "slow-answer"];
        matches!(self, CallError::Refused(problem, _) if FOR_NOW.iter().any(|word| problem.kind.ends_with(word)))
    }

    /// Returns true if the server had not answered when the time for it was over: it may answer a part of it.
    pub(crate) fn is_slow_answer(&self) -> bool {
        matches!(self, CallError::Refused(problem, _) if problem.kind.ends_with("slow-answer"))
    }

    /// Returns the time after which the server wants to be asked again.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            CallError::Refused(_, retry_after) => *retry_after,
            CallError::Failed(_) => None,
        }
    }

    /// Returns the fault of an event, if that is the reason.
    pub(crate) fn of_event(self) -> Result<String, CommandError> {
        const OF_EVENTS: [&str; 4] = ["invalid-event", "invalid-body", "too-large", "slow-answer"];
        match self {
            CallError::Refused(problem, _) if OF_EVENTS.iter().any(|word| problem.kind.ends_with(word)) => {
                Ok(problem.detail)
            }
            other => Err(other.into()),
        }
    }
}

/// The format in which a batch's lines are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineFormat {
    /// JSON objects.
    Json,
    /// Lines of an access log.
    AccessLog,
}

/// The point at which a batch is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchDurability {
    /// The choice of the server's configuration.
    AsConfigured,
    /// Once it is on the server's disk.
    OnDisk,
}

type QueryPairs<'a> = &'a [(&'a str, &'a str)];
type HeaderPairs<'a> = &'a [(&'a str, &'a str)];

impl ApiClient {
    /// A client of the server at this URL. Nothing is sent yet.
    pub(crate) fn new(
        url: &str,
        token: Option<&str>,
        trust: &TrustOptions,
    ) -> Result<ApiClient, CommandError> {
        let expected = "expected an address such as http://127.0.0.1:8377 or https://tollhouse.example:8377";
        let parsed: Uri = url
            .parse()
            .map_err(|_| CommandError::new(format_args!("--server {url}: no URL")).help(expected))?;
        let is_encrypted = parsed.scheme_str() == Some("https");
        if !(is_encrypted || parsed.scheme_str() == Some("http")) || parsed.authority().is_none() {
            return Err(
                CommandError::new(format_args!("--server {url}: no address of a server")).help(expected)
            );
        }
        // No redirects: the token is for this server only. No proxy of the environment: what is asked is private.
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .max_idle_connections(IDLE_CONNECTIONS_MAX)
            .max_idle_connections_per_host(IDLE_CONNECTIONS_MAX)
            .timeout_global(Some(TIMEOUT));
        // Only who needs them reads them.
        let config = if is_encrypted { config.tls_config(trust.tls()?) } else { config };
        let config = config.build();
        Ok(ApiClient {
            agent: config.new_agent(),
            base: url.trim_end_matches('/').to_owned(),
            token: token.map(str::to_owned),
        })
    }

    /// The server's address.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Has a message judged as of a time; `None` is now.
    pub(crate) fn decide_message(
        &self,
        pipeline: Option<&str>,
        message: &InputMessage,
        time: Option<Time>,
        envelope: EnvelopeOption,
    ) -> Result<DecisionJson, CallError> {
        self.post_message("/v1/decide", &[], pipeline, message, time, envelope)
    }

    /// Says of a message what it is.
    pub(crate) fn learn_message(
        &self,
        class: &str,
        pipeline: Option<&str>,
        message: &InputMessage,
        time: Option<Time>,
        envelope: EnvelopeOption,
    ) -> Result<FeedbackOutcomeJson, CallError> {
        self.post_message("/v1/learn", &[("class", class)], pipeline, message, time, envelope)
    }

    fn post_message<T: DeserializeOwned>(
        &self,
        path: &str,
        query: QueryPairs<'_>,
        pipeline: Option<&str>,
        message: &InputMessage,
        time: Option<Time>,
        envelope: EnvelopeOption,
    ) -> Result<T, CallError> {
        let mut query = query.to_vec();
        query.extend(pipeline.map(|name| ("pipeline", name)));
        let time = time.map(|time| time.to_string());
        let mut headers = vec![("content-type", "message/rfc822")];
        headers.extend(time.as_deref().map(|time| ("tollhouse-event-time", time)));
        let Envelope { sender, .. } = envelope.of(message);
        if envelope == EnvelopeOption::Headers {
            query.push(("envelope", "headers"));
            // The mailbox's own line is not part of the message, but may be all that names the sender.
            let fits = |sender: &&str| sender.bytes().all(|byte| byte.is_ascii_graphic());
            headers.extend(sender.as_deref().filter(fits).map(|sender| ("tollhouse-mail-from", sender)));
        }
        self.call(Method::POST, path, &query, &headers, message.stored.message())
    }

    /// Has one line of an access log judged.
    pub(crate) fn decide_line(&self, pipeline: &str, line: &[u8]) -> Result<DecisionJson, CallError> {
        self.call(
            Method::POST,
            "/v1/decide",
            &[("pipeline", pipeline)],
            &[("content-type", "text/plain")],
            line,
        )
    }

    /// Has lines judged, each an event. The answers are in their order. What is more than the server takes at once goes in
    /// parts; a line that alone is too large is answered by that.
    pub(crate) fn decide_lines(
        &self,
        pipeline: Option<&str>,
        form: LineFormat,
        held: BatchDurability,
        lines: &[impl AsRef<[u8]>],
    ) -> Result<Vec<BatchLine>, CallError> {
        let body: Vec<u8> = lines.iter().flat_map(|line| [line.as_ref(), b"\n"]).flatten().copied().collect();
        match self.decide_together(pipeline, form, held, &body) {
            Err(CallError::Refused(problem, _)) if problem.kind.ends_with("too-large") => match lines {
                [_] => Ok(vec![BatchLine::Error(BatchError { line: 1, error: *problem })]),
                _ => {
                    let (first, rest) = lines.split_at(lines.len() / 2);
                    let mut answers = self.decide_lines(pipeline, form, held, first)?;
                    answers.extend(self.decide_lines(pipeline, form, held, rest)?);
                    Ok(answers)
                }
            },
            answered => answered,
        }
    }

    fn decide_together(
        &self,
        pipeline: Option<&str>,
        form: LineFormat,
        held: BatchDurability,
        lines: &[u8],
    ) -> Result<Vec<BatchLine>, CallError> {
        let mut query: Vec<(&str, &str)> = pipeline.map(|name| ("pipeline", name)).into_iter().collect();
        query.extend((held == BatchDurability::OnDisk).then_some(("durability", "sync")));
        let media = match form {
            LineFormat::Json => "application/x-ndjson",
            LineFormat::AccessLog => "text/plain",
        };
        let mut answer =
            self.exchange(Method::POST, "/v1/decide/batch", &query, &[("content-type", media)], lines)?;
        let text = self.read(&mut answer)?;
        self.each_line(&text)
    }

    fn each_line<T: DeserializeOwned>(&self, text: &[u8]) -> Result<Vec<T>, CallError> {
        let lines = serde_json::Deserializer::from_slice(text).into_iter().collect::<Result<_, _>>();
        lines.map_err(|error| self.odd(&error))
    }

    /// Hands over a mail in which somebody reports mail. The headers tell its envelope.
    pub(crate) fn report(
        &self,
        pipeline: Option<&str>,
        headers: HeaderPairs<'_>,
        mail: &[u8],
    ) -> Result<MailReportJson, CallError> {
        let query: Vec<(&str, &str)> = pipeline.map(|name| ("pipeline", name)).into_iter().collect();
        self.call(Method::POST, "/v1/report", &query, headers, mail)
    }

    /// Says of a past decision what the event was.
    pub(crate) fn feedback(&self, id: &str, class: &str) -> Result<FeedbackOutcomeJson, CallError> {
        let said = FeedbackJson { id: id.to_owned(), class: class.to_owned(), by: None };
        let body = serde_json::to_vec(&said).map_err(|error| CallError::Failed(CommandError::new(error)))?;
        self.call(Method::POST, "/v1/feedback", &[], &[("content-type", "application/json")], &body)
    }

    /// Says of past decisions what the events were. The answers are in their order.
    pub(crate) fn feedback_all(&self, said: &[FeedbackJson]) -> Result<Vec<FeedbackLine>, CallError> {
        let mut lines = Vec::new();
        for said in said {
            serde_json::to_writer(&mut lines, said)
                .map_err(|error| CallError::Failed(CommandError::new(error)))?;
            lines.push(b'\n');
        }
        let headers = [("content-type", "application/x-ndjson")];
        let mut answer = self.exchange(Method::POST, "/v1/feedback/batch", &[], &headers, &lines)?;
        let text = self.read(&mut answer)?;
        self.each_line(&text)
    }

    /// A past decision laid open.
    pub(crate) fn explain(&self, id: &str) -> Result<ExplanationJson, CallError> {
        self.get(&format!("/v1/decisions/{}", escaped(id)), &[])
    }

    /// Returns decisions on events nearly like that of a decision.
    pub(crate) fn similar_decisions(
        &self,
        id: &str,
        limit: u32,
        facts: &str,
    ) -> Result<SimilarDecisionsJson, CallError> {
        let limit = limit.to_string();
        let mut query = vec![("limit", limit.as_str())];
        if !facts.is_empty() {
            query.push(("facts", facts));
        }
        self.get(&format!("/v1/decisions/{}/similar", escaped(id)), &query)
    }

    /// A page of past decisions.
    pub(crate) fn decisions(&self, query: &[(&str, String)]) -> Result<DecisionPageJson, CallError> {
        let query: Vec<(&str, &str)> = query.iter().map(|(name, text)| (*name, text.as_str())).collect();
        self.get("/v1/decisions", &query)
    }

    /// Facts that decisions have in common.
    pub(crate) fn common_facts(&self, query: &[(&str, String)]) -> Result<CommonFactsJson, CallError> {
        let query: Vec<(&str, &str)> = query.iter().map(|(name, text)| (*name, text.as_str())).collect();
        self.get("/v1/decisions/common", &query)
    }

    /// Decisions over time.
    pub(crate) fn counts(&self, query: QueryPairs<'_>) -> Result<DecisionCountsJson, CallError> {
        self.get("/v1/counts", query)
    }

    /// Statistics of past decisions.
    pub(crate) fn decision_statistics(
        &self,
        query: &[(&str, String)],
    ) -> Result<DecisionStatisticsJson, CallError> {
        let query: Vec<(&str, &str)> = query.iter().map(|(name, text)| (*name, text.as_str())).collect();
        self.get("/v1/decisions/statistics", &query)
    }

    /// Returns the changes of the ban list since the program of this name last asked, and the server's time, to a second.
    pub(crate) fn ban_changes<T: DeserializeOwned>(
        &self,
        query: QueryPairs<'_>,
        agent: &str,
    ) -> Result<(T, Option<Time>), CallError> {
        let mut answer =
            self.exchange(Method::GET, "/v1/bans/stream", query, &[("user-agent", agent)], &[])?;
        let date = answer.headers().get("date").and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
        let date = date.map(|date| Time::from_seconds(date.timestamp().as_second()));
        // Millions of bans are read as they come.
        let reader = std::io::BufReader::new(answer.body_mut().with_config().limit(BANS_BYTES_MAX).reader());
        let changes = serde_json::from_reader(reader).map_err(|error| self.odd(&error))?;
        Ok((changes, date))
    }

    /// Bans the entries of a list, or those behind the first ones.
    pub(crate) fn import_bans(
        &self,
        pipeline: Option<&str>,
        kind: &str,
        label: &str,
        lasts: Span,
        from: usize,
        list: &str,
    ) -> Result<BanImportJson, CallError> {
        let (lasts, from) = (lasts.to_string(), from.to_string());
        let mut query = vec![
            ("kind", kind),
            ("label", label),
            ("for", lasts.as_str()),
            ("format", "ipset"),
            ("from", &from),
        ];
        query.extend(pipeline.map(|name| ("pipeline", name)));
        self.call(Method::POST, "/v1/bans/import", &query, &[("content-type", "text/plain")], list.as_bytes())
    }

    /// Returns a page of the ban list.
    pub(crate) fn search_bans(
        &self,
        filter: QueryPairs<'_>,
        limit: usize,
        before: Option<u64>,
    ) -> Result<BanPage, CallError> {
        let (limit, before) = (limit.to_string(), before.map(|before| before.to_string()));
        let mut query = filter.to_vec();
        query.push(("limit", &limit));
        query.extend(before.as_deref().map(|before| ("before", before)));
        self.get("/v1/bans/search", &query)
    }

    /// Returns the bans on a value; of an address, also those on networks that it is in.
    pub(crate) fn bans_on(&self, value: &str) -> Result<Vec<BanEntry>, CallError> {
        let name = if without_full_length(value).parse::<IpAddr>().is_ok() { "ip" } else { "value" };
        self.get("/v1/bans", &[(name, value)])
    }

    /// Bans a value.
    pub(crate) fn ban(&self, request: &LabelRequest) -> Result<LabelOutcome, CallError> {
        self.post_json("/v1/bans", request)
    }

    /// Lifts the bans on a value.
    pub(crate) fn lift(&self, value: &str) -> Result<LiftOutcome, CallError> {
        self.call(Method::DELETE, "/v1/bans", &[("value", value)], &[], &[])
    }

    /// Returns the sets of a pipeline.
    pub(crate) fn sets(&self, pipeline: Option<&str>) -> Result<SetsJson, CallError> {
        let query = pipeline.map(|name| ("pipeline", name));
        self.get("/v1/sets", query.as_slice())
    }

    /// Returns a page of the entries of a set.
    pub(crate) fn set_entries(
        &self,
        name: &str,
        pipeline: Option<&str>,
        asked: QueryPairs<'_>,
    ) -> Result<SetEntriesJson, CallError> {
        let mut query = asked.to_vec();
        query.extend(pipeline.map(|name| ("pipeline", name)));
        self.get(&format!("/v1/sets/{}", escaped(name)), &query)
    }

    /// Returns the posted entries of the allow list, and which part of the list a value is on.
    pub(crate) fn allow_list(&self, value: Option<&str>) -> Result<AllowListJson, CallError> {
        let query = value.map(|value| ("value", value));
        self.get("/v1/allow", query.as_slice())
    }

    /// Puts a value on the allow list.
    pub(crate) fn allow(&self, request: &AllowRequest) -> Result<AllowEntryJson, CallError> {
        self.post_json("/v1/allow", request)
    }

    /// Takes a posted entry off the allow list.
    pub(crate) fn disallow(&self, value: &str) -> Result<RemovedJson, CallError> {
        self.call(Method::DELETE, "/v1/allow", &[("value", value)], &[], &[])
    }

    /// Returns the notes on a value.
    pub(crate) fn notes(&self, value: &str) -> Result<ValueNotesJson, CallError> {
        self.get("/v1/notes", &[("value", value)])
    }

    /// Adds a note to a value.
    pub(crate) fn add_note(&self, request: &NoteRequest) -> Result<ValueNoteJson, CallError> {
        self.post_json("/v1/notes", request)
    }

    /// Removes the note that a value has of a time.
    pub(crate) fn remove_note(&self, value: &str, time: Time) -> Result<RemovedJson, CallError> {
        self.call(Method::DELETE, "/v1/notes", &[("value", value), ("time", &time.to_string())], &[], &[])
    }

    /// Returns whether the node takes requests.
    pub(crate) fn readiness(&self) -> Result<HealthJson, CallError> {
        self.get("/readyz", &[])
    }

    /// Has a copy of the data directory made, beside it.
    pub(crate) fn snapshot(&self) -> Result<SnapshotJson, CallError> {
        self.call(Method::POST, "/v1/snapshots", &[], &[], &[])
    }

    /// Returns the copies that lie in the server's data directory.
    pub(crate) fn snapshots(&self) -> Result<SnapshotsJson, CallError> {
        self.get("/v1/snapshots", &[])
    }

    /// Orders the erasure of keys, or has them counted.
    pub(crate) fn erase(&self, request: &EraseRequest) -> Result<EraseJson, CallError> {
        let body = serde_json::to_vec(request).unwrap_or_default();
        self.call(Method::POST, "/v1/erase", &[], &[("content-type", "application/json")], &body)
    }

    /// Returns how far the erasure is.
    pub(crate) fn erasure(&self) -> Result<EraseJson, CallError> {
        self.get("/v1/erase", &[])
    }

    /// Returns the sessions that hold.
    pub(crate) fn sessions(&self) -> Result<SessionsJson, CallError> {
        self.get("/v1/sessions", &[])
    }

    /// Ends a session. The answer has no body.
    pub(crate) fn end_session(&self, id: &str) -> Result<(), CallError> {
        self.exchange(Method::DELETE, &format!("/v1/sessions/{}", escaped(id)), &[], &[], &[]).map(drop)
    }

    /// Returns the tokens that are accepted.
    pub(crate) fn tokens(&self) -> Result<TokensJson, CallError> {
        self.get("/v1/tokens", &[])
    }

    /// Returns the settings with their origins.
    pub(crate) fn settings(&self, query: QueryPairs<'_>) -> Result<SettingsJson, CallError> {
        self.get("/v1/settings", query)
    }

    /// Returns the sources that the server reads.
    pub(crate) fn sources(&self) -> Result<SourcesJson, CallError> {
        self.get("/v1/sources", &[])
    }

    /// Returns the brokers that the server sends to.
    pub(crate) fn sinks(&self) -> Result<SinksJson, CallError> {
        self.get("/v1/sinks", &[])
    }

    /// Returns the nodes that share the server's statistics.
    pub(crate) fn nodes(&self) -> Result<NodesJson, CallError> {
        self.get("/v1/nodes", &[])
    }

    /// Returns the places that are told what happens.
    pub(crate) fn notifications(&self) -> Result<NotificationsJson, CallError> {
        self.get("/v1/notifications", &[])
    }

    /// Has a test sent to a place.
    pub(crate) fn test_notification(&self, name: &str) -> Result<NotificationTestJson, CallError> {
        let name = escaped(name);
        self.call(Method::POST, &format!("/v1/notifications/{name}/test"), &[], &[], &[])
    }

    /// Has a node that is gone for good taken out of the list.
    pub(crate) fn forget_node(&self, number: u16) -> Result<NodesJson, CallError> {
        self.call(Method::DELETE, &format!("/v1/nodes/{number}"), &[], &[], &[])
    }

    /// Returns the pipelines of the server.
    pub(crate) fn pipelines(&self) -> Result<PipelinesJson, CallError> {
        self.get("/v1/pipelines", &[])
    }

    /// Returns the rules that stand over a pipeline's file, and those that can be gone back to.
    pub(crate) fn rules(&self, pipeline: Option<&str>) -> Result<RulesJson, CallError> {
        self.get("/v1/rules", &named(pipeline))
    }

    /// Begins a back-test.
    pub(crate) fn begin_backtest(&self, request: &BacktestRequest) -> Result<BacktestJson, CallError> {
        self.post_json("/v1/backtests", request)
    }

    /// Returns how far a back-test is.
    pub(crate) fn backtest(&self, id: &str) -> Result<BacktestJson, CallError> {
        self.get(&format!("/v1/backtests/{}", escaped(id)), &[])
    }

    /// Ends a back-test.
    pub(crate) fn cancel_backtest(&self, id: &str) -> Result<BacktestJson, CallError> {
        self.call(Method::DELETE, &format!("/v1/backtests/{}", escaped(id)), &[], &[], &[])
    }

    /// Starts rebuilding a pipeline's linear models.
    pub(crate) fn relearn(&self, pipeline: Option<&str>) -> Result<RelearningJson, CallError> {
        self.call(Method::POST, RELEARN, &named(pipeline), &[], &[])
    }

    /// Returns how far they are.
    pub(crate) fn relearning(&self, pipeline: Option<&str>) -> Result<RelearningJson, CallError> {
        self.get(RELEARN, &named(pipeline))
    }

    /// Lets them go.
    pub(crate) fn discard_relearned(&self, pipeline: Option<&str>) -> Result<RelearningJson, CallError> {
        self.call(Method::DELETE, RELEARN, &named(pipeline), &[], &[])
    }

    /// Uses them.
    pub(crate) fn adopt_relearned(
        &self,
        pipeline: Option<&str>,
        replace: bool,
    ) -> Result<RelearningJson, CallError> {
        let mut query = named(pipeline);
        query.extend(replace.then_some(("replace", "true")));
        self.call(Method::POST, "/v1/learners/relearn/adopt", &query, &[], &[])
    }

    /// Returns what a rule did to past events.
    pub(crate) fn rule_impact(&self, query: QueryPairs<'_>) -> Result<RuleImpactJson, CallError> {
        self.get("/v1/rules/impact", query)
    }

    /// Has what a rule did taken back.
    pub(crate) fn correct_rule(&self, request: &CorrectionRequest) -> Result<CorrectionJson, CallError> {
        self.post_json("/v1/rules/corrections", request)
    }

    /// Returns how far a correction is.
    pub(crate) fn correction(&self) -> Result<CorrectionJson, CallError> {
        self.get("/v1/rules/corrections", &[])
    }

    /// Returns the names that conditions may have.
    pub(crate) fn rule_names(&self, pipeline: Option<&str>) -> Result<RuleNamesJson, CallError> {
        self.get("/v1/rules/names", &named(pipeline))
    }

    /// Returns a version of a pipeline, and how it differs from another.
    pub(crate) fn version(
        &self,
        pipeline: Option<&str>,
        version: &str,
        against: Option<&str>,
    ) -> Result<VersionTextJson, CallError> {
        let mut query = named(pipeline);
        query.extend(against.map(|against| ("against", against)));
        self.get(&format!("/v1/rules/versions/{}", escaped(version)), &query)
    }

    /// Lays rules over a pipeline's file, or has them judged beside what is enforced.
    pub(crate) fn post_rules(
        &self,
        pipeline: Option<&str>,
        text: &str,
        dry_run: bool,
        candidate: bool,
    ) -> Result<ReloadOutcomeJson, CallError> {
        let mut query = named(pipeline);
        query.extend(dry_run.then_some(("dry_run", "true")));
        query.extend(candidate.then_some(("candidate", "true")));
        self.call(Method::POST, "/v1/rules", &query, &[("content-type", "application/toml")], text.as_bytes())
    }

    /// Has the server take over what its files say.
    pub(crate) fn reload_rules(&self, dry_run: bool) -> Result<ReloadOutcomeJson, CallError> {
        let query: Vec<_> = dry_run.then_some(("dry_run", "true")).into_iter().collect();
        self.call(Method::POST, "/v1/rules/reload", &query, &[], &[])
    }

    /// Goes back to a version.
    pub(crate) fn roll_back(
        &self,
        pipeline: Option<&str>,
        version: &str,
    ) -> Result<ReloadOutcomeJson, CallError> {
        let wanted = RollbackRequest { version: version.to_owned(), pipeline: pipeline.map(str::to_owned) };
        let body =
            serde_json::to_vec(&wanted).map_err(|error| CallError::Failed(CommandError::new(error)))?;
        self.call(Method::POST, "/v1/rules/rollback", &[], &[("content-type", "application/json")], &body)
    }

    /// Lets the candidate decide for some events.
    pub(crate) fn set_canary(
        &self,
        pipeline: Option<&str>,
        share: f64,
        nodes: &[u16],
    ) -> Result<ReloadOutcomeJson, CallError> {
        let (share, nodes) = (Some(share), nodes.to_vec());
        let wanted = CanaryRequest { share, nodes, pipeline: pipeline.map(str::to_owned) };
        let body =
            serde_json::to_vec(&wanted).map_err(|error| CallError::Failed(CommandError::new(error)))?;
        self.call(Method::POST, "/v1/rules/canary", &[], &[("content-type", "application/json")], &body)
    }

    /// Enforces the candidate.
    pub(crate) fn promote_rules(&self, pipeline: Option<&str>) -> Result<ReloadOutcomeJson, CallError> {
        self.call(Method::POST, "/v1/rules/promote", &named(pipeline), &[], &[])
    }

    /// Returns the comparison of the candidate with what is enforced.
    pub(crate) fn comparison(&self, pipeline: Option<&str>) -> Result<ComparisonJson, CallError> {
        self.get("/v1/rules/comparison", &named(pipeline))
    }

    /// All that is kept of one key.
    pub(crate) fn timeline(
        &self,
        pipeline: Option<&str>,
        kind: &str,
        value: &str,
        (from, to): (Option<Time>, Option<Time>),
    ) -> Result<TimelineJson, CallError> {
        let [from, to] = [from, to].map(|time| time.map(|time| time.to_string()));
        let mut query = vec![("kind", kind), ("value", value)];
        query.extend(pipeline.map(|name| ("pipeline", name)));
        query.extend(from.as_deref().map(|from| ("from", from)));
        query.extend(to.as_deref().map(|to| ("to", to)));
        self.get("/v1/timeline", &query)
    }

    /// The counts of many keys.
    pub(crate) fn readings(&self, asked: &ReadingsRequest) -> Result<ReadingsJson, CallError> {
        let body = serde_json::to_vec(asked).map_err(|error| CallError::Failed(CommandError::new(error)))?;
        self.call(Method::POST, "/v1/readings", &[], &[("content-type", "application/json")], &body)
    }

    /// Returns what learns in a pipeline.
    pub(crate) fn learners(&self, pipeline: Option<&str>) -> Result<LearnersJson, CallError> {
        self.get("/v1/learners", &named(pipeline))
    }

    /// Returns what is unlike its past.
    pub(crate) fn anomalies(&self, pipeline: Option<&str>) -> Result<AnomaliesJson, CallError> {
        self.get("/v1/anomalies", &named(pipeline))
    }

    /// The keys of a value, of every kind that takes it.
    pub(crate) fn keys_of_value(
        &self,
        pipeline: Option<&str>,
        value: &str,
    ) -> Result<KnownKeysJson, CallError> {
        let mut query = named(pipeline);
        query.push(("value", value));
        self.get("/v1/keys", &query)
    }

    /// The keys that share decisions with a key.
    pub(crate) fn related(
        &self,
        pipeline: Option<&str>,
        kind: &str,
        value: &str,
        from: Option<Time>,
    ) -> Result<RelatedKeysJson, CallError> {
        let from = from.map(|time| time.to_string());
        let mut query = vec![("kind", kind), ("value", value)];
        query.extend(pipeline.map(|name| ("pipeline", name)));
        query.extend(from.as_deref().map(|from| ("from", from)));
        self.get("/v1/keys/related", &query)
    }

    /// The hottest keys of a kind.
    pub(crate) fn top(
        &self,
        pipeline: Option<&str>,
        kind: &str,
        counter: &str,
        window: Span,
        limit: usize,
    ) -> Result<TopKeysJson, CallError> {
        let (window, limit) = (window.to_string(), limit.to_string());
        let mut query = vec![("kind", kind), ("counter", counter), ("window", &window), ("limit", &limit)];
        query.extend(pipeline.map(|name| ("pipeline", name)));
        self.get("/v1/top", &query)
    }

    /// The keys with the worst or the best reputations.
    pub(crate) fn reputations(
        &self,
        pipeline: Option<&str>,
        name: &str,
        order: &str,
        within: Span,
        limit: usize,
    ) -> Result<RankedReputationsJson, CallError> {
        let (within, limit) = (within.to_string(), limit.to_string());
        let mut query = vec![("name", name), ("order", order), ("within", &within), ("limit", &limit)];
        query.extend(pipeline.map(|name| ("pipeline", name)));
        self.get("/v1/reputations", &query)
    }

    /// The keys that have used most of a limit by now.
    pub(crate) fn fullest(&self, name: &str, limit: usize) -> Result<Vec<FullestKeysJson>, CallError> {
        self.get("/v1/limits/fullest", &[("name", name), ("limit", &limit.to_string())])
    }

    /// Returns the limits.
    pub(crate) fn limits(&self) -> Result<Vec<LimitInfo>, CallError> {
        self.get("/v1/limits", &[])
    }

    /// Returns the exceptions of a limit.
    pub(crate) fn limit_exceptions(&self, name: &str) -> Result<LimitOverrides, CallError> {
        self.get(&format!("/v1/limits/{}/overrides", escaped(name)), &[])
    }

    /// Posts an exception of a limit, or takes one away.
    pub(crate) fn put_limit_exception(
        &self,
        name: &str,
        exception: &LimitOverride,
    ) -> Result<LimitOverrides, CallError> {
        self.put_json(&format!("/v1/limits/{}/overrides", escaped(name)), exception)
    }

    /// Sets what a key has used of a limit, and lifts its ban.
    pub(crate) fn reset_limit(&self, name: &str, reset: &LimitReset) -> Result<LimitAnswer, CallError> {
        self.post_json(&format!("/v1/limits/{}/reset", escaped(name)), reset)
    }

    /// The searches that have a name.
    pub(crate) fn searches(&self) -> Result<SearchesJson, CallError> {
        self.get("/v1/searches", &[])
    }

    /// Saves a search.
    pub(crate) fn save_search(&self, search: &SearchRequest) -> Result<SearchesJson, CallError> {
        self.put_json("/v1/searches", search)
    }

    /// Removes a search that was saved.
    pub(crate) fn remove_search(&self, name: &str) -> Result<SearchesJson, CallError> {
        self.call(Method::DELETE, "/v1/searches", &[("name", name)], &[], &[])
    }

    /// A page of the queue of reviews.
    pub(crate) fn reviews(
        &self,
        filter: QueryPairs<'_>,
        limit: usize,
        after: Option<&str>,
    ) -> Result<ReviewsJson, CallError> {
        let limit = limit.to_string();
        let mut query = filter.to_vec();
        query.push(("limit", &limit));
        query.extend(after.map(|after| ("after", after)));
        self.get("/v1/reviews", &query)
    }

    /// A page of the audit log, the newest entry first.
    pub(crate) fn audit(
        &self,
        filter: QueryPairs<'_>,
        limit: usize,
        before: Option<u64>,
    ) -> Result<AuditJson, CallError> {
        let (limit, before) = (limit.to_string(), before.map(|before| before.to_string()));
        let mut query = filter.to_vec();
        query.extend([("order", "newest"), ("limit", limit.as_str())]);
        query.extend(before.as_deref().map(|before| ("before", before)));
        self.get("/v1/audit", &query)
    }

    /// Returns whether the chain of the audit log holds.
    pub(crate) fn verify_audit(
        &self,
        expected: Option<AuditHead>,
    ) -> Result<AuditVerificationJson, CallError> {
        let expected = expected.map(|head| format!("{}:{}", head.number, head.chain));
        let query: Vec<(&str, &str)> = expected.iter().map(|head| ("expect", head.as_str())).collect();
        self.get("/v1/audit/verification", &query)
    }

    /// One review.
    pub(crate) fn review(&self, id: &str) -> Result<ReviewJson, CallError> {
        self.get(&format!("/v1/reviews/{}", escaped(id)), &[])
    }

    /// The agreement between reviewers.
    pub(crate) fn review_agreement(&self, pipeline: Option<&str>) -> Result<ReviewAgreementJson, CallError> {
        let query: Vec<(&str, &str)> = pipeline.map(|name| ("pipeline", name)).into_iter().collect();
        self.get("/v1/reviews/agreement", &query)
    }

    /// Claims, releases or escalates a review, or comments on it.
    pub(crate) fn change_review(
        &self,
        id: &str,
        what: &str,
        body: &impl Serialize,
    ) -> Result<ReviewJson, CallError> {
        self.post_json(&format!("/v1/reviews/{}/{what}", escaped(id)), body)
    }

    /// Has a reviewer's word on a review.
    pub(crate) fn decide_review(
        &self,
        id: &str,
        word: &ReviewDecisionJson,
    ) -> Result<ReviewedJson, CallError> {
        self.post_json(&format!("/v1/reviews/{}/decide", escaped(id)), word)
    }

    /// Has a reviewer's word on all reviews that share a key.
    pub(crate) fn decide_reviews(&self, word: &ReviewsDecisionJson) -> Result<ReviewsOutcomeJson, CallError> {
        self.post_json("/v1/reviews/decide", word)
    }

    fn post_json<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CallError> {
        let body = serde_json::to_vec(body).map_err(|error| CallError::Failed(CommandError::new(error)))?;
        self.call(Method::POST, path, &[], &[("content-type", "application/json")], &body)
    }

    fn put_json<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CallError> {
        let body = serde_json::to_vec(body).map_err(|error| CallError::Failed(CommandError::new(error)))?;
        self.call(Method::PUT, path, &[], &[("content-type", "application/json")], &body)
    }

    fn get<T: DeserializeOwned>(&self, path: &str, query: QueryPairs<'_>) -> Result<T, CallError> {
        self.call(Method::GET, path, query, &[], &[])
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        query: QueryPairs<'_>,
        headers: HeaderPairs<'_>,
        body: &[u8],
    ) -> Result<T, CallError> {
        let mut answer = self.exchange(method, path, query, headers, body)?;
        let text = self.read(&mut answer)?;
        serde_json::from_slice(&text).map_err(|error| self.odd(&error))
    }

    fn exchange(
        &self,
        method: Method,
        path: &str,
        query: QueryPairs<'_>,
        headers: HeaderPairs<'_>,
        body: &[u8],
    ) -> Result<Response<Body>, CallError> {
        let mut uri = format!("{}{path}", self.base);
        for (at, (name, value)) in query.iter().enumerate() {
            uri += &format!("{}{name}={}", if at == 0 { '?' } else { '&' }, escaped(value));
        }
        let mut request = Request::builder().method(method.clone()).uri(uri);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if body.len() > UNASKED_BYTES_MAX {
            request = request.header("expect", "100-continue");
        }
        let built = if method == Method::GET {
            request.body(()).map(|request| self.agent.run(request))
        } else {
            request.body(body).map(|request| self.agent.run(request))
        };
        let sent = built.map_err(|error| CallError::Failed(CommandError::new(error)))?;
        let mut answer = sent.map_err(|error| {
            let failure = CommandError::new(format_args!("{}: {error}", self.base));
            let help = match error {
                ureq::Error::Rustls(_) | ureq::Error::Io(_) if self.base.starts_with("https:") => {
                    "is it HTTPS there, and the certificate for this name, and vouched for by the system's authorities or those of --ca?"
                }
                _ => "is a server running there? `tollhouse serve` prints its address",
            };
            CallError::Failed(failure.help(help))
        })?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let text = self.read(&mut answer)?;
        let (status, retry_after) = (answer.status(), retry_after(answer.headers()));
        let problem = match serde_json::from_slice(&text) {
            Ok(problem) => problem,
            // Of a proxy between.
            Err(_) if status == StatusCode::PAYLOAD_TOO_LARGE => too_large(body.len()),
            Err(_) if [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&status) => {
                unavailable(status, format!("{}{path}: {status}", self.base))
            }
            Err(_) => {
                let failure = CommandError::new(format_args!("{}{path}: {status}", self.base));
                return Err(CallError::Failed(failure));
            }
        };
        Err(CallError::Refused(Box::new(problem), retry_after))
    }

    fn read(&self, answer: &mut Response<Body>) -> Result<Vec<u8>, CallError> {
        let read = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        read.map_err(|error| CallError::Failed(CommandError::new(format_args!("{}: {error}", self.base))))
    }

    fn odd(&self, error: &serde_json::Error) -> CallError {
        let message = format!("{}: this answer is none of Tollhouse's: {error}", self.base);
        CallError::Failed(CommandError::new(message))
    }
}

fn too_large(bytes: usize) -> ProblemJson {
    ProblemJson {
        kind: "urn:tollhouse:problem:too-large".to_owned(),
        title: "The request is too large".to_owned(),
        status: StatusCode::PAYLOAD_TOO_LARGE.as_u16(),
        detail: format!("{bytes} bytes are more than the server takes"),
        help: None,
        problems: Vec::new(),
    }
}

fn unavailable(status: StatusCode, detail: String) -> ProblemJson {
    ProblemJson {
        kind: "urn:tollhouse:problem:unavailable".to_owned(),
        title: "A proxy before the server cannot do this now".to_owned(),
        status: status.as_u16(),
        detail,
        help: None,
        problems: Vec::new(),
    }
}

/// Returns the time after which to ask again, in the form of seconds. Dates are of a clock that may not be this one.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The query that names a pipeline.
fn named(pipeline: Option<&str>) -> Vec<(&'static str, &str)> {
    pipeline.map(|name| ("pipeline", name)).into_iter().collect()
}

/// Percent-encoded for a path segment or a query.
fn escaped(text: &str) -> impl std::fmt::Display {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}
