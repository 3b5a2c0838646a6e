//! TLS of a real node: HTTPS, other clients on its port, and certificates that change.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::node::Node;

use crate::node::start_node;
use crate::raw_http::{body, connect, exchange, get_text, post_text};
use crate::world::{WAIT_TIMEOUT, wait_until};

/// The metric of certificates that are not valid.
const REFUSED: &str = "hydrant_tls_certificates_total{result=\"refused\"} ";

/// A certificate that signs itself, with the files of a node.
pub(crate) struct Certificate {
    der: CertificateDer<'static>,
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    /// A new certificate in files of `dir`. The files of an earlier one are replaced.
    pub(crate) fn write(dir: &Path) -> Result<Self> {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names)?;
        let chain = dir.join("chain.pem");
        let key = dir.join("key.pem");
        fs::write(&chain, section("CERTIFICATE", made.cert.der()))?;
        fs::write(&key, section("PRIVATE KEY", &made.signing_key.serialize_der()))?;
        Ok(Self { der: made.cert.der().clone(), chain, key })
    }

    /// The flags of a node with this certificate.
    pub(crate) fn flags(&self) -> [String; 4] {
        let text = |path: &Path| path.display().to_string();
        ["--tls-cert".to_owned(), text(&self.chain), "--tls-key".to_owned(), text(&self.key)]
    }

    /// A connection that trusts this certificate only.
    pub(crate) fn connect(
        &self,
        address: SocketAddr,
    ) -> Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::from(address.ip());
        let session = ClientConnection::new(Arc::new(config), name)?;
        Ok(StreamOwned::new(session, connect(address)?))
    }

    /// A GET over a connection of its own.
    pub(crate) fn get(&self, node: &Node, path: &str) -> Result<String> {
        let head = format!("Host: {}\r\n", node.rpc);
        exchange(self.connect(node.rpc)?, &get_text(path, &head))
    }
}

fn section(kind: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
}

fn start(certificate: &Certificate) -> Result<Node> {
    let flags = certificate.flags();
    start_node(&flags.each_ref().map(String::as_str))
}

#[test]
fn a_node_with_a_certificate_speaks_tls_and_tells_other_clients() -> Result<()> {
    let files = TempDir::new()?;
    let certificate = Certificate::write(files.path())?;
    let node = start(&certificate)?;
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "getHealth" });
    let text = post_text(&format!("Host: {}\r\n", node.rpc), &request);
    let response = exchange(certificate.connect(node.rpc)?, &text)?;
    let json: Value = serde_json::from_str(body(&response)?)?;
    assert_eq!(json["result"], "ok");
    // Many records.
    let document = certificate.get(&node, "/v1/openapi.json")?;
    let document: Value = serde_json::from_str(body(&document)?)?;
    ensure!(document["paths"].as_object().is_some_and(|paths| paths.len() > 10));
    // A client that speaks HTTP, or anything else, gets an error that names TLS.
    for garbage in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "\0\0\0\0"] {
        let refused = exchange(connect(node.rpc)?, garbage)?;
        ensure!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
        ensure!(refused.ends_with("use https:// and wss:// URLs\n"), "{refused}");
    }
    // A record that is not a handshake ends in an alert, which is short.
    let mut socket = connect(node.rpc)?;
    socket.write_all(&[0x16, 3, 1, 0, 4, 0xff, 0xff, 0xff, 0xff])?;
    let mut alert = Vec::new();
    socket.read_to_end(&mut alert).context("it is closed")?;
    ensure!(alert.len() < 100, "{alert:x?}");
    // Clients that stop in a handshake, or before it, delay no other.
    let mut stalled = Vec::new();
    for n in 0..200 {
        let mut socket = connect(node.rpc)?;
        if n % 2 == 0 {
            socket.write_all(&[0x16, 3, 1])?;
        }
        stalled.push(socket);
    }
    let metrics = certificate.get(&node, "/metrics")?;
    for line in
        ["hydrant_tls_handshakes_total{result=\"failed\"} 3\n", "part=\"tls_connections\"} "]
    {
        ensure!(metrics.contains(line), "{line} is not in {metrics}");
    }
    drop(stalled);
    Ok(())
}

#[test]
fn a_new_certificate_is_used_and_a_broken_one_is_not() -> Result<()> {
    let files = TempDir::new()?;
    let first = Certificate::write(files.path())?;
    let node = start(&first)?;
    ensure!(first.get(&node, "/health")?.ends_with("\r\n\r\nok"));
    let second = Certificate::write(files.path())?;
    wait_until("the new certificate", WAIT_TIMEOUT, || {
        Ok(second.get(&node, "/health").ok().filter(|it| it.ends_with("ok")))
    })?;
    ensure!(first.get(&node, "/health").is_err(), "it trusts only the first one");
    // The two files of the second pair may have been seen one by one.
    let refused = || -> Result<String> {
        let metrics = second.get(&node, "/metrics")?;
        let line = metrics.lines().find(|line| line.starts_with(REFUSED));
        Ok(line.context("the metric")?.to_owned())
    };
    let before = refused()?;
    fs::write(&second.key, "not a key")?;
    wait_until(
        "the refusal of the key",
        WAIT_TIMEOUT,
        || Ok((refused()? != before).then_some(())),
    )?;
    ensure!(second.get(&node, "/health")?.ends_with("\r\n\r\nok"), "the old pair is in use");
    Ok(())
}
