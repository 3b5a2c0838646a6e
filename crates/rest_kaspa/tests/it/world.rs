//! The REST interface of a chain in memory, without sockets.

use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::header::HeaderMap;
use hyper::{Request, StatusCode};
use jsonrpc::{
    Api, HttpApi, HttpApiRequest, HttpApiResponse, MethodClient, Metrics, Server, ServerContext,
};
use kaspa::Network;
use rest::Rest;
use rest_kaspa::KaspaRest;
use rpc_kaspa::KaspaApi;
use serde_json::Value;
use testkit::kaspa_chain::TestChain;
use testkit::toy_api::ToyApi;

/// A chain, and its REST interface.
pub(crate) struct World {
    pub(crate) chain: TestChain,
    pub(crate) server: Arc<Server<KaspaApi>>,
    rest: Rest<KaspaRest>,
}

/// A whole response.
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl World {
    pub(crate) fn new() -> Self {
        let chain = TestChain::new(Vec::new());
        let api = KaspaApi::new(chain.chain.reader(), Network::Simnet);
        // The settings do not depend on the ledger.
        let toy = ToyApi::server().expect("a thread");
        let metrics = Arc::new(Metrics::new(&KaspaApi::method_names()));
        let context = ServerContext { metrics, ..toy.context };
        let rest = Rest::new(KaspaRest::new());
        Self { chain, server: Arc::new(Server::new(api, context)), rest }
    }

    /// Whether REST serves a path.
    pub(crate) fn owns_path(&self, path: &str) -> bool {
        self.rest.owns_path(path)
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.send(Request::get(path), "").await
    }

    pub(crate) async fn get_with(&self, path: &str, name: &str, value: &str) -> Response {
        self.send(Request::get(path).header(name, value), "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Response {
        self.send(Request::post(path).header("content-type", "application/json"), body).await
    }

    async fn send(&self, request: hyper::http::request::Builder, body: &str) -> Response {
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let body = Ok(body.to_owned().into());
        let method_client = MethodClient::default();
        let request = HttpApiRequest { method_client, head, body };
        let response = match self.rest.handle(&self.server, request) {
            HttpApiResponse::Ready(response) => response,
            HttpApiResponse::Pending(pending) => pending.await,
        };
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes().to_vec();
        Response { status: head.status, headers: head.headers, body }
    }

    /// The JSON of a response with status 200.
    pub(crate) async fn get_json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        assert_eq!(response.status, StatusCode::OK, "{path}: {}", response.text());
        response.json()
    }
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("JSON: {}", self.text()))
    }
}
