//! Genesis: the accounts before any transaction.

use std::sync::Arc;

use chain_solana::{BlockhashQueue, ClusterInfo, InflationSchedule, StartPoint};
use ledger::Slot;
use serde::{Deserialize, Serialize};
use solana_account::{Account, AccountSharedData};
use solana_bls_signatures::Keypair as BlsKeypair;
use solana_clock::Clock;
use solana_epoch_schedule::EpochSchedule;
use solana_feature_set::FeatureSet;
use solana_hash::Hash;
use solana_inflation::Inflation;
use solana_keypair::Keypair;
use solana_native_token::LAMPORTS_PER_SOL;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{stake, system_program, sysvar, vote};
use solana_signer::Signer;
use solana_stake_interface::stake_flags::StakeFlags;
use solana_stake_interface::stake_history::StakeHistory;
use solana_stake_interface::state::{Authorized, Delegation, Lockup, Meta, Stake, StakeStateV2};
use solana_vote_interface::state::{VoteInit, VoteStateV4, VoteStateVersions};
use spl_generic_token::token::{self, native_mint};
use svm::sysvars::{self, GenesisContext};
use svm::{LAMPORTS_PER_SIGNATURE, Vm};

use crate::config::{Config, GenesisAccount};
use crate::error::GenesisError;
use crate::keypairs::NodeKeypairs;
use crate::programs;

/// Lamports of the mint, as in `solana-test-validator`.
const MINT_LAMPORTS: u64 = 500_000_000 * LAMPORTS_PER_SOL;
/// Lamports of the validator's identity: enough for a vote a slot for more than a year.
const IDENTITY_LAMPORTS: u64 = 500 * LAMPORTS_PER_SOL;
/// Lamports of the validator's stake account, and of its vote account.
const STAKE_LAMPORTS: u64 = 1_000_000 * LAMPORTS_PER_SOL;
/// The message that the voter signs to derive its BLS key, as in Agave.
const BLS_SEED: &[u8] = b"bls-key-derive-alpenglow";
/// The data of the stake program's configuration: no keys, a rate of 0.25, a penalty of 12/256.
const STAKE_CONFIG: [u8; 10] = [0, 0, 0, 0, 0, 0, 0, 0xd0, 0x3f, 12];

/// The facts that were fixed when the ledger was created, stored with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Genesis {
    pub(crate) hash: [u8; 32],
    /// Seconds since 1970.
    pub(crate) unix_timestamp: i64,
    /// Slots of an epoch.
    pub(crate) slots_per_epoch: u64,
    /// The mint. The server prints it at the start.
    pub(crate) mint: Option<[u8; 32]>,
    pub(crate) inflation: Rates,
    /// The start of the ledger, while it is created: a stored ledger starts at its newest block.
    #[serde(skip)]
    pub(crate) start: Option<Arc<StartPoint>>,
}

/// The parameters of inflation, as they are stored.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Rates {
    initial: f64,
    terminal: f64,
    taper: f64,
    foundation: f64,
    foundation_term: f64,
}

impl From<Inflation> for Rates {
    fn from(inflation: Inflation) -> Self {
        let Inflation { initial, terminal, taper, foundation, foundation_term, .. } = inflation;
        Self { initial, terminal, taper, foundation, foundation_term }
    }
}

impl From<Rates> for Inflation {
    fn from(rates: Rates) -> Self {
        let mut inflation = Self::new_disabled();
        let Rates { initial, terminal, taper, foundation, foundation_term } = rates;
        (inflation.initial, inflation.terminal, inflation.taper) = (initial, terminal, taper);
        (inflation.foundation, inflation.foundation_term) = (foundation, foundation_term);
        inflation
    }
}

/// The stored form before ledgers had inflation.
#[derive(Deserialize)]
struct GenesisWithoutInflation {
    hash: [u8; 32],
    unix_timestamp: i64,
    slots_per_epoch: u64,
    mint: Option<[u8; 32]>,
}

impl Genesis {
    /// The facts of a new ledger. Its hash depends on a key that is made for it, so no two ledgers share one: the
    /// node's keys may be those of an earlier ledger.
    pub(crate) fn new(config: &Config, keypairs: &NodeKeypairs, unix_timestamp: i64) -> Self {
        let hash = solana_sha256_hasher::hashv(&[
            b"hydrant genesis",
            keypairs.identity.pubkey().as_ref(),
            keypairs.faucet.pubkey().as_ref(),
            Keypair::new().pubkey().as_ref(),
            &unix_timestamp.to_le_bytes(),
        ]);
        Self {
            hash: hash.to_bytes(),
            unix_timestamp,
            slots_per_epoch: config.slots_per_epoch,
            mint: config.mint.map(|mint| mint.to_bytes()),
            inflation: config.inflation.into(),
            start: None,
        }
    }

