//! The HTTP client of S3: hyper over TCP, with TLS if the endpoint has https. `object_store` brings reqwest and aws-lc
//! for this, which need more than a C compiler.
//!
//! Bounds: [`IDLE_MAX`] idle connections; a connection has [`CONNECT_TIMEOUT`] to open. The caller limits a request.
//! Not here: redirects, HTTP/2, proxies, retries.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::header::{HOST, HeaderValue};
use http::uri::{Authority, Scheme};
use http::{Request, Uri};
use http_body_util::BodyExt;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Maximum number of idle connections.
const IDLE_MAX: usize = 32;

/// Time limit of the TCP and TLS handshakes together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates clients over hyper.
pub(crate) struct HyperConnector {
    /// The configuration, or why there is none. An endpoint without https needs none.
    pub(crate) tls: Result<Arc<ClientConfig>, String>,
}

/// A client over hyper.
struct HyperService {
    tls: Result<Arc<ClientConfig>, String>,
    idle: Mutex<Vec<IdleConnection>>,
}

/// A connection whose last response may not be read to its end yet.
struct IdleConnection {
    scheme: Scheme,
    authority: Authority,
    requests: SendRequest<HttpRequestBody>,
}

impl HttpConnector for HyperConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let idle = Mutex::default();
        Ok(HttpClient::new(HyperService { tls: self.tls.clone(), idle }))
    }
}

#[async_trait]
impl HttpService for HyperService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut parts, body) = request.into_parts();
        let uri = std::mem::take(&mut parts.uri);
        let invalid = || error(HttpErrorKind::Unknown, "the URL has no scheme or host");
        let scheme = uri.scheme().cloned().ok_or_else(invalid)?;
        let authority = uri.authority().cloned().ok_or_else(invalid)?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri =
            Uri::try_from(path).map_err(|err| HttpError::new(HttpErrorKind::Unknown, err))?;
        if !parts.headers.contains_key(HOST) {
            let host = HeaderValue::from_str(authority.as_str());
            let host = host.map_err(|err| HttpError::new(HttpErrorKind::Unknown, err))?;
            parts.headers.insert(HOST, host);
        }
        let mut requests = match self.take_idle(&scheme, &authority) {
            Some(requests) => requests,
            None => self.connect(&scheme, &authority).await?,
        };
        let sent = requests.send_request(Request::from_parts(parts, body)).await;
        let (parts, body) = sent.map_err(http_error)?.into_parts();
        self.add_idle(IdleConnection { scheme, authority, requests });
        let body = HttpResponseBody::new(body.map_err(http_error));
        Ok(HttpResponse::from_parts(parts, body))
    }
}

impl HyperService {
    /// Takes a connection whose last response was read to its end.
    fn take_idle(
        &self,
        scheme: &Scheme,
        authority: &Authority,
    ) -> Option<SendRequest<HttpRequestBody>> {
        let mut idle = self.idle.lock();
        idle.retain(|it| !it.requests.is_closed());
        let is_usable = |it: &IdleConnection| {
            it.scheme == *scheme && it.authority == *authority && it.requests.is_ready()
        };
        let at = idle.iter().position(is_usable)?;
        Some(idle.swap_remove(at).requests)
    }

    fn add_idle(&self, connection: IdleConnection) {
        let mut idle = self.idle.lock();
        if idle.len() >= IDLE_MAX {
            idle.remove(0);
        }
        idle.push(connection);
    }

    async fn connect(
        &self,
        scheme: &Scheme,
        authority: &Authority,
    ) -> Result<SendRequest<HttpRequestBody>, HttpError> {
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, self.open(scheme, authority)).await;
        opened.unwrap_or_else(|_| {
            Err(error(HttpErrorKind::Connect, "the handshake took longer than 10 s"))
        })
    }

    async fn open(
        &self,
        scheme: &Scheme,
        authority: &Authority,
    ) -> Result<SendRequest<HttpRequestBody>, HttpError> {
        let connect_error = |err: std::io::Error| HttpError::new(HttpErrorKind::Connect, err);
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let is_tls = *scheme == Scheme::HTTPS;
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let socket = TcpStream::connect((host, port)).await.map_err(connect_error)?;
        socket.set_nodelay(true).map_err(connect_error)?;
        if !is_tls {
            return start(socket).await;
        }
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|err| HttpError::new(HttpErrorKind::Unknown, err))?;
        let config = self.tls.clone();
        let config = config.map_err(|why| connect_error(std::io::Error::other(why)))?;
        let tls = TlsConnector::from(config).connect(name, socket).await;
        start(tls.map_err(connect_error)?).await
    }
}

/// Starts HTTP/1.1 on a stream. A task drives the connection until it is closed or dropped from the idle ones.
async fn start(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<SendRequest<HttpRequestBody>, HttpError> {
    let (requests, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(http_error)?;
    tokio::spawn(async move {
        if let Err(err) = connection.await {
            // The request or body that it served has failed too.
            tracing::debug!(%err, "a connection to the object store ended");
        }
    });
    Ok(requests)
}

fn http_error(err: hyper::Error) -> HttpError {
    let kind = if err.is_timeout() { HttpErrorKind::Timeout } else { HttpErrorKind::Interrupted };
    HttpError::new(kind, err)
}

fn error(kind: HttpErrorKind, reason: &'static str) -> HttpError {
    HttpError::new(kind, std::io::Error::other(reason))
}

impl fmt::Debug for HyperConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HyperConnector")
    }
}

impl fmt::Debug for HyperService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HyperService")
    }
}
