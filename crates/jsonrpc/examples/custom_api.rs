//! Serves an API of your own: JSON-RPC over HTTP for a ledger that is not Solana's.
//!
//! `cargo run -p jsonrpc --example custom_api`. The ledger, its methods and its subscriptions are in `testkit::toy_api`:
//! a table of `jsonrpc::MethodSpec`, and implementations of `jsonrpc::Api` and `jsonrpc::pubsub::SubscriptionApi`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use http_server::Listeners;
use testkit::toy_api::{ToyApi, ToySubscriptions, pubsub_config};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let server = Arc::new(ToyApi::server()?);
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = runtime.spawn(jsonrpc::serve(
        Arc::clone(&server),
        ToySubscriptions::start(&server, pubsub_config()),
        // `rest::Rest` would serve the same methods over REST.
        None,
        Listeners { rpc: listener, pubsub: None },
        // A dropped sender means stop.
        async { drop(stopped.await) },
    ));

    let body = r#"{"jsonrpc":"2.0","id":1,"method":"counterAdd","params":["visits",3]}"#;
    let mut client = TcpStream::connect(address)?;
    write!(
        client,
        "POST / HTTP/1.1\r\nHost: example\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut response = String::new();
    client.read_to_string(&mut response)?;
    println!("{response}");
    assert!(response.ends_with("{\"jsonrpc\":\"2.0\",\"result\":3,\"id\":1}\n"));

    drop(stop);
    runtime.block_on(serving)?;
    Ok(())
}
