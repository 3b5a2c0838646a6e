//! Full and incremental archives of the script's chain.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lattice::{BankHashInputs, LtHash};
use snapshot_solana::StatusKey;
use solana_account::{Account, AccountSharedData, ReadableAccount};
use solana_clock::Clock;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_rent::Rent;
use solana_sdk_ids::sysvar;
use solana_signature::Signature;
use solana_transaction_error::TransactionError;
use testkit::archive::{
    self, Accounts, ArchivedVoter, HashedFields, StorageFile, Stored, UnhashedFields,
    bank_fields_with,
};

use crate::script::blockhash;
use crate::snapshot::WALLET;

type Address = [u8; 32];

/// The slot of the archive from which the script's chain is followed.
pub(crate) const BASE_SLOT: u64 = 100;
/// An account of that archive that is closed later.
pub(crate) const GONE: Address = [21; 32];

/// The accounts of the script's chain after a slot: of each its lamports and its data.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) slot: u64,
    hashed: HashedFields,
    accounts: BTreeMap<Address, (u64, Vec<u8>)>,
    /// The stakes of epochs, which no hash covers.
    epoch_stakes: Vec<(u64, Vec<ArchivedVoter>)>,
    /// The status cache, which no hash covers either.
    statuses: Vec<SlotStatuses>,
}

/// A slot of a status cache: its number, whether it is a root, and by blockhash the offset and the keys of statuses.
type SlotStatuses =
    (u64, bool, Vec<(Address, (u64, Vec<(StatusKey, Result<(), TransactionError>)>))>);

impl State {
    /// A bank and its accounts, which have the owners of `script::account`.
    pub(crate) fn new(
        slot: u64,
        hashed: HashedFields,
        accounts: &BTreeMap<Pubkey, AccountSharedData>,
    ) -> Self {
        let state = |(pubkey, account): (&Pubkey, &AccountSharedData)| {
            (pubkey.to_bytes(), (account.lamports(), account.data().to_vec()))
        };
        let accounts = accounts.iter().map(state).collect();
        Self { slot, hashed, accounts, epoch_stakes: Vec::new(), statuses: Vec::new() }
    }

    /// Returns the accounts that the banks of `script::chain` write up to a slot; the wallet has `10 * slot` lamports.
    pub(crate) fn at(slot: u64) -> Self {
        let clock = Clock { slot, unix_timestamp: 1_700_000_000 + slot as i64, ..Clock::default() };
        let clock = bincode::serialize(&clock).expect("a clock");
        let rent = bincode::serialize(&Rent::default()).expect("rent");
        let plain = [sysvar::recent_blockhashes::ID, sysvar::slot_history::ID];
        let plain = plain.map(|pubkey| (pubkey.to_bytes(), (1, vec![1])));
        let mut accounts = BTreeMap::from(plain);
        // Only the hash of the first one is known; the script's banks have none.
        let ancestors = (BASE_SLOT..slot).rev();
        let hash =
            |slot| if slot == BASE_SLOT { Self::base().bank_hash() } else { Hash::default() };
        let ancestors: Vec<(u64, Hash)> = ancestors.map(|slot| (slot, hash(slot))).collect();
        let ancestors = bincode::serialize(&ancestors).expect("a wire form");
        accounts.insert(sysvar::slot_hashes::ID.to_bytes(), (1, ancestors));
        accounts.insert(sysvar::clock::ID.to_bytes(), (1, clock));
        accounts.insert(sysvar::rent::ID.to_bytes(), (1, rent));
        accounts.insert(WALLET, (slot * 10, Vec::new()));
        let last_blockhash = blockhash(slot, 0).to_bytes();
        let hashed = HashedFields { last_blockhash, ..HashedFields::at(slot) };
        Self { slot, hashed, accounts, epoch_stakes: Vec::new(), statuses: Vec::new() }
    }

    /// The state of the archive that the followers of the script's chain start from.
    pub(crate) fn base() -> Self {
        Self::at(BASE_SLOT).with(GONE, 700)
    }

