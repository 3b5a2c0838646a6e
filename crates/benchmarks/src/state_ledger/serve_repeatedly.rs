//! The ledger behind the real server, once for each line of standard input ([`Settings`]). The next line ends the
//! server; the end of input ends the process.
//!
//! Shape: three listeners on the same threads: the server with the settings; the same without its response cache, so
//! that both can be measured in the same round; and a constant response from the same HTTP stack, of as many bytes as
//! the path says.

use std::convert::Infallible;
use std::io::{BufRead, stdin};
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use chain_solana::Reader;
use http_body_util::Full;
use http_server::Listeners;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use rest::Rest;
use rest_solana::SolanaRest;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::protocol::{Serving, Settings};
use crate::serve;

/// The largest constant response, in bytes.
const CONSTANT_BYTES_MAX: usize = 4_000_000;

pub(crate) fn run(reader: &Reader) -> Result<()> {
    let mut lines = stdin().lock().lines();
    println!("ready");
    while let Some(line) = lines.next() {
        let line = line?;
        let settings =
            serde_json::from_str(&line).with_context(|| format!("{line}: no settings"))?;
        serve_once(reader, &settings, || lines.next().transpose().map(drop))?;
        println!("ended");
    }
    Ok(())
}

fn serve_once(
    reader: &Reader,
    settings: &Settings,
    wait: impl FnOnce() -> std::io::Result<()>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(settings.io_threads)
        .enable_all()
        .build()?;
    let [listener, uncached, constant] = runtime.block_on(async {
        let bind = || TcpListener::bind(("127.0.0.1", 0));
        Ok::<_, std::io::Error>([bind().await?, bind().await?, bind().await?])
    })?;
    let serving = Serving {
        rpc: listener.local_addr()?,
        uncached: uncached.local_addr()?,
        constant: constant.local_addr()?,
    };
    let (stop, stopped) = watch::channel(false);
    let mut servers = Vec::new();
    for (listener, cache_bytes) in [(listener, settings.cache_bytes), (uncached, 0)] {
        let node = Arc::new(serve::node_with(reader, &Settings { cache_bytes, ..*settings })?);
        let listeners = Listeners { rpc: listener, pubsub: None };
        let speaker = Arc::new(serve::NoPubSub);
        let web = Arc::new(Rest::new(SolanaRest::default()))
            as Arc<dyn jsonrpc::HttpApi<rpc_solana::SolanaApi>>;
        let mut stopped = stopped.clone();
        servers.push(runtime.spawn(jsonrpc::serve(
            node,
            speaker,
            Some(web),
            listeners,
            async move {
                // An error means that the other end has closed the connection.
                let _ = stopped.wait_for(|stopped| *stopped).await;
            },
        )));
    }
    let constant = runtime.spawn(serve_constant(constant));
    println!("serving {}", serde_json::to_string(&serving)?);
    let waited = wait();
    constant.abort();
    // Both may have ended already.
    let _ = stop.send(true);
    for server in servers {
        runtime.block_on(server)?;
    }
    waited.context("wait for the next line")
}

async fn serve_constant(listener: TcpListener) {
    let body = Bytes::from(vec![b'x'; CONSTANT_BYTES_MAX]);
    while let Ok((socket, _)) = listener.accept().await {
        // It only fails on a socket that is closed already.
        let _ = socket.set_nodelay(true);
        let body = body.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let bytes = request.uri().path()[1..].parse().unwrap_or(0).min(CONSTANT_BYTES_MAX);
            let mut response = Response::new(Full::new(body.slice(..bytes)));
            let json = HeaderValue::from_static("application/json; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, json);
            drop(request);
            std::future::ready(Ok::<_, Infallible>(response))
        });
        // An error ends only its own connection.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
    }
}
