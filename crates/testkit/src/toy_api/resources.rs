//! One method as a resource: `GET /v1/counters/{name}`.

use std::pin::Pin;
use std::sync::Arc;

use http_server::{ResponseBody, text_response};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use jsonrpc::{HttpApi, HttpApiRequest, ResponseOptions, Server};

use super::ToyApi;

/// Paths of counters.
const PREFIX: &str = "/v1/counters/";

/// Header with the height at which a value is true.
const HEIGHT: HeaderName = HeaderName::from_static("toy-height");

/// The toy ledger's REST API.
pub struct ToyResources;

impl HttpApi<ToyApi> for ToyResources {
    fn owns_path(&self, path: &str) -> bool {
        path.starts_with(PREFIX)
    }

    fn handle<'a>(
        &'a self,
        server: &'a Arc<Server<ToyApi>>,
        request: HttpApiRequest,
    ) -> Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send + 'a>> {
        Box::pin(async move {
            let client = request.method_client;
            if let Err(err) = client.admit(&server.context) {
                return text_response(StatusCode::TOO_MANY_REQUESTS, err.message);
            }
            let name = request.head.uri.path().trim_start_matches(PREFIX);
            let params = serde_json::json!([name]).to_string();
            let options = ResponseOptions { etag_buffer_bytes_max: 1024, ..Default::default() };
            match client.call(server, "counterGet", &params, options).await {
                Err(err) => text_response(StatusCode::BAD_REQUEST, err.message),
                Ok(found) if found.meta.prefix == b"null" => {
                    text_response(StatusCode::NOT_FOUND, "no such counter")
                }
                Ok(found) => {
                    let mut response = Response::new(found.body);
                    let headers = response.headers_mut();
                    let json = HeaderValue::from_static("application/json");
                    headers.insert(header::CONTENT_TYPE, json);
                    if let Some(height) = found.meta.slot {
                        headers.insert(HEIGHT, height.into());
                    }
                    response
                }
            }
        })
    }

    fn refuse(&self, status: StatusCode, message: &str) -> Response<ResponseBody> {
        text_response(status, message.to_owned())
    }
}
