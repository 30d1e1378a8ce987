//! Errors as clients see them: RFC 9457 problems, each of a type from one table.
//!
//! A problem says what is wrong, where, and how to mend it. It never shows a path, an address or a body; what only
//! the operator should see is logged.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::CorrectionFailure;
use engine::{
    BanError, DecisionLookupError, DecisionSearchError, DirectoryError, ErasureFailure, FeedbackError,
    KeyStatisticsError, PieceError, PostedValueError, ReloadError, ReviewError, ReviewKeyError,
    SnapshotError, SyncError, UnknownName,
};
use journal::JournalError;
use stats::LedgerError;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};

use crate::api;
use crate::core::deadline::Late;

/// A type of problem.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProblemType {
    word: &'static str,
    status: StatusCode,
    title: &'static str,
}

macro_rules! types {
    ($($name:ident $status:ident $word:literal $title:literal,)*) => {
        $(pub(crate) static $name: ProblemType = ProblemType { word: $word, status: StatusCode::$status, title: $title };)*
        /// All types.
        pub(crate) static ALL: &[&ProblemType] = &[$(&$name),*];
    };
}

types! {
    INVALID_PARAMETER BAD_REQUEST "invalid-parameter" "A parameter or header is not valid",
    UNKNOWN_NAME BAD_REQUEST "unknown-name" "The configuration has nothing of this name",
    INVALID_BODY BAD_REQUEST "invalid-body" "The body cannot be read",
    INVALID_FRAMING BAD_REQUEST "invalid-framing" "The request can be read in two ways",
    UNAUTHORIZED UNAUTHORIZED "unauthorized" "A token is needed",
    FORBIDDEN FORBIDDEN "forbidden" "Requests of this kind are not accepted without a token",
    MISSING_SCOPE FORBIDDEN "missing-scope" "The token may not be used for this",
    NOT_FOUND NOT_FOUND "not-found" "There is nothing here",
    METHOD_NOT_ALLOWED METHOD_NOT_ALLOWED "method-not-allowed" "The URL does not know this method",
    CONFLICT CONFLICT "conflict" "Something else was done with it meanwhile",
    SLOW_REQUEST REQUEST_TIMEOUT "slow-request" "The request did not arrive in time",
    TOO_LARGE PAYLOAD_TOO_LARGE "too-large" "The request is too large",
    UNSUPPORTED_TYPE UNSUPPORTED_MEDIA_TYPE "unsupported-type" "The pipeline does not read this type of content",
    INVALID_EVENT UNPROCESSABLE_ENTITY "invalid-event" "The body is no event of this pipeline",
    INVALID_RULES UNPROCESSABLE_ENTITY "invalid-rules" "The rules were refused, and the old ones stay in force",
    NOT_APPLICABLE UNPROCESSABLE_ENTITY "not-applicable" "This cannot be done with what was named",
    INTERNAL INTERNAL_SERVER_ERROR "internal" "Something went wrong here",
    OVERLOADED SERVICE_UNAVAILABLE "overloaded" "Too much is being worked on",
    UNAVAILABLE SERVICE_UNAVAILABLE "unavailable" "The node cannot do this now",
    SLOW_ANSWER SERVICE_UNAVAILABLE "slow-answer" "The answer was not ready in time",
}

/// A request that is not answered as wished.
#[derive(Clone, Debug)]
pub(crate) struct HttpFailure(Box<HttpFailureInner>);

#[derive(Clone, Debug)]
struct HttpFailureInner {
    kind: &'static ProblemType,
    detail: Cow<'static, str>,
    help: Option<Cow<'static, str>>,
    problems: Vec<api::DiagnosticJson>,
    /// Seconds after which it can be asked again.
    retry_after: u64,
}

impl ProblemType {
    pub(crate) fn failure(&'static self, detail: impl Into<Cow<'static, str>>) -> HttpFailure {
        HttpFailure(Box::new(HttpFailureInner {
            kind: self,
            detail: detail.into(),
            help: None,
            problems: Vec::new(),
            retry_after: 1,
        }))
    }
}

impl HttpFailure {
    /// Adds what to do about it.
    pub(crate) fn help(mut self, help: impl Into<Cow<'static, str>>) -> HttpFailure {
        self.0.help = Some(help.into());
        self
    }

