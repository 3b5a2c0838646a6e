//! The state of a followed ledger in a directory: a start from it, and the creation of a new one.
//!
//! In: a directory. Out: a [`Base`] at its newest stored bank, with the stored blocks; or a directory that the node
//! fills while it follows.
//! Invariant: a restart continues at a bank that was the root. Of a verified bank, the sum over all accounts is
//! computed again, and so is the bank hash: both must be the stored ones.
//! Bounds: those of the ledger on disk. Cost: every account is read and hashed once.
//! Not here: the thread that writes (`store_thread`), tables and checksums (`ledger_store`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use chain_solana::Block;
use lattice::LtHash;
use ledger::Slot;
use ledger_store::{CallerRows, LedgerStore, NewLedger, Opened};
use query::LedgerConfig;
use snapshot_ledger::BulkLoader;
use snapshot_solana::BankFields;
use snapshot_solana::stored_rows::{
    BankRow, ChainRow, ChainRowError, EPOCHS_STORED, FORMAT, LatticeRow, read_epochs, write_epochs,
};
use solana_hash::Hash;
use store::StoreError;

use crate::base::{Base, BaseLedger, BaseStore, stored_info};
use crate::error::FollowError;

/// The store of a followed ledger within the directory of `--ledger`.
const STORE_DIR: &str = "followed";
/// The store of a ledger of `hydrant dev` there.
const DEV_STORE_DIR: &str = "store";

/// Default of the time between the finality of a bank and its commit to disk. A node that catches up roots many banks
/// at once, and a subscriber needs time to come back after a restart.
const DELAY: Duration = Duration::from_secs(5);

/// The directory of a followed ledger.
#[derive(Clone, Debug)]
pub struct LedgerDirectory {
    path: PathBuf,
    delay: Duration,
}

/// A stored state before its accounts are read.
pub struct StoredLedger {
    dir: PathBuf,
    delay: Duration,
    chain: ChainRow,
    opened: Opened,
}

impl LedgerDirectory {
    /// The directory at a path, which may not exist yet. Fails if it has a ledger of `hydrant dev`. Other content is
    /// not read: a file system has `lost+found` at its root.
    pub fn new(path: &Path) -> Result<Self, FollowError> {
        if path.join(DEV_STORE_DIR).exists() {
            return Err(FollowError::LedgerOfDev { dir: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), delay: DELAY })
    }

    /// With another time until a final bank is stored. Default: 5 s. It takes 16 later banks in any case.
    #[must_use]
    pub fn with_delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Whether the directory may have a stored state. It is not read.
    pub fn may_have_state(&self) -> bool {
        self.store().exists()
    }

    fn store(&self) -> PathBuf {
        self.path.join(STORE_DIR)
    }

    /// Removes the stored state, if there is one.
    pub fn reset(&self) -> Result<(), FollowError> {
        Ok(LedgerStore::<store::Fjall>::remove(&self.store())?)
    }

    /// Opens and locks the directory. Returns `None` if it has no stored state.
    pub fn open(&self) -> Result<Option<StoredLedger>, FollowError> {
        let dir = self.store();
        let Some(opened) = LedgerStore::open(&dir)? else { return Ok(None) };
        let chain = ChainRow::from_bytes(&opened.rows.genesis).map_err(|err| match err {
            ChainRowError::Format(found) => {
                StoreError::Format { dir: dir.clone(), found: found.to_string(), expected: FORMAT }
            }
            ChainRowError::Field(what) => {
                damage_error(&dir, format!("genesis: cannot read its {what}"))
            }
        })?;
        Ok(Some(StoredLedger { dir, delay: self.delay, chain, opened }))
    }

    /// Starts to store the state of a chain with this genesis, from a base on. The directory stays locked,
    /// and has no state until all accounts of the base are written, which the follower does.
    pub fn create(&self, base: Base, genesis_hash: Hash) -> Result<Base, FollowError> {
        let fields = &base.fields;
        let chain = ChainRow::new(genesis_hash, fields);
        let newest = fields.epoch_stakes.len().saturating_sub(EPOCHS_STORED);
        let lattice = LatticeRow {
            lt_hash: (*fields.lt_hash).clone(),
            hard_forks: fields.hard_forks.clone(),
        };
        let blockhashes = base.info.blockhashes.iter().copied().collect();
        let bank = BankRow { blockhashes, lattice: Some(lattice), jump: None };
        let rows = CallerRows {
            genesis: chain.to_bytes(),
            epochs: Some(write_epochs(fields.epoch_stakes[newest..].iter())),
            bank: Some(bank.to_bytes()),
        };
        let new = NewLedger::start(&self.store(), &rows, &base.block)?;
        let store = BaseStore { ledger: BaseLedger::New(new), delay: self.delay };
        Ok(Base { store: Some(store), ..base })
    }
}

