//! gRPC's health service (`grpc.health.v1`): whether the node takes requests.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_server};

use crate::node::Node;

/// Names by which the service is asked for: all of the server, as gRPC names it, and as the peer does.
const NAMES: [&str; 3] = ["", "envoy.service.ratelimit.v3.RateLimitService", "ratelimit"];
/// Time between two looks for who watches.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Health(pub(super) Arc<Node>);

fn status(node: &Node) -> ServingStatus {
    if node.unready().is_some() { ServingStatus::NotServing } else { ServingStatus::Serving }
}

#[tonic::async_trait]
impl health_server::Health for Health {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if !NAMES.contains(&request.get_ref().service.as_str()) {
            return Err(Status::not_found("there is no such service"));
        }
        Ok(Response::new(HealthCheckResponse { status: status(&self.0).into() }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// Tells the status, and each change of it, until the node ends.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        if !NAMES.contains(&request.get_ref().service.as_str()) {
            return Err(Status::not_found("there is no such service"));
        }
        let node = Arc::clone(&self.0);
        let changes = futures_util::stream::unfold((node, None), |(node, told)| async move {
            loop {
                let now = status(&node);
                if told != Some(now) {
                    let answer = HealthCheckResponse { status: now.into() };
                    return Some((Ok(answer), (node, Some(now))));
                }
                if node.is_stopping() {
                    return None;
                }
                tokio::time::sleep(LOOK).await;
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }
}
