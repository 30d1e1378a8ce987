//! gRPC's health service (`grpc.health.v1`): whether the node takes requests.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_server};

use super::RpcFuture;
use crate::core::node::Node;

/// Time between two looks for who watches.
const LOOK: Duration = Duration::from_secs(1);

/// The health of a listener's services.
#[derive(Clone, Debug)]
pub(crate) struct HealthService {
    pub(crate) node: Arc<Node>,
    /// Names by which services are asked for; the empty one, all of the server, is known without.
    pub(crate) names: &'static [&'static str],
}

impl HealthService {
    fn knows(&self, name: &str) -> Result<(), Status> {
        let known = name.is_empty() || self.names.contains(&name);
        if known { Ok(()) } else { Err(Status::not_found("there is no such service")) }
    }
}

fn status(node: &Node) -> ServingStatus {
    if node.unready().is_some() { ServingStatus::NotServing } else { ServingStatus::Serving }
}

type HealthStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

impl health_server::Health for HealthService {
    fn check<'s, 'f>(
        &'s self,
        request: Request<HealthCheckRequest>,
    ) -> RpcFuture<'f, Response<HealthCheckResponse>>
    where
        's: 'f,
        Self: 'f,
    {
        let known = self.knows(&request.get_ref().service);
        let status = status(&self.node).into();
        Box::pin(ready(known.map(|()| Response::new(HealthCheckResponse { status }))))
    }

    type WatchStream = HealthStream;

    fn watch<'s, 'f>(&'s self, request: Request<HealthCheckRequest>) -> RpcFuture<'f, Response<HealthStream>>
    where
        's: 'f,
        Self: 'f,
    {
        let watched = self.knows(&request.get_ref().service).map(|()| Response::new(self.changes()));
        Box::pin(ready(watched))
    }
}

impl HealthService {
    /// Tells the status, and each change of it, until the node ends.
    fn changes(&self) -> HealthStream {
        let node = Arc::clone(&self.node);
        let changes = futures_util::stream::unfold((node, None), |(node, last)| async move {
            loop {
                let now = status(&node);
                if last != Some(now) {
                    let answer = HealthCheckResponse { status: now.into() };
                    return Some((Ok(answer), (node, Some(now))));
                }
                if node.is_stopping() {
                    return None;
                }
                tokio::time::sleep(LOOK).await;
            }
        });
        Box::pin(changes)
    }
}
