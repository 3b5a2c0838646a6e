//! The history of a node before it is measured: blocks of transfers, made over JSON-RPC, and the requests' inputs from
//! them.
//!
//! Shape: transfers are sent at the rate that fills each slot with the same number, until there are enough blocks. The
//! inputs are evenly spread over all of them, so that most are not the newest ones. It is written to a file, with which
//! a later run uses the node's ledger again.
//! Bounds: it ends after [`TIME_FACTOR_MAX`] times the time of its slots, with as many blocks as there are.

use std::net::SocketAddr;
use std::time::Duration;

use ::loadgen::{LoadPlan, RunLength, Stream};
use anyhow::{Context, Result, ensure};
use http_client::{Client, Endpoint};
use ledger::Slot;
use loadgen_solana::Inputs;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use testkit::clock::{now, sleep_for};
use testkit::json_rpc_client::JsonRpcClient;
use testkit::transfers;

use crate::median::median;
use crate::report::Progress;

const PAYERS: usize = 32;
/// Connections that send transfers.
const CONNECTIONS: usize = 16;
/// Seconds of transfers that are signed with one blockhash, which is valid for a minute.
const PORTION_S: f64 = 10.0;

/// Time limit of the transfers, as a multiple of the nominal time of the slots.
const TIME_FACTOR_MAX: f64 = 2.0;

/// Blocks that requests name, and signatures from each of them.
const INPUT_BLOCKS: usize = 200;
const SIGNATURES_PER_BLOCK: usize = 5;

/// Time limit until the newest block is final, and the interval of the polls for it.
const FINAL_TIMEOUT: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The size of a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct HistorySize {
    pub(super) blocks: usize,
    /// Transfers in each block.
    pub(super) transactions: usize,
    pub(super) slot_ms: u64,
    /// Slots until a block is final, in Hydrant. The blocks are the same.
    pub(super) finalize_after: u64,
}

/// A history that was made.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct History {
    /// A description of the accounts and of the size: a history with another one is not used.
    pub(super) shape: String,
    pub(super) blocks: usize,
    /// The median of the transactions in a block, votes included.
    pub(super) transactions: f64,
    pub(super) inputs: Inputs,
}

impl HistorySize {
    /// Returns the seconds in which the slots of the history pass.
    pub(super) fn seconds(&self) -> f64 {
        self.blocks as f64 * self.slot_ms as f64 / 1e3
    }

    pub(super) fn description(&self) -> String {
        let Self { blocks, transactions, slot_ms, .. } = self;
        format!("{blocks} blocks of {slot_ms} ms with {transactions} transfers each")
    }
}

impl History {
    /// Fills the blocks of a node. The inputs have no accounts.
    pub(super) fn make(rpc: SocketAddr, size: HistorySize, name: &'static str) -> Result<Self> {
        let mut client = Client::open(rpc)?;
        let first = slot(&mut client, "confirmed")? + 1;
        let last = fill(rpc, size, first, name)?;
        wait_for_final(&mut client, last)?;
        Self::discover(&mut client, first, last, size)
    }

    /// Returns the inputs with the accounts of others.
    pub(super) fn with_accounts(&self, accounts: &Inputs) -> Inputs {
        let mut inputs = accounts.clone();
        inputs.blocks.clone_from(&self.inputs.blocks);
        inputs.signatures.clone_from(&self.inputs.signatures);
        inputs.slots = self.inputs.slots;
        inputs
    }

    /// Returns the newest slot that requests name.
    pub(super) fn last(&self) -> Slot {
        self.inputs.slots.1
    }

    /// Chooses blocks and signatures from the slots.
    fn discover(client: &mut Client, first: Slot, last: Slot, size: HistorySize) -> Result<Self> {
        let slots = slots_with_block(client, first, last)?;
        let config = json!({ "transactionDetails": "signatures", "rewards": false,
            "maxSupportedTransactionVersion": 0, "commitment": "confirmed" });
        let mut inputs = Inputs::default();
        let mut counts = Vec::new();
        for slot in slots.iter().step_by(slots.len().div_ceil(INPUT_BLOCKS).max(1)) {
            let block = client.call("getBlock", &json!([slot, config]))?;
            let signatures = block["signatures"].as_array().context("a block has signatures")?;
            counts.push(signatures.len() as f64);
            if signatures.len() * 2 < size.transactions {
                continue;
            }
            inputs.blocks.push(*slot);
            let every = signatures.len().div_ceil(SIGNATURES_PER_BLOCK);
            let some = signatures.iter().step_by(every).filter_map(Value::as_str);
            inputs.signatures.extend(some.map(str::to_owned));
        }
        ensure!(!inputs.blocks.is_empty(), "no block from slot {first} to {last} is full");
        inputs.slots = (first, last);
        let transactions = median(counts);
        Ok(Self { shape: String::new(), blocks: slots.len(), transactions, inputs })
    }
}

/// Sends transfers until there are enough blocks. Returns the newest confirmed slot.
fn fill(rpc: SocketAddr, size: HistorySize, first: Slot, name: &'static str) -> Result<Slot> {
    let mut client = JsonRpcClient::open(rpc)?;
    let mut blocks = Client::open(rpc)?;
    let payers = transfers::fund_payers(&mut client, PAYERS)?;
    let rate = size.transactions as f64 * 1e3 / size.slot_ms as f64;
    let portion_s = PORTION_S.min(size.seconds());
    let time_max = Duration::from_secs_f64(size.seconds() * TIME_FACTOR_MAX);
    let endpoint = Endpoint::from(rpc);
    let mut progress = Progress::new(name, size.blocks as f64);
    let mut made = 0;
    let began = now();
    loop {
        let count = ((rate * portion_s) as usize).max(1);
        let mut requests = Vec::new();
        for transfer in transfers::signed_transfers(&mut client, &payers, count)? {
            let params = transfers::send_params(&transfer, true)?;
            requests.push(endpoint.call("sendTransaction", &params));
        }
        let stream = Stream::open_loop("transfers", requests, rate, CONNECTIONS);
        let measured = Duration::from_secs_f64(portion_s);
        let run_length = RunLength::Time { warm_up: Duration::ZERO, measured };
        LoadPlan::new(endpoint.clone(), stream, run_length).run()?;
        let last = slot(&mut blocks, "confirmed")?;
        let found = slots_with_block(&mut blocks, first, last)?.len();
        progress.add((found - made) as f64);
        made = found;
        if made >= size.blocks || began.elapsed() > time_max {
            return Ok(last);
        }
    }
}

/// Waits until a slot is final.
pub(super) fn wait_for_final(client: &mut Client, last: Slot) -> Result<()> {
    let began = now();
    while slot(client, "finalized")? < last {
        ensure!(
            began.elapsed() < FINAL_TIMEOUT,
            "slot {last} is not final after {FINAL_TIMEOUT:?}"
        );
        sleep_for(POLL_INTERVAL);
    }
    Ok(())
}

fn slot(client: &mut Client, commitment: &str) -> Result<Slot> {
    let slot = client.call("getSlot", &json!([{ "commitment": commitment }]))?;
    slot.as_u64().context("a slot is a number")
}

fn slots_with_block(client: &mut Client, first: Slot, last: Slot) -> Result<Vec<Slot>> {
    if last < first {
        return Ok(Vec::new());
    }
    let confirmed = json!({ "commitment": "confirmed" });
    let slots = client.call("getBlocks", &json!([first, last, confirmed]))?;
    let slots = slots.as_array().context("a list of slots")?;
    Ok(slots.iter().filter_map(Value::as_u64).collect())
}
