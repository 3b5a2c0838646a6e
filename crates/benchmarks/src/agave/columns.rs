//! The columns of the tables of suites: each program, and Hydrant once more without its response cache.
//!
//! Shape: blocks and transactions of a history are final, so that after the first response they come from the response
//! cache. The last column has the suites that read them, computed each time, as the validator does it.

use loadgen_solana::Suite;

use super::nodes::{HydrantOptions, Program};

/// The suites of the PR. Its tool could not select program-accounts.
pub(super) const SUITES: [Suite; 13] = [
    Suite::AccountInfo,
    Suite::Block,
    Suite::Blocks,
    Suite::FirstAvailableBlock,
    Suite::MultipleAccounts,
    Suite::Slot,
    Suite::Supply,
    Suite::TokenAccountsByDelegate,
    Suite::TokenAccountsByOwner,
    Suite::TokenSupply,
    Suite::Transaction,
    Suite::TransactionParsed,
    Suite::Version,
];

/// The suites that read the history.
const HISTORY_SUITES: [Suite; 3] = [Suite::Block, Suite::Transaction, Suite::TransactionParsed];

/// A column of the tables of suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Validator,
    Hydrant,
    HydrantWithoutCache,
}

impl Column {
    /// All columns, the rival first.
    pub(super) const ALL: [Self; 3] = [Self::Validator, Self::Hydrant, Self::HydrantWithoutCache];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Validator | Self::Hydrant => self.program().name(),
            Self::HydrantWithoutCache => "hydrant dev without response cache",
        }
    }

    pub(super) fn program(self) -> Program {
        match self {
            Self::Validator => Program::Validator,
            Self::Hydrant | Self::HydrantWithoutCache => Program::Hydrant,
        }
    }

    /// Returns how the program is started.
    pub(super) fn options(self) -> HydrantOptions {
        match self {
            Self::Validator | Self::Hydrant => HydrantOptions::default(),
            Self::HydrantWithoutCache => HydrantOptions::without_response_cache(),
        }
    }

    /// Returns the suites that are measured.
    pub(super) fn suites(self) -> &'static [Suite] {
        match self {
            Self::Validator | Self::Hydrant => &SUITES,
            Self::HydrantWithoutCache => &HISTORY_SUITES,
        }
    }
}