    /// Returns the cause.
    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Returns it with another text of the cause.
    pub(crate) fn with_detail(mut self, detail: String) -> HttpFailure {
        self.0.detail = detail.into();
        self
    }

    /// Says when to ask again, in seconds.
    pub(crate) fn retry_after(mut self, seconds: u64) -> HttpFailure {
        self.0.retry_after = seconds;
        self
    }

    /// Adds every mistake.
    fn problems(mut self, problems: &plan::ConfigProblems) -> HttpFailure {
        self.0.problems = problems.list().iter().map(api::DiagnosticJson::from).collect();
        self
    }

    /// Returns whether it is the node's, and not the request's.
    pub(crate) fn is_own(&self) -> bool {
        self.0.kind.status.is_server_error()
    }

    /// Returns true if what was asked for is not here, or is with somebody who cannot be asked.
    pub(crate) fn is_absent(&self) -> bool {
        [&NOT_FOUND, &UNAVAILABLE].contains(&self.0.kind)
    }

    /// Returns true if there is nothing of what was asked for, or nothing can be done with it any more.
    pub(crate) fn is_gone(&self) -> bool {
        [&NOT_FOUND, &NOT_APPLICABLE].contains(&self.0.kind)
    }

    /// The problem in the form of the answer.
    pub(crate) fn problem(&self) -> api::ProblemJson {
        let HttpFailureInner { kind, detail, help, problems, .. } = &*self.0;
        api::ProblemJson {
            kind: format!("urn:tollhouse:problem:{}", kind.word),
            title: kind.title.to_owned(),
            status: kind.status.as_u16(),
            detail: detail.clone().into_owned(),
            help: help.clone().map(Cow::into_owned),
            problems: problems.clone(),
        }
    }
}

/// The media type of problems.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