impl StoredLedger {
    /// The genesis hash of its cluster.
    pub fn genesis_hash(&self) -> Hash {
        self.chain.genesis_hash
    }

    /// The slot of its newest bank.
    pub fn slot(&self) -> Slot {
        self.opened.blocks.last().map_or(0, |block| block.id.slot)
    }

    /// Reads the base to start from. It is of the cluster with this genesis hash, or refused.
    pub fn into_base(self, genesis_hash: Hash, limits: &LedgerConfig) -> Result<Base, FollowError> {
        let Self { dir, delay, chain, opened } = self;
        if chain.genesis_hash != genesis_hash {
            let stored = chain.genesis_hash;
            let followed = genesis_hash;
            return Err(FollowError::OtherCluster { stored, followed });
        }
        let row = |name: &str, row: &Option<Vec<u8>>| {
            row.clone().ok_or_else(|| damage_error(&dir, format!("{name}: missing")))
        };
        let epochs = read_epochs(&row("epochs", &opened.rows.epochs)?);
        let epochs = epochs.map_err(|err| damage_error(&dir, format!("epochs: {err}")))?;
        let bank = BankRow::from_bytes(&row("bank", &opened.rows.bank)?);
        let bank = bank.map_err(|err| damage_error(&dir, format!("bank: {err}")))?;
        let mut older = opened.blocks.clone();
        let block = older.pop().ok_or_else(|| damage_error(&dir, "block: missing"))?;
        if bank.blockhashes.last() != Some(&block.blockhash) {
            return Err(damage_error(&dir, "bank: it is of another block").into());
        }
        let jump = bank.jump;
        let mut fields = bank_fields(&chain, bank, &block);
        fields.epoch_stakes = epochs;
        let mut loader = BulkLoader::new(limits.clone(), stored_info(&fields, &block));
        let mut added = Ok(());
        let store = opened.read(|pubkey, account| {
            if added.is_ok() {
                added = loader.add(pubkey, account);
            }
        })?;
        added.and_then(|()| loader.ledger().map(drop)).map_err(FollowError::Snapshot)?;
        if block.has_bank_hash() {
            check_hashes(&fields, loader.lt_hash()).map_err(|what| damage_error(&dir, what))?;
        }
        fields.capitalization = u64::try_from(loader.lamports()).unwrap_or(u64::MAX);
        fields.lt_hash = Box::new(loader.lt_hash().clone());
        let store = BaseStore { ledger: BaseLedger::Open(store), delay };
        let base = Base::from_stored(fields, loader, block, older, store)?;
        Ok(Base { jump, ..base })
    }
}

/// Fails unless the accounts are those of the verified bank.
fn check_hashes(fields: &BankFields, found: &LtHash) -> Result<(), String> {
    if *found != *fields.lt_hash {
        return Err("accounts: their sum is not that of the bank".into());
    }
    let slot = fields.slot;
    let stored = fields.bank_hash;
    let computed = fields.computed_hash(found);
    match computed == stored {
        true => Ok(()),
        false => Err(format!("block {slot}: its bank hash is {stored}, computed: {computed}")),
    }
}

fn damage_error(dir: &Path, what: impl Into<String>) -> StoreError {
    StoreError::Damaged { dir: dir.to_owned(), what: what.into() }
}

/// The fields of the bank of a stored block, without capitalization and stakes of epochs.
fn bank_fields(chain: &ChainRow, bank: BankRow, block: &Block) -> BankFields {
    let mut fields = BankFields::empty();
    fields.slot = block.id.slot;
    let jump = bank.jump.filter(|jump| jump.slot == block.id.slot);
    fields.parent_slot = jump.map_or(block.parent.slot, |jump| jump.parent_slot);
    fields.block_height = block.block_height;
    fields.bank_hash = block.bank_hash;
    fields.parent_hash = block.hash_components.parent_hash;
    fields.transaction_count = block.transaction_count;
    fields.signature_count = block.hash_components.signature_count;
    fields.genesis_unix_timestamp = chain.genesis_unix_timestamp;
    fields.epoch_schedule = chain.epoch_schedule.clone();
    fields.ns_per_slot = chain.ns_per_slot;
    fields.lamports_per_signature = chain.lamports_per_signature;
    fields.inflation = chain.inflation;
    fields.blockhashes = bank.blockhashes;
    if let Some(LatticeRow { lt_hash, hard_forks }) = bank.lattice {
        fields.lt_hash = Box::new(lt_hash);
        fields.hard_forks = hard_forks;
    }
    fields
}
