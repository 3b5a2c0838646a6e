//! Methods that kaspad does not have, for JSON-RPC and REST: positions, pages, history by address and by transaction.
//!
//! Each result names the block that it is true at ([`position`]), so results of several calls can be compared. Those of
//! [`rest_values`] are without it: REST has it in headers.
//! Addresses may have the prefix of any network, as in kaspad.
//! Bounds: a page has at most [`options::PAGE_ENTRIES_MAX`] entries, and [`rest_limits`].
//! Not here: envelopes and HTTP (`jsonrpc`), routes (`rest_kaspa`), the methods of kaspad (`methods`).

mod balance;
mod kaspa_api;
mod options;
mod position;
pub mod rest_limits;
mod rest_values;
mod transactions;
mod utxo_page;

use jsonrpc::{Api, Execution, MethodSpec};

pub use kaspa_api::KaspaApi;

impl Api for KaspaApi {
    const METHODS: &'static [&'static [MethodSpec<Self>]] = &[
        &[
            MethodSpec::new("getPosition", Execution::Inline, position::get_position),
            MethodSpec::new("getBalance", Execution::Inline, balance::get_balance),
            MethodSpec::new("getUtxos", Execution::Medium, utxo_page::get_utxos),
            MethodSpec::new("getTransaction", Execution::Light, transactions::get_transaction),
            MethodSpec::new("getTransactions", Execution::Medium, transactions::get_transactions),
        ],
        rest_values::METHODS,
    ];

    fn pinned(&self) -> Self {
        self.pin()
    }
}
