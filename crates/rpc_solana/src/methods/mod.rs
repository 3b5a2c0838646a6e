//! The methods of Solana's API.
//!
//! Each file of methods has a table `METHODS`; the API lists these tables.
//! Not here: the rules for a method ([`jsonrpc`]), where it runs (`dispatch`).

mod account_list;
mod account_needs;
mod accounts;
mod accounts_reader;
mod address_history;
mod blocks;
mod bundles;
mod cheatcodes;
mod cost;
mod encode_transaction;
mod epoch;
mod fees;
mod index_selection;
mod leaders;
mod node_info;
mod paginated;
mod parse_key;
mod priority_fees;
mod programs;
mod samples;
mod send;
mod simulate;
mod slot;
mod slot_list;
mod state_request;
mod statuses;
mod supply;
#[cfg(test)]
mod tests;
mod tokens;
mod transaction_codec;
mod transactions;
mod transactions_for_address;
mod upstream;
mod verification;
mod votes;

use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Api, MethodSpec, Preparation, StateRequest};

use crate::solana_api::SolanaApi;

pub use bundles::tip_accounts;
pub use node_info::api_version;
pub(crate) use transaction_codec::decode;
pub use votes::required_index_keys;

/// The tables of the files with methods of the ledger. One line per file.
const FILES: &[&[MethodSpec<SolanaApi>]] = &[
    accounts::METHODS,
    blocks::METHODS,
    bundles::METHODS,
    epoch::METHODS,
    fees::METHODS,
    leaders::METHODS,
    node_info::METHODS,
    paginated::METHODS,
    priority_fees::METHODS,
    programs::METHODS,
    samples::METHODS,
    send::METHODS,
    simulate::METHODS,
    statuses::METHODS,
    supply::METHODS,
    slot::METHODS,
    slot_list::METHODS,
    tokens::METHODS,
    transactions::METHODS,
    transactions_for_address::METHODS,
    verification::METHODS,
    votes::METHODS,
];

const TABLES: usize = FILES.len() + cheatcodes::TABLES.len();

/// Joins the tables of the ledger and those of cheat codes.
const fn join_tables() -> [&'static [MethodSpec<SolanaApi>]; TABLES] {
    let mut tables = [FILES[0]; TABLES];
    let mut index = 0;
    while index < TABLES {
        tables[index] = match index.checked_sub(FILES.len()) {
            Some(index) => cheatcodes::TABLES[index],
            None => FILES[index],
        };
        index += 1;
    }
    tables
}

impl Api for SolanaApi {
    const METHODS: &'static [&'static [MethodSpec<Self>]] = &join_tables();

    fn pinned(&self) -> Self {
        Self { reader: self.reader.pin(), ..self.clone() }
    }

    fn has_preparations(&self) -> bool {
        self.account_upstream.is_some()
    }

    fn state_request(&self, method: &'static str, params: Params<'_>) -> StateRequest {
        state_request::find_state_request(method, params)
    }

    fn must_prepare(&self, method: &'static str, params: Params<'_>) -> bool {
        account_needs::must_fetch(self, method, params)
    }

    fn prepare(
        &self,
        method: &'static str,
        params: Params<'_>,
    ) -> Result<Option<Box<dyn Preparation>>, RpcError> {
        account_needs::fetch(self, method, params)
    }
}
