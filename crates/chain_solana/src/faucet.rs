//! Airdrops: lamports for a client, and why it gets none.

use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;

use crate::{SendError, Sender};

/// Why an airdrop was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AirdropError {
    /// More than the faucet's limit.
    #[error(
        "airdrop of {lamports} lamports exceeds the limit of {limit} (--faucet-per-request-sol-cap)"
    )]
    TooMuch {
        /// The requested lamports.
        lamports: u64,
        /// The limit.
        limit: u64,
    },
    /// More than the limit for one receiver in a slice of time.
    #[error(
        "airdrop of {lamports} lamports, after {received} in this slice of {seconds} s, exceeds the limit of {limit} \
         (--faucet-per-time-sol-cap, --faucet-time-slice-secs)"
    )]
    TooMuchInTime {
        /// The requested lamports.
        lamports: u64,
        /// What the receiver got in this slice.
        received: u64,
        /// The limit.
        limit: u64,
        /// The slice of time.
        seconds: u64,
    },
    /// Too many receivers in a slice of time. Fix: try again later.
    #[error("{limit} receivers got airdrops in this slice of {seconds} s, the maximum")]
    TooManyReceivers {
        /// The limit.
        limit: usize,
        /// The slice of time.
        seconds: u64,
    },
    /// The node has no faucet, and its upstream has none either.
    #[error("this node has no faucet: it follows a chain")]
    NoFaucet,
    /// The transfer was not accepted.
    #[error(transparent)]
    Send(#[from] SendError),
}

/// Gives away lamports. A followed chain has none.
pub trait Faucet: Send + Sync + 'static {
    /// Queues a transfer from the faucet with `blockhash`. Returns its signature. The transfer fails in its block if
    /// the faucet has fewer lamports. It is executed before transactions that `sender` sends later with `to` as their
    /// fee payer.
    fn airdrop(
        &self,
        sender: Sender,
        to: Pubkey,
        lamports: u64,
        blockhash: Hash,
    ) -> Result<Signature, AirdropError>;
}
