//! A JSON-RPC client for calls before and after a load: one call at a time.

use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;

use crate::http::Connection;
use crate::{Endpoint, LoadError};

/// How long a response may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);

/// A client with one connection. It reconnects after an error.
pub struct Client {
    endpoint: Endpoint,
    runtime: Runtime,
    connection: Option<Connection>,
}

impl Client {
    /// Connects.
    pub fn open(endpoint: impl Into<Endpoint>) -> Result<Self, LoadError> {
        let endpoint = endpoint.into();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|err| LoadError::Thread(err.to_string()))?;
        let connection = Some(runtime.block_on(Connection::open(endpoint.clone()))?);
        Ok(Self { endpoint, runtime, connection })
    }

    /// The server.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Calls a method and returns its result.
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value, LoadError> {
        let request = self.endpoint.call(method, params);
        let (status, response) = self.exchange(&request)?;
        let call_error = |error: String| LoadError::Call { method: method.to_owned(), error };
        let mut response: Value = serde_json::from_slice(&response).map_err(|_| {
            call_error(format!("HTTP {status}: {}", String::from_utf8_lossy(&response)))
        })?;
        match response.get("error") {
            Some(error) => Err(call_error(error.to_string())),
            None => Ok(response["result"].take()),
        }
    }

    /// Sends any request. Returns the status and the body of the response.
    pub fn exchange(&mut self, request: &[u8]) -> Result<(u16, Vec<u8>), LoadError> {
        let (status, body, _) = self.exchange_with_etag(request)?;
        Ok((status, body))
    }

    /// Sends any request. Returns the status and at least `bytes` bytes of the body, or all of it
    /// if it is shorter. Then closes the connection.
    pub(crate) fn exchange_prefix(
        &mut self,
        request: &[u8],
        bytes: usize,
    ) -> Result<(u16, Vec<u8>), LoadError> {
        let Self { endpoint, runtime, .. } = self;
        runtime.block_on(async {
            let mut open = Connection::open(endpoint.clone()).await?;
            let beginning = open.exchange_prefix(request, bytes as u64);
            let (status, _) = tokio::time::timeout(RESPONSE_TIMEOUT, beginning)
                .await
                .unwrap_or_else(|_| Err(LoadError::Broken(std::io::ErrorKind::TimedOut.into())))?;
            Ok((status, open.body_prefix().to_vec()))
        })
    }

    /// Sends any request. Returns the status, the body and the `ETag` of the response.
    pub(crate) fn exchange_with_etag(
        &mut self,
        request: &[u8],
    ) -> Result<(u16, Vec<u8>, Option<String>), LoadError> {
        let Self { endpoint, runtime, connection } = self;
        let mut open = match connection.take() {
            Some(open) => open,
            None => runtime.block_on(Connection::open(endpoint.clone()))?,
        };
        let result = runtime.block_on(async {
            let timeout = tokio::time::timeout(RESPONSE_TIMEOUT, open.exchange(request)).await;
            let response = timeout
                .unwrap_or_else(|_| Err(LoadError::Broken(std::io::ErrorKind::TimedOut.into())))?;
            let (status, body) = (response.status, response.body.to_vec());
            Ok((status, body, open.header("etag").map(str::to_owned)))
        });
        if result.is_ok() && !open.closes() {
            *connection = Some(open);
        }
        result
    }
}
