//! A client that blocks, with one connection: one request at a time.

use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;

use crate::connection::{Connection, HttpResponse};
use crate::{Endpoint, HttpClientError};

/// How long a response may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);

/// A client with one connection. It reconnects after an error, and after the server has closed it.
pub struct Client {
    endpoint: Endpoint,
    runtime: Runtime,
    connection: Connection,
    body_bytes_max: usize,
}

impl Client {
    /// Connects.
    pub fn open(endpoint: impl Into<Endpoint>) -> Result<Self, HttpClientError> {
        Self::open_with_body_limit(endpoint, usize::MAX)
    }

    /// Connects. A call whose response has more than `body_bytes_max` bytes is an error.
    pub fn open_with_body_limit(
        endpoint: impl Into<Endpoint>,
        body_bytes_max: usize,
    ) -> Result<Self, HttpClientError> {
        let endpoint = endpoint.into();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(HttpClientError::Runtime)?;
        let connection = Connection::open_with_body_limit(endpoint.clone(), body_bytes_max);
        let connection = runtime.block_on(connection)?;
        Ok(Self { endpoint, runtime, connection, body_bytes_max })
    }

    /// The server.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Calls a method and returns its result.
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value, HttpClientError> {
        let request = self.endpoint.call(method, params);
        let body_bytes_max = self.body_bytes_max;
        let HttpResponse { status, body, body_bytes, .. } = self.exchange(&request)?;
        let call_error = |error: String| HttpClientError::Call { method: method.to_owned(), error };
        if body_bytes > body.len() as u64 {
            let error =
                format!("HTTP {status}: {body_bytes} bytes, the maximum is {body_bytes_max}");
            return Err(call_error(error));
        }
        let mut response: Value = serde_json::from_slice(body)
            .map_err(|_| call_error(format!("HTTP {status}: {}", String::from_utf8_lossy(body))))?;
        match response.get("error") {
            Some(error) => Err(call_error(error.to_string())),
            None => Ok(response["result"].take()),
        }
    }

    /// Sends any request.
    pub fn exchange(&mut self, request: &[u8]) -> Result<HttpResponse<'_>, HttpClientError> {
        self.reconnect()?;
        let Self { runtime, connection, .. } = self;
        runtime.block_on(with_timeout(connection.exchange(request)))
    }

    /// Sends any request over a connection of its own, which is then closed. Returns the status and
    /// at least `bytes` bytes of the body, or all of it if it is shorter.
    pub fn exchange_prefix(
        &self,
        request: &[u8],
        bytes: u64,
    ) -> Result<(u16, Vec<u8>), HttpClientError> {
        self.runtime.block_on(async {
            let mut connection = Connection::open(self.endpoint.clone()).await?;
            let response = with_timeout(connection.exchange_prefix(request, bytes)).await?;
            Ok((response.status, response.body.to_vec()))
        })
    }

    /// Connects again if the connection is no longer usable.
    fn reconnect(&mut self) -> Result<(), HttpClientError> {
        if !self.connection.is_usable() {
            let connection =
                Connection::open_with_body_limit(self.endpoint.clone(), self.body_bytes_max);
            self.connection = self.runtime.block_on(connection)?;
        }
        Ok(())
    }
}

async fn with_timeout<T>(
    response: impl Future<Output = Result<T, HttpClientError>>,
) -> Result<T, HttpClientError> {
    tokio::time::timeout(RESPONSE_TIMEOUT, response)
        .await
        .unwrap_or_else(|_| Err(HttpClientError::Broken(std::io::ErrorKind::TimedOut.into())))
}
