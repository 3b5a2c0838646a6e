//! A plain WebSocket broadcast: the same bytes to every connection at an interval, without any other work.
//! `subs bare BYTES INTERVAL_MS --endpoints-file FILE`, run by `hot` as a process of its own.

use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use crate::arguments::value_of;

pub(super) fn run(args: &[String]) -> Result<()> {
    let number =
        |at: usize| args.get(at).context("bare BYTES INTERVAL_MS")?.parse().context("a number");
    let (bytes, interval_ms): (u64, u64) = (number(1)?, number(2)?);
    let endpoints = value_of(args, "--endpoints-file")?.context("--endpoints-file")?;
    // As many threads as a node's IO threads.
    let threads = (std::thread::available_parallelism().map_or(1, usize::from) / 2).max(1);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let addresses =
            json!({ "rpc": format!("http://{address}"), "ws": format!("ws://{address}") });
        std::fs::write(endpoints, addresses.to_string())?;
        let (sender, _) = broadcast::channel::<Utf8Bytes>(64);
        let messages = sender.clone();
        tokio::spawn(async move {
            let mut due = tokio::time::interval(Duration::from_millis(interval_ms));
            let text = Utf8Bytes::from("x".repeat(bytes as usize));
            loop {
                due.tick().await;
                // There may be no connection yet.
                let _ = messages.send(text.clone());
            }
        });
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            let mut texts = sender.subscribe();
            tokio::spawn(async move {
                let Ok(mut socket) = tokio_tungstenite::accept_async(socket).await else { return };
                loop {
                    let sent = tokio::select! {
                        text = texts.recv() => match text {
                            Ok(text) => socket.send(Message::Text(text)).await,
                            Err(_) => return,
                        },
                        message = socket.next() => match message {
                            Some(Ok(_)) => Ok(()),
                            _ => return,
                        },
                    };
                    if sent.is_err() {
                        return;
                    }
                }
            });
        }
    })
}
