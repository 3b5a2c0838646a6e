//! The settings of a local ledger. Every setting has its unit, its default and its cost.

use std::path::PathBuf;
use std::sync::Arc;

use chain_solana::{HistoryLimits, StartPoint};
use ledger::Slot;
use query::{IndexConfig, LedgerConfig};
use solana_inflation::Inflation;
use solana_pubkey::Pubkey;
use svm::RuntimeLimits;

use crate::airdrop_limits::AirdropLimits;

/// Default of the blocks of history that are retained: 67 minutes of 400 ms slots, about 36 MB with one vote a block.
pub const HISTORY_SLOTS_DEFAULT: u64 = 10_000;
/// Default of the bytes of history that are retained: about 500,000 transfers.
pub const HISTORY_BYTES_DEFAULT: u64 = 1 << 30;
/// Slots from confirmed to finalized, as on a cluster.
pub const FINALIZE_AFTER_DEFAULT: u64 = 31;
/// Milliseconds of a slot, as on a cluster.
pub const SLOT_MS_DEFAULT: u64 = 400;
/// Slots of an epoch, as in `solana-test-validator`.
pub const SLOTS_PER_EPOCH_DEFAULT: u64 = 432_000;
/// Transactions that may wait for the executing thread: some seconds of its work, and 60 MB if each fits into a
/// packet. One client gets half of them at most.
pub const QUEUE_MAX_DEFAULT: usize = 40_000;
/// Compute units that waiting transactions may request: as many as they request by default with one instruction
/// each. If they use them, it is about ten seconds of the executing thread's work.
pub const QUEUE_COMPUTE_UNITS_MAX_DEFAULT: u64 = 8_000_000_000;
/// The fewest compute units that may be set: one transaction requests up to 1,400,000, and a client's share must be
/// at least that.
pub const QUEUE_COMPUTE_UNITS_MAX_MIN: u64 = 10_000_000;
/// The last slot to which a ledger is warped.
pub const WARP_SLOT_MAX: Slot = StartPoint::SLOT_MAX;
/// The last slot at which a ledger is opened: a ledger that was warped to the last slot reaches it after 27 years.
pub(crate) const HEAD_SLOT_MAX: Slot = u64::MAX - (1 << 31);
/// Addresses in the ledger's table at most: 100 bytes each once used.
pub const ADDRESSES_MAX_DEFAULT: u32 = 64_000_000;

/// Bytes of the accounts of the start that are retained for a reset: those of a new ledger have about 5 MB.
pub const BASELINE_BYTES_MAX_DEFAULT: u64 = 64 << 20;

/// The configuration of a local ledger.
#[derive(Clone, Debug)]
pub struct Config {
    /// Milliseconds of a slot. 0 makes a block for every transaction, and none without one.
    pub slot_ms: u64,
    /// Whether blocks are made on request only ([`chain_solana::ForkControl::mine`]). Transactions wait in the queue.
    /// With
    /// `slot_ms` 0.
    pub is_manual: bool,
    /// Slots from confirmed to finalized.
    pub finalize_after: u64,
    /// Slots of an epoch, at least 32. Fixed at genesis.
    pub slots_per_epoch: u64,
    /// Slot of the first block that is built.
    pub warp_slot: Option<Slot>,
    /// The start of a new ledger. Default: at slot 0, now, with the epochs of `slots_per_epoch`.
    pub start: Option<Arc<StartPoint>>,
    /// Whether transactions with any blockhash are executed. A transaction is executed once within
    /// [`chain_solana::RECENT_BLOCKHASHES_MAX`] blocks.
    pub skips_blockhash_check: bool,
    /// How much history is retained.
    pub history: HistoryLimits,
    /// Transactions that may wait for the executing thread.
    pub queue_max: usize,
    /// Compute units that waiting transactions may request.
    pub queue_compute_units_max: u64,
    /// Addresses in the ledger's table at most.
    pub addresses_max: u32,
    /// Bytes of accounts in memory at most. A transaction or command that would exceed it has no effect. No limit by
    /// default.
    pub account_bytes_max: u64,
    /// The keys by which accounts are indexed.
    pub indices: IndexConfig,
    /// Inflation of the ledger. Fixed at genesis.
    pub inflation: Inflation,
    /// Lamports of the faucet at genesis.
    pub faucet_lamports: u64,
    /// The limits of airdrops.
    pub airdrops: AirdropLimits,
    /// The account that gets the lamports of genesis other than the faucet's. Default: a new key, whose private key
    /// is discarded.
    pub mint: Option<Pubkey>,
    /// Directory of the ledger. Default: in memory only.
    pub dir: Option<PathBuf>,
    /// Which features are active. Fixed at genesis.
    pub features: FeatureChoice,
    /// Accounts at genesis.
    pub accounts: Vec<GenesisAccount>,
    /// Programs at genesis.
    pub programs: Vec<GenesisProgram>,
    /// Whether a program of genesis that cannot be executed is refused.
    pub verifies_programs: bool,
    /// Threads that simulate at the same time. Each has its own VM of about 30 MB.
    pub simulators: usize,
    /// Limits of every transaction in place of those of the protocol. The queue counts no more compute units of a
    /// transaction than the protocol allows.
    pub runtime_limits: RuntimeLimits,
    /// Bytes of the accounts of the start that are retained for a reset. None are retained of a ledger with more, and
    /// with 0.
    pub baseline_bytes_max: u64,
}

