//! TLS of a port: its certificate, which can be replaced while the server runs, and the handshake.
//!
//! In: a chain of certificates and a key, as PEM. Out: a stream on which HTTP/1.1 is spoken, or HTTP/2 on a port of that.
//! Bounds: a handshake has a time limit, from the connection to its end. `HANDSHAKES_MAX` run at once, of one address
//! half of them; others wait in order, within their time. A connection that has sent nothing yet does not count. Memory
//! of a connection: rustls' buffers, [`CONNECTION_BYTES`].
//! Invariant: a pair that is not valid replaces nothing.
//! Not here: files (the binary), ciphers (rustls' defaults, with ring).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use clients::ClientId;
use foldhash::HashMap;
use parking_lot::{Mutex, RwLock};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Handshakes that run at once. One takes the CPU for a tenth of a millisecond, or one with an RSA key, and waits for
/// its client in between.
const HANDSHAKES_MAX: usize = 256;

/// Memory of an open connection beyond that of one without TLS: the session and its buffers. Measured over 1,000 of
/// them that wait for a request.
pub(crate) const CONNECTION_BYTES: u64 = 7 * 1024;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// Fix: the file must have PEM sections `CERTIFICATE`, the node's own first.
    #[error("the certificate is not PEM")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    /// Fix: as above.
    #[error("there is no PEM section CERTIFICATE")]
    NoCertificate,
    /// Fix: the file must have a PEM section `PRIVATE KEY` (PKCS #8), `RSA PRIVATE KEY` or `EC PRIVATE KEY`.
    #[error("the key is not PEM")]
    Key(#[source] rustls::pki_types::pem::Error),
    /// Fix: the key must be that of the first certificate.
    #[error("the certificate and the key cannot be used")]
    Pair(#[source] rustls::Error),
}

/// Why a handshake did not succeed.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// It was not complete in time.
    Late,
    /// The client does not speak TLS, or not in a way that the server does.
    Failed(io::Error),
}

/// The certificate of a port.
pub struct Tls {
    configs: RwLock<Configs>,
    /// Of all ports.
    limit: Arc<HandshakeLimit>,
}

/// One certificate, configured for the ports of each protocol.
#[derive(Clone)]
struct Configs {
    http1: Arc<ServerConfig>,
    http2: Arc<ServerConfig>,
}

impl Tls {
    /// A chain of certificates, the server's own first, and its key, both as PEM.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let configs = RwLock::new(Configs::from_pem(chain, key)?);
        Ok(Self { configs, limit: Arc::new(HandshakeLimit::new(HANDSHAKES_MAX)) })
    }

    /// Replaces the pair for all later connections. An error leaves it as it is.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let configs = Configs::from_pem(chain, key)?;
        *self.configs.write() = configs;
        Ok(())
    }

    /// The stream after the handshake with a client that speaks HTTP/2.
    ///
    /// Errors: `TimedOut` if the handshake took longer than `within`; any other if it failed.
    pub async fn accept_http2<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        io: IO,
        address: ClientId,
        within: Duration,
    ) -> io::Result<TlsStream<IO>> {
        let accepted = self.accept_with(|configs| &configs.http2, io, address, within).await;
        accepted.map_err(|err| match err {
            HandshakeError::Failed(err) => err,
            HandshakeError::Late => io::ErrorKind::TimedOut.into(),
        })
    }

    /// The stream after the handshake with a client that speaks HTTP/1.1.
    pub(crate) async fn accept<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        io: IO,
        address: ClientId,
        within: Duration,
    ) -> Result<TlsStream<IO>, HandshakeError> {
        self.accept_with(|configs| &configs.http1, io, address, within).await
    }

    async fn accept_with<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        config: impl FnOnce(&Configs) -> &Arc<ServerConfig>,
        io: IO,
        address: ClientId,
        within: Duration,
    ) -> Result<TlsStream<IO>, HandshakeError> {
        let handshake = async {
            let _permit = self.limit.acquire(address).await;
            let config = Arc::clone(config(&self.configs.read()));
            TlsAcceptor::from(config).accept(io).await
        };
        match tokio::time::timeout(within, handshake).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(err)) => Err(HandshakeError::Failed(err)),
            Err(_) => Err(HandshakeError::Late),
        }
    }
}

impl Configs {
    fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let http1 = server_config(chain, key, b"http/1.1")?;
        Ok(Self { http1, http2: server_config(chain, key, b"h2")? })
    }
}

fn server_config(chain: &[u8], key: &[u8], protocol: &[u8]) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(TlsError::Certificate)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Pair)?;
    let config = builder.with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.map_err(TlsError::Pair)?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(config))
}

/// The handshakes that run, together and by address.
struct HandshakeLimit {
    all: Arc<Semaphore>,
    each_max: usize,
    /// The permits of each address that has a handshake, or waits for one.
    by_address: Mutex<HashMap<ClientId, Arc<Semaphore>>>,
}

