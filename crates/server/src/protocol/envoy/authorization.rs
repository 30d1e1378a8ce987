//! Envoy's authorization service v3 (`ext_authz` over gRPC): what forward-auth answers over HTTP, page and all.
//!
//! Envoy tells method, path, host and client apart from the request's header fields, so nothing that a client writes there
//! changes what is asked about. A question that finds no place or no answer in time is answered by the `on_error` of its
//! limits and pipeline. A status that is no `OK` comes back only where nobody knows which `[[forward_auth]]` is meant, or
//! where it does not trust who asks; Envoy's own `failure_mode_allow` says what that means.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use content::web::request_target::RequestTarget;
use plan::{ForwardPlan, Plan};
use tonic::{Code, Request, Status};

use crate::core::listener_context::ListenerContext;
use crate::core::problem::shown;
use crate::core::shares::Caller;
use crate::core::telemetry::RequestTrace;
use crate::core::trusted_proxies::{address, client};
use crate::protocol::grpc_transport::RpcFuture;
use crate::protocol::grpc_transport::proto::envoy::config::core::v3::{
    HeaderValue as ProtoHeader, HeaderValueOption, address,
};
use crate::protocol::grpc_transport::proto::envoy::service::auth::v3::attribute_context::{
    HttpRequest, Peer,
};
use crate::protocol::grpc_transport::proto::envoy::service::auth::v3::authorization_server::Authorization;
use crate::protocol::grpc_transport::proto::envoy::service::auth::v3::check_response::HttpResponse;
use crate::protocol::grpc_transport::proto::envoy::service::auth::v3::{
    AttributeContext, CheckRequest, CheckResponse, DeniedHttpResponse, OkHttpResponse,
};
use crate::protocol::grpc_transport::proto::envoy::r#type::v3::HttpStatus;
use crate::protocol::grpc_transport::proto::google::rpc::Status as ProtoStatus;
use crate::protocol::site_gate::{
    ForwardedRequest, GateQuestion, NOT_LET_THROUGH, SILENT, refused, silent_answer, undecided,
};

/// The name under which Envoy's `context_extensions` tell the `[[forward_auth]]`.
const FORWARD_AUTH: &str = "forward_auth";
const FORWARDED_FOR: &str = "x-forwarded-for";

#[derive(Clone, Debug)]
pub(super) struct AuthorizationService {
    pub(super) listener: Arc<ListenerContext<()>>,
    /// The address of who asks; none over a unix socket.
    pub(super) peer: Option<IpAddr>,
}

impl Authorization for AuthorizationService {
    fn check<'s, 'f>(
        &'s self,
        request: Request<CheckRequest>,
    ) -> RpcFuture<'f, tonic::Response<CheckResponse>>
    where
        's: 'f,
        Self: 'f,
    {
        self.clone().answer(request)
    }
}

impl AuthorizationService {
    fn answer(self, request: Request<CheckRequest>) -> RpcFuture<'static, tonic::Response<CheckResponse>> {
        Box::pin(async move {
            let listener = &self.listener;
            let started = Instant::now();
            let trace =
                listener.node.begin_trace(started, Some(request.metadata().as_ref()), false, self.peer);
            let work = check(listener, self.peer, request.into_inner(), started);
            let answered = RequestTrace::bound(trace.clone(), work).await;
            if let Some(trace) = &trace {
                let code = answered.as_ref().err().map_or(0, |status| status.code() as i32);
                trace.finish_rpc(super::NAMES[2], "Check", &listener.plan.name, code);
            }
            let word = match &answered {
                Ok(answer) => result_name(answer),
                Err(status) => {
                    listener.misused(self.peer, super::response::reason(status), &status.message());
                    super::response::reason(status)
                }
            };
            listener.node.metrics.listener_answered(
                &listener.plan.name,
                word,
                started.elapsed(),
                trace.as_deref(),
            );
            answered.map(tonic::Response::new)
        })
    }
}

