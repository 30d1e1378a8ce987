//! The access to routes, in one table: the scope that a token needs, the pipelines that it is about, and whether the audit log
//! names it. The guard asks it, and the description of the interface is made of it.
//!
//! A route that is missing here needs `administer`; a test fails over it.

use std::collections::HashMap;
use std::sync::LazyLock;

use access::AccessScope;
use axum::http::{Method, Uri};
use serde_json::{Map, Value, json};

use crate::core::grant::RequestGrant;
use crate::core::problem::HttpFailure;

/// The requirement of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessRule {
    /// Nothing: it never needs a token.
    Open,
    /// A check by its own code: proxies ask, and the tokens are their clients'.
    Proxy,
    /// Any token.
    Token,
    /// A token with this scope.
    Scope(AccessScope),
}

/// The pipelines that a route is about, for tokens that are limited to some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PipelineReach {
    /// One, which its code asks the node for: that checks it.
    Asked,
    /// One if `?pipeline=` names one, else all.
    Named,
    /// The pipeline of a decision, which its code checks.
    Decision,
    /// All of the node.
    Node,
}

/// The access to a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouteAccess {
    method: &'static str,
    path: &'static str,
    pub(super) rule: AccessRule,
    pub(super) reach: PipelineReach,
    /// The action by which the audit log names it.
    pub(super) audit: Option<&'static str>,
}

const fn route(method: &'static str, path: &'static str, rule: AccessRule) -> RouteAccess {
    RouteAccess { method, path, rule, reach: PipelineReach::Node, audit: None }
}

const fn get(path: &'static str, scope: AccessScope) -> RouteAccess {
    route("GET", path, AccessRule::Scope(scope))
}

const fn post(path: &'static str, scope: AccessScope) -> RouteAccess {
    route("POST", path, AccessRule::Scope(scope))
}

impl RouteAccess {
    const fn asked(self) -> RouteAccess {
        RouteAccess { reach: PipelineReach::Asked, ..self }
    }

    const fn named(self) -> RouteAccess {
        RouteAccess { reach: PipelineReach::Named, ..self }
    }

    const fn of_decision(self) -> RouteAccess {
        RouteAccess { reach: PipelineReach::Decision, ..self }
    }

    const fn audited(self, action: &'static str) -> RouteAccess {
        RouteAccess { audit: Some(action), ..self }
    }
}

/// The action of reading what an event says. Its route is named only if it showed that.
pub(super) const CONTENT_READ: &str = "content.read";

/// The action of a form of the console that has none of its own.
const CONSOLE_CHANGE: &str = "console";

/// Pages and forms of the console that the audit log names as it names the routes that they use.
const CONSOLE_ACTIONS: &[(&str, &str)] = &[
    ("/console/allow/add", "allow.add"),
    ("/console/allow/remove", "allow.remove"),
    ("/console/key/reset", "erase"),
    ("/console/learners/relearn", "relearn.begin"),
    ("/console/learners/relearn/adopt", "relearn.adopt"),
    ("/console/learners/relearn/discard", "relearn.discard"),
    ("/console/notes/add", "note.add"),
    ("/console/notes/remove", "note.remove"),
    ("/console/settings/access/end", "session.end"),
    ("/console/settings/audit", "audit.read"),
    ("/console/settings/audit/export", "audit.read"),
    ("/console/settings/nodes/forget", "node.forget"),
    ("/console/settings/notify", "notification.test"),
    ("/console/settings/snapshots/make", "snapshot"),
];

use AccessScope::{Administer, Decide, Enforce, Read, ReadContent, Rules, Teach};