/// The right to one handshake. Fields are dropped in this order.
struct HandshakePermit {
    _all: Option<OwnedSemaphorePermit>,
    _each: Option<OwnedSemaphorePermit>,
    _entry: AddressEntry,
}

/// The permits of an address, while it needs them.
struct AddressEntry {
    limit: Arc<HandshakeLimit>,
    address: ClientId,
    permits: Arc<Semaphore>,
}

impl HandshakeLimit {
    fn new(all_max: usize) -> Self {
        let all = Arc::new(Semaphore::new(all_max));
        Self { all, each_max: (all_max / 2).max(1), by_address: Mutex::default() }
    }

    /// Waits for the right to a handshake: first within the address, then among all.
    async fn acquire(self: &Arc<Self>, address: ClientId) -> HandshakePermit {
        let permits = {
            let mut by_address = self.by_address.lock();
            let new = || Arc::new(Semaphore::new(self.each_max));
            Arc::clone(by_address.entry(address).or_insert_with(new))
        };
        let entry = AddressEntry { limit: Arc::clone(self), address, permits };
        // The semaphores are never closed.
        let each = Arc::clone(&entry.permits).acquire_owned().await.ok();
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        HandshakePermit { _all: all, _each: each, _entry: entry }
    }
}

impl Drop for AddressEntry {
    fn drop(&mut self) {
        let mut by_address = self.limit.by_address.lock();
        // The map and this entry have one each; a permit and every other entry have more.
        if Arc::strong_count(&self.permits) == 2 {
            by_address.remove(&self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use futures_util::FutureExt;
    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    fn section(kind: &str, der: &[u8]) -> String {
        let text = BASE64_STANDARD.encode(der);
        format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
    }

    /// A certificate and its key.
    fn pem() -> (String, String) {
        let names = vec!["localhost".to_owned()];
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(names).expect("a certificate");
        let key = section("PRIVATE KEY", &signing_key.serialize_der());
        (section("CERTIFICATE", cert.der()), key)
    }

    #[test]
    fn a_pair_that_is_not_valid_replaces_nothing() {
        let ((chain, key), (other_chain, other_key)) = (pem(), pem());
        let tls = Tls::from_pem(chain.as_bytes(), key.as_bytes()).expect("a pair");
        let before = Arc::clone(&tls.configs.read().http1);
        let replace = |chain: &str, key: &str| tls.replace(chain.as_bytes(), key.as_bytes());
        assert!(matches!(replace(&chain, &other_key), Err(TlsError::Pair(_))));
        assert!(matches!(replace("", &key), Err(TlsError::NoCertificate)));
        assert!(matches!(replace(&chain, ""), Err(TlsError::Key(_))));
        assert!(replace(&chain[..chain.len() / 2], &key).is_err());
        assert!(Arc::ptr_eq(&before, &tls.configs.read().http1));
        replace(&other_chain, &other_key).expect("a pair");
        assert!(!Arc::ptr_eq(&before, &tls.configs.read().http1));
    }

    #[tokio::test]
    async fn an_address_gets_half_of_the_handshakes_and_leaves_no_entry_behind() {
        let limit = Arc::new(HandshakeLimit::new(4));
        let take = |address| limit.acquire(ClientId(address)).now_or_never();
        let first = [take(1), take(1)];
        assert!(first.iter().all(Option::is_some) && take(1).is_none());
        let second = [take(2), take(2)];
        assert!(second.iter().all(Option::is_some) && take(3).is_none(), "all are taken");
        let waiting = limit.acquire(ClientId(1));
        drop(first);
        drop(waiting.await);
        drop(second);
        assert!(limit.by_address.lock().is_empty());
        assert_eq!(limit.all.available_permits(), 4);
    }

    #[tokio::test]
    async fn a_client_that_sends_nothing_or_garbage_is_not_waited_for() {
        let (chain, key) = pem();
        let tls = Tls::from_pem(chain.as_bytes(), key.as_bytes()).expect("a pair");
        let (client, server) = tokio::io::duplex(1_024);
        let late = tls.accept(server, ClientId(1), Duration::from_millis(20)).await;
        assert!(matches!(late, Err(HandshakeError::Late)));
        drop(client);
        let (mut client, server) = tokio::io::duplex(1_024);
        tokio::io::AsyncWriteExt::write_all(&mut client, b"GET / HTTP/1.1\r\n\r\n")
            .await
            .expect("there is space");
        let failed = tls.accept(server, ClientId(1), Duration::from_secs(60)).await;
        assert!(matches!(failed, Err(HandshakeError::Failed(_))));
        assert!(tls.limit.by_address.lock().is_empty());
    }
}