async fn check(
    listener: &ListenerContext<()>,
    peer: Option<IpAddr>,
    request: CheckRequest,
    started: Instant,
) -> Result<CheckResponse, Status> {
    let (node, plan) = (Arc::clone(&listener.node), listener.node.engine.plan());
    let attributes = request.attributes.unwrap_or_default();
    let at = forward_of(&plan, &attributes, peer)?;
    let undecided = || response_of(undecided(&node, &plan.forwards[at]));
    let place = match listener.place(Caller::of_peer(peer)) {
        Ok(place) => place,
        Err(failure) => {
            node.metrics.listener_failure(&listener.plan.name, failure.name());
            return Ok(undecided().await);
        }
    };
    let (of, under) = (Arc::clone(&node), Arc::clone(&plan));
    let work = async move {
        let forward = &under.forwards[at];
        let response = match QuestionHead::of(forward, peer, attributes) {
            Some(head) => head.ask(forward).answer(&of, &under).await,
            None => {
                let status = StatusCode::FORBIDDEN;
                refused(status, status, NOT_LET_THROUGH, HeaderMap::new())
            }
        };
        drop(place);
        silent_answer::wait(&response, started).await;
        response_of(response).await
    };
    match listener.within_timeout(work).await {
        Ok(answer) => Ok(answer),
        Err(failure) => {
            node.metrics.listener_failure(&listener.plan.name, failure.name());
            Ok(undecided().await)
        }
    }
}

/// Returns the place of the `[[forward_auth]]` that a request names, or of the only one, where a proxy asks that may.
fn forward_of(plan: &Plan, attributes: &AttributeContext, peer: Option<IpAddr>) -> Result<usize, Status> {
    let named = attributes.context_extensions.get(FORWARD_AUTH);
    let at = match named {
        Some(name) => plan.forwards.iter().position(|forward| forward.name == *name),
        None => (plan.forwards.len() == 1).then_some(0),
    };
    let Some((at, forward)) = at.and_then(|at| Some((at, plan.forwards.get(at)?))) else {
        return Err(Status::invalid_argument(match named {
            Some(name) => format!("there is no [[forward_auth]] `{}`", shown(name)),
            None => "`context_extensions` name no `forward_auth`, and there is not just one".to_owned(),
        }));
    };
    // Over a unix socket only those ask whom its file lets.
    if peer.is_some_and(|peer| !forward.trusted_proxies.contain(peer.to_canonical())) {
        let message = format!("this address is no proxy of [[forward_auth]] `{}`", forward.name);
        return Err(Status::invalid_argument(message));
    }
    Ok(at)
}