/// All routes.
const ROUTES: &[RouteAccess] = &[
    route("GET", "/", AccessRule::Token),
    route("GET", "/healthz", AccessRule::Open),
    route("GET", "/openapi.json", AccessRule::Token),
    route("GET", "/readyz", AccessRule::Open),
    route("GET", "/v1/auth/{name}", AccessRule::Proxy),
    route("GET", "/v1/gate/{name}/{step}", AccessRule::Proxy),
    // Events.
    post("/v1/batch/decide", Decide).asked(),
    post("/v1/batch/observe", Decide).asked(),
    post("/v1/challenges", Decide).asked(),
    post("/v1/challenges/verify", Decide).asked(),
    post("/v1/decide", Decide).asked(),
    post("/v1/decide/batch", Decide).asked(),
    post("/v1/forms", Decide).asked(),
    post("/v1/limits/{name}/peek", Decide),
    post("/v1/limits/{name}/refund", Decide),
    post("/v1/limits/{name}/settle", Decide),
    post("/v1/limits/{name}/take", Decide),
    post("/v1/observe", Decide).asked(),
    post("/v1/peek", Decide).asked(),
    get("/v1/baits", Decide).asked(),
    // What events are.
    post("/v1/feedback", Teach).of_decision().audited("feedback"),
    post("/v1/feedback/batch", Teach).audited("feedback.batch"),
    post("/v1/learn", Teach).asked().audited("learn"),
    post("/v1/report", Teach).asked().audited("report"),
    post("/v1/notes", Teach).audited("note.add"),
    route("DELETE", "/v1/notes", AccessRule::Scope(Teach)).audited("note.remove"),
    post("/v1/reviews/decide", Teach).asked().audited("review.alike"),
    post("/v1/reviews/{id}/claim", Teach).audited("review.claim"),
    post("/v1/reviews/{id}/comment", Teach).audited("review.comment"),
    post("/v1/reviews/{id}/decide", Teach).audited("review.decide"),
    post("/v1/reviews/{id}/escalate", Teach).audited("review.escalate"),
    post("/v1/reviews/{id}/release", Teach).audited("review.release"),
    // What is decided and known.
    get("/metrics", Read),
    get("/v1/anomalies", Read).named(),
    get("/v1/counts", Read).asked(),
    get("/v1/decisions", ReadContent).named(),
    get("/v1/decisions/common", ReadContent).named(),
    get("/v1/decisions/export", ReadContent).named().audited(CONTENT_READ),
    get("/v1/decisions/statistics", Read).named(),
    get("/v1/decisions/stream", ReadContent).named(),
    get("/v1/decisions/{id}", Read).of_decision().audited(CONTENT_READ),
    get("/v1/decisions/{id}/similar", ReadContent).of_decision().audited(CONTENT_READ),
    get("/v1/keys", Read).named(),
    get("/v1/keys/related", ReadContent).asked(),
    get("/v1/learners", Read).asked(),
    get("/v1/limits", Read),
    get("/v1/limits/fullest", Read),
    get("/v1/nodes", Read),
    get("/v1/limits/{name}/overrides", Read),
    get("/v1/notes", Read),
    get("/v1/notifications", Read),
    get("/v1/pipelines", Read).asked(),
    get("/v1/reputations", Read).asked(),
    get("/v1/reviews", Read).named(),
    get("/v1/reviews/agreement", Read).named(),
    get("/v1/reviews/{id}", Read),
    get("/v1/rules", Read).asked(),
    get("/v1/rules/comparison", Read).asked(),
    get("/v1/rules/names", Read).asked(),
    get("/v1/rules/versions/{version}", Read).asked(),
    get("/v1/searches", ReadContent),
    get("/v1/sets", Read).asked(),
    get("/v1/sets/{name}", Read).asked(),
    get("/v1/sinks", Read),
    get("/v1/sources", Read),
    get("/v1/timeline", Read).asked(),
    get("/v1/top", Read).asked(),
    post("/v1/check", ReadContent).asked(),
    post("/v1/readings", Read).asked(),
    // The ban list.
    route("POST", "/crowdsec/v1/watchers/login", AccessRule::Open),
    get("/crowdsec/v1/alerts", Enforce),
    get("/crowdsec/v1/alerts/{id}", Enforce),
    get("/crowdsec/v1/heartbeat", Enforce),
    post("/crowdsec/v1/usage-metrics", Enforce),
    get("/crowdsec/v1/decisions", Enforce),
    get("/crowdsec/v1/decisions/stream", Enforce),
    get("/v1/allow", Enforce),
    get("/v1/bans", Enforce).named(),
    get("/v1/bans/ips", Enforce).named(),
    get("/v1/bans/search", Enforce),
    get("/v1/bans/stream", Enforce).named(),
    // What decides.
    get("/v1/backtests", Rules).asked(),
    get("/v1/backtests/{id}", Rules).asked(),
    get("/v1/learners/relearn", Rules).asked(),
    get("/v1/rules/corrections", Rules),
    get("/v1/rules/impact", Rules).asked(),
    post("/v1/backtests", Rules).asked().audited("backtest.begin"),
    route("DELETE", "/v1/backtests/{id}", AccessRule::Scope(Rules)).asked().audited("backtest.cancel"),
    post("/v1/learners/relearn", Rules).asked().audited("relearn.begin"),
    post("/v1/learners/relearn/adopt", Rules).asked().audited("relearn.adopt"),
    route("DELETE", "/v1/learners/relearn", AccessRule::Scope(Rules)).asked().audited("relearn.discard"),
    post("/v1/allow", Rules).audited("allow.add"),
    route("DELETE", "/v1/allow", AccessRule::Scope(Rules)).audited("allow.remove"),
    post("/v1/bans", Rules).asked().audited("ban.add"),
    post("/v1/bans/import", Rules).asked().audited("ban.import"),
    route("DELETE", "/v1/bans", AccessRule::Scope(Rules)).audited("ban.lift"),
    post("/v1/limits/{name}/reset", Rules).audited("limit.reset"),
    route("PUT", "/v1/limits/{name}/overrides", AccessRule::Scope(Rules)).audited("limit.override"),
    route("DELETE", "/v1/searches", AccessRule::Scope(Rules)).audited("search.remove"),
    route("PUT", "/v1/searches", AccessRule::Scope(Rules)).audited("search.save"),
    post("/v1/rules", Rules).asked().audited("rules.post"),
    post("/v1/rules/canary", Rules).asked().audited("rules.canary"),
    post("/v1/rules/corrections", Rules).asked().audited("rules.correct"),
    post("/v1/rules/promote", Rules).asked().audited("rules.promote"),
    post("/v1/rules/reload", Rules).audited("rules.reload"),
    post("/v1/rules/rollback", Rules).asked().audited("rules.rollback"),
    // The node.
    get("/v1/audit", Administer).audited("audit.read"),
    get("/v1/audit/export", Administer).audited("audit.read"),
    get("/v1/audit/verification", Administer).audited("audit.read"),
    get("/v1/erase", Administer),
    post("/v1/erase", Administer).audited("erase"),
    get("/v1/sessions", Administer),
    get("/v1/settings", Administer),
    get("/v1/snapshots", Administer),
    get("/v1/tokens", Administer),
    route("POST", "/v1/sessions", AccessRule::Open),
    route("DELETE", "/v1/sessions/{id}", AccessRule::Token).audited("session.end"),
    post("/v1/notifications/{name}/test", Administer).audited("notification.test"),
    post("/v1/snapshots", Administer).audited("snapshot"),
    route("DELETE", "/v1/nodes/{number}", AccessRule::Scope(Administer)).audited("node.forget"),
];

