//! Certificates of all listeners, and their renewal.

use std::sync::Arc;

use event::Time;

use crate::core::listener::ServeError;
use crate::core::node::Node;
use crate::core::tls::{HandshakeThreads, TlsError, TlsSettings, TlsTerminator};

/// The name of the condition that a certificate is not valid, or could not be renewed.
pub(crate) const CONDITION: &str = "certificate";

/// The certificates of a server.
#[derive(Debug)]
pub struct CertificateStore {
    node: Arc<Node>,
    threads: Option<Arc<HandshakeThreads>>,
    terminators: Vec<Arc<TlsTerminator>>,
}

impl CertificateStore {
    pub(crate) fn new(node: Arc<Node>) -> CertificateStore {
        CertificateStore { node, threads: None, terminators: Vec::new() }
    }

    /// Reads the certificate of a listener, if it has TLS. Blocks.
    ///
    /// # Errors
    /// If it cannot be used.
    pub(crate) fn open(
        &mut self,
        settings: Option<TlsSettings<'_>>,
    ) -> Result<Option<Arc<TlsTerminator>>, ServeError> {
        let Some(settings) = settings else { return Ok(None) };
        let listener = settings.listener.to_owned();
        let opened = self
            .threads()
            .map_err(TlsError::Threads)
            .and_then(|threads| TlsTerminator::open(settings, threads, &self.node.tls, self.node.now()));
        let opened = Arc::new(opened.map_err(|error| ServeError::Tls { listener, error })?);
        self.terminators.push(Arc::clone(&opened));
        Ok(Some(opened))
    }

    fn threads(&mut self) -> std::io::Result<Arc<HandshakeThreads>> {
        let threads = match &self.threads {
            Some(threads) => Arc::clone(threads),
            None => Arc::new(HandshakeThreads::start()?),
        };
        self.threads = Some(Arc::clone(&threads));
        Ok(threads)
    }

    /// Returns whether no listener has TLS.
    pub(crate) fn is_empty(&self) -> bool {
        self.terminators.is_empty()
    }

    /// Takes over what the files say now; what cannot be used is logged and changes nothing. Blocks.
    pub fn renew(&self) {
        let now = self.node.now();
        self.terminators.iter().for_each(|one| one.renew(now, true));
    }

    /// Takes over what files say once they look the same twice. Blocks.
    pub(crate) fn look(&self, now: Time) {
        self.terminators.iter().for_each(|one| one.renew(now, false));
    }

    /// Returns what is wrong with the certificates.
    pub(crate) fn fault(&self, now: Time) -> Option<String> {
        let faults: Vec<String> = self.terminators.iter().filter_map(|one| one.fault(now)).collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }
}
