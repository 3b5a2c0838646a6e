//! `/health` and `/ready` of every port of a node: whether it follows its chain, the newest proven block, and the reason
//! why nothing newer is proven.
//!
//! Both are 503 with the reason while nothing newer is proven: no source is connected, the sink of the source is not
//! reached yet, or a block was refused. Headers name the newest proven chain block and the state of the virtual UTXO set.
//! Not here: when the node is healthy, which the node sets in [`jsonrpc::Health`].

use std::sync::Arc;

use chain_kaspa::{ChainReader, ChainStatus};
use http_server::{NO_STORE, ResponseBody, text_response};
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use jsonrpc::{HttpApi, HttpApiRequest, HttpApiResponse, Server, ServerContext, Status};

use crate::api::KaspaApi;
use crate::proof_headers::write_proof_headers;

/// A page of the state of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusPage {
    Health,
    Ready,
}

impl StatusPage {
    /// Returns the page of the state that has this path.
    pub(crate) fn from_path(path: &str) -> Option<Self> {
        match path {
            "/health" => Some(Self::Health),
            "/ready" => Some(Self::Ready),
            _ => None,
        }
    }

    /// Returns the page that a request reads.
    pub(crate) fn from_request(method: &Method, path: &str) -> Option<Self> {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        Self::from_path(path).filter(|_| is_read)
    }

    /// Returns the page for a chain.
    pub(crate) fn respond(
        self,
        context: &ServerContext,
        chain: &ChainReader,
    ) -> Response<ResponseBody> {
        let status = chain.status();
        let mut response = match missing_proof(context, &status) {
            _ if context.is_draining() => draining(),
            Some(missing) => {
                let sink = status.sink;
                let text = format!(
                    "{missing}; proven up to block {}, DAA score {}\n",
                    sink.hash, sink.daa_score
                );
                text_response(StatusCode::SERVICE_UNAVAILABLE, text)
            }
            None => text_response(StatusCode::OK, self.success_text()),
        };
        let headers = response.headers_mut();
        write_proof_headers(&status, headers);
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        response
    }

    fn success_text(self) -> &'static str {
        match self {
            Self::Health => "ok\n",
            Self::Ready => "ready\n",
        }
    }
}

/// Returns why nothing newer than the newest proven block is served.
fn missing_proof(context: &ServerContext, chain: &ChainStatus) -> Option<String> {
    if let Some(refused) = &chain.refused {
        return Some(format!("block {} is refused: {}", refused.hash, refused.reason));
    }
    match context.health.status() {
        Status::Ok => None,
        Status::Behind { slots } => Some(format!("behind by {slots} blocks")),
        Status::Unknown => {
            let reason = context.health.reason();
            Some(reason.unwrap_or_else(|| "the chain is not followed yet".to_owned()))
        }
    }
}

/// Returns the page of a node that ends. The connection is closed, so that it does not delay the end.
fn draining() -> Response<ResponseBody> {
    let mut response = text_response(StatusCode::SERVICE_UNAVAILABLE, "draining\n");
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The pages on the port of [`KaspaApi`], before another interface of that port.
pub struct StatusPages {
    other: Arc<dyn HttpApi<KaspaApi>>,
}

impl StatusPages {
    /// Serves the pages, and the requests for `other`.
    pub fn new(other: Arc<dyn HttpApi<KaspaApi>>) -> Self {
        Self { other }
    }
}

impl HttpApi<KaspaApi> for StatusPages {
    fn owns_path(&self, path: &str) -> bool {
        self.other.owns_path(path)
    }

    fn owns_request(&self, head: &Parts) -> bool {
        StatusPage::from_request(&head.method, head.uri.path()).is_some()
            || self.other.owns_request(head)
    }

    fn handle<'a>(
        &'a self,
        server: &'a Arc<Server<KaspaApi>>,
        request: HttpApiRequest,
    ) -> HttpApiResponse<'a> {
        let page = StatusPage::from_request(&request.head.method, request.head.uri.path());
        match page {
            Some(page) => HttpApiResponse::Ready(page.respond(&server.context, server.api.chain())),
            None => self.other.handle(server, request),
        }
    }

    fn refuse(&self, status: StatusCode, message: &str) -> Response<ResponseBody> {
        self.other.refuse(status, message)
    }
}