/// A route that is not in the table.
const UNLISTED: RouteAccess = get("", Administer);
/// A URL that is none, or does not know the method.
const NOWHERE: RouteAccess = RouteAccess { reach: PipelineReach::Asked, ..route("", "", AccessRule::Token) };

static BY_ROUTE: LazyLock<HashMap<(&'static str, &'static str), &'static RouteAccess>> =
    LazyLock::new(|| ROUTES.iter().map(|route| ((route.method, route.path), route)).collect());

impl RouteAccess {
    /// Returns the access to the route that a request has matched; `None` for one that has matched none.
    pub(super) fn of(method: &Method, route: Option<&str>) -> RouteAccess {
        let Some(path) = route else { return NOWHERE };
        let asked = if *method == Method::HEAD { "GET" } else { method.as_str() };
        if let Some(known) = BY_ROUTE.get(&(asked, path)) {
            return **known;
        }
        // Proxies ask with any method and any rest of the path.
        let is_of_proxies = |known: &&RouteAccess| {
            known.rule == AccessRule::Proxy && path.starts_with(known.path.trim_end_matches("{step}"))
        };
        if let Some(known) = ROUTES.iter().find(is_of_proxies) {
            return *known;
        }
        ROUTES.iter().find(|known| known.path == path).map_or(UNLISTED, |known| {
            // The URL does not know the method, and says so as openly as it answers others.
            if known.rule == AccessRule::Open { *known } else { NOWHERE }
        })
    }

    /// Returns the access to the page or form of the console that a request has matched, whose code asks what its viewer may do.
    pub(super) fn of_console(method: &Method, route: &str) -> RouteAccess {
        let own = CONSOLE_ACTIONS.iter().find(|(path, _)| *path == route).map(|(_, action)| *action);
        let other = if *method == Method::POST { CONSOLE_CHANGE } else { CONTENT_READ };
        RouteAccess { audit: Some(own.unwrap_or(other)), ..NOWHERE }
    }

    /// Checks the rights of a request for it.
    pub(super) fn check(&self, grant: &RequestGrant, uri: &Uri) -> Result<(), HttpFailure> {
        if let AccessRule::Scope(scope) = self.rule {
            grant.check_scope(scope)?;
        }
        if !grant.is_limited() {
            return Ok(());
        }
        match self.reach {
            PipelineReach::Asked | PipelineReach::Decision => Ok(()),
            PipelineReach::Named => match named_pipeline(uri) {
                Some(pipeline) => grant.check_pipeline(&pipeline),
                None => grant.check_node(),
            },
            PipelineReach::Node => match self.rule {
                AccessRule::Scope(_) => grant.check_node(),
                _ => Ok(()),
            },
        }
    }
}