impl IntoResponse for HttpFailure {
    fn into_response(self) -> Response {
        let mut response = (self.0.kind.status, Json(self.problem())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if self.0.kind.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(self.0.retry_after));
        }
        if self.0.kind.status == StatusCode::REQUEST_TIMEOUT {
            // The rest of the body is not waited for (RFC 9110, 15.5.9).
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if self.0.kind.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// A failure of what keeps statistics or decisions, for which no caller can do anything.
fn internal(error: &dyn Display) -> HttpFailure {
    tracing::error!(%error, "a request failed");
    INTERNAL.failure("statistics or journal could not be read or written").help("the node's log says why")
}

/// A failed write, after which nothing more is taken.
fn poisoned(error: &dyn Display) -> HttpFailure {
    tracing::error!(%error, "a request was refused");
    UNAVAILABLE.failure("nothing can be written").help("the node's log and /readyz say why")
}

/// A lack that may pass.
fn full(error: &dyn Display) -> HttpFailure {
    tracing::error!(%error, "a request was refused");
    UNAVAILABLE
        .failure("nothing can be counted or logged for now: the disk is full, or no file can be opened")
        .help("the node's log says which; make room on its disk, or raise its limit of open files: it then goes on by itself")
}

impl From<LedgerError> for HttpFailure {
    fn from(error: LedgerError) -> HttpFailure {
        match &error {
            LedgerError::Unreachable { .. } => {
                tracing::error!(%error, "a request was refused");
                UNAVAILABLE
                    .failure("the cluster that keeps statistics did not answer in time")
                    .help("send it again; the node's log and metrics say which shard")
            }
            LedgerError::Stopped => {
                OVERLOADED.failure(error.to_string()).help("ask for less, or try again later")
            }
            LedgerError::Window(_) => INVALID_PARAMETER.failure(format!("window: {error}")),
            LedgerError::TooLarge(_) => INVALID_EVENT.failure(error.to_string()),
            LedgerError::Poisoned { .. } | LedgerError::Closed => poisoned(&error),
            LedgerError::Full { .. } => full(&error),
            _ => internal(&error),
        }
    }
}

impl From<JournalError> for HttpFailure {
    fn from(error: JournalError) -> HttpFailure {
        match &error {
            JournalError::Poisoned(_) => poisoned(&error),
            JournalError::Full(_) => full(&error),
            _ => internal(&error),
        }
    }
}

impl From<SyncError> for HttpFailure {
    fn from(error: SyncError) -> HttpFailure {
        match error {
            SyncError::Ledger(error) => error.into(),
            SyncError::Journal(error) => error.into(),
            SyncError::Directory(error) => internal(&error),
        }
    }
}

impl From<UnknownName> for HttpFailure {
    fn from(UnknownName { what, name, help }: UnknownName) -> HttpFailure {
        UNKNOWN_NAME.failure(format!("there is no {what} `{}`", shown(&name))).help(help)
    }
}

impl From<ErasureFailure> for HttpFailure {
    fn from(error: ErasureFailure) -> HttpFailure {
        match error {
            ErasureFailure::Unknown(error) => error.into(),
            ErasureFailure::Piece(error) => error.into(),
            ErasureFailure::Count(_) => INVALID_PARAMETER.failure(format!("keys: {error}")),
            ErasureFailure::Journal(error) => error.into(),
            ErasureFailure::Ledger(error) => error.into(),
            ErasureFailure::Directory(_) | ErasureFailure::Ended => internal(&error),
        }
    }
}

impl From<DirectoryError> for HttpFailure {
    fn from(error: DirectoryError) -> HttpFailure {
        internal(&error)
    }
}

impl From<PieceError> for HttpFailure {
    fn from(error: PieceError) -> HttpFailure {
        let value = shown(&error.value);
        NOT_APPLICABLE.failure(PieceError { value, ..error }.to_string())
    }
}

impl From<DecisionLookupError> for HttpFailure {
    fn from(error: DecisionLookupError) -> HttpFailure {
        match error {
            DecisionLookupError::NoDecision(_) | DecisionLookupError::NoJournal => {
                NOT_FOUND.failure(error.to_string())
            }
            DecisionLookupError::Archive { .. } => {
                tracing::warn!(%error, "the archive of decisions cannot be asked");
                UNAVAILABLE
                    .failure(error.to_string())
                    .help("ask again; the node's log and /readyz may say more")
            }
            DecisionLookupError::Journal(error) => error.into(),
            DecisionLookupError::Directory(error) => internal(&error),
        }
    }
}

impl From<CorrectionFailure> for HttpFailure {
    fn from(error: CorrectionFailure) -> HttpFailure {
        match error {
            CorrectionFailure::Search(error) => error.into(),
            CorrectionFailure::Journal(error) => error.into(),
            CorrectionFailure::Ledger(error) => error.into(),
            CorrectionFailure::Directory(error) => internal(&error),
            CorrectionFailure::Full => UNAVAILABLE.failure(error.to_string()),
            CorrectionFailure::Ended => OVERLOADED.failure(error.to_string()),
        }
    }
}

impl From<DecisionSearchError> for HttpFailure {
    fn from(error: DecisionSearchError) -> HttpFailure {
        match error {
            DecisionSearchError::NoJournal => NOT_FOUND.failure(error.to_string()),
            DecisionSearchError::Unknown(error) => error.into(),
            DecisionSearchError::Piece(error) => error.into(),
            DecisionSearchError::Condition(_) => INVALID_PARAMETER
                .failure(format!("where: {}", shown(&error.to_string())))
                .help("write it as the `when` of a rule, of facts and readings that are logged"),
            DecisionSearchError::Journal(error) => error.into(),
            DecisionSearchError::Directory(error) => internal(&error),
        }
    }
}

impl From<FeedbackError> for HttpFailure {
    fn from(error: FeedbackError) -> HttpFailure {
        match error {
            FeedbackError::Lookup(error) => error.into(),
            FeedbackError::PipelineGone(_) => NOT_APPLICABLE.failure(error.to_string()),
            FeedbackError::Foreign(_) => {
                NOT_APPLICABLE.failure(error.to_string()).help("send it to the node that decided")
            }
            FeedbackError::Class(error) => error.into(),
            FeedbackError::Busy => OVERLOADED.failure(error.to_string()).help("say the last of it again"),
            FeedbackError::Ledger(error) => error.into(),
            FeedbackError::Journal(error) => error.into(),
        }
    }
}

impl From<KeyStatisticsError> for HttpFailure {
    fn from(error: KeyStatisticsError) -> HttpFailure {
        match error {
            KeyStatisticsError::Unknown(error) => error.into(),
            KeyStatisticsError::Piece(error) => error.into(),
            KeyStatisticsError::TooMany(_) => TOO_LARGE.failure(error.to_string()),
            KeyStatisticsError::Of { index, error } => {
                let mut failure = HttpFailure::from(*error);
                failure.0.detail = format!("keys[{index}]: {}", failure.0.detail).into();
                failure
            }
            KeyStatisticsError::NoCounters(_) => NOT_APPLICABLE.failure(error.to_string()),
            KeyStatisticsError::Ledger(error) => error.into(),
            KeyStatisticsError::Journal(error) => error.into(),
        }
    }
}

impl From<BanError> for HttpFailure {
    fn from(error: BanError) -> HttpFailure {
        match error {
            BanError::Unknown(error) => error.into(),
            BanError::NotOnBanList(_) => INVALID_PARAMETER
                .failure(format!("label: {error}"))
                .help("give it a `decision` in the configuration"),
            BanError::Piece(error) => error.into(),
            BanError::NoAddress { kind, value } => INVALID_PARAMETER
                .failure(format!("value: `{}` is no address: the keys of `{kind}` are", shown(&value)))
                .help("send an address, or a network such as `192.0.2.0/24`"),
            BanError::OwnAddress(value) => INVALID_PARAMETER
                .failure(format!("value: `{}` has an address of this machine itself", shown(&value)))
                .help(
                    "behind a proxy, mend what says whose requests it hands on; firewalls would shut it out",
                ),
            BanError::Allowed { value, source_of, parts } => {
                let failure = INVALID_PARAMETER
                    .failure(format!("value: `{}` is on the allow list ({source_of})", shown(&value)));
                match parts.as_slice() {
                    [] => failure.help("take it off the allow list first, if it is to be banned"),
                    parts => failure.help(format!("ban what is beside the list: {}", parts.join(", "))),
                }
            }
            BanError::Ledger(error) => error.into(),
        }
    }
}

impl From<PostedValueError> for HttpFailure {
    fn from(error: PostedValueError) -> HttpFailure {
        match error {
            PostedValueError::Value(_) | PostedValueError::Text { .. } | PostedValueError::Over => {
                INVALID_PARAMETER.failure(error.to_string())
            }
            PostedValueError::Full(_) => OVERLOADED.failure(error.to_string()),
            PostedValueError::Shared(_) => UNAVAILABLE
                .failure(error.to_string())
                .help("it may be in force later, on all nodes or none: ask again once the cluster is there"),
            PostedValueError::Directory(error) => {
                tracing::error!(%error, "what was posted about a value could not be kept");
                INTERNAL.failure("it could not be written").help("the node's log says why")
            }
        }
    }
}

impl From<ReviewError> for HttpFailure {
    fn from(error: ReviewError) -> HttpFailure {
        let help = match &error {
            ReviewError::Unknown(_) => return NOT_FOUND.failure(error.to_string()),
            ReviewError::Class { .. } => {
                return UNKNOWN_NAME
                    .failure(format!("class: {}", shown(&error.to_string())))
                    .help("leave it out for the first class of `good` or `bad` of [reports]");
            }
            ReviewError::Unwritten(error) => {
                tracing::error!(%error, "the queue of reviews could not be written");
                return UNAVAILABLE
                    .failure("the queue of reviews could not be written; a restart would lose this")
                    .help("the node's log says why; say it again");
            }
            ReviewError::Full(_) => return NOT_APPLICABLE.failure(error.to_string()),
            ReviewError::Decided(_) => "a review is decided once",
            ReviewError::Claimed { .. } => "take another one, or wait until the claim is over",
            ReviewError::NotClaimed(_) => "the claim may be over",
            ReviewError::Spoken(_) => "take another one",
            ReviewError::Escalated => "comment on it, or take another one",
        };
        CONFLICT.failure(error.to_string()).help(help)
    }
}

impl From<ReviewKeyError> for HttpFailure {
    fn from(error: ReviewKeyError) -> HttpFailure {
        match error {
            ReviewKeyError::Unknown(error) => error.into(),
            ReviewKeyError::Piece(error) => error.into(),
        }
    }
}

impl From<SnapshotError> for HttpFailure {
    fn from(error: SnapshotError) -> HttpFailure {
        match error {
            SnapshotError::NoDirectory => NOT_FOUND.failure(error.to_string()),
            SnapshotError::NotHere => NOT_APPLICABLE.failure(error.to_string()),
            SnapshotError::Busy => OVERLOADED.failure(error.to_string()).help("try again once it is done"),
            SnapshotError::Ended => OVERLOADED.failure(error.to_string()).help("try again later"),
            SnapshotError::Ledger(error) => error.into(),
            SnapshotError::Journal(error) => error.into(),
            SnapshotError::Directory(error) => internal(&error),
        }
    }
}

impl From<Late> for HttpFailure {
    fn from(late: Late) -> HttpFailure {
        SLOW_ANSWER.failure(late.to_string()).help("send less at once, or try again a little later")
    }
}

impl From<ReloadError> for HttpFailure {
    fn from(error: ReloadError) -> HttpFailure {
        match error {
            ReloadError::Problems(problems) => {
                let mut list = problems.list().iter();
                let first = list.find(|problem| problem.severity == engine::Severity::Error);
                let first = first.map(|problem| problem.message.clone()).unwrap_or_default();
                INVALID_RULES
                    .failure(format!("{first}; `problems` has all that is wrong"))
                    .help("mend it and send it again: nothing was taken over")
                    .problems(&problems)
            }
            ReloadError::Pipeline(name) => {
                UNKNOWN_NAME.failure(format!("there is no pipeline `{}`", shown(&name)))
            }
            ReloadError::Version { pipeline, version, help } => NOT_APPLICABLE
                .failure(format!("`{}` is no version of `{pipeline}` that is kept", shown(&version)))
                .help(help),
            ReloadError::NoCandidate(_) => NOT_APPLICABLE.failure(error.to_string()).help(
                "post one with ?candidate=true; the rules of a candidate's file are promoted by posting it",
            ),
            ReloadError::NoDirectory => NOT_FOUND.failure(error.to_string()),
            ReloadError::Directory(error) => {
                tracing::error!(%error, "rules could not be kept");
                INTERNAL
                    .failure("what is to be kept of the rules could not be read or written; the old stay")
                    .help("the node's log says why")
            }
            ReloadError::Stopped => OVERLOADED.failure(error.to_string()).help("send fewer or smaller rules"),
            ReloadError::Conflict => CONFLICT
                .failure(error.to_string())
                .help("look at what stands now (GET /v1/rules), and send it again"),
            ReloadError::Shared(_) => UNAVAILABLE
                .failure(error.to_string())
                .help("nothing has changed; send it again once the cluster answers"),
            ReloadError::Numbers(error) => UNAVAILABLE.failure(error.to_string()),
            ReloadError::Ledger(error) => error.into(),
            ReloadError::Journal(error) => error.into(),
        }
    }
}

/// A text from outside, short enough to be shown.
pub(crate) fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", text[..end].escape_debug()),
        None => text.escape_debug().to_string(),
    }
}