    /// The facts of a new ledger that continues no other, at the time of its start.
    pub(crate) fn at_start(config: &Config, keypairs: &NodeKeypairs, now: i64) -> Self {
        let start = config.start.clone();
        let unix_timestamp = start.as_ref().map_or(now, |start| start.unix_timestamp);
        Self { start, ..Self::new(config, keypairs, unix_timestamp) }
    }

    /// The slot of the first block.
    pub(crate) fn slot(&self) -> Slot {
        self.start.as_ref().map_or(0, |start| start.slot)
    }

    /// Reads the facts of a stored ledger. A ledger from before inflation gets none.
    pub(crate) fn read(bytes: &[u8]) -> bincode::Result<Self> {
        bincode::deserialize(bytes).or_else(|err| {
            let before: GenesisWithoutInflation = bincode::deserialize(bytes).map_err(|_| err)?;
            let GenesisWithoutInflation { hash, unix_timestamp, slots_per_epoch, mint } = before;
            let inflation = Inflation::new_disabled().into();
            Ok(Self { hash, unix_timestamp, slots_per_epoch, mint, inflation, start: None })
        })
    }

    /// Sets the mint to a new key whose private key is discarded, if there is no mint.
    pub(crate) fn ensure_mint(&mut self) {
        self.mint.get_or_insert_with(|| Keypair::new().pubkey().to_bytes());
    }

    pub(crate) fn hash(&self) -> Hash {
        Hash::new_from_array(self.hash)
    }

    pub(crate) fn epoch_schedule(&self) -> EpochSchedule {
        match &self.start {
            Some(start) => start.epoch_schedule.clone(),
            None => EpochSchedule::custom(self.slots_per_epoch, self.slots_per_epoch, false),
        }
    }

    /// The rates of inflation with these features.
    pub(crate) fn inflation(
        &self,
        epochs: &EpochSchedule,
        features: &FeatureSet,
    ) -> InflationSchedule {
        InflationSchedule::new(self.inflation.into(), epochs, features)
    }

    /// The facts that servers report. The schedule is that of the sysvar in `vm`.
    pub(crate) fn cluster_info(
        &self,
        config: &Config,
        keypairs: &NodeKeypairs,
        vm: &Vm,
        first_slot: Slot,
    ) -> ClusterInfo {
        ClusterInfo {
            genesis_hash: self.hash(),
            genesis_unix_timestamp: self.unix_timestamp,
            identity: keypairs.identity.pubkey(),
            epoch_schedule: vm.svm().get_sysvar(),
            lamports_per_signature: LAMPORTS_PER_SIGNATURE,
            slot_ms: config.slot_ms,
            first_slot,
            shred_version: chain_solana::shred_version(&self.hash()),
            feature_set: chain_solana::feature_set(),
            features: Arc::new(vm.features().clone()),
            rpc: None,
            pubsub: None,
            tpu: None,
        }
    }

    /// A VM with all genesis accounts. Its programs are data only: it serves to read accounts, not to run programs.
    pub(crate) fn build(
        &self,
        config: &Config,
        keypairs: &NodeKeypairs,
        features: FeatureSet,
    ) -> Result<Vm, GenesisError> {
        if self.slots_per_epoch < solana_epoch_schedule::MINIMUM_SLOTS_PER_EPOCH {
            return Err(GenesisError::EpochTooShort(self.slots_per_epoch));
        }
        let mut vm = Vm::new(features);
        for (key, account) in programs::genesis_programs(&vm.svm().get_sysvar()) {
            vm.put_as_data(key, &account);
        }
        let blockhashes = BlockhashQueue::new(self.hash());
        self.set_sysvars(&mut vm, &blockhashes);
        // Clusters no longer have the fees sysvar.
        vm.svm_mut().set_account_no_checks(sysvar::fees::ID, AccountSharedData::default());
        if let Some(mint) = self.mint {
            vm.put(Pubkey::new_from_array(mint), &wallet(MINT_LAMPORTS));
        }
        add_own(&mut vm, config, keypairs)?;
        vm.put(solana_stake_interface::config::ID, &stake_config(&vm));
        Ok(vm)
    }
}

impl Genesis {
    fn set_sysvars(&self, vm: &mut Vm, blockhashes: &BlockhashQueue) {
        let start = self.start.as_deref();
        let no_history = StakeHistory::default();
        let context = GenesisContext {
            slot: self.slot(),
            unix_timestamp: self.unix_timestamp,
            epoch_start_timestamp: start
                .map_or(self.unix_timestamp, |start| start.epoch_start_timestamp),
            schedule: &self.epoch_schedule(),
            blockhashes,
            stake_history: start.map_or(&no_history, |start| &start.stake_history),
        };
        sysvars::genesis(vm, &context);
    }
}

