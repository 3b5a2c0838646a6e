//! All UTXOs of addresses, in parts, and a page of those of one address.

use std::vec;

use chain_kaspa::{UtxoScan, View, page_script_utxos, script_totals};
use cpu_pool::{Class, TimeSlice};
use foldhash::HashSet;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{InlineBudget, MethodOutput, MethodResult, StreamState, StreamedResult};
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
/// UTXOs from which on a list is heavy: some 4 MB, which a slow client does not read within the deadline of the medium
/// class.
const HEAVY_UTXOS_MIN: u64 = 10_000;
/// The most addresses whose UTXOs are counted to classify a list. A list of more addresses is heavy.
const COUNTED_ADDRESSES_MAX: usize = 64;

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
    current: Option<AddressListing>,
    is_started: bool,
    has_elements: bool,
}

/// The UTXOs of one address while they are written.
struct AddressListing {
    writer: UtxoWriter,
    scan: UtxoScan,
}

/// Classifies a call of `restGetUtxos` by the length of its list.
pub(super) fn classify_utxos(
    api: &KaspaApi,
    params: Params<'_>,
    _: &mut InlineBudget,
) -> Option<Class> {
    let Ok((addresses,)) = params.parse::<(Vec<String>,)>(1) else { return Some(Class::Medium) };
    let is_heavy = has_long_list(api, &addresses, HEAVY_UTXOS_MIN);
    Some(if is_heavy { Class::Heavy } else { Class::Medium })
}

/// Whether addresses have at least `utxos_min` UTXOs, or are too many to count them. Cost: two lookups for each.
fn has_long_list(api: &KaspaApi, addresses: &[String], utxos_min: u64) -> bool {
    if addresses.len() > COUNTED_ADDRESSES_MAX {
        return true;
    }
    // A list with an address that is not valid is refused soon.
    let Ok(addresses) = read_addresses(api, addresses) else { return false };
    let view = api.chain.utxos.view(Commitment::Processed);
    let counts = addresses
        .iter()
        .map(|address| script_totals(&view, &address.payload.ledger_address()).count);
    counts.sum::<u64>() >= utxos_min
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
    let after = page.map(|page| parse_cursor("page", &page)).transpose()?;
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
        let AddressListing { writer, scan } = &mut current;
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

    fn next_address(&mut self) -> Option<AddressListing> {
        let address = self.addresses.next()?;
        let scan = UtxoScan::new(address.payload.ledger_address());
        Some(AddressListing { writer: UtxoWriter::new(address), scan })
    }
}

#[cfg(test)]
mod tests {
    use kaspa::Network;
    use testkit::kaspa_chain::{TestChain, address, pay};

    use super::*;

    #[test]
    fn a_list_is_long_by_its_utxos_or_its_addresses() {
        let mut chain = TestChain::new(Vec::new());
        chain.add_block(&[], &[pay(1, 5), pay(1, 6), pay(2, 7)]);
        chain.publish();
        let api = KaspaApi::new(chain.chain.reader(), Network::Simnet);
        let one = address(1).to_string();
        let both = [one.clone(), address(2).to_string()];
        assert!(has_long_list(&api, &both, 3));
        assert!(!has_long_list(&api, &both, 4));
        assert!(!has_long_list(&api, std::slice::from_ref(&one), 3));
        assert!(!has_long_list(&api, &["kaspasim:q".to_owned()], 0), "refused");
        assert!(!has_long_list(&api, &vec![one.clone(); COUNTED_ADDRESSES_MAX], u64::MAX));
        assert!(has_long_list(&api, &vec![one; COUNTED_ADDRESSES_MAX + 1], u64::MAX));
    }
}