    pub(crate) fn bank_hash(&self) -> Hash {
        let HashedFields { parent_hash, signature_count, last_blockhash, .. } = self.hashed;
        let mut lt_hash = LtHash::EMPTY;
        for (address, (lamports, data)) in &self.accounts {
            let account = Account {
                lamports: *lamports,
                data: data.clone(),
                owner: Pubkey::new_from_array(owner(data)),
                executable: false,
                rent_epoch: u64::MAX,
            };
            lt_hash.mix_in(&solana::lt_hash(&Pubkey::from(*address), &account.into()));
        }
        let hard_forks = 0;
        let lt_hash = &lt_hash;
        let inputs =
            BankHashInputs { parent_hash, signature_count, last_blockhash, lt_hash, hard_forks };
        Hash::new_from_array(inputs.hash())
    }

    /// Adds the stakes of an epoch.
    pub(crate) fn with_stakes(mut self, epoch: u64, voters: Vec<ArchivedVoter>) -> Self {
        self.epoch_stakes.push((epoch, voters));
        self
    }

    /// Adds the result of a transaction in a slot to the status cache.
    pub(crate) fn with_status(
        mut self,
        slot: u64,
        signature: &Signature,
        result: Result<(), TransactionError>,
    ) -> Self {
        let key = *signature.as_array().first_chunk().expect("64 bytes");
        let statuses = vec![(key, result)];
        self.statuses.push((slot, true, vec![(blockhash(slot, 0).to_bytes(), (0, statuses))]));
        self
    }

    pub(crate) fn with(mut self, address: Address, lamports: u64) -> Self {
        self.accounts.insert(address, (lamports, Vec::new()));
        self
    }

    pub(crate) fn write_full(&self, dir: &Path) -> PathBuf {
        let name = |hash: &str| format!("snapshot-{}-{hash}.tar.zst", self.slot);
        self.write(dir, &self.accounts, name)
    }

    /// Writes an incremental archive on top of slot `base`, which has everything except rent, and closes accounts.
    pub(crate) fn write_incremental(&self, dir: &Path, base: u64, closed: &[Address]) -> PathBuf {
        let mut written = self.accounts.clone();
        written.remove(&sysvar::rent::ID.to_bytes());
        written.extend(closed.iter().map(|address| (*address, (0, Vec::new()))));
        let name = |hash: &str| format!("incremental-snapshot-{base}-{}-{hash}.tar.zst", self.slot);
        self.write(dir, &written, name)
    }

    fn write(
        &self,
        dir: &Path,
        written: &BTreeMap<Address, (u64, Vec<u8>)>,
        name: impl Fn(&str) -> String,
    ) -> PathBuf {
        let slot = self.slot;
        let storage = format!("accounts/{slot}.1");
        let mut all = Accounts::default();
        all.add(&[(storage.clone(), encode_file(&self.accounts))].into()).expect("whole files");
        let lattice = all.lt_hash();
        let lamports = all.lamports();
        let file = encode_file(written);
        let files = [StorageFile { slot, id: 1, bytes: file.len() as u64 }];
        let epoch_stakes = self.epoch_stakes.clone();
        let unhashed = UnhashedFields { epoch_stakes, ..UnhashedFields::default() };
        let bank = bank_fields_with(slot, self.hashed, &unhashed, &files, lamports, &lattice);
        let statuses = bincode::serialize(&self.statuses).expect("a wire form");
        let mut tar = tar::Builder::new(Vec::new());
        for (name, bytes) in [
            ("version".to_owned(), b"1.2.0".to_vec()),
            ("snapshots/status_cache".to_owned(), statuses),
            (format!("snapshots/{slot}/{slot}"), bank),
            (storage, file),
        ] {
            archive::append(&mut tar, &name, &bytes).expect("append an entry");
        }
        let tar = tar.into_inner().expect("end the archive");
        let path = dir.join(name(&lattice.checksum().to_string()));
        let packed = zstd::stream::encode_all(&tar[..], 1).expect("compress");
        std::fs::write(&path, packed).expect("write the archive");
        path
    }
}

/// The owner of an account in the script's chain.
fn owner(data: &[u8]) -> Address {
    if data.is_empty() { [0; 32] } else { sysvar::ID.to_bytes() }
}

fn encode_file(accounts: &BTreeMap<Address, (u64, Vec<u8>)>) -> Vec<u8> {
    let mut file = Vec::new();
    for (address, (lamports, data)) in accounts {
        let owner = owner(data);
        let lamports = *lamports;
        let rent_epoch = u64::MAX;
        let account = Stored { lamports, owner, executable: false, rent_epoch, data };
        archive::put(&mut file, address, &account);
    }
    file
}
