//! The measured processes: nodes with the accounts of a [`Fixture`], and the server of constant responses.
//!
//! Shape: a node in manual mode makes blocks only on request and finalizes them at once, so that nothing changes while
//! its responses are measured. A node with a clock makes a block every 400 ms, as a cluster does.

use std::process::Command;

use anyhow::{Context, Result};
use http_client::Client;
use loadgen_solana::Inputs;
use process_usage::Process;
use serde_json::{Value, json};
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use testkit::json_rpc_client::JsonRpcClient;
use testkit::node::Node;
use testkit::transfers;

use super::fixture::Fixture;
use super::measurement::Size;
use crate::ledger_process::LedgerProcess;
use crate::ledger_process::protocol::Settings;
use crate::node::{Target, dev};

/// A node that makes blocks on request, with some blocks of transactions.
pub(super) struct StillNode<'a> {
    node: Node,
    fixture: &'a Fixture,
    control: JsonRpcClient,
    /// Data for requests about accounts and about history.
    pub(super) inputs: Inputs,
    /// Data for requests about the recipients of transfers, each of which has a page of signatures.
    pub(super) recipient_inputs: Inputs,
    /// Number of transfers so far, which makes each of them different.
    transfers: u64,
}

/// The server of constant responses.
pub(super) struct ConstantServer {
    process: LedgerProcess,
    pub(super) target: Target,
}

/// The processes that the rows are measured with.
pub(super) struct Nodes<'a> {
    pub(super) cached: StillNode<'a>,
    pub(super) uncached: StillNode<'a>,
    pub(super) constant: ConstantServer,
}

/// Starts a node with the fixture's accounts and more flags.
pub(super) fn start_node(fixture: &Fixture, flags: &[&str]) -> Result<Node> {
    let dir = fixture.dir().to_string_lossy();
    dev(&["--account-dir", &*dir, "--no-grpc"])?.args(flags).start()
}

pub(super) fn target(node: &Node) -> Target {
    Target { address: node.rpc, process: Process::with_id(node.pid()) }
}

impl ConstantServer {
    /// Starts it with as many IO threads as a node has.
    pub(super) fn start() -> Result<Self> {
        let io_threads = Settings::like_binary().io_threads.to_string();
        let mut command = Command::new(LedgerProcess::program()?);
        let mut process = LedgerProcess::start_program(command.args(["constant", &io_threads]))?;
        let (address, _) = process.serving()?;
        let target = Target { address, process: Process::with_id(process.id()) };
        Ok(Self { process, target })
    }

    /// Ends the process and waits for it.
    pub(super) fn end(mut self) -> Result<()> {
        self.process.send_line("")?;
        self.process.end().map(drop)
    }
}

impl<'a> StillNode<'a> {
    /// Starts a node with a response cache of `cache_bytes`, and makes its history.
    pub(super) fn start(fixture: &'a Fixture, size: &Size, cache_bytes: &str) -> Result<Self> {
        let manual = ["--block-mode", "manual", "--finalize-after", "0"];
        let node =
            start_node(fixture, &[&manual[..], &["--cache-bytes-max", cache_bytes]].concat())?;
        let mut inputs = Inputs::default();
        inputs.accounts = fixture.tokens.iter().map(Pubkey::to_string).collect();
        inputs.owners = fixture.owners.iter().map(Pubkey::to_string).collect();
        inputs.mints = fixture.mints.iter().map(Pubkey::to_string).collect();
        let control = JsonRpcClient::open(node.rpc)?;
        let recipient_inputs = Inputs::default();
        let mut still = Self { node, fixture, control, inputs, recipient_inputs, transfers: 0 };
        still.make_history(size)?;
        Ok(still)
    }

    pub(super) fn target(&self) -> Target {
        target(&self.node)
    }

    pub(super) fn client(&self) -> Result<Client> {
        Ok(Client::open(self.node.rpc)?)
    }

    /// Makes a block. Returns its slot.
    pub(super) fn make_block(&mut self) -> Result<u64> {
        let slot = self.control.call("hydrant_mine", json!([]))?;
        slot.as_u64().context("hydrant_mine returns a slot")
    }

    /// Sets fields of an account, and makes a block with that write.
    pub(super) fn set_account(&mut self, address: &Pubkey, fields: &Value) -> Result<u64> {
        self.control.call("surfnet_setAccount", json!([address.to_string(), fields]))?;
        self.make_block()
    }

    /// Sends a transfer to the first recipient, and makes a block with it.
    pub(super) fn make_transfer_block(&mut self) -> Result<TransferBlock> {
        let blockhash = self.control.latest_blockhash()?;
        let signature = self.send_transfer(0, blockhash)?.signature;
        Ok(TransferBlock { signature, slot: self.make_block()? })
    }

    pub(super) fn first_token(&self) -> Pubkey {
        self.fixture.tokens[0]
    }

    pub(super) fn first_mint(&self) -> Pubkey {
        self.fixture.mints[0]
    }

    /// Makes blocks of transfers, and adds their signatures and transactions to the inputs.
    fn make_history(&mut self, size: &Size) -> Result<()> {
        for _ in 0..size.blocks {
            let blockhash = self.control.latest_blockhash()?;
            for nth in 0..size.block_transactions {
                let sent = self.send_transfer(nth, blockhash)?;
                self.inputs.signatures.push(sent.signature);
                self.inputs.transactions.push(sent.wire);
            }
            let slot = self.make_block()?;
            self.inputs.blocks.push(slot);
            self.inputs.slots.1 = slot;
        }
        self.recipient_inputs = self.inputs.clone();
        self.recipient_inputs.accounts =
            self.fixture.recipients.iter().map(Pubkey::to_string).collect();
        Ok(())
    }

    fn send_transfer(&mut self, nth: usize, blockhash: Hash) -> Result<SentTransfer> {
        self.transfers += 1;
        let Fixture { payers, recipients, .. } = self.fixture;
        let payer = &payers[nth % payers.len()];
        let to = &recipients[nth % recipients.len()];
        let transfer = transfers::sign_transfer(payer, to, self.transfers, blockhash);
        let params = transfers::send_params(&transfer, true)?;
        let wire = params[0].as_str().context("a transaction in base64")?.to_owned();
        self.control.call("sendTransaction", params)?;
        Ok(SentTransfer { signature: transfer.signatures[0].to_string(), wire })
    }
}

/// A block with one transfer to the first recipient.
pub(super) struct TransferBlock {
    pub(super) signature: String,
    pub(super) slot: u64,
}

/// A transfer that waits for its block.
struct SentTransfer {
    signature: String,
    /// The signed transaction in base64.
    wire: String,
}
