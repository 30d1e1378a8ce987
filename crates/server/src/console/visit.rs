//! Visits: who asks for a page, what they may do, and the forms that they send.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use event::Time;
use maud::html;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::assets::PageScripts;
use super::format::url;
use super::frame::{self, ConsoleSection, PageFrame};
use super::texts::t;
use crate::core::node::Node;
use crate::core::problem::{
    FORBIDDEN, HttpFailure, INVALID_BODY, INVALID_PARAMETER, NOT_FOUND, UNSUPPORTED_TYPE,
};
use crate::core::viewer::{CONSOLE, Viewer, ViewerRight, is_from_own_page};

/// A viewer's request for a page.
pub(super) struct ConsoleVisit {
    pub(super) node: Arc<Node>,
    pub(super) viewer: Viewer,
    pub(super) now: Time,
    uri: Uri,
}

impl ConsoleVisit {
    /// The frame of a page.
    pub(super) fn frame(&self, title: impl Into<String>, section: ConsoleSection) -> PageFrame<'_> {
        PageFrame {
            title: title.into(),
            section,
            viewer: Some(&self.viewer),
            uri: Some(&self.uri),
            scripts: PageScripts::Common,
        }
    }

    /// Checks that the viewer may do something.
    pub(super) fn need(&self, right: ViewerRight) -> Result<(), HttpFailure> {
        if self.viewer.may(right) { Ok(()) } else { Err(FORBIDDEN.failure(t("error.right"))) }
    }

    /// The parameters of the URL.
    pub(super) fn query<T: DeserializeOwned>(&self) -> Result<T, HttpFailure> {
        serde_urlencoded::from_str(self.uri.query().unwrap_or_default())
            .map_err(|_| INVALID_PARAMETER.failure(t("error.query")))
    }
}

impl FromRequestParts<Arc<Node>> for ConsoleVisit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, node: &Arc<Node>) -> Result<ConsoleVisit, Response> {
        let Some(viewer) = parts.extensions.get::<Viewer>().cloned() else {
            // Whoever has no session yet, or none any more, comes back to the same page.
            let back = parts.uri.path_and_query().map_or("/console/", |path| path.as_str());
            let back = if parts.method == Method::GET { back } else { "/console/" };
            return Err(frame::redirect(&url("/console/login", &[("next", back)])));
        };
        let (node, now) = (Arc::clone(node), node.now());
        let visit = ConsoleVisit { node, viewer, now, uri: parts.uri.clone() };
        visit.need(ViewerRight::Read).map_err(|failure| PageFailure(failure).into_response())?;
        Ok(visit)
    }
}

/// A form of the console that changes something, sent by its viewer from a page of this host.
pub(super) struct ConsoleForm<T> {
    pub(super) visit: ConsoleVisit,
    pub(super) form: T,
}

/// The secret that a form carries beside its own fields.
#[derive(Deserialize)]
struct FormSecret {
    #[serde(default)]
    secret: String,
}

impl<T: DeserializeOwned> FromRequest<Arc<Node>> for ConsoleForm<T> {
    type Rejection = Response;

    async fn from_request(request: Request, node: &Arc<Node>) -> Result<ConsoleForm<T>, Response> {
        let (mut parts, body) = request.into_parts();
        let visit = ConsoleVisit::from_request_parts(&mut parts, node).await?;
        let failed = |failure: HttpFailure| PageFailure(failure).into_response();
        let body = form_body(Request::from_parts(parts, body)).await.map_err(failed)?;
        let secret: FormSecret = read(&body).map_err(failed)?;
        if !visit.viewer.owns_form(&secret.secret) {
            return Err(failed(FORBIDDEN.failure(t("error.form"))));
        }
        let form = read(&body).map_err(failed)?;
        Ok(ConsoleForm { visit, form })
    }
}

/// The body of a form that comes from a page of this host.
pub(super) async fn form_body(request: Request) -> Result<Bytes, HttpFailure> {
    let headers = request.headers();
    if !is_from_own_page(headers) {
        return Err(FORBIDDEN.failure(t("error.other_site")));
    }
    let media = headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    if !media.starts_with("application/x-www-form-urlencoded") {
        return Err(UNSUPPORTED_TYPE.failure(t("error.form")));
    }
    // The guard has bounded it.
    Bytes::from_request(request, &()).await.map_err(|_| INVALID_BODY.failure(t("error.form")))
}

/// The fields of a form.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, HttpFailure> {
    serde_urlencoded::from_bytes(body).map_err(|_| INVALID_BODY.failure(t("error.form")))
}

/// A page that cannot be shown, or a form that could not be taken: the problem, as a page.
pub(super) struct PageFailure(HttpFailure);

impl<E: Into<HttpFailure>> From<E> for PageFailure {
    fn from(error: E) -> PageFailure {
        PageFailure(error.into())
    }
}

impl IntoResponse for PageFailure {
    fn into_response(self) -> Response {
        let problem = self.0.problem();
        let frame = PageFrame {
            title: problem.title.clone(),
            section: ConsoleSection::None,
            viewer: None,
            uri: None,
            scripts: PageScripts::Common,
        };
        let content = html! {
            div.empty {
                h1 { (problem.title) }
                p { (problem.detail) }
                @if let Some(help) = &problem.help { p.dim { (help) } }
                p { a href="/console/" { (t("error.home")) } }
            }
        };
        let mut response = frame.page(&content);
        *response.status_mut() = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_REQUEST);
        response
    }
}

/// Returns the page to go on to: one of the console, and nothing else.
pub(super) fn next_page(next: Option<String>) -> String {
    let is_own = |next: &String| next.starts_with(CONSOLE) && !next.contains(char::is_control);
    next.filter(is_own).unwrap_or_else(|| CONSOLE.to_owned())
}

/// A path of the console at which there is nothing.
pub(super) async fn nowhere(_: ConsoleVisit) -> PageFailure {
    NOT_FOUND.failure(t("error.nowhere")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_goes_on_within_the_console_only() {
        let check = |next: &str, to: &str| assert_eq!(next_page(Some(next.to_owned())), to);
        check("/console/bans?q=a", "/console/bans?q=a");
        for other in
            ["", "/", "//evil.example/console/", "https://evil.example", "/console", "/console/\r\nA: b"]
        {
            check(other, CONSOLE);
        }
    }
}
