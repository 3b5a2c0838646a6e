//! The signs by which a tool recognizes that the validator has started.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::json_rpc_client::JsonRpcClient;

use crate::launch_lines::preparation::Launch;
use crate::raw_http;

/// The block whose existence the tests of solana-py wait for.
const BLOCK: u64 = 5;

/// The event that the source of a line waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Health,
    Get,
    Version,
    Slot,
    Block,
    Blockhash,
    Surfnet,
    Airdrop,
    Tcp,
    Log,
    Stdout,
    Status,
}

/// A process that runs, or will soon.
pub(crate) struct Started<'a> {
    pub(crate) launch: &'a Launch,
    /// The file with the output of the process.
    pub(crate) log: &'a Path,
}

impl Wait {
    pub(crate) fn from_name(name: &str) -> Result<Self> {
        Ok(match name {
            "health" => Self::Health,
            "get" => Self::Get,
            "version" => Self::Version,
            "slot" => Self::Slot,
            "block" => Self::Block,
            "blockhash" => Self::Blockhash,
            "surfnet" => Self::Surfnet,
            "airdrop" => Self::Airdrop,
            "tcp" => Self::Tcp,
            "log" => Self::Log,
            "stdout" => Self::Stdout,
            "status" => Self::Status,
            _ => anyhow::bail!("WAIT is {name}"),
        })
    }

    /// Whether the event has happened. An error means that it has not: the process may not listen yet.
    pub(crate) fn is_seen(self, started: &Started<'_>) -> bool {
        self.has_happened(started).unwrap_or(false) && started.is_healthy().unwrap_or(false)
    }

    fn has_happened(self, started: &Started<'_>) -> Result<bool> {
        Ok(match self {
            // The health of every line is requested anyway.
            Self::Health => true,
            Self::Get => {
                let response = raw_http::get(started.address(), "/health")?;
                raw_http::body(&response)?.trim() == "ok"
            }
            Self::Version => started.call("getVersion", json!([]))?["solana-core"].is_string(),
            Self::Slot => {
                started.call("getSlot", json!([{ "commitment": "confirmed" }]))?.as_u64() > Some(0)
            }
            Self::Block => {
                let config = json!({ "commitment": "confirmed", "encoding": "json",
                                     "maxSupportedTransactionVersion": 0 });
                started.call("getBlock", json!([BLOCK, config]))?["blockhash"].is_string()
            }
            Self::Blockhash => started.has_blockhash()? && started.has_programs()?,
            Self::Surfnet => {
                let info = started.call("surfnet_getSurfnetInfo", Value::Null)?;
                let runbooks = info["value"]["runbookExecutions"].as_array().context("runbooks")?;
                let is_done = runbooks.iter().all(|runbook| !runbook["completedAt"].is_null());
                started.has_blockhash()? && is_done
            }
            Self::Airdrop => {
                let params = json!([started.launch.wallet, 1_000_000_000]);
                started.call("requestAirdrop", params)?.is_string()
            }
            Self::Tcp => started.is_open(),
            Self::Log => {
                let log = started.launch.ledger()?.join("validator.log");
                fs::read_to_string(log)?.contains("genesis hash: ")
            }
            Self::Status => fs::read_to_string(started.log)?.contains("Processed Slot: 1"),
            Self::Stdout => {
                let url = format!("JSON RPC URL: http://127.0.0.1:{}\n", started.launch.rpc);
                fs::read_to_string(started.log)?.contains(&url)
            }
        })
    }
}

impl Started<'_> {
    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.launch.rpc))
    }

    /// Whether JSON-RPC's port is open.
    pub(crate) fn is_open(&self) -> bool {
        TcpStream::connect(self.address()).is_ok()
    }

    fn call(&self, method: &str, params: Value) -> Result<Value> {
        JsonRpcClient::open(self.address())?.call(method, params)
    }

    fn is_healthy(&self) -> Result<bool> {
        Ok(self.call("getHealth", json!([]))? == "ok")
    }

    fn has_blockhash(&self) -> Result<bool> {
        Ok(self.call("getLatestBlockhash", json!([]))?["value"]["blockhash"].is_string())
    }

    /// Whether each program of the line is executable, as Anchor waits for it.
    fn has_programs(&self) -> Result<bool> {
        let config = json!({ "encoding": "base64", "commitment": "confirmed" });
        let found = self.call("getMultipleAccounts", json!([self.launch.programs, config]))?;
        let found = found["value"].as_array().context("accounts")?;
        Ok(found.iter().all(|account| account["executable"] == true))
    }
}
