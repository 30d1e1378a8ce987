//! Syslog that is sent to a source: a datagram a message (RFC 5426), or a stream of them (RFC 6587, RFC 5425). Nothing is
//! answered; what cannot be read is a line like another, and the source's own counters say so.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

use plan::{Endpoint, ListenerPlan};
use sources::LINE_BYTES_MAX;
use sources::syslog_frame::SyslogFrames;
use tokio::io::AsyncReadExt;
use tokio::time::{sleep, timeout};

use crate::core::listener::{ACCEPT_PAUSE, ListenerStream, ServeError, ShutdownSignal};
use crate::core::listener_context::ListenerContext;
use crate::core::node::Node;

/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;

/// Takes the messages of a connection to its end.
pub(super) async fn converse(
    mut stream: ListenerStream,
    listener: Arc<ListenerContext<()>>,
    mut stop: ShutdownSignal,
) {
    let Some(inbox) = listener.node.sources.inbox(&listener.plan.name) else { return };
    let sender = stream.client();
    let (mut frames, mut input) = (SyslogFrames::default(), vec![0; READ_BYTES]);
    loop {
        let read = tokio::select! {
            () = stop.wanted() => break,
            read = timeout(listener.idle(), stream.read(&mut input)) => read,
        };
        let Ok(Ok(read @ 1..)) = read else { break };
        frames.push(&input[..read]);
        while let Some(message) = frames.next_message() {
            tokio::select! {
                () = stop.wanted() => return,
                () = inbox.put(sender, message) => {}
            }
        }
    }
    if let Some(message) = frames.last_message() {
        inbox.try_put(sender, message);
    }
}

/// A port that takes datagrams.
#[derive(Debug)]
pub(crate) struct DatagramListener {
    plan: ListenerPlan,
    socket: UdpSocket,
    address: Endpoint,
}

impl DatagramListener {
    /// Takes the port.
    ///
    /// # Errors
    /// If it is taken, or not this machine's.
    pub(crate) fn bind(plan: &ListenerPlan) -> Result<DatagramListener, ServeError> {
        let Endpoint::Tcp(listen) = &plan.listen else {
            let error = io::Error::from(io::ErrorKind::Unsupported);
            return Err(ServeError::Listen { listen: plan.listen.clone(), error });
        };
        let bound = UdpSocket::bind(listen).and_then(|socket| {
            socket.set_nonblocking(true)?;
            Ok((Endpoint::Tcp(socket.local_addr()?), socket))
        });
        let (address, socket) =
            bound.map_err(|error| ServeError::Listen { listen: plan.listen.clone(), error })?;
        Ok(DatagramListener { plan: plan.clone(), socket, address })
    }

    /// Name and address.
    pub(crate) fn summary(&self) -> (&str, &Endpoint) {
        (&self.plan.name, &self.address)
    }

    /// Takes datagrams until the node ends. To be called within the runtime.
    pub(crate) fn serve(
        self,
        node: Arc<Node>,
        mut stop: ShutdownSignal,
    ) -> Result<impl Future<Output = ()>, ServeError> {
        let DatagramListener { plan, socket, address } = self;
        let socket = tokio::net::UdpSocket::from_std(socket)
            .map_err(|error| ServeError::Listen { listen: plan.listen.clone(), error })?;
        tracing::info!(listener = plan.name, protocol = "syslog", %address, "listening");
        Ok(async move {
            let Some(inbox) = node.sources.inbox(&plan.name) else { return };
            // One more byte shows that a message was longer.
            let mut input = vec![0; LINE_BYTES_MAX + 1];
            loop {
                let came = tokio::select! {
                    () = stop.wanted() => return,
                    came = socket.recv_from(&mut input) => came,
                };
                match came {
                    Ok((length, sender)) => {
                        let sender = sender.ip().to_canonical();
                        if !plan.clients.is_empty() && !plan.clients.contain(sender) {
                            node.metrics.listener_failure(&plan.name, "foreign-client");
                            continue;
                        }
                        for line in input[..length].split(|byte| matches!(byte, b'\n' | 0)) {
                            let line = line.trim_ascii_end();
                            if !line.is_empty() {
                                inbox.try_put(Some(sender), line.to_vec());
                            }
                        }
                    }
                    Err(error) => {
                        tracing::debug!(%error, listener = plan.name, "no datagram could be taken");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        })
    }
}
