//! What a local ledger can be told. Every knob has its unit, its default and its cost.

use std::path::PathBuf;

use chain_solana::HistoryLimits;
use ledger::Slot;
use query::IndexConfig;
use solana_inflation::Inflation;
use solana_pubkey::Pubkey;

/// Slots of history kept when nothing else is said: 67 minutes of 400 ms slots. With one vote a
/// block that is about 36 MB.
pub const HISTORY_SLOTS_DEFAULT: u64 = 10_000;
/// Bytes of history kept when nothing else is said, about 500,000 transfers.
pub const HISTORY_BYTES_DEFAULT: u64 = 1 << 30;
/// Slots from confirmed to finalized, as on a cluster.
pub const FINALIZE_AFTER_DEFAULT: u64 = 31;
/// Milliseconds of a slot, as on a cluster.
pub const SLOT_MS_DEFAULT: u64 = 400;
/// Slots of an epoch, as `solana-test-validator` has.
pub const SLOTS_PER_EPOCH_DEFAULT: u64 = 432_000;
/// Transactions that may wait for the executing thread: some seconds of its work, and 60 MB of those that fit into a
/// packet. One client has half of them at most.
pub const QUEUE_MAX_DEFAULT: usize = 40_000;
/// Compute units that those may ask for: as many as they ask for by default with one instruction each. If they use
/// them, it is about ten seconds of the executing thread's work.
pub const QUEUE_COMPUTE_UNITS_MAX_DEFAULT: u64 = 8_000_000_000;
/// The fewest compute units that may be set: one transaction asks for up to 1,400,000, and a share must hold it.
pub const QUEUE_COMPUTE_UNITS_MAX_MIN: u64 = 10_000_000;
/// The last slot that a ledger is warped to: 2^32 slots are left, which is 54 years of 400 ms.
pub const WARP_SLOT_MAX: Slot = u64::MAX - (1 << 32);
/// The last slot of a ledger that is opened: one that was warped has 27 years until then.
pub(crate) const HEAD_SLOT_MAX: Slot = u64::MAX - (1 << 31);
/// Addresses that the ledger may know: 100 bytes each once used.
pub const ADDRESSES_MAX_DEFAULT: u32 = 64_000_000;

/// What a local ledger is and how it runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Milliseconds of a slot; 0 makes a block of every transaction, and none without.
    pub slot_ms: u64,
    /// Slots from confirmed to finalized.
    pub finalize_after: u64,
    /// Slots of an epoch, at least 32. Fixed at genesis.
    pub slots_per_epoch: u64,
    /// Build the first block at this slot.
    pub warp_slot: Option<Slot>,
    /// How much history is kept.
    pub history: HistoryLimits,
    /// Transactions that may wait for the executing thread.
    pub queue_max: usize,
    /// Compute units that those which wait may ask for.
    pub queue_compute_units_max: u64,
    /// Addresses that the ledger may know.
    pub addresses_max: u32,
    /// By which keys accounts are found.
    pub indices: IndexConfig,
    /// How fast the ledger makes lamports. Fixed at genesis.
    pub inflation: Inflation,
    /// Lamports of the faucet at genesis.
    pub faucet_lamports: u64,
    /// Lamports that one airdrop gives at most.
    pub airdrop_lamports_max: Option<u64>,
    /// Who gets the lamports of genesis that are not the faucet's: without it, a key that nobody has.
    pub mint: Option<Pubkey>,
    /// Where the ledger is kept; in memory only if not given.
    pub dir: Option<PathBuf>,
    /// Which features are active. Fixed at genesis.
    pub features: FeatureChoice,
    /// Accounts to begin with.
    pub accounts: Vec<GenesisAccount>,
    /// Programs to begin with.
    pub programs: Vec<GenesisProgram>,
    /// Threads that simulate at the same time, each with a VM of its own of about 30 MB.
    pub simulators: usize,
}

/// Which of Agave's features are active in a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureChoice {
    /// The set to begin with. Without one a new ledger has the default, a snapshot's has mainnet's and its own, and
    /// a ledger that is there already keeps what it has.
    pub base: Option<FeatureBase>,
    /// Features of that set which stay inactive all the same.
    pub deactivated: Vec<Pubkey>,
}

/// A set of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeatureBase {
    /// All that the node knows but Alpenglow, as `solana-test-validator` has them.
    #[default]
    All,
    /// Those that are active on mainnet, as LiteSVM lists them.
    Mainnet,
}

/// An account that the ledger begins with.
#[derive(Clone, Debug)]
pub struct GenesisAccount {
    /// Its address.
    pub address: Pubkey,
    /// What stands there.
    pub account: solana_account::AccountSharedData,
}

/// A program that the ledger begins with.
#[derive(Clone, Debug)]
pub struct GenesisProgram {
    /// Its address.
    pub program_id: Pubkey,
    /// The ELF.
    pub elf: Vec<u8>,
    /// Which loader owns it.
    pub loader: GenesisLoader,
}

/// Which loader owns a program of genesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenesisLoader {
    /// `--bpf-program`: under the upgradeable loader, and its authority is a key that cannot sign.
    Final,
    /// `--upgradeable-program`: this key may upgrade it.
    Upgradeable(Pubkey),
}

/// Which setting is out of its range. Fix: the message says what it may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The ledger would run out of slots.
    #[error("--warp-slot {slot}: at most {WARP_SLOT_MAX}, so that slots are left to go on")]
    WarpSlot {
        /// What was set.
        slot: Slot,
    },
    /// No transaction would ever fit.
    #[error("--queue-max {transactions}: at least 1")]
    Queue {
        /// What was set.
        transactions: usize,
    },
    /// A transaction that asks for all that one may ask for would never fit.
    #[error("--queue-compute-units-max {compute_units}: at least {QUEUE_COMPUTE_UNITS_MAX_MIN}")]
    QueueComputeUnits {
        /// What was set.
        compute_units: u64,
    },
}

impl Config {
    /// Whether every setting is in its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        if let Some(slot) = self.warp_slot.filter(|slot| *slot > WARP_SLOT_MAX) {
            return Err(ConfigError::WarpSlot { slot });
        }
        if self.queue_max == 0 {
            return Err(ConfigError::Queue { transactions: self.queue_max });
        }
        if self.queue_compute_units_max < QUEUE_COMPUTE_UNITS_MAX_MIN {
            return Err(ConfigError::QueueComputeUnits {
                compute_units: self.queue_compute_units_max,
            });
        }
        Ok(())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            slot_ms: SLOT_MS_DEFAULT,
            finalize_after: FINALIZE_AFTER_DEFAULT,
            slots_per_epoch: SLOTS_PER_EPOCH_DEFAULT,
            warp_slot: None,
            history: HistoryLimits {
                slots_max: HISTORY_SLOTS_DEFAULT,
                bytes_max: HISTORY_BYTES_DEFAULT,
            },
            queue_max: QUEUE_MAX_DEFAULT,
            queue_compute_units_max: QUEUE_COMPUTE_UNITS_MAX_DEFAULT,
            addresses_max: ADDRESSES_MAX_DEFAULT,
            indices: IndexConfig::default(),
            inflation: Inflation::default(),
            faucet_lamports: 1_000_000 * solana_native_token::LAMPORTS_PER_SOL,
            airdrop_lamports_max: None,
            mint: None,
            dir: None,
            features: FeatureChoice::default(),
            accounts: Vec::new(),
            programs: Vec::new(),
            simulators: 2,
        }
    }
}
