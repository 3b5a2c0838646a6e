//! Recent transactions of the selected chain, by id and by address, with the chain blocks that accepted them.
//!
//! Bounds: the history's (`chain_kaspa::HistoryLimits`). `oldestDaaScore` says how far it reaches. A page has at most
//! [`PAGE_PARTS_MAX`] inputs and outputs: a transaction may have thousands.

use chain_kaspa::{HistoryPage, HistoryTransaction, TransactionPosition};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{MethodOutput, MethodResult};
use kaspa::{Hash, Prefix, ScriptPublicKey, UtxoEntry};
use ledger::Commitment;
use serde::{Deserialize, Serialize};

use super::kaspa_api::KaspaApi;
use super::options::{page_entries, parse_address};
use super::position::{Position, Positioned};

/// Inputs and outputs of a page, some 150 bytes each. A single transaction may have more.
const PAGE_PARTS_MAX: usize = 10_000;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PageOptions {
    limit: Option<usize>,
    before: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TransactionPage {
    /// The transactions of the page, the newest first.
    transactions: Vec<AcceptedTransaction>,
    next: Option<String>,
    /// The DAA score of the oldest chain block in the history.
    oldest_daa_score: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AcceptedTransaction {
    transaction_id: String,
    /// The block that contains it.
    block_hash: String,
    block_time: u64,
    accepting_block_hash: String,
    accepting_daa_score: u64,
    accepting_blue_score: u64,
    accepting_block_time: u64,
    /// The blue score of the sink, less that of the accepting block.
    confirmations: u64,
    is_coinbase: bool,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    previous_transaction_id: String,
    previous_index: u32,
    amount: u64,
    address: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    index: u32,
    amount: u64,
    address: Option<String>,
}

/// Runs `getTransaction id`.
pub(super) fn get_transaction(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    let (id,): (String,) = params.parse(1)?;
    let id = Hash::from_hex(&id);
    let id = id.map_err(|error| RpcError::invalid_params(format!("Invalid params: {error}")))?;
    // The position is the newest block of the history.
    let chain = api.chain.pin();
    let view = chain.utxos.view(Commitment::Confirmed);
    let history = chain.history();
    let found = history.transaction(&id);
    let value = found.map(|found| AcceptedTransaction::new(&found, api.prefix()));
    MethodOutput::json(&Positioned { position: Position::new(view.meta()), value })
}

/// Runs `getTransactions address [{limit, before}]`.
pub(super) fn get_transactions(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    let (address, options): (String, Option<PageOptions>) = params.parse(1)?;
    let address = parse_address(&address)?;
    let PageOptions { limit, before } = options.unwrap_or_default();
    let entries = page_entries(limit)?;
    let before = before.map(|before| parse_position("before", &before)).transpose()?;
    // The position is the newest block of the history.
    let chain = api.chain.pin();
    let view = chain.utxos.view(Commitment::Confirmed);
    let history = chain.history();
    let mut page = history.script_transactions(&address.payload.ledger_address(), before, entries);
    limit_parts(&mut page);
    let to_json = |found: &HistoryTransaction<'_>| AcceptedTransaction::new(found, api.prefix());
    let value = TransactionPage {
        transactions: page.transactions.iter().map(to_json).collect(),
        next: page.next_before.map(format_position),
        oldest_daa_score: history.first_daa_score(),
    };
    MethodOutput::json(&Positioned { position: Position::new(view.meta()), value })
}

/// Removes the last transactions of a page that has too many inputs and outputs. The next page starts with them.
fn limit_parts(page: &mut HistoryPage<'_>) {
    let mut parts = 0;
    let fits = |found: &&HistoryTransaction<'_>| {
        let transaction = &found.accepted.transaction;
        parts += transaction.inputs.len() + transaction.outputs.len();
        parts <= PAGE_PARTS_MAX
    };
    let len = page.transactions.iter().take_while(fits).count().max(1);
    if len < page.transactions.len() {
        page.transactions.truncate(len);
        page.next_before = page.transactions.last().map(|found| found.position);
    }
}

/// Formats a position as the token of a page that starts after it.
pub(super) fn format_position(position: TransactionPosition) -> String {
    format!("{}-{}", position.daa_score, position.index)
}

/// Reads the token of a page from a parameter of this name.
pub(super) fn parse_position(parameter: &str, text: &str) -> Result<TransactionPosition, RpcError> {
    let parsed = text.split_once('-').and_then(|(score, index)| {
        Some(TransactionPosition { daa_score: score.parse().ok()?, index: index.parse().ok()? })
    });
    parsed.ok_or_else(|| {
        let text = format!("Invalid params: {parameter}: not the token of a page");
        RpcError::invalid_params(text)
    })
}

impl AcceptedTransaction {
    fn new(found: &HistoryTransaction<'_>, prefix: Prefix) -> Self {
        let accepted = found.accepted;
        let transaction = &accepted.transaction;
        let outpoints = transaction.inputs.iter().map(|input| input.previous_outpoint);
        let inputs =
            outpoints.zip(&accepted.spent).map(|(outpoint, spent): (_, &UtxoEntry)| Input {
                previous_transaction_id: outpoint.transaction_id.to_string(),
                previous_index: outpoint.index,
                amount: spent.amount,
                address: find_address(&spent.script_public_key, prefix),
            });
        let outputs = (0..).zip(&transaction.outputs).map(|(index, output)| Output {
            index,
            amount: output.amount,
            address: find_address(&output.script_public_key, prefix),
        });
        Self {
            transaction_id: accepted.id.to_string(),
            block_hash: accepted.block_hash.to_string(),
            block_time: accepted.block_time_ms,
            accepting_block_hash: found.accepting_block.to_string(),
            accepting_daa_score: found.accepting_daa_score,
            accepting_blue_score: found.accepting_blue_score,
            accepting_block_time: found.accepting_time_ms,
            confirmations: found.confirmations,
            is_coinbase: transaction.is_coinbase(),
            inputs: inputs.collect(),
            outputs: outputs.collect(),
        }
    }
}

/// Returns the address of a script as text, if it has one.
pub(super) fn find_address(script: &ScriptPublicKey, prefix: Prefix) -> Option<String> {
    script.address(prefix).map(|address| address.to_string())
}
