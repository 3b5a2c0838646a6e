//! The Solana dialect: the account record, the keys of its indexes, and its JSON; the links of Proof of History; the
//! stakes of epochs, and the results of verifying banks.
//!
//! Not here: blocks and transactions (`chain_solana`), execution (`localnet`), sockets (`http_server`).

mod account;
mod encode;
mod entry;
mod epoch_stakes;
mod filter;
mod incremental;
mod json_u64;
pub mod key_kind;
mod lt_hash;
mod non_circulating;
mod pack;
mod patch;
mod token;
mod verification;

pub use account::Account;
pub use encode::{Base58TooLong, Encoding, parsed_token};
pub use entry::Entry;
pub use epoch_stakes::{EpochStakes, EpochVoter};
pub use filter::{FilterError, Filters};
pub use incremental::{AccountEncoder, LONG_BYTES_MIN};
pub use json_u64::JsonU64;
pub use lt_hash::lt_hash;
pub use non_circulating::{is_non_circulating_withdrawer, non_circulating_accounts};
pub use token::{MintInfo, TokenBalance, holding, is_native_mint, mint_of, supply};
pub use verification::{
    BankMismatch, HashReporter, TransactionCheck, TransactionFault, TransactionProof,
    VerificationLevel, VotedStake,
};