/// The request that Envoy asks about.
#[derive(Debug)]
struct QuestionHead {
    ip: IpAddr,
    asked: ForwardedRequest,
    authority: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl QuestionHead {
    /// Reads it from what Envoy tells. `None` if nobody can know which page is meant.
    fn of(forward: &ForwardPlan, peer: Option<IpAddr>, attributes: AttributeContext) -> Option<QuestionHead> {
        let AttributeContext { source, request, .. } = attributes;
        let http = request.and_then(|request| request.http).unwrap_or_default();
        let headers = header_map(&http);
        let forwarded: Vec<&[u8]> =
            headers.get_all(FORWARDED_FOR).iter().map(|value| value.as_bytes()).collect();
        // Who has connected to Envoy. Who is behind that says the list, if it is a proxy.
        let connected = source.as_ref().and_then(address_of).or(peer).unwrap_or([127, 0, 0, 1].into());
        let ip = client(connected, forwarded.into_iter(), &forward.trusted_proxies);
        let method = Method::from_bytes(&http.method).ok()?.to_string();
        let target = RequestTarget::read(&http.path)?;
        let asked = ForwardedRequest::new(ip, method, target, &http.host, &headers);
        let authority = String::from_utf8(http.host).unwrap_or_default();
        let mut body = if http.raw_body.is_empty() { http.body } else { http.raw_body };
        body.truncate(forward.body_max);
        if headers.contains_key(CONTENT_ENCODING) {
            body.clear();
        }
        Some(QuestionHead { ip, asked, authority, headers, body })
    }

    fn ask<'a>(&'a self, forward: &'a ForwardPlan) -> GateQuestion<'a> {
        let QuestionHead { ip, asked, authority, headers, body } = self;
        GateQuestion { forward, ip: *ip, asked, authority, headers, body }
    }
}

fn address_of(peer: &Peer) -> Option<IpAddr> {
    let address::Address::SocketAddress(socket) = peer.address.as_ref()?.address.as_ref()?;
    address(socket.address.as_bytes())
}

/// The header fields of a request, as a map or, with Envoy's `encode_raw_headers`, one by one. Names that begin with `:` say
/// what is told elsewhere; what can be no field is none.
fn header_map(http: &HttpRequest) -> HeaderMap {
    let joined = http.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
    let raw = http.header_map.iter().flat_map(|map| &map.headers).map(|header| {
        let ProtoHeader { key, value, raw_value } = header;
        (key.as_str(), if raw_value.is_empty() { value.as_bytes() } else { raw_value })
    });
    let mut headers = HeaderMap::new();
    for (name, value) in joined.chain(raw) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    headers
}

/// The answer for Envoy.
async fn response_of(response: Response) -> CheckResponse {
    let (head, body) = response.into_parts();
    let options = |headers: &HeaderMap| {
        let fields = headers.iter().filter(|(name, _)| **name != CONTENT_LENGTH);
        fields.filter_map(|(name, value)| Some(replacing(name, value.to_str().ok()?))).collect()
    };
    if head.status.is_success() {
        let mut to_client = head.headers;
        // The application believes this field, so a client's own never reaches it.
        let silent = to_client.remove(&SILENT).is_some();
        let (headers, headers_to_remove) = match silent {
            true => (vec![replacing(&SILENT, "1")], Vec::new()),
            false => (Vec::new(), vec![SILENT.to_string()]),
        };
        let passes =
            OkHttpResponse { headers, headers_to_remove, response_headers_to_add: options(&to_client) };
        return CheckResponse {
            status: Some(ProtoStatus { code: Code::Ok.into(), message: String::new() }),
            http_response: Some(HttpResponse::OkResponse(passes)),
        };
    }
    // The body was made here, in memory, so it has no bound and no failure of its own.
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let denied = DeniedHttpResponse {
        status: Some(HttpStatus { code: head.status.as_u16().into() }),
        headers: options(&head.headers),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    CheckResponse {
        status: Some(ProtoStatus { code: Code::PermissionDenied.into(), message: String::new() }),
        http_response: Some(HttpResponse::DeniedResponse(denied)),
    }
}

/// A field that takes the place of one of its name.
fn replacing(name: &HeaderName, value: &str) -> HeaderValueOption {
    let header = ProtoHeader { key: name.to_string(), value: value.to_owned(), raw_value: Vec::new() };
    HeaderValueOption { header: Some(header), append: Some(false) }
}

/// Returns what metrics call an answer.
fn result_name(answer: &CheckResponse) -> &'static str {
    match &answer.http_response {
        Some(HttpResponse::DeniedResponse(_)) => "denied",
        _ => "ok",
    }
}

#[cfg(test)]
mod tests {
    use plan::{Config, Overrides};

    use super::*;
    use crate::protocol::grpc_transport::proto::envoy::config::core::v3::{
        Address, HeaderMap as ProtoHeaders, SocketAddress,
    };
    use crate::protocol::grpc_transport::proto::envoy::service::auth::v3::attribute_context;

    fn plan(forwards: &[&str]) -> Plan {
        let directory = tempfile::tempdir().unwrap();
        let main = directory.path().join("tollhouse.toml");
        let forward = |name: &&str| {
            format!(
                "[[forward_auth]]\nname = \"{name}\"\npipeline = \"web\"\n\
                 trusted_proxies = [\"127.0.0.1/32\", \"10.0.0.0/8\"]\n"
            )
        };
        let text = format!("preset = \"web\"\n{}", forwards.iter().map(forward).collect::<String>());
        std::fs::write(&main, text).unwrap();
        let plan = Plan::compile(&Config::load(&main, &Overrides::default()));
        plan.unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn attributes(source: &str, headers: &[(&str, &[u8])], is_raw: bool) -> AttributeContext {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec()));
        let mut http = HttpRequest {
            method: b"GET".to_vec(),
            path: b"/a?b=\xff".to_vec(),
            host: b"Example.org:443".to_vec(),
            ..HttpRequest::default()
        };
        if is_raw {
            let headers =
                headers.map(|(key, raw_value)| ProtoHeader { key, value: String::new(), raw_value });
            http.header_map = Some(ProtoHeaders { headers: headers.collect() });
        } else {
            http.headers = headers.collect();
        }
        let socket = SocketAddress { address: source.to_owned() };
        let address = Address { address: Some(address::Address::SocketAddress(socket)) };
        AttributeContext {
            source: Some(Peer { address: Some(address) }),
            request: Some(attribute_context::Request { http: Some(http) }),
            context_extensions: Default::default(),
        }
    }

