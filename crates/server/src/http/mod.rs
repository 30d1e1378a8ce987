//! The routes: what each URL takes and answers. The description at `/openapi.json` is generated from them.

pub(crate) mod batch;
pub(crate) mod body;
pub(crate) mod decide;
pub(crate) mod decisions;
pub(crate) mod forward;
mod limits;
mod node;
mod report;
mod rules;
mod said;
mod statistics;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Query, Request, State};
use axum::http::header::DATE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Uri};
use axum::middleware;
use axum::response::Response;
use axum::routing::any;
use engine::{Decision, Engine};
use jiff::fmt::rfc2822::DateTimePrinter;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api;
use crate::clock::Clock;
use crate::guard::guard;
use crate::node::Node;
use crate::problem::{
    Failure, INVALID_BODY, INVALID_PARAMETER, METHOD_NOT_ALLOWED, NOT_FOUND, UNAVAILABLE, UNSUPPORTED_TYPE,
    shown,
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
        (name = "said", description = "Feedback"),
        (name = "limits", description = "Limits"),
        (name = "enforce", description = "The ban list"),
        (name = "rules", description = "Rules"),
        (name = "node", description = "The node itself"),
    ),
    components(schemas(api::Problem)),
    security(("token" = [])),
)]
struct Description;

#[derive(OpenApi)]
#[openapi(paths(forward::auth))]
struct ForwardDescription;

/// The routes, behind the guard, and what they share.
pub(crate) fn router(engine: Arc<Engine>, clock: Clock) -> (Arc<Node>, Router) {
    let (router, mut openapi) = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(decide::decide))
        .routes(routes!(decide::batch))
        .routes(routes!(batch::observe))
        .routes(routes!(batch::decide))
        .routes(routes!(decide::observe))
        .routes(routes!(decide::peek))
        .routes(routes!(said::decision))
        .routes(routes!(decisions::lookup, decisions::label, decisions::lift))
        .routes(routes!(decisions::stream))
        .routes(routes!(decisions::ips))
        .routes(routes!(said::feedback))
        .routes(routes!(said::feedback_batch))
        .routes(routes!(said::learn))
        .routes(routes!(report::report))
        .routes(routes!(statistics::timeline))
        .routes(routes!(statistics::top))
        .routes(routes!(limits::limits))
        .routes(routes!(limits::take))
        .routes(routes!(limits::peek))
        .routes(routes!(limits::refund))
        .routes(routes!(limits::settle))
        .routes(routes!(limits::reset))
        .routes(routes!(limits::overrides, limits::put_override))
        .routes(routes!(rules::rules, rules::post))
        .routes(routes!(rules::reload))
        .routes(routes!(rules::rollback))
        .routes(routes!(rules::promote))
        .routes(routes!(rules::comparison))
        .routes(routes!(node::pipelines))
        .routes(routes!(node::snapshot))
        .routes(routes!(node::healthz))
        .routes(routes!(node::readyz))
        .routes(routes!(node::metrics))
        .routes(routes!(node::openapi))
        .routes(routes!(node::index))
        .route("/v1/auth/{name}", any(forward::auth))
        .route("/v1/auth/{name}/", any(forward::auth))
        .route("/v1/auth/{name}/{*rest}", any(forward::auth))
        .split_for_parts();
    // It takes any method, which a description cannot say.
    openapi.merge(ForwardDescription::openapi());
    let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    openapi.components.get_or_insert_default().add_security_scheme("token", SecurityScheme::Http(token));
    // Nothing in a description refuses to be written.
    let description = Bytes::from(serde_json::to_vec(&openapi).unwrap_or_default());
    let node = Arc::new(Node::new(engine, clock, description));
    let router = router
        .fallback(nowhere)
        .method_not_allowed_fallback(no_method)
        // The guard has bounded bodies by then.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(Arc::clone(&node), guard))
        .layer(middleware::map_response_with_state(Arc::clone(&node), dated))
        .with_state(Arc::clone(&node));
    (node, router)
}

/// Says when it was answered, by the node's clock (RFC 9110, 6.6.1).
async fn dated(State(node): State<Arc<Node>>, mut response: Response) -> Response {
    let now = jiff::Timestamp::from_microsecond(node.now().0);
    let text = now.and_then(|now| DateTimePrinter::new().timestamp_to_rfc9110_string(&now));
    if let Some(date) = text.ok().and_then(|text| HeaderValue::try_from(text).ok()) {
        response.headers_mut().insert(DATE, date);
    }
    response
}

async fn nowhere(uri: Uri) -> Failure {
    NOT_FOUND.failure(format!("there is no URL `{}`", shown(uri.path()))).help("`/` names them all")
}

async fn no_method(method: Method, uri: Uri) -> Failure {
    METHOD_NOT_ALLOWED
        .failure(format!("{} {}", shown(method.as_str()), shown(uri.path())))
        .help("the header Allow names what it knows")
}

/// The query of a URL; what cannot be read is a problem.
struct Params<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Params<T>, Failure> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(params)| Params(params)).map_err(|rejection| {
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

/// What a request's answer waits for, beside what the node's configuration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Durability {
    /// All that the request has added is on disk and synced, in statistics and journal.
    Sync,
}

impl Durability {
    /// Waits for it. Who asks for it forgets the events once they are answered: those that could not be counted are an
    /// error then, whatever `on_error` says.
    pub(crate) async fn hold(
        wanted: Option<Durability>,
        node: &Node,
        decisions: &[Decision],
    ) -> Result<(), Failure> {
        let Some(Durability::Sync) = wanted else { return Ok(()) };
        if decisions.iter().any(|decision| decision.uncounted || decision.unlogged) {
            let failure = UNAVAILABLE.failure("not all events could be counted and logged");
            return Err(failure.help("send it again: what has an id counts once"));
        }
        Ok(node.engine.sync().await?)
    }
}

/// A body that is one JSON object of a known shape; what cannot be read is a problem.
struct Object<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Object<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Object<T>, Failure> {
        let object = axum::Json::<T>::from_request(request, state).await;
        object.map(|axum::Json(object)| Object(object)).map_err(|rejection| match rejection {
            JsonRejection::MissingJsonContentType(_) => UNSUPPORTED_TYPE
                .failure("Content-Type: expected `application/json`")
                .help("send one JSON object"),
            other => INVALID_BODY.failure(shown(&other.body_text())).help("`/openapi.json` shows the shape"),
        })
    }
}
