//! A server of constant responses over the HTTP stack of the node: the ceiling that responses are compared with.
//!
//! Input: requests with any method and body. The first segment of the path is the number of bytes of the response.
//! Output: 200 with that many bytes, without any header that the node computes.

use std::convert::Infallible;
use std::io::stdin;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// The largest body of a request that is not read. hyper reads the rest of such a body with the head, and drops it.
const UNREAD_BYTES_MAX: u64 = 4_096;

/// The largest constant response, in bytes.
const BYTES_MAX: usize = 4_000_000;

/// Serves on a free port, which it prints, until a line comes on standard input or its end.
pub(crate) fn run(io_threads: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(io_threads.max(1))
        .enable_all()
        .build()?;
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    println!("serving {}", listener.local_addr()?);
    runtime.spawn(serve(listener));
    stdin().read_line(&mut String::new())?;
    Ok(())
}

/// Serves every connection of a listener.
pub(crate) async fn serve(listener: TcpListener) {
    let body = Bytes::from(vec![b'x'; BYTES_MAX]);
    while let Ok((socket, _)) = listener.accept().await {
        // It only fails on a socket that is closed already.
        let _ = socket.set_nodelay(true);
        let body = body.clone();
        let service = service_fn(move |request| respond(request, body.clone()));
        // An error ends only its own connection.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
    }
}

async fn respond(
    request: Request<Incoming>,
    body: Bytes,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let first = request.uri().path().split('/').nth(1);
    let bytes = first.and_then(|first| first.parse().ok()).unwrap_or(0).min(BYTES_MAX);
    // A long body that is not read would close the connection. A broken one ends it in any case.
    if request.body().size_hint().lower() > UNREAD_BYTES_MAX {
        let _ = request.into_body().collect().await;
    }
    let mut response = Response::new(Full::new(body.slice(..bytes)));
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}