/// Returns the pipeline that the query of a URL names; none if it names several.
fn named_pipeline(uri: &Uri) -> Option<String> {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(uri.query()?).ok()?;
    let mut named = pairs.into_iter().filter(|(name, _)| name == "pipeline").map(|(_, value)| value);
    named.next().filter(|_| named.next().is_none())
}

/// Says in the description of each operation which scope it needs; a test looks for those that are not in the table.
pub(super) fn describe(description: &mut Value) {
    let paths = description.get_mut("paths").and_then(Value::as_object_mut);
    for (path, item) in paths.into_iter().flatten() {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            let Some(operation) = operation.as_object_mut() else { continue };
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap_or_default();
            let access = RouteAccess::of(&method, Some(path));
            if access.path.is_empty() {
                operation.insert("x-unlisted".to_owned(), true.into());
            }
            insert(operation, access.rule);
        }
    }
}

fn insert(operation: &mut Map<String, Value>, rule: AccessRule) {
    let security = match rule {
        AccessRule::Open | AccessRule::Proxy => json!([]),
        AccessRule::Token => json!([{ "token": [] }]),
        AccessRule::Scope(scope) => json!([{ "token": [scope.word()] }]),
    };
    operation.insert("security".to_owned(), security);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_found_by_method_and_path() {
        let scope = |method: &Method, path: &str| RouteAccess::of(method, Some(path)).rule;
        for (method, path, expected) in [
            (Method::POST, "/v1/rules", AccessRule::Scope(Rules)),
            (Method::GET, "/v1/rules", AccessRule::Scope(Read)),
            (Method::HEAD, "/v1/rules", AccessRule::Scope(Read)),
            (Method::GET, "/healthz", AccessRule::Open),
            (Method::PUT, "/v1/auth/{name}/{*rest}", AccessRule::Proxy),
            (Method::POST, "/v1/gate/{name}/{step}", AccessRule::Proxy),
            (Method::PUT, "/v1/rules", AccessRule::Token),
            (Method::POST, "/healthz", AccessRule::Open),
            (Method::GET, "/v1/unlisted", AccessRule::Scope(Administer)),
        ] {
            assert_eq!(scope(&method, path), expected, "{method} {path}");
        }
        assert_eq!(RouteAccess::of(&Method::GET, None).rule, AccessRule::Token);
        assert_eq!(BY_ROUTE.len(), ROUTES.len(), "each route is there once");
        let is_of_route = |action: &str| ROUTES.iter().any(|route| route.audit == Some(action));
        assert!(
            CONSOLE_ACTIONS.iter().all(|(_, action)| is_of_route(action)),
            "a form does what a route does"
        );
        // Nothing that only reads is needed to change something, and the other way round.
        let only_reads =
            ["/v1/check", "/v1/readings", "/crowdsec/v1/watchers/login", "/crowdsec/v1/usage-metrics"];
        for route in ROUTES.iter().filter(|route| route.method != "GET" && !only_reads.contains(&route.path))
        {
            let scope = [Decide, Teach, Rules, Administer].map(AccessRule::Scope);
            let is_of_sessions = route.path.starts_with("/v1/sessions");
            assert!(scope.contains(&route.rule) || is_of_sessions, "{} {}", route.method, route.path);
        }
    }

    /// The page for operators says of each request that may change something on which nodes that holds.
    #[test]
    fn the_page_on_clusters_says_where_each_change_holds() {
        let page = include_str!("../../../../../docs/operating/cluster.md");
        let rows = page.split("### What each request changes").nth(1).unwrap().split("\n#").next().unwrap();
        let rows: Vec<(&str, &str)> = rows
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
            .map(|(request, rest)| (request, rest.split(" |").next().unwrap()))
            .collect();
        let changes = ROUTES.iter().filter(|route| route.method != "GET");
        let mut expected: Vec<String> =
            changes.map(|route| format!("{} {}", route.method, route.path)).collect();
        let mut named: Vec<&str> = rows.iter().map(|(request, _)| *request).collect();
        expected.sort_unstable();
        named.sort_unstable();
        assert_eq!(
            named, expected,
            "a row for each route that may change something, in docs/operating/cluster.md"
        );
        for (request, holds) in rows {
            assert!(["all nodes", "its node", "this node", "none"].contains(&holds), "{request}: {holds}");
        }
    }

    #[test]
    fn a_pipeline_is_named_once() {
        let named = |query: &str| named_pipeline(&format!("/v1/bans{query}").parse().unwrap());
        assert_eq!(named("?pipeline=a&x=1").as_deref(), Some("a"));
        assert_eq!(named("?pipeline=%61").as_deref(), Some("a"));
        assert_eq!((named(""), named("?pipeline=a&pipeline=b"), named("?x")), (None, None, None));
    }
}
