//! The ledger behind the real server, once for each line of standard input ([`Settings`]). The next line ends the
//! server; the end of input ends the process.
//!
//! Shape: three listeners on the same threads: the server with the settings; the same without its response cache, so
//! that both can be measured in the same round; and a constant response (`constant`).

use std::io::{BufRead, stdin};
use std::sync::Arc;

use anyhow::{Context, Result};
use chain_solana::Reader;
use http_server::Listeners;
use rest::Rest;
use rest_solana::SolanaRest;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::protocol::{Serving, Settings};
use crate::{constant, serve};

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
        // Without stored responses: each one is computed, or comes from the response cache. `ladder` measures the others.
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
    let constant = runtime.spawn(constant::serve(constant));
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
