//! What a local ledger can be told. Every knob has its unit, its default and its cost.

use std::path::PathBuf;

use chain::HistoryLimits;
use ledger::Slot;
use query::Indices;
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
pub const SLOTS_PER_EPOCH_DEFAULT: u64 = 8_192;
/// Transactions that may wait for the executing thread, about a second of its work and 30 MB.
pub const QUEUE_MAX_DEFAULT: usize = 20_000;
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
    /// Addresses that the ledger may know.
    pub addresses_max: u32,
    /// By which keys accounts are found.
    pub indices: Indices,
    /// Lamports of the faucet at genesis.
    pub faucet_lamports: u64,
    /// Lamports that one airdrop gives at most.
    pub airdrop_lamports_max: Option<u64>,
    /// Who gets the lamports of genesis that are not the faucet's.
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
            addresses_max: ADDRESSES_MAX_DEFAULT,
            indices: Indices::default(),
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