/// Which of Agave's features are active in a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureChoice {
    /// The base set. Without one a new ledger has the default, a ledger from a snapshot has mainnet's set and the
    /// snapshot's, and an existing ledger has its own.
    pub base: Option<FeatureBase>,
    /// Features of that set that stay inactive.
    pub deactivated: Vec<Pubkey>,
}

/// A set of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeatureBase {
    /// All that the node knows except Alpenglow, as in `solana-test-validator`.
    #[default]
    All,
    /// Those that are active on mainnet, as LiteSVM lists them.
    Mainnet,
}

/// An account of the ledger at genesis.
#[derive(Clone, Debug)]
pub struct GenesisAccount {
    /// Address of the account.
    pub address: Pubkey,
    /// Content of the account.
    pub account: solana_account::AccountSharedData,
}

/// A program of the ledger at genesis.
#[derive(Clone, Debug)]
pub struct GenesisProgram {
    /// Address of the program.
    pub program_id: Pubkey,
    /// The ELF.
    pub elf: Vec<u8>,
    /// The loader that owns it.
    pub loader: GenesisLoader,
}

/// The loader that owns a program of genesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenesisLoader {
    /// `--bpf-program`: the upgradeable loader, with an authority that cannot sign.
    Final,
    /// `--upgradeable-program`: the upgradeable loader. This key may upgrade the program.
    Upgradeable(Pubkey),
}

/// A setting is out of its range. Fix: the message names the range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The ledger would run out of slots.
    #[error("--warp-slot {slot}: at most {WARP_SLOT_MAX}, so that slots remain after it")]
    WarpSlot {
        /// The value of the setting.
        slot: Slot,
    },
    /// Blocks are made on request, and by a clock.
    #[error(
        "--block-mode manual with slots of {slot_ms} ms: blocks are made on request only (--slot-ms 0)"
    )]
    ManualSlots {
        /// The slots' time.
        slot_ms: u64,
    },
    /// No transaction would ever fit.
    #[error("--queue-max {transactions}: at least 1")]
    Queue {
        /// The value of the setting.
        transactions: usize,
    },
    /// A transaction with the largest compute unit limit would never fit.
    #[error("--queue-compute-units-max {compute_units}: at least {QUEUE_COMPUTE_UNITS_MAX_MIN}")]
    QueueComputeUnits {
        /// The value of the setting.
        compute_units: u64,
    },
}

impl Config {
    /// The limits of the ledger's state.
    pub fn ledger(&self) -> LedgerConfig {
        LedgerConfig { addresses_max: self.addresses_max, indices: self.indices.clone() }
    }

    /// Checks that every setting is in its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        if let Some(slot) = self.warp_slot.filter(|slot| *slot > WARP_SLOT_MAX) {
            return Err(ConfigError::WarpSlot { slot });
        }
        if self.is_manual && self.slot_ms != 0 {
            return Err(ConfigError::ManualSlots { slot_ms: self.slot_ms });
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
            is_manual: false,
            finalize_after: FINALIZE_AFTER_DEFAULT,
            slots_per_epoch: SLOTS_PER_EPOCH_DEFAULT,
            warp_slot: None,
            start: None,
            skips_blockhash_check: false,
            history: HistoryLimits {
                blocks_max: HISTORY_SLOTS_DEFAULT,
                bytes_max: HISTORY_BYTES_DEFAULT,
            },
            queue_max: QUEUE_MAX_DEFAULT,
            queue_compute_units_max: QUEUE_COMPUTE_UNITS_MAX_DEFAULT,
            addresses_max: ADDRESSES_MAX_DEFAULT,
            account_bytes_max: u64::MAX,
            indices: IndexConfig::default(),
            inflation: Inflation::default(),
            faucet_lamports: 1_000_000 * solana_native_token::LAMPORTS_PER_SOL,
            airdrops: AirdropLimits::default(),
            mint: None,
            dir: None,
            features: FeatureChoice::default(),
            accounts: Vec::new(),
            programs: Vec::new(),
            verifies_programs: true,
            simulators: 2,
            runtime_limits: RuntimeLimits::default(),
            baseline_bytes_max: BASELINE_BYTES_MAX_DEFAULT,
        }
    }
}
