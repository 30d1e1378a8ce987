//! A form of the console with a file in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::texts::t;
use super::visit::{ConsoleVisit, PageFailure};
use crate::core::form_data;
use crate::core::node::Node;
use crate::core::problem::{FORBIDDEN, HttpFailure, INVALID_BODY, UNSUPPORTED_TYPE};
use crate::core::viewer::is_from_own_page;

/// A form with a file, sent by its viewer from a page of this host. The guard has bounded it as it bounds an event.
pub(super) struct UploadForm {
    pub(super) visit: ConsoleVisit,
    /// The fields of each name, as they were sent.
    fields: BTreeMap<String, Vec<u8>>,
}

impl UploadForm {
    /// The bytes of a field; none where it was not sent.
    pub(super) fn bytes(&self, name: &str) -> &[u8] {
        self.fields.get(name).map_or(&[], Vec::as_slice)
    }

    /// The text of a field.
    pub(super) fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(self.bytes(name)).into_owned()
    }
}

impl FromRequest<Arc<Node>> for UploadForm {
    type Rejection = Response;

    async fn from_request(request: Request, node: &Arc<Node>) -> Result<UploadForm, Response> {
        let (mut parts, body) = request.into_parts();
        let visit = ConsoleVisit::from_request_parts(&mut parts, node).await?;
        let fields = fields(Request::from_parts(parts, body)).await;
        let failed = |failure: HttpFailure| PageFailure::from(failure).into_response();
        let form = UploadForm { visit, fields: fields.map_err(failed)? };
        if !form.visit.viewer.owns_form(&form.text("secret")) {
            return Err(failed(FORBIDDEN.failure(t("error.form"))));
        }
        Ok(form)
    }
}

async fn fields(request: Request) -> Result<BTreeMap<String, Vec<u8>>, HttpFailure> {
    let headers = request.headers();
    if !is_from_own_page(headers) {
        return Err(FORBIDDEN.failure(t("error.other_site")));
    }
    let media = headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    let boundary = form_data::boundary(media).map(str::to_owned);
    let boundary = boundary.ok_or_else(|| UNSUPPORTED_TYPE.failure(t("error.form")))?;
    let unread = || INVALID_BODY.failure(t("error.form"));
    let body = Bytes::from_request(request, &()).await.map_err(|_| unread())?;
    let parts = form_data::parts(&boundary, &body).ok_or_else(unread)?;
    Ok(parts.into_iter().map(|part| (part.name, part.content.to_vec())).collect())
}