/// Writes the accounts of every local ledger, and those of `config`, to `vm`. Returns their keys. An existing mint
/// account stays as it is.
pub(crate) fn add_own(
    vm: &mut Vm,
    config: &Config,
    keypairs: &NodeKeypairs,
) -> Result<Vec<Pubkey>, GenesisError> {
    let mut written = vec![keypairs.faucet.pubkey(), keypairs.identity.pubkey()];
    vm.put(keypairs.faucet.pubkey(), &wallet(config.faucet_lamports));
    vm.put(keypairs.identity.pubkey(), &wallet(IDENTITY_LAMPORTS));
    if let Some(mint) = config.mint
        && vm.account(&mint).is_none()
    {
        vm.put(mint, &wallet(MINT_LAMPORTS));
        written.push(mint);
    }
    vm.put(keypairs.vote_account.pubkey(), &vote_account(keypairs));
    vm.put(keypairs.stake_account.pubkey(), &stake_account(vm, keypairs));
    written.extend([keypairs.vote_account.pubkey(), keypairs.stake_account.pubkey()]);
    if vm.account(&native_mint::id()).is_none() {
        vm.put(native_mint::id(), &native_mint());
        written.push(native_mint::id());
    }
    let accounts: Vec<_> =
        config.accounts.iter().filter(|account| !is_fixed(vm, &account.address)).collect();
    for GenesisAccount { address, account } in accounts {
        vm.put_as_data(*address, account);
        written.push(*address);
    }
    if config.verifies_programs {
        programs::verify(vm.svm(), &config.programs)?;
    }
    let rent = vm.svm().get_sysvar();
    for (key, account) in
        config.programs.iter().flat_map(|program| programs::program_accounts(program, &rent))
    {
        vm.put_as_data(key, &account);
        written.push(key);
    }
    written.sort_unstable();
    written.dedup();
    Ok(written)
}

/// Whether a user cannot replace an account of genesis: the account of an active feature, because the state would deny
/// the feature, and `StakeConfig`, as in `solana-test-validator`.
pub(crate) fn is_fixed(vm: &Vm, key: &Pubkey) -> bool {
    vm.features().is_active(key) || *key == stake::config::ID
}

fn wallet(lamports: u64) -> AccountSharedData {
    AccountSharedData::new(lamports, 0, &system_program::ID)
}

/// The validator's vote account. It is its own authorized voter and collects its commission. Fees go to the identity.
fn vote_account(keypairs: &NodeKeypairs) -> AccountSharedData {
    let identity = keypairs.identity.pubkey();
    let vote_account = keypairs.vote_account.pubkey();
    let bls = BlsKeypair::derive(keypairs.vote_account.sign_message(BLS_SEED).as_ref());
    let init = VoteInit {
        node_pubkey: identity,
        authorized_voter: vote_account,
        authorized_withdrawer: vote_account,
        commission: 0,
    };
    let mut state = VoteStateV4::new_with_defaults(&vote_account, &init, &Clock::default());
    state.bls_pubkey_compressed = bls.ok().map(|bls| bls.public.to_bytes_compressed());
    state.block_revenue_commission_bps = 0;
    let mut data = bincode::serialize(&VoteStateVersions::new_v4(state)).unwrap_or_default();
    data.resize(VoteStateV4::size_of(), 0);
    account_with_data(STAKE_LAMPORTS, data, vote::ID)
}

#[expect(deprecated, reason = "programs still read the reserve that the account states")]
fn stake_account(vm: &Vm, keypairs: &NodeKeypairs) -> AccountSharedData {
    let space = StakeStateV2::size_of();
    let rent_exempt_reserve = vm.svm().minimum_balance_for_rent_exemption(space);
    let meta = Meta {
        rent_exempt_reserve,
        authorized: Authorized::auto(&keypairs.stake_account.pubkey()),
        lockup: Lockup::default(),
    };
    // Activated before the first epoch, so that it counts from the start.
    let staked = STAKE_LAMPORTS - rent_exempt_reserve;
    let delegation = Delegation::new(&keypairs.vote_account.pubkey(), staked, u64::MAX);
    let stake = Stake { delegation, credits_observed: 0 };
    let state = StakeStateV2::Stake(meta, stake, StakeFlags::empty());
    let mut data = bincode::serialize(&state).unwrap_or_default();
    data.resize(space, 0);
    account_with_data(STAKE_LAMPORTS, data, stake::ID)
}

/// The mint of wrapped SOL, which every cluster's genesis has. Token-2022's is created on demand.
fn native_mint() -> AccountSharedData {
    AccountSharedData::from(Account {
        lamports: LAMPORTS_PER_SOL,
        data: native_mint::ACCOUNT_DATA.to_vec(),
        owner: token::id(),
        executable: false,
        rent_epoch: 1,
    })
}

fn stake_config(vm: &Vm) -> AccountSharedData {
    let lamports = vm.svm().minimum_balance_for_rent_exemption(STAKE_CONFIG.len());
    account_with_data(lamports, STAKE_CONFIG.to_vec(), solana_sdk_ids::config::ID)
}

fn account_with_data(lamports: u64, data: Vec<u8>, owner: Pubkey) -> AccountSharedData {
    let mut account = AccountSharedData::new(lamports, 0, &owner);
    account.set_data_from_slice(&data);
    account
}
