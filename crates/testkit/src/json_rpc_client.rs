//! A JSON-RPC client of a node, for one call at a time: before and after a measurement.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_client::HttpResponse;
use serde_json::{Value, json};
use solana_hash::Hash;

use crate::clock::{now, sleep_for};

/// Time limit of the execution of a transaction, including all transactions before it.
const EXECUTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval at which the statuses are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A client with one connection.
pub struct JsonRpcClient(http_client::Client);

impl JsonRpcClient {
    /// Connects to a node.
    pub fn open(address: SocketAddr) -> Result<Self> {
        Ok(Self(http_client::Client::open(address)?))
    }

    /// Calls a method and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        Ok(self.0.call(method, &params)?)
    }

    /// Sends any request.
    pub fn exchange(&mut self, request: &[u8]) -> Result<HttpResponse<'_>> {
        Ok(self.0.exchange(request)?)
    }

    /// The newest blockhash.
    pub fn latest_blockhash(&mut self) -> Result<Hash> {
        let result = self.call("getLatestBlockhash", json!([{ "commitment": "processed" }]))?;
        let hash = result["value"]["blockhash"].as_str().context("no blockhash")?;
        Ok(hash.parse()?)
    }

    /// Waits until up to 256 transactions have been executed. Errors: one of them failed.
    pub fn wait_for(&mut self, signatures: &[String]) -> Result<()> {
        let started = now();
        loop {
            let result = self.call("getSignatureStatuses", json!([signatures]))?;
            let statuses = result["value"].as_array().context("no statuses")?;
            for (status, signature) in statuses.iter().zip(signatures) {
                ensure!(status.is_null() || status["err"].is_null(), "{signature}: {status}");
            }
            if statuses.iter().all(|status| !status.is_null()) {
                return Ok(());
            }
            ensure!(
                started.elapsed() < EXECUTION_TIMEOUT,
                "not executed within {EXECUTION_TIMEOUT:?}"
            );
            sleep_for(POLL_INTERVAL);
        }
    }
}
