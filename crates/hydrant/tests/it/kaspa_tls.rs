//! TLS of `hydrant follow-kaspa`: each port serves clients with TLS, and tells others to use it.

use std::io::{Read, Write};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::kaspa_node::KaspaNode;
use tonic::Code;
use tungstenite::Message;
use yellowstone_grpc_client::GeyserGrpcClientError;

use crate::grpc_tls;
use crate::kaspa_node::KaspaProcess;
use crate::raw_http::{connect, exchange, get_text};
use crate::tls::Certificate;
use crate::world::{WAIT_TIMEOUT, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_port_of_a_kaspa_node_speaks_tls() -> Result<()> {
    let source = KaspaNode::start().await;
    source.mine(5);
    let files = TempDir::new()?;
    let certificate = Certificate::write(files.path())?;
    let flags = certificate.flags();
    let flags = [&flags.each_ref().map(String::as_str)[..], &["--grpc-port", "0"]].concat();
    let node = KaspaProcess::start(&source, &flags)?;
    for port in [node.borsh, node.json, node.rpc] {
        let request = get_text("/health", &format!("Host: {port}\r\n"));
        wait_until("the sink over TLS", WAIT_TIMEOUT, || {
            let response = exchange(certificate.connect(port)?, &request)?;
            Ok(response.starts_with("HTTP/1.1 200 ").then_some(()))
        })?;
        let refused = exchange(connect(port)?, &request)?;
        ensure!(refused.ends_with("use https:// and wss:// URLs\n"), "{refused}");
    }
    check_wrpc(&node, &certificate, &source)?;
    check_grpc(&node, &certificate).await
}

/// Calls a method of wRPC in JSON over TLS.
fn check_wrpc(node: &KaspaProcess, certificate: &Certificate, source: &KaspaNode) -> Result<()> {
    let stream = certificate.connect(node.json)?;
    let handshake = tungstenite::client(format!("wss://{}", node.json), stream);
    let (mut socket, _) = handshake.ok().context("a handshake")?;
    let request = json!({ "id": 1, "method": "getSink", "params": {} });
    socket.send(Message::text(request.to_string()))?;
    let reply: Value = serde_json::from_str(socket.read()?.to_text()?)?;
    ensure!(reply["params"]["sink"] == json!(source.sink().to_string()), "{reply}");
    Ok(())
}

/// Calls the health service over TLS. The client asks for a service that the port does not have.
async fn check_grpc(node: &KaspaProcess, certificate: &Certificate) -> Result<()> {
    let port = node.grpc().context("it serves gRPC")?;
    let error = grpc_tls::client(port, certificate).await?.health_check().await.err();
    let is_served = matches!(
        &error,
        Some(GeyserGrpcClientError::TonicStatus(status)) if status.code() == Code::NotFound
    );
    ensure!(is_served, "{error:?}");
    let mut plain = connect(port)?;
    plain.write_all(grpc_tls::PREFACE)?;
    let mut received = Vec::new();
    // A reset ends it, too.
    let _ = plain.read_to_end(&mut received);
    ensure!(String::from_utf8_lossy(&received).contains("use https://"), "{received:x?}");
    Ok(())
}
