//! Transactions of the history, by their positions in parts, and by id.

use std::sync::Arc;
use std::vec;

use chain_kaspa::{HistorySnapshot, TransactionPosition};
use cpu_pool::TimeSlice;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{MethodOutput, MethodResult, StreamState, StreamedResult};
use kaspa::{Hash, Prefix};
use response_cache::RESULT_CHUNK_BYTES;
use serde_json::value::RawValue;

use super::transaction_options::TransactionOptions;
use super::transaction_writer::write_transaction;
use crate::api::kaspa_api::KaspaApi;
use crate::api::rest_limits::SORTED_TRANSACTIONS_MAX;

/// Writes the transactions at some positions, from one version of the history.
struct TransactionStream {
    history: Arc<HistorySnapshot>,
    prefix: Prefix,
    options: TransactionOptions,
    positions: vec::IntoIter<TransactionPosition>,
    is_started: bool,
    has_elements: bool,
}

/// Runs `restGetTransactions positions [{fields, inputs, outputs, previousOutpoints}]`. A position is a list of a DAA
/// score and an index, as [`super::transaction_pages`] finds it. One that is not in the history is left out.
pub(super) fn get_transactions(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    let (positions, options): (Vec<(u64, u32)>, Option<TransactionOptions>) = params.parse(1)?;
    if positions.len() > SORTED_TRANSACTIONS_MAX {
        return Err(RpcError::invalid_params(format!(
            "Invalid params: {} positions, the maximum is {SORTED_TRANSACTIONS_MAX}",
            positions.len()
        )));
    }
    let positions = positions.into_iter();
    let positions = positions.map(|(daa_score, index)| TransactionPosition { daa_score, index });
    let stream = TransactionStream {
        history: api.chain.history(),
        prefix: api.prefix(),
        options: options.unwrap_or_default().check()?,
        positions: positions.collect::<Vec<_>>().into_iter(),
        is_started: false,
        has_elements: false,
    };
    Ok(MethodOutput::streamed(None, stream))
}

/// Runs `restGetTransaction id [{fields, inputs, outputs, previousOutpoints}]`: null if the history does not have it.
pub(super) fn get_transaction(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    let (id, options): (String, Option<TransactionOptions>) = params.parse(1)?;
    let id = Hash::from_hex(&id);
    let id = id.map_err(|error| RpcError::invalid_params(format!("Invalid params: {error}")))?;
    let options = options.unwrap_or_default().check()?;
    let history = api.chain.history();
    let Some(found) = history.transaction(&id) else { return MethodOutput::json(&()) };
    let mut text = Vec::new();
    write_transaction(&found, api.prefix(), &options, &mut text)?;
    let text = String::from_utf8(text).map_err(|_| RpcError::internal())?;
    MethodOutput::json(&RawValue::from_string(text).map_err(|_| RpcError::internal())?)
}

impl StreamedResult for TransactionStream {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        if !std::mem::replace(&mut self.is_started, true) {
            out.push(b'[');
        }
        for position in self.positions.by_ref() {
            let Some(found) = self.history.transaction_at(position) else { continue };
            if std::mem::replace(&mut self.has_elements, true) {
                out.push(b',');
            }
            write_transaction(&found, self.prefix, &self.options, out)?;
            if out.len() >= RESULT_CHUNK_BYTES || slice.is_over() {
                return Ok(StreamState::More);
            }
        }
        out.push(b']');
        Ok(StreamState::Done)
    }
}
