//! `tollhouse serve`: HTTP, and the protocols of mail servers.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::sync::Arc;

use engine::Engine;
use server::{Clock, InheritedSockets, Server, ServiceManager, SystemClock, raise_file_limit, reload};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::console::say;
use crate::exit::{CommandError, Exit};
use crate::options::{EngineOptions, SettingOverride};

/// Serve HTTP, and the protocols of mail servers
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tollhouse serve --data ./data
  tollhouse serve --data ./data --listen 127.0.0.1:0          On a free port, which it prints
  tollhouse serve --data ./data --set ledger.durability=sync  On disk before the answer
  curl -H 'content-type: message/rfc822' --data-binary @a.eml http://127.0.0.1:8377/v1/decide

Any address but a loopback one needs `tokens` in [server]. [[listener]] sections open ports for mail
servers; for a milter on the command line:
  --set listener.milter.protocol=milter --set listener.milter.listen=127.0.0.1:11332
SIGINT and SIGTERM answer open requests, write everything and stop. SIGHUP and changed files reload
configuration and certificates. systemd: Type=notify, WatchdogSec=, sockets
(FileDescriptorName=http, or a [[listener]]'s name), and settings as files of LoadCredential= named
like variables. Log level: RUST_LOG=debug.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    engine: EngineOptions,
    /// Address and port, instead of the configured ones
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Log format on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

pub(crate) fn run(args: ServeArgs) -> Result<Exit, CommandError> {
    log(args.log_format);
    raise_file_limit();
    // Before anything else is opened.
    let sockets = InheritedSockets::from_environment().map_err(CommandError::new)?;
    let manager = ServiceManager::from_environment()
        .map_err(|error| CommandError::new(format_args!("NOTIFY_SOCKET: {error}")))?;
    let mut options = args.engine;
    options.set.extend(args.listen.map(|listen| SettingOverride::new("server.listen", listen)));
    let engine = options.open_engine("give this one another data directory with --data")?;
    let json = args.log_format == LogFormat::Json;
    serve(Arc::new(engine), sockets, manager, |server| {
        // A program that reads JSON lines finds the addresses in the log.
        if json {
            if let Some(url) = server.first_visit_url() {
                tracing::warn!(
                    url,
                    "nobody may log in yet: within an hour, this link makes the first administrator"
                );
            }
        } else {
            say(format_args!("Tollhouse listens on {}", server.url()));
            for (_, protocol, listen) in server.listeners() {
                say(format_args!("                   {listen} for {protocol}"));
            }
            if let Some(url) = server.first_visit_url() {
                say("Nobody may log in yet. Within an hour, this link makes the first administrator:");
                say(format_args!("  {url}"));
            }
        }
    })?;
    Ok(Exit::Fine)
}

/// Serves until SIGINT or SIGTERM, and closes the engine.
fn serve(
    engine: Arc<Engine>,
    sockets: InheritedSockets,
    manager: ServiceManager,
    listening: impl FnOnce(&Server),
) -> Result<(), CommandError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CommandError::new)?;
    runtime.block_on(async {
        // Signals are listened for first, so that none is missed while the server comes up.
        let mut int = signal(SignalKind::interrupt()).map_err(CommandError::new)?;
        let mut term = signal(SignalKind::terminate()).map_err(CommandError::new)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(CommandError::new)?;
        let clock = Clock::of(SystemClock, engine.newest_decision());
        let (reloaded, of_reloads) = (Arc::clone(&engine), clock.clone());
        #[cfg(feature = "object-store")]
        let uploader = crate::object_journal::upload(&engine, &clock)?;
        let sinks = crate::sinks::start(&engine, &clock)?;
        let server = Server::bind_with(engine, clock, sockets)?;
        let certificates = server.certificates();
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                let (engine, now) = (Arc::clone(&reloaded), of_reloads.now());
                let certificates = Arc::clone(&certificates);
                // One after the other. What came of it is logged.
                let renewed = tokio::task::spawn_blocking(move || {
                    certificates.renew();
                    reload(&engine, now);
                });
                let _ = renewed.await;
            }
        });
        listening(&server);
        let served = server
            .supervised_by(manager)
            .serve(async move {
                tokio::select! { _ = int.recv() => {}, _ = term.recv() => {} }
            })
            .await;
        let finish = move || sinks.finish(crate::sinks::FINISH_WITHIN);
        tokio::task::spawn_blocking(finish).await.map_err(CommandError::new)?;
        #[cfg(feature = "object-store")]
        if let Some(uploader) = uploader {
            let finish = move || uploader.finish(crate::object_journal::FINISH_WITHIN);
            tokio::task::spawn_blocking(finish).await.map_err(CommandError::new)?;
        }
        Ok(served?)
    })
}

fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colours =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(colours);
    // Only a second subscriber could be refused, and there is none.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}
