//! The first block: what is there before any transaction.

use chain::{BlockhashQueue, Cluster};
use ledger::Slot;
use serde::{Deserialize, Serialize};
use solana_account::{Account, AccountSharedData};
use solana_clock::Clock;
use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;
use solana_loader_v3_interface::get_program_data_address;
use solana_loader_v3_interface::state::UpgradeableLoaderState;
use solana_native_token::LAMPORTS_PER_SOL;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{bpf_loader_upgradeable, stake, system_program, vote};
use solana_signer::Signer;
use solana_stake_interface::stake_flags::StakeFlags;
use solana_stake_interface::state::{Authorized, Delegation, Lockup, Meta, Stake, StakeStateV2};
use solana_vote_interface::state::{VoteInit, VoteStateV4, VoteStateVersions};
use spl_generic_token::token::{self, native_mint};

use crate::config::{Config, GenesisLoader, GenesisProgram};
use crate::keys::NodeKeys;
use crate::sysvars;
use crate::vm::{LAMPORTS_PER_SIGNATURE, Vm};

/// Lamports of the mint, as `solana-test-validator` gives.
const MINT_LAMPORTS: u64 = 500_000_000 * LAMPORTS_PER_SOL;
/// Lamports of the validator's identity: pays a vote a slot for more than a year.
const IDENTITY_LAMPORTS: u64 = 500 * LAMPORTS_PER_SOL;
/// Lamports staked on the validator.
const STAKE_LAMPORTS: u64 = LAMPORTS_PER_SOL;

/// What was fixed when the ledger was made, kept with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Genesis {
    /// Names the ledger.
    pub(crate) hash: [u8; 32],
    /// Seconds since 1970.
    pub(crate) unix_timestamp: i64,
    /// Slots of an epoch.
    pub(crate) slots_per_epoch: u64,
    /// The mint, for the banner.
    pub(crate) mint: Option<[u8; 32]>,
}

