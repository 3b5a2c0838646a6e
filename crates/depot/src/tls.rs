//! TLS of a bucket's endpoint: by ring, trusting the certificates that this machine trusts.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

/// Returns the configuration for all connections. ALPN is HTTP/1.1.
///
/// # Errors
///
/// The machine trusts no certificate.
pub(crate) fn client_config() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    // Certificates in unknown formats are skipped.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("this machine has no certificate to trust".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(|err| err.to_string())?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
