//! The newest version of each account: which one counts when several are read, in any order.
//!
//! In: batches of accounts, each version with its place in the archives. Out: those that are newer than
//! what is there, to a [`AccountSink`], and the sums over all that it then has.
//! Bounds: 8 bytes for each number that the table gives, and about 60 for each closed account until its
//! archive is read whole: an older version of it may still come.
//! Not here: the accounts themselves (the table's), hashing (the workers', but for what is replaced).

use std::collections::HashMap;

use foldhash::quality::RandomState;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;

use crate::append_vec::ParsedBatch;
use crate::bank_fields::BankFields;
use crate::lt_hash::LtHash;

/// Why a table did not take accounts.
pub type AccountSinkError = Box<dyn std::error::Error + Send + Sync>;

/// Where the accounts of a snapshot go as they are read.
pub trait AccountSink {
    /// Called once and first: the bank that the accounts will be of.
    fn start(&mut self, bank: &BankFields) -> Result<(), AccountSinkError>;

    /// The number of an address, if it has one. It may have one without an account. An address keeps
    /// its number as long as an account stands there, and no other gets it while a snapshot is loaded.
    fn id_of(&self, key: &Pubkey) -> Option<u32>;

    /// The account that stands under an address.
    fn account(&self, key: &Pubkey) -> Option<AccountSharedData>;

    /// Puts accounts, each address once, in the place of what is there; `None` takes one away. Gives
    /// the address's number for each, in their order.
    fn put(
        &mut self,
        changes: Vec<(Pubkey, Option<AccountSharedData>)>,
    ) -> Result<Vec<u32>, AccountSinkError>;
}

/// Where a version was written: a later file, or in one file a later place, is newer. Never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VersionPosition(u64);

impl VersionPosition {
    /// `file` counts all files of all archives by slot, from 1; accounts begin at multiples of 8, and
    /// no file is longer than 16 GiB.
    pub(crate) fn new(file: u32, offset: u64) -> Self {
        Self(u64::from(file) << 32 | offset >> 3)
    }
}

/// Numbers in a page of [`VersionPositions`].
const PAGE: usize = 1 << 16;

/// A place by number, in pages, so that growing copies nothing.
#[derive(Default)]
struct VersionPositions(Vec<Box<[VersionPosition]>>);

impl VersionPositions {
    fn get(&self, number: u32) -> VersionPosition {
        let number = number as usize;
        self.0.get(number / PAGE).map(|page| page[number % PAGE]).unwrap_or_default()
    }

    fn set(&mut self, number: u32, place: VersionPosition) {
        let number = number as usize;
        while self.0.len() <= number / PAGE {
            self.0.push(vec![VersionPosition::default(); PAGE].into());
        }
        self.0[number / PAGE][number % PAGE] = place;
    }
}

/// What was taken in so far.
pub(crate) struct VersionResolver<'a, T> {
    sink: &'a mut T,
    positions: VersionPositions,
    closed: HashMap<Pubkey, VersionPosition, RandomState>,
    /// The hash over all accounts.
    pub(crate) sum: LtHash,
    /// How many there are.
    pub(crate) len: usize,
    /// Lamports in all of them.
    pub(crate) lamports: u128,
}

impl<'a, T: AccountSink> VersionResolver<'a, T> {
    pub(crate) fn new(sink: &'a mut T) -> Self {
        let (positions, closed) = (VersionPositions::default(), HashMap::default());
        Self { sink, positions, closed, sum: LtHash::EMPTY, len: 0, lamports: 0 }
    }

    /// Takes in what is newer than what is there. No address is twice in a batch.
    pub(crate) fn apply_batch(&mut self, batch: ParsedBatch) -> Result<(), AccountSinkError> {
        self.sum.add(&batch.sum);
        let mut changes = Vec::with_capacity(batch.accounts.len());
        let mut places = Vec::with_capacity(batch.accounts.len());
        for (key, place, account) in batch.accounts {
            let number = self.sink.id_of(&key);
            let known = number.map(|number| self.positions.get(number)).unwrap_or_default();
            // Most archives have none, and hashing a key for nothing costs.
            let closed =
                (!self.closed.is_empty()).then(|| self.closed.get(&key)).flatten().copied();
            if known.max(closed.unwrap_or_default()) > place {
                self.sum.subtract(&LtHash::from_account(&key, &account));
                continue;
            }
            let is_there = known != VersionPosition::default();
            if is_there && let Some(replaced) = self.sink.account(&key) {
                self.sum.subtract(&LtHash::from_account(&key, &replaced));
                self.lamports -= u128::from(replaced.lamports());
                self.len -= 1;
            }
            if account.lamports() == 0 {
                self.closed.insert(key, place);
                if !is_there {
                    continue;
                }
                changes.push((key, None));
                places.push(VersionPosition::default());
            } else {
                if closed.is_some() {
                    self.closed.remove(&key);
                }
                self.lamports += u128::from(account.lamports());
                self.len += 1;
                changes.push((key, Some(account)));
                places.push(place);
            }
        }
        let numbers = self.sink.put(changes)?;
        debug_assert_eq!(numbers.len(), places.len(), "a number for every change");
        for (number, place) in numbers.into_iter().zip(places) {
            self.positions.set(number, place);
        }
        Ok(())
    }

    /// Forgets closed accounts. To be called once no older version can come.
    pub(crate) fn forget_closed(&mut self) {
        self.closed = HashMap::default();
    }
}
