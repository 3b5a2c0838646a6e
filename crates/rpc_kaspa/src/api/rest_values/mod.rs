//! The values behind the routes of REST, in the shapes of api.kaspa.org: the methods `rest…`.
//!
//! Members have the names of kaspa-rest-server: camel case in values from kaspad, snake case in values from its database.
//! Amounts and scores of UTXOs are strings, amounts of balances and of transactions are numbers.
//! An address with the prefix of another network is refused, as there. The other methods accept it.
//! The results have no position. A caller that needs it pins the API ([`jsonrpc::Api::pinned`]) for the call and for the
//! position.
//! Bounds: [`super::rest_limits`]. Lists of UTXOs and of transactions are written in parts.
//! Not here: routes, statuses and headers (`rest_kaspa`).

mod address_reader;
mod balances;
mod network;
mod transaction_options;
mod transaction_pages;
mod transaction_times;
mod transaction_writer;
mod transactions;
mod utxo_writer;
mod utxos;

use jsonrpc::{Execution, MethodSpec};

use super::kaspa_api::KaspaApi;

/// The methods. None of them may be cached or revalidated by its dependencies: the position in the headers of a response is
/// that of the pinned API, and a result that is remembered from another version, or a 304 before the call, would not be.
pub(super) const METHODS: &[MethodSpec<KaspaApi>] = &[
    MethodSpec::new("restGetBalance", Execution::Inline, balances::get_balance),
    MethodSpec::new("restGetBalances", Execution::Medium, balances::get_balances),
    MethodSpec::new(
        "restGetUtxos",
        Execution::ByCost { class_max: cpu_pool::Class::Heavy, class: utxos::classify_utxos },
        utxos::get_utxos,
    ),
    MethodSpec::new("restGetUtxoPage", Execution::Medium, utxos::get_utxo_page),
    MethodSpec::new(
        "restFindTransactions",
        Execution::Medium,
        transaction_pages::find_transactions,
    ),
    MethodSpec::new(
        "restFindTransactionsByTime",
        Execution::Medium,
        transaction_times::find_transactions_by_time,
    ),
    MethodSpec::new("restGetTransactions", Execution::Medium, transactions::get_transactions),
    MethodSpec::new("restGetTransaction", Execution::Light, transactions::get_transaction),
    MethodSpec::new("restGetCoinSupply", Execution::Inline, network::get_coin_supply),
    MethodSpec::new("restGetCirculatingCoins", Execution::Inline, network::get_circulating_coins),
    MethodSpec::new("restGetBlockDag", Execution::Inline, network::get_block_dag),
    MethodSpec::new("restGetBlueScore", Execution::Inline, network::get_blue_score),
    MethodSpec::new("restGetHealth", Execution::Inline, network::get_health),
];

/// Fails the build for a method that may be cached or revalidated by its dependencies.
const _: () = {
    let mut at = 0;
    while at < METHODS.len() {
        let method = &METHODS[at];
        let is_remembered =
            method.cache_dependencies.is_some() || method.revalidation_dependencies.is_some();
        assert!(!is_remembered, "the position of a response is that of the pinned API");
        at += 1;
    }
};
