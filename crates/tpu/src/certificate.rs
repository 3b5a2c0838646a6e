//! Identities: self-signed Ed25519 certificates on both sides. The key in the client's certificate
//! is its identity.
//!
//! Shape: a certificate only carries a public key, as in Agave's clients and validators. Its own
//! signature is not checked. The handshake's signature proves that the peer has the private key; it
//! is checked.
//! Not here: admission (`connection_admission`).

use std::sync::Arc;

use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, NamedGroup, SignatureScheme};
use solana_pubkey::Pubkey;

/// The application protocol (ALPN) of Solana's clients.
pub const ALPN: &[u8] = b"solana-tpu";

/// DER: `SubjectPublicKeyInfo` of an Ed25519 key, up to the key (RFC 8410).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0];
/// DER: a PKCS #8 private key of Ed25519, up to the seed (RFC 8410).
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// A key pair and its certificate.
pub struct TlsIdentity {
    pubkey: Pubkey,
    seed: [u8; 32],
}

impl TlsIdentity {
    /// Creates the identity of a keypair: its secret seed and its public key.
    pub fn new(seed: [u8; 32], pubkey: Pubkey) -> Self {
        Self { pubkey, seed }
    }

    /// Returns the public key of the identity.
    pub fn pubkey(&self) -> Pubkey {
        self.pubkey
    }

    fn key(&self) -> PrivatePkcs8KeyDer<'static> {
        PrivatePkcs8KeyDer::from([&PKCS8_PREFIX[..], &self.seed].concat())
    }

    /// Returns the certificate of this key for "localhost", signed by the key itself.
    fn certificate(&self) -> Result<CertificateDer<'static>, TlsError> {
        let key = KeyPair::try_from(&self.key())?;
        let mut params = CertificateParams::new(["localhost".to_owned()])?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "hydrant");
        Ok(params.self_signed(&key)?.der().clone())
    }

    /// Returns the TLS configuration of the server: clients must send a certificate.
    pub(crate) fn server_config(&self) -> Result<QuicServerConfig, TlsError> {
        let provider = provider();
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(Arc::new(AcceptAnyKey(provider)))
            .with_single_cert(vec![self.certificate()?], PrivateKeyDer::Pkcs8(self.key()))?;
        tls.alpn_protocols = vec![ALPN.to_vec()];
        // No session is resumed: a client proves its key each time.
        tls.send_tls13_tickets = 0;
        Ok(QuicServerConfig::try_from(tls)?)
    }
}

/// Returns the TLS configuration of a client like Solana's: it accepts any server and sends our certificate.
pub fn client_config(identity: &TlsIdentity) -> Result<QuicClientConfig, TlsError> {
    let provider = provider();
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyKey(provider)))
        .with_client_auth_cert(
            vec![identity.certificate()?],
            PrivateKeyDer::Pkcs8(identity.key()),
        )?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls.resumption = rustls::client::Resumption::disabled();
    Ok(QuicClientConfig::try_from(tls)?)
}

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// TLS refuses the key or the certificate.
    #[error("TLS refuses the identity")]
    Identity(#[from] rustls::Error),
    /// The key is not an Ed25519 key, or its certificate cannot be signed.
    #[error("create the certificate of the identity")]
    Certificate(#[from] rcgen::Error),
    /// The provider has no suite for QUIC's first packets.
    #[error("TLS has no cipher for QUIC")]
    Cipher(#[from] NoInitialCipherSuite),
}

/// Returns the Ed25519 key in a certificate, if it has one.
pub(crate) fn find_pubkey(certificate: &CertificateDer<'_>) -> Option<Pubkey> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    let spki = certificate.subject_public_key_info();
    let key = spki.as_ref().strip_prefix(&SPKI_PREFIX)?;
    Pubkey::try_from(key).ok()
}

/// Returns ring with X25519 only: Solana's nodes use it, and fewer key exchanges can be attacked.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.kx_groups.retain(|group| group.name() == NamedGroup::X25519);
    Arc::new(provider)
}

/// The methods that both verifiers have, because rustls has a trait for each side: they check that the peer has the
/// private key of its certificate.
macro_rules! verify_handshake_signature {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(rustls::Error::General("QUIC uses TLS 1.3 only".into()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.0.signature_verification_algorithms;
            verify_tls13_signature(message, cert, signed, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.signature_verification_algorithms.supported_schemes()
        }
    };
}

/// Accepts any certificate, and checks that the peer has its private key.
#[derive(Debug)]
struct AcceptAnyKey(Arc<CryptoProvider>);

impl ClientCertVerifier for AcceptAnyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    verify_handshake_signature!();
}

impl ServerCertVerifier for AcceptAnyKey {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    verify_handshake_signature!();
}

#[cfg(test)]
mod tests {
    use solana_keypair::Keypair;
    use solana_signer::Signer as _;

    use super::*;

    #[test]
    fn a_certificate_has_its_key() {
        let keypair = Keypair::new();
        let identity = TlsIdentity::new(*keypair.secret_bytes(), keypair.pubkey());
        let certificate = identity.certificate().expect("the key is valid");
        assert_eq!(find_pubkey(&certificate), Some(keypair.pubkey()));
    }

    #[test]
    fn an_invalid_certificate_has_no_key() {
        assert_eq!(find_pubkey(&CertificateDer::from(vec![0x30, 0x03, 1, 2, 3])), None);
        assert_eq!(find_pubkey(&CertificateDer::from(Vec::new())), None);
    }
}
