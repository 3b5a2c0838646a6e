//! What is written of a bank into an archive, besides its accounts.
//!
//! Not here: its bytes (`fields_writer`), the archive (`archive_writer`), what is read from one (`bank_fields`).

use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;
use solana_inflation::Inflation;
use solana_pubkey::Pubkey;

use crate::epoch_stakes::EpochStakes;

/// The only storage file of its slot.
pub(crate) const STORAGE_ID: u64 = 1;

/// What a bank states besides its accounts. It has no hard forks.
#[derive(Clone, Debug)]
pub struct ArchivedBank {
    /// The slot.
    pub slot: u64,
    /// The parent's slot.
    pub parent_slot: u64,
    /// Number of blocks before it.
    pub block_height: u64,
    /// The hash of the bank.
    pub bank_hash: Hash,
    /// The hash of the parent's bank.
    pub parent_hash: Hash,
    /// Transactions since genesis, votes included.
    pub transaction_count: u64,
    /// Signatures in the block.
    pub signature_count: u64,
    /// The node that led the slot.
    pub leader: Pubkey,
    /// Time of genesis: seconds since 1970.
    pub genesis_unix_timestamp: i64,
    /// The epoch schedule.
    pub epoch_schedule: EpochSchedule,
    /// Nanoseconds of a slot.
    pub ns_per_slot: u128,
    /// The hashes that transactions may use, the oldest first; never empty.
    pub blockhashes: Vec<Hash>,
    /// Lamports that a signature costs.
    pub lamports_per_signature: u64,
    /// The parameters of inflation.
    pub inflation: Inflation,
    /// The stakes of this and of the next epoch.
    pub epoch_stakes: Vec<EpochStakes>,
    /// The status cache as Agave stores it; empty for none.
    pub status_cache: Vec<u8>,
}
