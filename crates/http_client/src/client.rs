//! A client that blocks, with one connection: one request at a time.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::Runtime;

use crate::connection::{Connection, HttpResponse};
use crate::shorten::shorten_middle;
use crate::{Endpoint, HttpClientError};

/// How long a response may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);

/// Bytes of a response in an error: an error of JSON-RPC with the logs of a simulation.
const ERROR_BYTES_MAX: usize = 4 << 10;

/// A response of JSON-RPC.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned + Default")]
struct Response<T> {
    #[serde(default)]
    result: T,
    error: Option<Box<RawValue>>,
}

/// A client with one connection. It reconnects after an error, and after the server has closed it.
pub struct Client {
    endpoint: Endpoint,
    runtime: Runtime,
    connection: Connection,
    body_bytes_max: usize,
}

impl Client {
    /// Connects to a server that is trusted to send responses of any length.
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
        self.call_as(method, params)
    }

    /// Calls a method and deserializes its result.
    pub fn call_as<T: DeserializeOwned + Default>(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<T, HttpClientError> {
        let request = self.endpoint.call(method, params);
        self.reconnect()?;
        let Self { runtime, connection, .. } = self;
        let response = runtime.block_on(with_timeout(connection.exchange_bounded(&request)))?;
        let call_error = |error: &str| {
            let error = shorten_middle(error, ERROR_BYTES_MAX);
            HttpClientError::Call { method: method.to_owned(), error }
        };
        let Ok(parsed) = serde_json::from_slice::<Response<T>>(response.body) else {
            let status = response.status;
            let body = &response.body[..response.body.len().min(ERROR_BYTES_MAX)];
            return Err(call_error(&format!("HTTP {status}: {}", String::from_utf8_lossy(body))));
        };
        match parsed.error {
            Some(error) => Err(call_error(error.get())),
            None => Ok(parsed.result),
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
    tokio::time::timeout(RESPONSE_TIMEOUT, response).await.unwrap_or_else(|_| {
        let why = format!("no response within {RESPONSE_TIMEOUT:?}");
        Err(HttpClientError::Broken(std::io::Error::new(std::io::ErrorKind::TimedOut, why)))
    })
}
