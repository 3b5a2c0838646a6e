//! Airdrops: lamports for a client, and the reasons for a refusal.

use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;

use crate::{SendError, Sender};

/// Why an airdrop was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AirdropError {
    /// The request is above the faucet's limit.
    #[error(
        "airdrop of {lamports} lamports exceeds the limit of {limit} (--faucet-per-request-sol-cap)"
    )]
    TooMuch {
        /// The requested lamports.
        lamports: u64,
        /// The limit for one request (`--faucet-per-request-sol-cap`).
        limit: u64,
    },
    /// The request is above the limit for one receiver in a time slice.
    #[error(
        "airdrop of {lamports} lamports, after {received} in this slice of {seconds} s, exceeds the limit of {limit} \
         (--faucet-per-time-sol-cap, --faucet-time-slice-secs)"
    )]
    TooMuchInTime {
        /// The requested lamports.
        lamports: u64,
        /// Lamports that the receiver got in this time slice.
        received: u64,
        /// The limit for one receiver in a time slice.
        limit: u64,
        /// The length of a time slice in seconds.
        seconds: u64,
    },
    /// Too many receivers in a time slice. Fix: try again later.
    #[error("{limit} receivers got airdrops in this slice of {seconds} s, the maximum")]
    TooManyReceivers {
        /// The limit of receivers in a time slice.
        limit: usize,
        /// The length of a time slice in seconds.
        seconds: u64,
    },
    /// The node has no faucet, and its upstream has none either.
    #[error("this node has no faucet: it follows a chain")]
    NoFaucet,
    /// The ledger did not accept the transfer.
    #[error(transparent)]
    Send(#[from] SendError),
}

/// Sends lamports to clients on request. A followed chain has no faucet.
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
