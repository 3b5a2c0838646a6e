//! The page and its files on the port of JSON-RPC, before the paths of another API.

use std::sync::Arc;

use http_server::{ResponseBody, text_response};
use hyper::header;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use jsonrpc::error::RpcError;
use jsonrpc::{HttpApi, HttpApiRequest, HttpApiResponse};
use rest::StaticResponse;
use rpc_solana::{SolanaApi, SolanaServer};

use crate::assets::{self, Assets};
use crate::content_negotiation::accepts_html;
use crate::page::{LedgerKind, NodeState, Page};
use crate::security_headers;

const HTML: &str = "text/html; charset=utf-8";

/// Serves the console, and all other requests of another API.
pub struct WithConsole {
    page: Page,
    assets: Assets,
    other: Arc<dyn HttpApi<SolanaApi>>,
}

impl WithConsole {
    /// Creates the console of a ledger of this kind, and the requests of `other`.
    pub fn new(kind: LedgerKind, other: Arc<dyn HttpApi<SolanaApi>>) -> Self {
        let assets = Assets::new();
        Self { page: Page::new(kind, &assets), assets, other }
    }

    fn respond(&self, server: &SolanaServer, request: &HttpApiRequest) -> Response<ResponseBody> {
        if let Err(err) = request.method_client.admit(&server.context) {
            return too_many(err);
        }
        let path = request.head.uri.path();
        let headers = &request.head.headers;
        let found = if path == "/" {
            let page = self.page.render(&NodeState::read(server));
            Some(StaticResponse::plain(HTML, page.into_bytes()).respond(headers))
        } else {
            self.assets.respond(path, headers)
        };
        let mut response = found.unwrap_or_else(|| {
            let text = "The console has no such file. Load / again\n";
            text_response(StatusCode::NOT_FOUND, text)
        });
        if request.head.method != Method::HEAD {
            request.method_client.charge(&server.context, response.body().immediate_bytes());
        }
        security_headers::write(response.headers_mut());
        response
    }
}

/// Returns the refusal of a client that reached its rate limit, with the seconds that it has to wait.
fn too_many(err: RpcError) -> Response<ResponseBody> {
    let wait_ms = err.data.as_ref().and_then(|data| data["retryAfterMs"].as_u64());
    let seconds = wait_ms.unwrap_or_default() / 1_000 + 1;
    let mut refusal = text_response(StatusCode::TOO_MANY_REQUESTS, err.message + "\n");
    refusal.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    refusal
}

/// Returns whether a request is for the console: it reads, and it is for a file or comes from a browser that loads a
/// page.
fn is_for_console(head: &Parts) -> bool {
    let path = head.uri.path();
    matches!(head.method, Method::GET | Method::HEAD)
        && (path.starts_with(assets::PREFIX) || (path == "/" && accepts_html(&head.headers)))
}

impl HttpApi<SolanaApi> for WithConsole {
    fn owns_path(&self, path: &str) -> bool {
        self.other.owns_path(path)
    }

    fn owns_request(&self, head: &Parts) -> bool {
        is_for_console(head) || self.other.owns_request(head)
    }

    fn handle<'a>(
        &'a self,
        server: &'a Arc<SolanaServer>,
        request: HttpApiRequest,
    ) -> HttpApiResponse<'a> {
        if is_for_console(&request.head) {
            return HttpApiResponse::Ready(self.respond(server, &request));
        }
        self.other.handle(server, request)
    }

    fn refuse(&self, status: StatusCode, message: &str) -> Response<ResponseBody> {
        self.other.refuse(status, message)
    }
}