    #[test]
    fn no_field_of_a_client_changes_the_question() {
        let plan = plan(&["site"]);
        let forged: &[(&str, &[u8])] = &[
            (":path", b"/b"),
            ("host", b"example.com"),
            ("x-forwarded-uri", b"/robots.txt"),
            ("x-forwarded-method", b"POST"),
            ("x-forwarded-host", b"example.net"),
            ("x-forwarded-for", b"203.0.113.9"),
            ("user-agent", b"odd\xff"),
            ("not a name", b"a"),
            ("no-value", b"a\nb"),
        ];
        for is_raw in [false, true] {
            let peer = Some([127, 0, 0, 1].into());
            let head =
                QuestionHead::of(&plan.forwards[0], peer, attributes("192.0.2.7", forged, is_raw)).unwrap();
            let ForwardedRequest { ip, host, method, path, query, agent, .. } = &head.asked;
            assert_eq!(
                [ip, host, method, path, query, agent].map(String::as_str),
                ["192.0.2.7", "example.org", "GET", "/a", "b=%FF", "odd\u{ff}"]
            );
            assert_eq!((head.authority.as_str(), head.headers.len()), ("Example.org:443", 6));
        }
    }

    #[test]
    fn the_client_is_behind_proxies_that_are_trusted() {
        let plan = plan(&["site"]);
        let check = |source: &str, forwarded: &str, client: &str| {
            let attributes = attributes(source, &[("x-forwarded-for", forwarded.as_bytes())], false);
            let head = QuestionHead::of(&plan.forwards[0], Some([127, 0, 0, 1].into()), attributes).unwrap();
            assert_eq!(head.ip.to_string(), client);
        };
        check("192.0.2.7", "203.0.113.9, 10.0.0.1", "192.0.2.7");
        check("10.0.0.1", "203.0.113.9, 198.51.100.7, 10.0.0.1", "198.51.100.7");
        check("10.0.0.1", "", "10.0.0.1");
        check("no address", "203.0.113.9", "203.0.113.9");
        check("::ffff:192.0.2.7", "", "192.0.2.7");
    }

    #[test]
    fn what_names_no_page_is_refused() {
        let plan = plan(&["site"]);
        let empty = AttributeContext::default();
        assert!(QuestionHead::of(&plan.forwards[0], None, empty).is_none());
        for change in [
            |http: &mut HttpRequest| http.path = b"nowhere".to_vec(),
            |http: &mut HttpRequest| http.method = b"G T".to_vec(),
        ] {
            let mut attributes = attributes("192.0.2.7", &[], false);
            change(attributes.request.as_mut().unwrap().http.as_mut().unwrap());
            assert!(QuestionHead::of(&plan.forwards[0], None, attributes).is_none());
        }
    }

    #[test]
    fn a_question_is_for_the_gate_that_is_named_or_the_only_one() {
        let (one, two) = (plan(&["site"]), plan(&["site", "shop"]));
        let named = |name: &str| AttributeContext {
            context_extensions: [(FORWARD_AUTH.to_owned(), name.to_owned())].into(),
            ..AttributeContext::default()
        };
        let (here, stranger) = (Some([127, 0, 0, 1].into()), Some([192, 0, 2, 1].into()));
        let unnamed = AttributeContext::default();
        assert_eq!(forward_of(&one, &unnamed, here).unwrap(), 0);
        assert_eq!(forward_of(&two, &named("shop"), here).unwrap(), 1);
        assert_eq!(forward_of(&two, &named("site"), None).unwrap(), 0);
        for (plan, attributes, peer) in
            [(&two, unnamed, here), (&one, named("shop"), here), (&one, named("site"), stranger)]
        {
            assert_eq!(forward_of(plan, &attributes, peer).unwrap_err().code(), Code::InvalidArgument);
        }
    }
}
