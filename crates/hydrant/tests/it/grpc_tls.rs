//! Yellowstone gRPC over TLS: an unmodified client, clients that speak something else or nothing, and certificates that
//! change.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};
use futures_util::StreamExt;
use tempfile::TempDir;
use testkit::node::Node;
use tokio::runtime::Runtime;
use tonic::transport::{self, ClientTlsConfig};
use yellowstone_grpc_client::GeyserGrpcClient;
use yellowstone_grpc_proto::geyser::{SubscribeRequest, SubscribeRequestFilterSlots};

use crate::node::start_node;
use crate::raw_http::connect;
use crate::tls::Certificate;
use crate::world::{WAIT_TIMEOUT, wait_until};

/// The connection preface of HTTP/2.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Slot updates that a stream gets.
const UPDATES: usize = 5;

/// A client that trusts a certificate only.
pub(crate) async fn client(
    address: SocketAddr,
    certificate: &Certificate,
) -> Result<GeyserGrpcClient> {
    let trusted = transport::Certificate::from_pem(fs::read(&certificate.chain)?);
    let tls = ClientTlsConfig::new().ca_certificate(trusted);
    let client = GeyserGrpcClient::build_from_shared(format!("https://{address}"))?;
    Ok(client.tls_config(tls)?.connect().await?)
}

/// Whether a client that trusts a certificate only gets a response.
fn is_served(runtime: &Runtime, address: SocketAddr, certificate: &Certificate) -> Result<()> {
    let call = async { anyhow::Ok(client(address, certificate).await?.get_slot(None).await?) };
    runtime.block_on(call).map(drop)
}

fn start(certificate: &Certificate, flags: &[&str]) -> Result<(Node, SocketAddr)> {
    let tls = certificate.flags();
    let node = start_node(&[&tls.each_ref().map(String::as_str)[..], flags].concat())?;
    let grpc = node.grpc.context("it serves gRPC")?;
    Ok((node, grpc))
}

/// Returns the bytes that arrive until the node closes the connection.
fn read_to_end(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset ends it too.
    let _ = socket.read_to_end(&mut bytes);
    bytes
}

/// A counter of connections that were refused.
fn count_refused(certificate: &Certificate, node: &Node, cause: &str) -> Result<u64> {
    let metrics = certificate.get(node, "/metrics")?;
    let name = format!("hydrant_grpc_refused_total{{cause=\"{cause}\"}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&name));
    Ok(value.context("the metric")?.parse()?)
}

#[test]
fn a_client_over_tls_is_served_and_one_without_learns_what_the_port_speaks() -> Result<()> {
    let files = TempDir::new()?;
    let certificate = Certificate::write(files.path())?;
    let (node, grpc) = start(&certificate, &[])?;
    let runtime = Runtime::new()?;
    runtime.block_on(async {
        let mut client = client(grpc, &certificate).await?;
        ensure!(client.ping(7).await?.count == 7, "another pong");
        let slots = [("s".to_owned(), SubscribeRequestFilterSlots::default())].into();
        let request = SubscribeRequest { slots, ..SubscribeRequest::default() };
        let updates = client.subscribe_once(request).await?.take(UPDATES);
        let updates: Vec<_> = updates.collect().await;
        ensure!(updates.len() == UPDATES, "{updates:?}");
        for update in updates {
            ensure!(update?.update_oneof.is_some(), "an update without content");
        }
        let plain = GeyserGrpcClient::build_from_shared(format!("http://{grpc}"))?.connect().await;
        let refused = match plain {
            Ok(mut client) => client.get_slot(None).await.is_err(),
            Err(_) => true,
        };
        ensure!(refused, "a client without TLS was served");
        Ok(())
    })?;
    let other_files = TempDir::new()?;
    let other = Certificate::write(other_files.path())?;
    ensure!(is_served(&runtime, grpc, &other).is_err(), "it trusts only another certificate");

    let before = count_refused(&certificate, &node, "tls")?;
    let mut plain = connect(grpc)?;
    plain.write_all(PREFACE)?;
    let received = read_to_end(&mut plain);
    ensure!(String::from_utf8_lossy(&received).contains("use https://"), "{received:x?}");
    // A record that is not a handshake, bytes that are not a record, and a client that disconnects.
    for garbage in [&[0x16, 3, 1, 0, 4, 0xff, 0xff, 0xff, 0xff][..], b"\0\0\0\0"] {
        let mut socket = connect(grpc)?;
        socket.write_all(garbage)?;
        ensure!(read_to_end(&mut socket).len() < 100, "an alert is short");
    }
    drop(connect(grpc)?);
    wait_until("the refused connections", WAIT_TIMEOUT, || {
        Ok((count_refused(&certificate, &node, "tls")? >= before + 4).then_some(()))
    })?;
    is_served(&runtime, grpc, &certificate)
}

#[test]
fn clients_that_stall_in_the_handshake_are_closed_and_delay_no_other() -> Result<()> {
    let files = TempDir::new()?;
    let certificate = Certificate::write(files.path())?;
    let config = files.path().join("node.toml");
    fs::write(&config, "[grpc]\nconnections_max = 300\n")?;
    let (node, grpc) = start(&certificate, &["--config", &config.to_string_lossy()])?;
    let runtime = Runtime::new()?;
    let stalled = (0..200).map(|nth| {
        let mut socket = connect(grpc)?;
        // In the handshake, or before it.
        if nth % 2 == 0 {
            socket.write_all(&[0x16, 3, 1])?;
        }
        anyhow::Ok(socket)
    });
    let stalled = stalled.collect::<Result<Vec<_>>>()?;
    is_served(&runtime, grpc, &certificate)?;
    for mut socket in stalled {
        ensure!(read_to_end(&mut socket).len() < 100, "nothing but an alert");
    }
    wait_until("the late connections", WAIT_TIMEOUT, || {
        Ok((count_refused(&certificate, &node, "handshake")? == 200).then_some(()))
    })?;
    // Many handshakes that succeed.
    let handshakes = (0..100).map(|_| client(grpc, &certificate));
    let clients = runtime.block_on(futures_util::future::join_all(handshakes));
    ensure!(clients.iter().all(Result::is_ok), "{:?}", clients.into_iter().find_map(Result::err));
    Ok(())
}

#[test]
fn a_new_certificate_is_that_of_grpc_too() -> Result<()> {
    let files = TempDir::new()?;
    let first = Certificate::write(files.path())?;
    let (_node, grpc) = start(&first, &[])?;
    let runtime = Runtime::new()?;
    let mut stream = runtime.block_on(client(grpc, &first))?;
    // The file of the first one is replaced, so its client exists already.
    let second = Certificate::write(files.path())?;
    wait_until(
        "the new certificate",
        WAIT_TIMEOUT,
        || Ok(is_served(&runtime, grpc, &second).ok()),
    )?;
    let slot = runtime.block_on(stream.get_slot(None))?;
    ensure!(slot.slot < u64::MAX, "a connection from before continues");
    Ok(())
}
