//! The routes: what each URL takes and answers. The description at `/openapi.json` is generated from them.

mod access;
pub(crate) mod audit;
pub(crate) mod backtests;
pub(crate) mod ban_import;
pub(crate) mod bans;
pub(crate) mod batch;
pub(crate) mod body;
mod challenges;
pub(crate) mod connection;
pub(crate) mod corrections;
mod crowdsec;
pub(crate) mod decision_export;
pub(crate) mod decisions;
mod direct_decision;
pub(crate) mod erasure;
pub(crate) mod events;
mod examples;
pub(crate) mod feedback;
mod forms;
pub(crate) mod forward_auth;
pub(crate) mod guard;
pub(crate) mod learners;
pub(crate) mod limits;
mod mail_reports;
pub(crate) mod node;
pub(crate) mod nodes;
pub(crate) mod notifications;
pub(crate) mod posted_values;
pub(crate) mod reviews;
pub(crate) mod rules;
pub(crate) mod searches;
pub(crate) mod sessions;
pub(crate) mod sets;
pub(crate) mod similar;
pub(crate) mod sinks;
pub(crate) mod site_challenge;
pub(crate) mod sources;
pub(crate) mod statistics;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRef, FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{Method, Uri};
use axum::middleware;
use axum::routing::any;
use engine::Engine;
use serde::de::DeserializeOwned;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::guard::guard;
use crate::api;
use crate::core::clock::Clock;
use crate::core::node::Node;
use crate::core::problem::{
    HttpFailure, INVALID_BODY, INVALID_PARAMETER, METHOD_NOT_ALLOWED, NOT_FOUND, UNSUPPORTED_TYPE, shown,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tollhouse",
        description = "Counts events by hashed keys over time windows, judges them by rules, explains each verdict.",
    ),
    tags(
        (name = "decide", description = "Events in, verdicts out"),
        (name = "statistics", description = "Statistics of keys"),
        (name = "feedback", description = "Feedback"),
        (name = "reviews", description = "The queue of reviews"),
        (name = "limits", description = "Limits"),
        (name = "bans", description = "The ban list"),
        (name = "challenges", description = "Challenges and passes"),
        (name = "forms", description = "Forms and bait"),
        (name = "rules", description = "Rules"),
        (name = "node", description = "The node itself"),
    ),
    components(schemas(api::ProblemJson)),
    security(("token" = [])),
)]
struct ApiDescription;

#[derive(OpenApi)]
#[openapi(paths(forward_auth::auth, site_challenge::step))]
struct ForwardDescription;

/// The name of the listener of HTTP in the log and metrics.
pub(crate) const HTTP: &str = "http";

/// The state that routes have at hand: for most of them the node alone.
#[derive(Clone)]
struct HttpState {
    node: Arc<Node>,
    feeds: Arc<bans::BanFeeds>,
    /// The description of the interface, as it is served.
    openapi: Bytes,
}

impl FromRef<HttpState> for Arc<Node> {
    fn from_ref(state: &HttpState) -> Arc<Node> {
        Arc::clone(&state.node)
    }
}

impl FromRef<HttpState> for Arc<bans::BanFeeds> {
    fn from_ref(state: &HttpState) -> Arc<bans::BanFeeds> {
        Arc::clone(&state.feeds)
    }
}

