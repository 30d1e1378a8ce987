//! The rights of the request that is being worked on: who asks, what the token may do, and what the audit log is to say.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use access::{AccessScope, ScopeSet, Session, TokenGrant};
use parking_lot::Mutex;

use crate::core::problem::{HttpFailure, MISSING_SCOPE};

tokio::task_local! {
    static CURRENT: Arc<RequestGrant>;
}

/// The rights of a request.
#[derive(Debug)]
pub(crate) struct RequestGrant {
    token: Arc<TokenGrant>,
    client: Option<IpAddr>,
    /// The id of the session, of a person's request.
    session: Option<String>,
    /// Details for the audit log.
    notes: Mutex<BTreeMap<String, String>>,
}

impl RequestGrant {
    /// Makes the rights of a token's request.
    pub(crate) fn of_token(token: Arc<TokenGrant>, client: Option<IpAddr>) -> Arc<RequestGrant> {
        Arc::new(RequestGrant { token, client, session: None, notes: Mutex::default() })
    }

    /// Makes the rights of a person's request.
    pub(crate) fn of_session(session: Session, client: Option<IpAddr>) -> Arc<RequestGrant> {
        let token = Arc::new(TokenGrant::new(session.user, session.role.scopes(), Vec::new()));
        Arc::new(RequestGrant { token, client, session: Some(session.id), notes: Mutex::default() })
    }

    /// The id of the session, of a person's request.
    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Makes the rights of another node's request, which has checked those of its caller.
    pub(crate) fn of_node(number: u16, client: Option<IpAddr>) -> Arc<RequestGrant> {
        let token = TokenGrant::new(format!("node-{number}"), ScopeSet::ALL, Vec::new());
        RequestGrant::of_token(Arc::new(token), client)
    }

    /// The token's own rights.
    pub(crate) fn token(&self) -> Arc<TokenGrant> {
        Arc::clone(&self.token)
    }

    /// Makes the rights of a request where no token is asked for: all, as `local`.
    pub(crate) fn of_host(client: Option<IpAddr>) -> Arc<RequestGrant> {
        static LOCAL: LazyLock<Arc<TokenGrant>> =
            LazyLock::new(|| Arc::new(TokenGrant::new("local", ScopeSet::ALL, Vec::new())));
        RequestGrant::of_token(Arc::clone(&LOCAL), client)
    }

    /// Returns the rights of the work that is being done; `None` where it is of no request that needs any.
    pub(crate) fn current() -> Option<Arc<RequestGrant>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Does work with these rights.
    pub(crate) fn bound<T>(self: Arc<Self>, work: impl Future<Output = T>) -> impl Future<Output = T> {
        CURRENT.scope(self, work)
    }

    /// The name of the token.
    pub(crate) fn name(&self) -> &str {
        self.token.name()
    }

    /// The address that the request came from.
    pub(crate) fn client(&self) -> Option<IpAddr> {
        self.client
    }

    /// Returns true if the scope is granted.
    pub(crate) fn has(&self, scope: AccessScope) -> bool {
        self.token.has(scope)
    }

    /// Returns true if it is limited to some pipelines.
    pub(crate) fn is_limited(&self) -> bool {
        !self.token.pipelines().is_empty()
    }

    /// Returns true if it holds for a pipeline.
    pub(crate) fn reaches(&self, pipeline: &str) -> bool {
        self.token.reaches(pipeline)
    }

    /// Checks that the scope is granted.
    pub(crate) fn check_scope(&self, scope: AccessScope) -> Result<(), HttpFailure> {
        if self.has(scope) {
            return Ok(());
        }
        let detail = format!("the token `{}` lacks the scope `{scope}`", self.name());
        Err(MISSING_SCOPE
            .failure(detail)
            .help("use a token that has it: `tollhouse token add NAME --scope …`"))
    }

    /// Checks that the rights hold for a pipeline.
    pub(crate) fn check_pipeline(&self, pipeline: &str) -> Result<(), HttpFailure> {
        if self.reaches(pipeline) {
            return Ok(());
        }
        let detail = format!("the token `{}` is not for the pipeline `{pipeline}`", self.name());
        let pipelines = self.token.pipelines().join(", ");
        Err(MISSING_SCOPE.failure(detail).help(format!("it is for: {pipelines}")))
    }

    /// Checks that the rights are for all of the node.
    pub(crate) fn check_node(&self) -> Result<(), HttpFailure> {
        if !self.is_limited() {
            return Ok(());
        }
        let detail =
            format!("the token `{}` is for some pipelines, and this is about all of them", self.name());
        Err(MISSING_SCOPE
            .failure(detail)
            .help("name one with `?pipeline=`, or use a token without `pipelines`"))
    }

    /// Takes the details that were noted for the audit log.
    pub(crate) fn take_notes(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.notes.lock())
    }
}

/// Returns true if the request that is being worked on may read what events say.
pub(crate) fn may_read_content() -> bool {
    RequestGrant::current().is_none_or(|grant| grant.has(AccessScope::ReadContent))
}

/// Notes a detail of the request that is being worked on, for the audit log.
pub(crate) fn note(name: &str, text: impl Into<String>) {
    if let Some(grant) = RequestGrant::current() {
        grant.notes.lock().insert(name.to_owned(), text.into());
    }
}
