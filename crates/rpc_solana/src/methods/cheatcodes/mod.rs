//! Cheat codes: methods that change a local ledger past its rules, by surfpool's names and shapes where it has them.
//!
//! Each file has a table, as in the parent folder. [`TABLES`] joins them. Each method is behind the gate (`gated!`),
//! and pages of other origins may not call it.
//! Not here: their state (`crate::cheatcodes`), the ledger's part ([`chain_solana::LedgerControl`]).

macro_rules! gated {
    ($name:literal, $execution:expr, $run:path) => {
        jsonrpc::MethodSpec::new($name, $execution, |api: &crate::solana_api::SolanaApi, params| {
            api.cheatcodes.gate.check($name)?;
            $run(api, params)
        })
        .dangerous()
    };
}

mod access;
mod accounts;
mod control_result;
mod executed_profile;
mod fork_control;
mod hex;
mod impersonation;
mod info;
mod profiles;
mod programs;
mod resets;
mod snapshot;
mod time;
mod tokens;
mod upstream;

use jsonrpc::MethodSpec;

use crate::solana_api::SolanaApi;

pub(super) use impersonation::verify;

/// The tables of all cheat codes. One line per file.
pub(super) const TABLES: &[&[MethodSpec<SolanaApi>]] = &[
    access::METHODS,
    accounts::METHODS,
    fork_control::METHODS,
    impersonation::METHODS,
    info::METHODS,
    profiles::METHODS,
    programs::METHODS,
    resets::METHODS,
    snapshot::METHODS,
    time::METHODS,
    tokens::METHODS,
    upstream::METHODS,
];