/// A genesis that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// A program's ELF is not one that the VM takes.
    #[error("program {program_id} does not load: {reason}")]
    Program {
        /// Which program.
        program_id: Pubkey,
        /// What the VM said.
        reason: String,
    },
    /// A snapshot lacks something without which no block follows.
    #[error("the snapshot has no usable {0}")]
    Incomplete(&'static str),
    /// With the node's own accounts there are more lamports than a `u64` holds.
    #[error("the snapshot leaves no room for the lamports of the node's own accounts")]
    TooManyLamports,
    /// A sysvar that was given cannot be one.
    #[error("sysvar {address}: {reason}")]
    Sysvar {
        /// Which sysvar.
        address: Pubkey,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// All accounts together have more lamports than leaves room for what is to come.
    #[error("the accounts to begin with have {lamports} lamports together, at most {max}")]
    Lamports {
        /// How many.
        lamports: u128,
        /// How many there may be.
        max: u64,
    },
    /// Making the first block panicked; that is a bug of ours or of the VM's.
    #[error("making the first block panicked: {0}")]
    Panicked(String),
    /// An epoch is too short.
    #[error("an epoch has at least 32 slots, not {0} (--slots-per-epoch)")]
    EpochTooShort(u64),
}

impl Genesis {
    /// The facts of a new ledger. Its hash depends on its keys, so no two ledgers share one.
    pub(crate) fn new(config: &Config, keys: &NodeKeys, unix_timestamp: i64) -> Self {
        let hash = solana_sha256_hasher::hashv(&[
            b"hydrant genesis",
            keys.identity.pubkey().as_ref(),
            keys.faucet.pubkey().as_ref(),
            &unix_timestamp.to_le_bytes(),
        ]);
        Self {
            hash: hash.to_bytes(),
            unix_timestamp,
            slots_per_epoch: config.slots_per_epoch,
            mint: config.mint.map(|mint| mint.to_bytes()),
        }
    }

    pub(crate) fn hash(&self) -> Hash {
        Hash::new_from_array(self.hash)
    }

    pub(crate) fn epoch_schedule(&self) -> EpochSchedule {
        EpochSchedule::custom(self.slots_per_epoch, self.slots_per_epoch, false)
    }

    /// The facts that servers tell. Schedule and rent are what programs of `vm` see.
    pub(crate) fn cluster(
        &self,
        config: &Config,
        keys: &NodeKeys,
        vm: &Vm,
        first_slot: Slot,
    ) -> Cluster {
        Cluster {
            genesis_hash: self.hash(),
            genesis_unix_timestamp: self.unix_timestamp,
            identity: keys.identity.pubkey(),
            vote_account: keys.vote_account.pubkey(),
            faucet: keys.faucet.pubkey(),
            epoch_schedule: vm.svm().get_sysvar(),
            rent: vm.svm().get_sysvar(),
            lamports_per_signature: LAMPORTS_PER_SIGNATURE,
            slot_ms: config.slot_ms,
            first_slot,
            shred_version: shred_version(&self.hash()),
            feature_set: feature_set(),
            rpc: None,
            pubsub: None,
            tpu: None,
        }
    }

    /// A VM with everything that genesis has.
    pub(crate) fn build(&self, config: &Config, keys: &NodeKeys) -> Result<Vm, GenesisError> {
        if self.slots_per_epoch < solana_epoch_schedule::MINIMUM_SLOTS_PER_EPOCH {
            return Err(GenesisError::EpochTooShort(self.slots_per_epoch));
        }
        let mut vm = Vm::new();
        let blockhashes = BlockhashQueue::new(self.hash());
        sysvars::genesis(&mut vm, &self.epoch_schedule(), &blockhashes, self.unix_timestamp);
        add_own(&mut vm, config, keys, self.unix_timestamp)?;
        Ok(vm)
    }
}

/// Puts the accounts that every ledger of ours begins with, and those that `config` gives, over what
/// `vm` has, and gives their keys. A wallet or mint that is there already stays as it is.
pub(crate) fn add_own(
    vm: &mut Vm,
    config: &Config,
    keys: &NodeKeys,
    unix_timestamp: i64,
) -> Result<Vec<Pubkey>, GenesisError> {
    let wallet = |lamports| AccountSharedData::new(lamports, 0, &system_program::ID);
    let mut put = vec![keys.faucet.pubkey(), keys.identity.pubkey()];
    vm.put(keys.faucet.pubkey(), &wallet(config.faucet_lamports));
    vm.put(keys.identity.pubkey(), &wallet(IDENTITY_LAMPORTS));
    if let Some(mint) = config.mint
        && vm.account(&mint).is_none()
    {
        vm.put(mint, &wallet(MINT_LAMPORTS));
        put.push(mint);
    }
    vm.put(keys.vote_account.pubkey(), &vote_account(vm, keys, unix_timestamp));
    vm.put(keys.stake_account.pubkey(), &stake_account(vm, keys));
    put.extend([keys.vote_account.pubkey(), keys.stake_account.pubkey()]);
    if vm.account(&native_mint::id()).is_none() {
        vm.put(native_mint::id(), &native_mint());
        put.push(native_mint::id());
    }
    for program in &config.programs {
        add_program(vm, program)?;
        put.extend([program.program_id, get_program_data_address(&program.program_id)]);
    }
    for given in &config.accounts {
        vm.put(given.address, &given.account);
        put.push(given.address);
    }
    put.sort_unstable();
    put.dedup();
    Ok(put)
}

/// The identifier of the features that are active, as `getVersion` has it.
fn feature_set() -> u32 {
    let active = litesvm::LiteSVM::mainnet_feature_set();
    let mut ids: Vec<_> = active.active().keys().collect();
    ids.sort();
    let hash = solana_sha256_hasher::hashv(&ids.iter().map(|id| id.as_ref()).collect::<Vec<_>>());
    u32::from_le_bytes(first_bytes(&hash))
}

/// The shred version of a genesis hash: its halves folded, never 0.
fn shred_version(genesis: &Hash) -> u16 {
    let folded = genesis
        .as_ref()
        .chunks_exact(2)
        .fold(0, |acc, pair| acc ^ u16::from_be_bytes([pair[0], pair[1]]));
    folded.saturating_add(1)
}

fn first_bytes(hash: &Hash) -> [u8; 4] {
    let bytes = hash.to_bytes();
    [bytes[0], bytes[1], bytes[2], bytes[3]]
}

fn vote_account(vm: &Vm, keys: &NodeKeys, unix_timestamp: i64) -> AccountSharedData {
    let identity = keys.identity.pubkey();
    let init = VoteInit {
        node_pubkey: identity,
        authorized_voter: identity,
        authorized_withdrawer: identity,
        commission: 0,
    };
    let clock = Clock { unix_timestamp, ..Clock::default() };
    let state = VoteStateV4::new_with_defaults(&keys.vote_account.pubkey(), &init, &clock);
    let mut data = bincode::serialize(&VoteStateVersions::new_v4(state)).unwrap_or_default();
    data.resize(VoteStateV4::size_of(), 0);
    owned(vm, data, vote::ID, 0)
}

#[expect(deprecated, reason = "programs still read the reserve that the account states")]
fn stake_account(vm: &Vm, keys: &NodeKeys) -> AccountSharedData {
    let identity = keys.identity.pubkey();
    let space = StakeStateV2::size_of();
    let rent_exempt_reserve = vm.svm().minimum_balance_for_rent_exemption(space);
    let meta = Meta {
        rent_exempt_reserve,
        authorized: Authorized::auto(&identity),
        lockup: Lockup::default(),
    };
    // Activated before the first epoch, so that it counts from the start.
    let delegation = Delegation::new(&keys.vote_account.pubkey(), STAKE_LAMPORTS, u64::MAX);
    let stake = Stake { delegation, credits_observed: 0 };
    let state = StakeStateV2::Stake(meta, stake, StakeFlags::empty());
    let mut data = bincode::serialize(&state).unwrap_or_default();
    data.resize(space, 0);
    owned(vm, data, stake::ID, STAKE_LAMPORTS)
}

/// The mint of wrapped SOL, which every cluster's genesis has. Token-2022's is made by who needs it.
fn native_mint() -> AccountSharedData {
    AccountSharedData::from(Account {
        lamports: LAMPORTS_PER_SOL,
        data: native_mint::ACCOUNT_DATA.to_vec(),
        owner: token::id(),
        executable: false,
        rent_epoch: u64::MAX,
    })
}

fn owned(vm: &Vm, data: Vec<u8>, owner: Pubkey, extra_lamports: u64) -> AccountSharedData {
    let lamports = vm.svm().minimum_balance_for_rent_exemption(data.len()) + extra_lamports;
    AccountSharedData::from(Account {
        lamports,
        data,
        owner,
        executable: false,
        rent_epoch: u64::MAX,
    })
}

fn add_program(vm: &mut Vm, program: &GenesisProgram) -> Result<(), GenesisError> {
    let program_id = program.program_id;
    vm.svm_mut()
        .add_program(program_id, &program.elf)
        .map_err(|err| GenesisError::Program { program_id, reason: err.to_string() })?;
    let GenesisLoader::Upgradeable(authority) = program.loader else { return Ok(()) };
    let data_address = get_program_data_address(&program_id);
    let mut data = bincode::serialize(&UpgradeableLoaderState::ProgramData {
        slot: 0,
        upgrade_authority_address: Some(authority),
    })
    .unwrap_or_default();
    data.resize(UpgradeableLoaderState::size_of_programdata_metadata(), 0);
    data.extend_from_slice(&program.elf);
    vm.put(data_address, &owned(vm, data, bpf_loader_upgradeable::ID, 0));
    Ok(())
}
