//! Transactions of the history, by their positions and by id. All of them are written in parts.

use std::sync::Arc;
use std::vec;

use chain_kaspa::{HistorySnapshot, TransactionPosition};
use cpu_pool::TimeSlice;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{MethodOutput, MethodResult, StreamState, StreamedResult};
use kaspa::Hash;
use response_cache::RESULT_CHUNK_BYTES;

use super::transaction_options::TransactionOptions;
use super::transaction_writer::{TransactionShape, TransactionWriter};
use crate::api::kaspa_api::KaspaApi;
use crate::api::rest_limits::SORTED_TRANSACTIONS_MAX;

/// A version of the history, and the shape in which its transactions are written.
struct HistoryPin {
    history: Arc<HistorySnapshot>,
    shape: TransactionShape,
}

/// A transaction that is being written.
struct CurrentTransaction {
    position: TransactionPosition,
    writer: TransactionWriter,
}

/// Writes the list of the transactions at some positions.
struct TransactionStream {
    pin: HistoryPin,
    positions: vec::IntoIter<TransactionPosition>,
    current: Option<CurrentTransaction>,
    is_started: bool,
    has_elements: bool,
}

/// Writes the transaction of one id.
struct SingleTransaction {
    pin: HistoryPin,
    current: CurrentTransaction,
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
        pin: HistoryPin::new(api, options)?,
        positions: positions.collect::<Vec<_>>().into_iter(),
        current: None,
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
    let pin = HistoryPin::new(api, options)?;
    let position = pin.history.transaction(&id).map(|found| found.position);
    let Some(position) = position else { return MethodOutput::json(&()) };
    let current = CurrentTransaction { position, writer: TransactionWriter::default() };
    Ok(MethodOutput::streamed(None, SingleTransaction { pin, current }))
}

impl HistoryPin {
    fn new(api: &KaspaApi, options: Option<TransactionOptions>) -> Result<Self, RpcError> {
        let options = options.unwrap_or_default().check()?;
        let shape = TransactionShape { prefix: api.prefix(), options };
        Ok(Self { history: api.chain.history(), shape })
    }

    /// Writes the next parts of a transaction, which the history has.
    fn write_transaction(
        &self,
        current: &mut CurrentTransaction,
        slice: &TimeSlice<'_>,
        out: &mut Vec<u8>,
    ) -> Result<StreamState, RpcError> {
        let found = self.history.transaction_at(current.position);
        let found = found.ok_or_else(RpcError::internal)?;
        current.writer.write(&found, &self.shape, slice, out)
    }
}

impl StreamedResult for SingleTransaction {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        self.pin.write_transaction(&mut self.current, slice, out)
    }
}

impl StreamedResult for TransactionStream {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        if !std::mem::replace(&mut self.is_started, true) {
            out.push(b'[');
        }
        while let Some(mut current) = self.current.take().or_else(|| self.next_transaction()) {
            if current.writer.is_new() && std::mem::replace(&mut self.has_elements, true) {
                out.push(b',');
            }
            if self.pin.write_transaction(&mut current, slice, out)? == StreamState::More {
                self.current = Some(current);
                return Ok(StreamState::More);
            }
            if out.len() >= RESULT_CHUNK_BYTES || slice.is_over() {
                return Ok(StreamState::More);
            }
        }
        out.push(b']');
        Ok(StreamState::Done)
    }
}

impl TransactionStream {
    fn next_transaction(&mut self) -> Option<CurrentTransaction> {
        let history = &self.pin.history;
        let position = self.positions.find(|position| history.transaction_at(*position).is_some());
        Some(CurrentTransaction { position: position?, writer: TransactionWriter::default() })
    }
}

#[cfg(test)]
mod tests {
    use kaspa::Network;
    use serde_json::{Value, json};
    use testkit::kaspa_chain::{TestChain, pay};
    use testkit::streamed_result::{ReadResult, read_streamed_result};

    use super::*;

    fn single(api: &KaspaApi, id: &Hash, options: &Value) -> SingleTransaction {
        let options = serde_json::from_value(options.clone()).expect("options");
        let pin = HistoryPin::new(api, Some(options)).expect("valid options");
        let position = pin.history.transaction(id).expect("a transaction").position;
        let current = CurrentTransaction { position, writer: TransactionWriter::default() };
        SingleTransaction { pin, current }
    }

    #[test]
    fn a_transaction_with_many_inputs_is_written_in_parts() {
        let mut chain = TestChain::new(Vec::new());
        let payments: Vec<_> = (0..300).map(|_| pay(1, 5)).collect();
        let outputs = chain.add_block(&[], &payments);
        let spent = chain.add_block(&outputs, &[pay(2, 7), pay(3, 8)]);
        chain.publish();
        let api = KaspaApi::new(chain.chain.reader(), Network::Simnet);
        let id = spent[0].transaction_id;
        let full = json!({ "previousOutpoints": "full" });
        let ReadResult { value: transaction, parts } =
            read_streamed_result(single(&api, &id, &full));
        assert!(parts >= 300, "{parts} parts");
        let inputs = transaction["inputs"].as_array().expect("inputs");
        assert_eq!(inputs.len(), 300);
        assert_eq!(inputs[299]["index"], 299);
        assert_eq!(inputs[299]["previous_outpoint_resolved"]["amount"], 5);
        let outputs = transaction["outputs"].as_array().expect("outputs");
        let amounts: Vec<_> = outputs.iter().map(|output| output["amount"].as_u64()).collect();
        assert_eq!(amounts, [Some(7), Some(8)]);
        assert_eq!(transaction["transaction_id"], id.to_string());
        for (options, members) in [
            (json!({ "inputs": false, "outputs": false }), json!([null, null])),
            (json!({ "fields": ["outputs"], "outputs": false }), json!([null, null])),
        ] {
            let transaction = read_streamed_result(single(&api, &id, &options)).value;
            assert_eq!(json!([transaction["inputs"], transaction["outputs"]]), members);
        }
        let options = json!({ "fields": ["mass", "inputs"] });
        let transaction = read_streamed_result(single(&api, &id, &options)).value;
        assert_eq!(transaction.as_object().expect("members").len(), 2, "{transaction}");
    }

    #[test]
    fn a_list_is_written_in_parts() {
        let mut chain = TestChain::new(Vec::new());
        let outputs = chain.add_block(&[], &[pay(1, 5), pay(1, 6)]);
        chain.add_block(&outputs, &[pay(2, 7)]);
        chain.publish();
        let api = KaspaApi::new(chain.chain.reader(), Network::Simnet);
        let pin = HistoryPin::new(&api, None).expect("valid options");
        let script = testkit::kaspa_chain::address(1).payload.ledger_address();
        let found = pin.history.iter_script_transactions(&script, None);
        let mut positions: Vec<TransactionPosition> = found.map(|found| found.position).collect();
        assert_eq!(positions.len(), 2);
        positions.insert(1, TransactionPosition { daa_score: 12_345, index: 6 });
        let ReadResult { value: list, parts } = read_streamed_result(TransactionStream {
            pin,
            positions: positions.into_iter(),
            current: None,
            is_started: false,
            has_elements: false,
        });
        assert_eq!(list.as_array().map(Vec::len), Some(2), "{list}");
        assert!(parts > 5, "{parts} parts");
    }
}
