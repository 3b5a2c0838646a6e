//! The ledger behind the real server, again and again, each time as a line of standard input says:
//! `IO_THREADS CPU_THREADS SLICE_US`. The next line ends it; the end of input ends all.
//!
//! Beside it, in the same process and from the same HTTP stack, a constant answer of 1 MB.

use std::convert::Infallible;
use std::io::{BufRead, stdin};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use chain::Reader;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use rpc::Listeners;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::served;

/// Bytes of the constant answer.
const CONSTANT_BYTES: usize = 1_000_000;

/// Where the server's threads are.
struct Settings {
    io_threads: usize,
    cpu_threads: usize,
    slice_us: u64,
}

pub(crate) fn run(reader: &Reader) -> Result<()> {
    let mut lines = stdin().lock().lines();
    println!("ready");
    while let Some(line) = lines.next() {
        let settings = Settings::parse(&line?)?;
        serve(reader, &settings, || lines.next().transpose().map(drop))?;
        println!("ended");
    }
    Ok(())
}

impl Settings {
    fn parse(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [io_threads, cpu_threads, slice_us] = words[..] else {
            bail!("{line}: not IO_THREADS CPU_THREADS SLICE_US")
        };
        let (io_threads, cpu_threads) = (io_threads.parse()?, cpu_threads.parse()?);
        ensure!(io_threads > 0 && cpu_threads > 0, "{line}: at least one thread of each");
        Ok(Self { io_threads, cpu_threads, slice_us: slice_us.parse()? })
    }
}

fn serve(
    reader: &Reader,
    settings: &Settings,
    wait: impl FnOnce() -> std::io::Result<()>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(settings.io_threads)
        .enable_all()
        .build()?;
    let (listener, constant) = runtime.block_on(async {
        let bind = || TcpListener::bind(("127.0.0.1", 0));
        Ok::<_, std::io::Error>((bind().await?, bind().await?))
    })?;
    println!("serving {} {}", listener.local_addr()?, constant.local_addr()?);
    let node = Arc::new(served::node_with(reader, settings.cpu_threads, settings.slice_us)?);
    let (stop, stopped) = oneshot::channel::<()>();
    let listeners = Listeners { rpc: listener, pubsub: None };
    let server = runtime.spawn(rpc::serve(node, Arc::new(served::Mute), listeners, async {
        // An error is the other end's, which is just as over.
        let _ = stopped.await;
    }));
    let constant = runtime.spawn(serve_constant(constant));
    let waited = wait();
    constant.abort();
    drop(stop);
    runtime.block_on(server)?;
    waited.context("wait for the next line")
}

async fn serve_constant(listener: TcpListener) {
    let body = Bytes::from(vec![b'x'; CONSTANT_BYTES]);
    while let Ok((socket, _)) = listener.accept().await {
        // It only fails on a socket that is closed already.
        let _ = socket.set_nodelay(true);
        let body = body.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let mut response = Response::new(Full::new(body.clone()));
            let json = HeaderValue::from_static("application/json; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, json);
            drop(request);
            std::future::ready(Ok::<_, Infallible>(response))
        });
        // An error ends its connection, which is all that it concerns.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
    }
}
