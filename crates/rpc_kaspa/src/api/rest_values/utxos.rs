//! All UTXOs of addresses, in parts, and a page of those of one address.

use std::vec;

use chain_kaspa::{UtxoScan, View, page_script_utxos};
use cpu_pool::TimeSlice;
use foldhash::HashSet;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{MethodOutput, MethodResult, StreamState, StreamedResult};
use kaspa::{AddressPayload, KaspaAddress};
use ledger::Commitment;
use response_cache::RESULT_CHUNK_BYTES;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::address_reader::{read_address, read_addresses};
use super::utxo_writer::UtxoWriter;
use crate::api::kaspa_api::KaspaApi;
use crate::api::options::page_entries;
use crate::api::utxo_page::{encode_cursor, parse_cursor};

/// UTXOs that are read between two checks of the time slice: some 50 KB.
const STEP_UTXOS: usize = 128;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PageOptions {
    limit: Option<usize>,
    page: Option<String>,
}

/// A page, and the token of the next one.
#[derive(Serialize)]
struct UtxoEntries {
    next: Option<String>,
    utxos: Box<RawValue>,
}

/// Writes the UTXOs of addresses, of one after the other, from one view.
struct UtxoStream {
    view: View,
    addresses: vec::IntoIter<KaspaAddress>,
    current: Option<AddressScan>,
    is_started: bool,
    has_elements: bool,
}

/// The UTXOs of one address while they are read.
struct AddressScan {
    writer: UtxoWriter,
    scan: UtxoScan,
}

/// Runs `restGetUtxos addresses`. The UTXOs of an address that occurs twice are in the list once, as in kaspad.
pub(super) fn get_utxos(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    let (addresses,): (Vec<String>,) = params.parse(1)?;
    let mut addresses = read_addresses(api, &addresses)?;
    let mut known: HashSet<AddressPayload> = HashSet::default();
    addresses.retain(|address| known.insert(address.payload));
    let stream = UtxoStream {
        view: api.chain.utxos.view(Commitment::Processed),
        addresses: addresses.into_iter(),
        current: None,
        is_started: false,
        has_elements: false,
    };
    Ok(MethodOutput::streamed(None, stream))
}

/// Runs `restGetUtxoPage address {limit, page}`. `page` is `next` of the page before.
pub(super) fn get_utxo_page(api: &KaspaApi, params: Params<'_>) -> MethodResult {
    let (address, options): (String, Option<PageOptions>) = params.parse(1)?;
    let address = read_address(api, &address)?;
    let PageOptions { limit, page } = options.unwrap_or_default();
    let entries = page_entries(limit)?;
    let after = page.map(|page| parse_cursor(&page)).transpose()?;
    let view = api.chain.utxos.view(Commitment::Processed);
    let page = page_script_utxos(&view, &address.payload.ledger_address(), after, entries);
    let page = page.map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let writer = UtxoWriter::new(address);
    let mut utxos = vec![b'['];
    for (at, utxo) in page.utxos.iter().enumerate() {
        if at > 0 {
            utxos.push(b',');
        }
        writer.write(utxo, &mut utxos)?;
    }
    utxos.push(b']');
    let utxos = String::from_utf8(utxos).map_err(|_| RpcError::internal())?;
    let utxos = RawValue::from_string(utxos).map_err(|_| RpcError::internal())?;
    MethodOutput::json(&UtxoEntries { next: page.next.map(encode_cursor), utxos })
}

impl StreamedResult for UtxoStream {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        if !std::mem::replace(&mut self.is_started, true) {
            out.push(b'[');
        }
        while self.write_step(out)? {
            if out.len() >= RESULT_CHUNK_BYTES || slice.is_over() {
                return Ok(StreamState::More);
            }
        }
        out.push(b']');
        Ok(StreamState::Done)
    }
}

impl UtxoStream {
    /// Writes the next UTXOs. Returns false if there are no more.
    fn write_step(&mut self, out: &mut Vec<u8>) -> Result<bool, RpcError> {
        let Some(mut current) = self.current.take().or_else(|| self.next_address()) else {
            return Ok(false);
        };
        let AddressScan { writer, scan } = &mut current;
        let mut result = Ok(());
        let has_elements = &mut self.has_elements;
        let has_more = scan.step(&self.view, STEP_UTXOS, |utxo| {
            if std::mem::replace(has_elements, true) {
                out.push(b',');
            }
            if result.is_ok() {
                result = writer.write(utxo, out);
            }
        });
        result?;
        self.current = has_more.then_some(current);
        Ok(true)
    }

    fn next_address(&mut self) -> Option<AddressScan> {
        let address = self.addresses.next()?;
        let scan = UtxoScan::new(address.payload.ledger_address());
        Some(AddressScan { writer: UtxoWriter::new(address), scan })
    }
}
