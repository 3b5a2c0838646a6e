//! Reads every block over JSON-RPC: the recipients of its transfers, which clients' notifications are compared with.
//!
//! Reads over HTTP, not by subscription: a loss in the delivery of notifications does not affect the comparison.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_client::{Connection, Endpoint};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::scenario::{Task, task};

use crate::subs::transfers::Transfers;

/// Interval of the requests for new blocks.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A confirmed block that has transfers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) slot: u64,
    /// The recipient of each transfer.
    pub(super) recipients: Vec<u32>,
}

/// The blocks with transfers so far, in the order of their slots. A clone shares them.
#[derive(Clone, Default)]
pub(super) struct Blocks(Arc<Mutex<Vec<Block>>>);

/// The result of `getBlock` with signatures only.
#[derive(Deserialize)]
struct BlockSignatures {
    signatures: Vec<String>,
}

impl Blocks {
    /// Reads the confirmed blocks from `first` on until the scenario is over.
    pub(super) fn read(&self, rpc: SocketAddr, first: u64, transfers: &Transfers) -> Task {
        let blocks = self.clone();
        let transfers = transfers.clone();
        task(async move |mut stop| {
            let endpoint = Endpoint::from(rpc);
            let mut connection = Connection::open(rpc).await?;
            let mut next = first;
            loop {
                let request =
                    endpoint.call("getBlocks", &json!([next, { "commitment": "confirmed" }]));
                let slots: Vec<u64> = exchange(&mut connection, &request).await?;
                for slot in slots {
                    let options = json!({
                        "commitment": "confirmed",
                        "maxSupportedTransactionVersion": 0,
                        "rewards": false,
                        "transactionDetails": "signatures",
                    });
                    let request = endpoint.call("getBlock", &json!([slot, options]));
                    let block: BlockSignatures = exchange(&mut connection, &request).await?;
                    let signatures = block.signatures.iter();
                    let recipients: Vec<u32> =
                        signatures.filter_map(|it| transfers.take_recipient(it)).collect();
                    if !recipients.is_empty() {
                        blocks.0.lock().push(Block { slot, recipients });
                    }
                    next = slot + 1;
                }
                tokio::select! {
                    () = stop.stopped() => return Ok(()),
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                }
            }
        })
    }

    /// The number of transfers to any recipient but one.
    pub(super) fn count_without(&self, recipient: u32) -> usize {
        let blocks = self.0.lock();
        let others = blocks.iter().flat_map(|block| &block.recipients);
        others.filter(|other| **other != recipient).count()
    }

    /// Removes and returns the blocks.
    pub(super) fn take_blocks(&self) -> Vec<Block> {
        std::mem::take(&mut *self.0.lock())
    }
}

async fn exchange<T: DeserializeOwned>(connection: &mut Connection, request: &[u8]) -> Result<T> {
    #[derive(Deserialize)]
    struct Response<T> {
        result: Option<T>,
        error: Option<Value>,
    }
    let response = connection.exchange(request).await?;
    let response: Response<T> = serde_json::from_slice(response.body)?;
    ensure!(response.error.is_none(), "{:?}", response.error);
    response.result.context("no result")
}
