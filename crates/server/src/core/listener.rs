//! Listeners: sockets, who may connect, how many at once, and an end that breaks no message off.
//!
//! A listener hands every connection that it accepts to its protocol ([`ServeConnection`]) as a [`ListenerStream`]. A
//! protocol ends a conversation between two messages once the [`ShutdownSignal`] says so.

use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use engine::SyncError;
use plan::{Endpoint, ListenerPlan, MissingFeature, Protocol};
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::core::descriptors::{ClientConnectionPermit, ClientConnections};
use crate::core::inherited_sockets::{InheritedSocket, InheritedSocketError, InheritedSockets};
use crate::core::listener_context::ListenerContext;
use crate::core::node::Node;
pub(crate) use crate::core::shutdown::ShutdownSignal;
use crate::core::socket::{ListenerSocket, PlainSocket};
use crate::core::tls::{TlsError, TlsTerminator};
use crate::core::write_timeout::WriteTimeoutStream;

/// Time before accepting is tried again when the system has no descriptors left.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Reasons for a server that cannot start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {listen}: {error}{}", mend(.error))]
    Listen {
        /// The address.
        listen: Endpoint,
        /// The error of the system.
        error: std::io::Error,
    },
    /// A socket that was handed over is not taken.
    #[error(transparent)]
    Inherited(#[from] InheritedSocketError),
    /// A listener's protocol is not part of the program.
    #[error("{}: {}", .0, .0.help())]
    Missing(#[from] MissingFeature),
    /// A listener's certificate cannot be used.
    #[error("TLS of listener `{listener}`: {error}")]
    Tls {
        /// The name of the listener.
        listener: String,
        /// The reason.
        error: TlsError,
    },
    /// Not everything could be written at the end.
    #[error("not everything could be written: {0}")]
    Close(#[from] SyncError),
}

/// Returns what to do about an address that cannot be listened on.
fn mend(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
    match error.kind() {
        AddrInUse => "; is another node running there?",
        AddrNotAvailable => "; this machine has no such address",
        PermissionDenied => {
            "; ports below 1024 are the administrator's: take another, or give the program CAP_NET_BIND_SERVICE"
        }
        _ => "",
    }
}

/// A protocol's part of one listener: holds a conversation with a client to its end.
pub(crate) type ServeConnection =
    Box<dyn Fn(ListenerStream, ShutdownSignal) -> ConversationFuture + Send + Sync>;
/// A conversation with a client, until it ends.
pub(crate) type ConversationFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection of a listener. Writes to it fail once it has not read for the node's request time.
pub(crate) type ListenerStream = WriteTimeoutStream<ListenerSocket>;

impl ListenerStream {
    /// The client's address, if it came over TCP.
    pub(crate) fn client(&self) -> Option<IpAddr> {
        self.get_ref().plain().client()
    }

    /// Returns whether it came to a loopback address over TCP, where any page that a browser of this host shows can ask.
    pub(crate) fn is_loopback(&self) -> bool {
        self.get_ref().plain().is_loopback()
    }
}

/// A listener whose socket is there.
#[derive(Debug)]
pub(crate) struct BoundListener {
    plan: ListenerPlan,
    /// The address in use, with the port that was found where any would do.
    address: Endpoint,
    listener: StdListener,
    file: Option<SocketFile>,
    tls: Option<Arc<TlsTerminator>>,
}

/// A socket outside of any runtime.
#[derive(Debug)]
enum StdListener {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

enum AsyncListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl BoundListener {
    /// Takes the socket that was handed over for it, or makes one. One that a dead process left behind at the path of a unix
    /// socket is taken away.
    pub(crate) fn bind(
        plan: &ListenerPlan,
        sockets: &mut InheritedSockets,
    ) -> Result<BoundListener, ServeError> {
        if let Some(socket) = sockets.take(&plan.name, &plan.listen)? {
            return BoundListener::of(plan, socket);
        }
        let bound = match &plan.listen {
            Endpoint::Tcp(address) => std::net::TcpListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok((Endpoint::Tcp(listener.local_addr()?), StdListener::Tcp(listener), None))
            }),
            Endpoint::Unix(path) => bind_unix(path, plan.mode)
                .map(|(listener, file)| (plan.listen.clone(), StdListener::Unix(listener), Some(file))),
        };
        let (address, listener, file) =
            bound.map_err(|error| ServeError::Listen { listen: plan.listen.clone(), error })?;
        Ok(BoundListener { plan: plan.clone(), address, listener, file, tls: None })
    }

    /// A listener with a socket that was handed over. Its file, if it has one, is whose it was.
    fn of(plan: &ListenerPlan, socket: InheritedSocket) -> Result<BoundListener, ServeError> {
        let (address, listener) = match socket {
            InheritedSocket::Tcp(listener) => {
                let found = listener.local_addr();
                let found =
                    found.map_err(|error| ServeError::Listen { listen: plan.listen.clone(), error })?;
                (Endpoint::Tcp(found), StdListener::Tcp(listener))
            }
            InheritedSocket::Unix(listener) => (plan.listen.clone(), StdListener::Unix(listener)),
        };
        Ok(BoundListener { plan: plan.clone(), address, listener, file: None, tls: None })
    }

    /// Returns the listener so that its connections are in TLS.
    pub(crate) fn in_tls(self, tls: Option<Arc<TlsTerminator>>) -> BoundListener {
        BoundListener { tls, ..self }
    }

    /// Name, protocol and address.
    pub(crate) fn summary(&self) -> (&str, Protocol, &Endpoint) {
        (&self.plan.name, self.plan.settings.protocol(), &self.address)
    }

    /// Accepts connections until the node ends, and then waits for the conversations that are under way. What serves them
    /// `open` makes. To be called within the runtime.
    pub(crate) fn serve(
        self,
        node: Arc<Node>,
        open: impl FnOnce(Arc<ListenerContext>) -> Result<ServeConnection, MissingFeature>,
        stop: ShutdownSignal,
    ) -> Result<impl Future<Output = ()>, ServeError> {
        let BoundListener { plan, address, listener, file, tls } = self;
        let listening = match listener {
            StdListener::Tcp(listener) => TcpListener::from_std(listener).map(AsyncListener::Tcp),
            StdListener::Unix(listener) => UnixListener::from_std(listener).map(AsyncListener::Unix),
        };
        let listening = listening.map_err(|error| ServeError::Listen { listen: address.clone(), error })?;
        let (listener, protocol) = (plan.name.clone(), plan.settings.protocol());
        tracing::info!(listener, %protocol, %address, pipeline = plan.settings.pipeline(), "listening");
        let context = Arc::new(ListenerContext::new(node, plan));
        let serve = open(Arc::clone(&context))?;
        let serve = Arc::new(serve);
        Ok(accept(listening, file, context, ConnectionService { tls, serve }, stop))
    }
}

/// Counts a connection as long as it lives.
pub(crate) struct ConnectionGuard(Gauge);

impl ConnectionGuard {
    pub(crate) fn new(gauge: Gauge) -> ConnectionGuard {
        gauge.inc();
        ConnectionGuard(gauge)
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The way of a listener's connections to its protocol.
struct ConnectionService {
    tls: Option<Arc<TlsTerminator>>,
    serve: Arc<ServeConnection>,
}

impl ConnectionService {
    /// Returns the conversation of a connection, after its handshake.
    fn serve(&self, socket: PlainSocket, patience: Duration, stop: ShutdownSignal) -> ConversationFuture {
        let Some(tls) = self.tls.clone() else {
            let socket = ListenerSocket::Plain(socket);
            return (self.serve)(WriteTimeoutStream::new(socket, patience), stop);
        };
        let serve = Arc::clone(&self.serve);
        Box::pin(async move {
            if let Some(socket) = tls.accept(socket, stop.clone()).await {
                serve(WriteTimeoutStream::new(socket, patience), stop).await;
            }
        })
    }
}

/// Takes connections as long as there is room for them; the others wait in the system's queue.
async fn accept(
    listening: AsyncListener,
    file: Option<SocketFile>,
    context: Arc<ListenerContext>,
    service: ConnectionService,
    stop: ShutdownSignal,
) {
    let room = Arc::new(Semaphore::new(context.plan.connections_max.min(Semaphore::MAX_PERMITS)));
    let clients = Arc::new(ClientConnections::default());
    let mut conversations = JoinSet::new();
    let mut stopped = stop.clone();
    loop {
        // The semaphore is never closed, so waiting for it ends with a permit.
        let next = async {
            let permit = Arc::clone(&room).acquire_owned().await;
            let descriptor = context.node.descriptors.take().await;
            ((permit, descriptor), listening.accept().await)
        };
        let (held, accepted) = tokio::select! {
            () = stopped.wanted() => break,
            next = next => next,
        };
        while conversations.try_join_next().is_some() {}
        match accepted {
            Ok((socket, client)) => {
                let Some(place) = admit(&context, &clients, client) else { continue };
                let open =
                    ConnectionGuard::new(context.node.metrics.listener_connections(&context.plan.name));
                let conversation = service.serve(socket, context.node.timeout(), stop.clone());
                conversations.spawn(async move {
                    let _open = open;
                    conversation.await;
                    drop((place, held));
                });
            }
            Err(error) => {
                tracing::warn!(%error, listener = context.plan.name, "no connection could be accepted");
                drop(held);
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop((listening, file));
    while conversations.join_next().await.is_some() {}
}

impl AsyncListener {
    /// The next connection, and its client's address over TCP.
    async fn accept(&self) -> io::Result<(PlainSocket, Option<IpAddr>)> {
        match self {
            AsyncListener::Tcp(listener) => {
                let (stream, client) = listener.accept().await?;
                // Answers are written whole; waiting for more to send would only delay them.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "a connection keeps its delay");
                }
                Ok((PlainSocket::Tcp(stream), Some(client.ip().to_canonical())))
            }
            AsyncListener::Unix(listener) => Ok((PlainSocket::Unix(listener.accept().await?.0), None)),
        }
    }
}

/// Returns whether a client may connect: one that may not is logged and counted.
fn admit(
    context: &ListenerContext,
    clients: &Arc<ClientConnections>,
    client: Option<IpAddr>,
) -> Option<Option<ClientConnectionPermit>> {
    let Some(client) = client else { return Some(None) };
    if !context.plan.clients.is_empty() && !context.plan.clients.contain(client) {
        context.misused(Some(client), "foreign-client", &"refused: not in `clients`");
        return None;
    }
    let max = context.node.descriptors.share(context.plan.client_connections_max);
    let place = clients.take(client, max);
    if place.is_none() {
        let what = format!("refused: {max} connections of this address are open");
        context.misused(Some(client), "client-connections", &what);
    }
    place.map(Some)
}

/// The file of a unix socket, which goes with its listener.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and number of the file: another one at the same path is not ours.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let identity = std::fs::symlink_metadata(&self.path).map(|metadata| (metadata.dev(), metadata.ino()));
        if identity.is_ok_and(|identity| identity == self.identity)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "a socket's file stays behind");
        }
    }
}

fn bind_unix(path: &Path, mode: u32) -> io::Result<(std::os::unix::net::UnixListener, SocketFile)> {
    use std::os::unix::net;
    if let Ok(metadata) = std::fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket"));
        }
        if net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::from(io::ErrorKind::AddrInUse));
        }
        std::fs::remove_file(path)?;
    }
    let listener = net::UnixListener::bind(path)?;
    let metadata = std::fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.to_path_buf(), identity: (metadata.dev(), metadata.ino()) };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    listener.set_nonblocking(true)?;
    Ok((listener, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_socket_comes_and_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let (listener, file) = bind_unix(&path, 0o600).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let second = bind_unix(&path, 0o600).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse, "somebody listens there");
        drop(listener);
        let left_behind = file.identity;
        let (_listener, own) = bind_unix(&path, 0o660).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        if left_behind != own.identity {
            drop(file);
            assert!(path.exists(), "another's file is left alone");
        } else {
            std::mem::forget(file);
        }
        drop(own);
        assert!(!path.exists());
        std::fs::write(&path, "mine").unwrap();
        assert_eq!(bind_unix(&path, 0o660).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }
}