/// The routes, behind the guard, and what they share. Pages are beside the described routes.
pub(crate) fn router(engine: Arc<Engine>, clock: Clock, pages: Router<Arc<Node>>) -> (Arc<Node>, Router) {
    let (router, mut openapi) = OpenApiRouter::with_openapi(ApiDescription::openapi())
        .routes(routes!(events::decide))
        .routes(routes!(events::batch))
        .routes(routes!(batch::observe))
        .routes(routes!(batch::decide))
        .routes(routes!(events::observe))
        .routes(routes!(events::peek))
        .routes(routes!(events::check))
        .routes(routes!(challenges::issue))
        .routes(routes!(challenges::verify))
        .routes(routes!(forms::issue))
        .routes(routes!(forms::baits))
        .routes(routes!(decisions::list))
        .routes(routes!(decision_export::export))
        .routes(routes!(decisions::stream))
        .routes(routes!(searches::searches, searches::save, searches::remove))
        .routes(routes!(decisions::common))
        .routes(routes!(decisions::statistics))
        .routes(routes!(decisions::counts))
        .routes(routes!(feedback::decision))
        .routes(routes!(similar::similar))
        .routes(routes!(bans::lookup, bans::label, bans::lift))
        .routes(routes!(bans::stream))
        .routes(routes!(bans::ips))
        .routes(routes!(bans::search))
        .routes(routes!(posted_values::allow_list, posted_values::allow, posted_values::disallow))
        .routes(routes!(ban_import::import))
        .routes(routes!(crowdsec::lookup))
        .routes(routes!(crowdsec::stream))
        .routes(routes!(crowdsec::alerts))
        .routes(routes!(crowdsec::alert))
        .routes(routes!(crowdsec::login))
        .routes(routes!(crowdsec::heartbeat))
        .routes(routes!(crowdsec::usage_metrics))
        .routes(routes!(feedback::feedback))
        .routes(routes!(feedback::feedback_batch))
        .routes(routes!(feedback::learn))
        .routes(routes!(mail_reports::report))
        .routes(routes!(reviews::list))
        .routes(routes!(reviews::agreement))
        .routes(routes!(reviews::decide_alike))
        .routes(routes!(reviews::review))
        .routes(routes!(reviews::claim))
        .routes(routes!(reviews::release))
        .routes(routes!(reviews::decide))
        .routes(routes!(reviews::escalate))
        .routes(routes!(reviews::comment))
        .routes(routes!(statistics::timeline))
        .routes(routes!(statistics::keys))
        .routes(routes!(statistics::related))
        .routes(routes!(posted_values::notes, posted_values::add_note, posted_values::remove_note))
        .routes(routes!(statistics::readings))
        .routes(routes!(statistics::top))
        .routes(routes!(statistics::reputations))
        .routes(routes!(learners::learners))
        .routes(routes!(learners::relearn, learners::progress, learners::discard))
        .routes(routes!(learners::adopt))
        .routes(routes!(learners::anomalies))
        .routes(routes!(limits::limits))
        .routes(routes!(limits::fullest))
        .routes(routes!(limits::take))
        .routes(routes!(limits::peek))
        .routes(routes!(limits::refund))
        .routes(routes!(limits::settle))
        .routes(routes!(limits::reset))
        .routes(routes!(limits::overrides, limits::put_override))
        .routes(routes!(rules::rules, rules::post))
        .routes(routes!(rules::reload))
        .routes(routes!(rules::rollback))
        .routes(routes!(rules::canary))
        .routes(routes!(rules::promote))
        .routes(routes!(rules::comparison))
        .routes(routes!(rules::version))
        .routes(routes!(rules::names))
        .routes(routes!(sets::sets))
        .routes(routes!(sets::entries))
        .routes(routes!(corrections::impact))
        .routes(routes!(corrections::correct, corrections::progress))
        .routes(routes!(backtests::begin, backtests::list))
        .routes(routes!(backtests::backtest, backtests::cancel))
        .routes(routes!(node::pipelines))
        .routes(routes!(nodes::nodes))
        .routes(routes!(nodes::forget))
        .routes(routes!(node::settings))
        .routes(routes!(sinks::sinks))
        .routes(routes!(sources::sources))
        .routes(routes!(notifications::notifications))
        .routes(routes!(notifications::test))
        .routes(routes!(node::snapshot, node::snapshots))
        .routes(routes!(erasure::erase, erasure::progress))
        .routes(routes!(audit::audit))
        .routes(routes!(audit::export))
        .routes(routes!(audit::verification))
        .routes(routes!(audit::tokens))
        .routes(routes!(sessions::begin, sessions::list))
        .routes(routes!(sessions::end))
        .routes(routes!(node::healthz))
        .routes(routes!(node::readyz))
        .routes(routes!(node::metrics))
        .routes(routes!(node::openapi))
        .routes(routes!(node::index))
        .route("/v1/gate/{name}/{step}", any(site_challenge::step))
        .route("/v1/auth/{name}", any(forward_auth::auth))
        .route("/v1/auth/{name}/", any(forward_auth::auth))
        .route("/v1/auth/{name}/{*rest}", any(forward_auth::auth))
        .split_for_parts();
    // It takes any method, which a description cannot say.
    openapi.merge(ForwardDescription::openapi());
    let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    openapi.components.get_or_insert_default().add_security_scheme("token", SecurityScheme::Http(token));
    static DESCRIPTION: OnceLock<Bytes> = OnceLock::new();
    let description = DESCRIPTION.get_or_init(|| {
        // Nothing in a description refuses to be written.
        let mut description = serde_json::to_value(&openapi).unwrap_or_default();
        access::describe(&mut description);
        examples::add(&mut description);
        Bytes::from(serde_json::to_vec(&description).unwrap_or_default())
    });
    let node = Arc::new(Node::new(engine, clock));
    let state = HttpState { node: Arc::clone(&node), feeds: Arc::default(), openapi: description.clone() };
    let router = router
        .with_state(state)
        .merge(pages.with_state(Arc::clone(&node)))
        .fallback(nowhere)
        .method_not_allowed_fallback(no_method)
        // Each layer is more work for every request: there is one.
        .layer(middleware::from_fn_with_state(Arc::clone(&node), guard));
    (node, router)
}

async fn nowhere(uri: Uri) -> HttpFailure {
    NOT_FOUND.failure(format!("there is no URL `{}`", shown(uri.path()))).help("`/` names them all")
}

async fn no_method(method: Method, uri: Uri) -> HttpFailure {
    METHOD_NOT_ALLOWED
        .failure(format!("{} {}", shown(method.as_str()), shown(uri.path())))
        .help("the header Allow names what it knows")
}

/// The query of a URL; what cannot be read is a problem.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned> QueryParams<T> {
    /// Reads the query of a URL.
    fn of(uri: &Uri) -> Result<QueryParams<T>, HttpFailure> {
        Query::<T>::try_from_uri(uri).map(|Query(params)| QueryParams(params)).map_err(|rejection| {
            let why = match &rejection {
                QueryRejection::FailedToDeserializeQueryString(error) => {
                    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
                }
                other => other.to_string(),
            };
            INVALID_PARAMETER
                .failure(format!("query: {}", shown(&why)))
                .help("`/openapi.json` names the parameters")
        })
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = HttpFailure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<QueryParams<T>, HttpFailure> {
        QueryParams::of(&parts.uri)
    }
}

/// A body that is one JSON object of a known shape; what cannot be read is a problem.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = HttpFailure;

    async fn from_request(request: Request, state: &S) -> Result<JsonBody<T>, HttpFailure> {
        let object = axum::Json::<T>::from_request(request, state).await;
        object.map(|axum::Json(object)| JsonBody(object)).map_err(|rejection| match rejection {
            JsonRejection::MissingJsonContentType(_) => UNSUPPORTED_TYPE
                .failure("Content-Type: expected `application/json`")
                .help("send one JSON object"),
            other => INVALID_BODY.failure(shown(&other.body_text())).help("`/openapi.json` shows the shape"),
        })
    }
}
