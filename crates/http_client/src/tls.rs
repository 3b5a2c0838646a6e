//! TLS for servers with https: which certificates are trusted, and which name a certificate must have.
//!
//! ALPN is HTTP/1.1.
//! Not here: client certificates, the handshake (`socket`).

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::HttpClientError;

/// TLS configuration for a server. Cloning it is cheap; its clones share resumable sessions.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    /// The name that the server's certificate must have.
    pub(crate) name: ServerName<'static>,
}

impl Tls {
    /// Configuration for a server of this name or address. It trusts the certificates of a PEM
    /// file, or those that this machine trusts.
    ///
    /// Errors: the file cannot be read or has no certificate; the machine trusts none.
    pub(crate) fn new(host: &str, ca: Option<&Path>) -> Result<Self, HttpClientError> {
        let trust_error = |why: String| HttpClientError::Trust { why };
        let name = ServerName::try_from(host.to_owned())
            .map_err(|err| trust_error(format!("{host}: {err}")))?;
        let mut roots = RootCertStore::empty();
        if let Some(ca) = ca {
            let unread = |err| trust_error(format!("{}: {err}", ca.display()));
            for certificate in CertificateDer::pem_file_iter(ca).map_err(unread)? {
                let added = roots.add(certificate.map_err(unread)?);
                added.map_err(|err| trust_error(format!("{}: {err}", ca.display())))?;
            }
        } else {
            // Certificates in unknown formats are skipped.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        if roots.is_empty() {
            let source =
                ca.map_or_else(|| "this machine".to_owned(), |ca| ca.display().to_string());
            return Err(trust_error(format!("{source} has no certificate to trust")));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|err| trust_error(err.to_string()))?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), name })
    }
}
