//! Name service, for commands that judge messages without a server.

use std::sync::Arc;

use auth::NameService;
use engine::{Engine, PreparedEvent};
use event::{Event, Time};
use plan::Pipeline;
use tokio::runtime::{Builder, Runtime};

use crate::exit::CommandError;

/// Name service, and what it runs on.
pub(crate) struct LocalLookups {
    service: NameService,
    runtime: Runtime,
}

impl LocalLookups {
    /// Opens name service by the settings of an engine's configuration.
    pub(crate) fn open(engine: &Engine) -> Result<LocalLookups, CommandError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(CommandError::new)?;
        let service = {
            let _within = runtime.enter();
            NameService::new(&engine.plan().node)
        };
        let service = service.ok_or_else(|| {
            CommandError::new("no resolvers are configured, so nothing can be looked up")
                .help("add --set 'dns.resolvers=[\"127.0.0.1\"]', or name them in [dns] of the configuration")
        })?;
        Ok(LocalLookups { service, runtime })
    }

    /// Does all of an event that comes before statistics, and waits for name service.
    pub(crate) fn prepare(
        &self,
        engine: &Engine,
        pipeline: &Arc<Pipeline>,
        event: Event,
        arrival: Time,
    ) -> PreparedEvent {
        self.runtime.block_on(self.service.prepare(engine, pipeline, event, arrival))
    }
}