/// The problems of any route, for the description of the interface.
pub(crate) struct ProblemResponses;

impl utoipa::IntoResponses for ProblemResponses {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let mut titles: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        for kind in ALL {
            titles.entry(kind.status.as_u16()).or_default().push(format!("`{}`: {}", kind.word, kind.title));
        }
        let response = |titles: Vec<String>| {
            let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
            ResponseBuilder::new().description(titles.join("\n\n")).content(MEDIA_TYPE, content).build()
        };
        titles.into_iter().map(|(status, titles)| (status.to_string(), response(titles).into())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_told_apart_by_their_word() {
        let mut words: Vec<&str> = ALL.iter().map(|kind| kind.word).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), ALL.len());
    }

    #[test]
    fn types_are_documented() {
        let page = include_str!("../../../../docs/reference/http.md");
        for kind in ALL {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{}` ", kind.word)));
            let row = row.unwrap_or_else(|| panic!("`{}` is not in docs/reference/http.md", kind.word));
            assert!(row.contains(&format!("| {} ", kind.status.as_u16())), "{row}");
        }
    }

    #[test]
    fn a_full_disk_is_said_with_its_mend() {
        let error = LedgerError::Full { why: "No space left on /somewhere".into() };
        let problem = HttpFailure::from(error).problem();
        assert_eq!((problem.status, problem.kind.as_str()), (503, "urn:tollhouse:problem:unavailable"));
        assert!(problem.detail.contains("the disk is full"), "{problem:?}");
        assert!(problem.help.unwrap().contains("make room"));
        assert!(!problem.detail.contains("/somewhere"), "paths are for the log");
    }

    #[test]
    fn texts_from_outside_are_short_and_harmless() {
        assert_eq!(shown("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        assert_eq!(shown(&"é".repeat(200)).chars().count(), 81);
    }
}
