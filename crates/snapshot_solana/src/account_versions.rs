//! Selects the newest version of each account, in whatever order versions are read.
//!
//! In: batches of accounts, each version with its position in the archives. Out: the versions that
//! are newer than the sink's, to an [`AccountSink`], and the sums over all its accounts.
//! Bounds: 8 bytes for each id of the sink, and about 60 for each closed account until its archive
//! is read completely: an older version may still follow.
//! Not here: the accounts themselves (the sink's), hashing (the workers', except for replaced
//! versions).

use std::collections::HashMap;

use foldhash::quality::RandomState;
use lattice::LtHash;
use solana::lt_hash;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;

use crate::append_vec::ParsedBatch;
use crate::bank_fields::BankFields;
use crate::error::AccountSinkError;
use crate::version_position::VersionPosition;

/// Receives the accounts of a snapshot as they are read.
pub trait AccountSink {
    /// Called first and once, with the bank of the accounts.
    fn start(&mut self, bank: &BankFields) -> Result<(), AccountSinkError>;

    /// The id of an address, if it has one. It may have one without an account. An address retains
    /// its id while it has an account, and no other address gets the id while a snapshot is loaded.
    fn id_of(&self, key: &Pubkey) -> Option<u32>;

    /// The current account of an address.
    fn account(&self, key: &Pubkey) -> Option<AccountSharedData>;

    /// Inserts or replaces accounts, each address once; `None` removes an account. Returns the id
    /// of each address, in order.
    fn put(
        &mut self,
        changes: Vec<(Pubkey, Option<AccountSharedData>)>,
    ) -> Result<Vec<u32>, AccountSinkError>;
}

/// Ids in a page of [`VersionPositions`].
const PAGE: usize = 1 << 16;

/// Positions by id, in pages, so that growth copies nothing.
#[derive(Default)]
struct VersionPositions(Vec<Box<[VersionPosition]>>);

impl VersionPositions {
    fn get(&self, number: u32) -> VersionPosition {
        let number = number as usize;
        self.0.get(number / PAGE).map(|page| page[number % PAGE]).unwrap_or_default()
    }

    fn set(&mut self, number: u32, position: VersionPosition) {
        let number = number as usize;
        while self.0.len() <= number / PAGE {
            self.0.push(vec![VersionPosition::default(); PAGE].into());
        }
        self.0[number / PAGE][number % PAGE] = position;
    }
}

/// The state of a load.
pub(crate) struct VersionResolver<'a, T> {
    sink: &'a mut T,
    positions: VersionPositions,
    closed: HashMap<Pubkey, VersionPosition, RandomState>,
    /// Whether the sink had accounts before: they are older than every version.
    is_on_top: bool,
    /// The hash over all accounts.
    pub(crate) sum: LtHash,
    /// Number of accounts.
    pub(crate) len: usize,
    /// Lamports in all of them.
    pub(crate) lamports: u128,
}

impl<'a, T: AccountSink> VersionResolver<'a, T> {
    pub(crate) fn new(sink: &'a mut T) -> Self {
        let positions = VersionPositions::default();
        let closed = HashMap::default();
        let sum = LtHash::EMPTY;
        Self { sink, positions, closed, is_on_top: false, sum, len: 0, lamports: 0 }
    }

    /// The sink has accounts, with this hash and these lamports.
    pub(crate) fn on_top(sink: &'a mut T, sum: LtHash, len: usize, lamports: u128) -> Self {
        Self { is_on_top: true, sum, len, lamports, ..Self::new(sink) }
    }

    /// Applies the newer versions of a batch. No address is twice in a batch.
    pub(crate) fn apply_batch(&mut self, batch: ParsedBatch) -> Result<(), AccountSinkError> {
        self.sum.mix_in(&batch.sum);
        let mut changes = Vec::with_capacity(batch.accounts.len());
        let mut positions = Vec::with_capacity(batch.accounts.len());
        for (key, position, account) in batch.accounts {
            let number = self.sink.id_of(&key);
            let known = number.map(|number| self.positions.get(number)).unwrap_or_default();
            // Most archives have no closed accounts; avoid hashing the key.
            let closed =
                (!self.closed.is_empty()).then(|| self.closed.get(&key)).flatten().copied();
            if known.max(closed.unwrap_or_default()) > position {
                self.sum.mix_out(&lt_hash(&key, &account));
                continue;
            }
            let may_be_there = known != VersionPosition::default() || self.is_on_top;
            let replaced = may_be_there.then(|| self.sink.account(&key)).flatten();
            if let Some(replaced) = &replaced {
                self.sum.mix_out(&lt_hash(&key, replaced));
                self.lamports = self.lamports.saturating_sub(u128::from(replaced.lamports()));
                self.len = self.len.saturating_sub(1);
            }
            if account.lamports() == 0 {
                self.closed.insert(key, position);
                if replaced.is_none() {
                    continue;
                }
                changes.push((key, None));
                positions.push(VersionPosition::default());
            } else {
                if closed.is_some() {
                    self.closed.remove(&key);
                }
                self.lamports += u128::from(account.lamports());
                self.len += 1;
                changes.push((key, Some(account)));
                positions.push(position);
            }
        }
        let numbers = self.sink.put(changes)?;
        debug_assert_eq!(numbers.len(), positions.len(), "an id for every change");
        for (number, position) in numbers.into_iter().zip(positions) {
            self.positions.set(number, position);
        }
        Ok(())
    }

    /// Drops the closed accounts. Must be called only when no older version can follow.
    pub(crate) fn forget_closed(&mut self) {
        self.closed = HashMap::default();
    }
}
