//! What is known about addresses: from the upstream, absent there, or the local ledger's own from the start.
//!
//! Shape: a map that readers and the fetching threads share. The ledger's thread does not take its lock.
//! Invariant: a known address is not fetched again. Whether the account exists is then the ledger's matter alone.
//! Invariant: a view that is older than the write of a fetched account sees it as it was fetched ([`BaseRecords`]).
//! Bounds: `bytes_max` for all that the upstream caused: [`ENTRY_BYTES`] for an address, and the data of its account. At the
//! bound the oldest addresses that do not exist upstream are forgotten, and fetched again when a request needs them.
//! Addresses that the ledger had itself are at most as many as its accounts (`--max-addresses`).

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};

use chain_solana::{AdoptedAccount, FetchError};
use foldhash::quality::RandomState;
use ledger::{Address, Slot};
use parking_lot::RwLock;
use query::BaseRecords;
use solana::Account;
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;

/// Bytes that an address counts: its entry, and the account without its data.
const ENTRY_BYTES: u64 = 200;

/// Forgotten addresses in the queue of absent ones before it is cleaned.
const FORGOTTEN_MAX: u64 = 4_096;

/// What is known about an address.
enum Mark {
    /// The ledger had it before anything was fetched for it.
    Local,
    /// The upstream does not have it. The number is that of its entry in the queue of absent addresses.
    Absent { number: u64 },
    /// It is never fetched.
    Offline,
    /// It was fetched. Once every block has it, the ledger alone retains it.
    Fetched { account: Weak<AdoptedAccount>, bytes: u64 },
}

impl Mark {
    /// Whether it is the absent address with this number.
    fn is_absent(&self, expected: u64) -> bool {
        matches!(self, Self::Absent { number } if *number == expected)
    }
}

/// How far the knowledge about an address goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// Nothing.
    Unknown,
    /// It was fetched, and the ledger has not written it yet.
    Arriving,
    /// The ledger alone decides.
    Known,
}

/// Counts of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegistryUsage {
    pub(crate) local: u64,
    pub(crate) absent: u64,
    pub(crate) offline: u64,
    pub(crate) fetched: u64,
    /// Bytes that count towards the limit.
    pub(crate) bytes: u64,
}

#[derive(Default)]
struct Marks {
    by_key: HashMap<Pubkey, Mark, RandomState>,
    /// The absent addresses with their numbers, the oldest first. Some may have been forgotten since.
    absent: VecDeque<(u64, Pubkey)>,
    /// The next number of an absent address.
    next_number: u64,
    /// Owners whose accounts are not taken over.
    offline_owners: HashSet<Pubkey, RandomState>,
    usage: RegistryUsage,
}

impl Marks {
    /// Makes space for more bytes below a bound, by forgetting absent addresses.
    fn make_space(&mut self, more: u64, bytes_max: u64) -> Result<(), FetchError> {
        // Nothing is forgotten for a request that does not fit in any case.
        let absent_bytes = self.usage.absent * ENTRY_BYTES;
        if self.usage.bytes - absent_bytes + more > bytes_max {
            return Err(FetchError::Full { bytes: self.usage.bytes + more, limit: bytes_max });
        }
        while self.usage.bytes + more > bytes_max {
            let Some((number, oldest)) = self.absent.pop_front() else {
                return Err(FetchError::Full { bytes: self.usage.bytes + more, limit: bytes_max });
            };
            if let Entry::Occupied(entry) = self.by_key.entry(oldest)
                && entry.get().is_absent(number)
            {
                self.usage.subtract(&entry.remove());
            }
        }
        Ok(())
    }

    /// Records that the upstream does not have an address that was unknown.
    fn insert_absent(&mut self, key: Pubkey) {
        let number = self.next_number;
        self.next_number += 1;
        self.by_key.insert(key, Mark::Absent { number });
        self.usage.absent += 1;
        self.usage.bytes += ENTRY_BYTES;
        self.absent.push_back((number, key));
        // Forgotten addresses stay in the queue, and must not fill it.
        if self.absent.len() as u64 > 2 * self.usage.absent + FORGOTTEN_MAX {
            let by_key = &self.by_key;
            self.absent.retain(|(number, key)| {
                by_key.get(key).is_some_and(|mark| mark.is_absent(*number))
            });
        }
    }
}

/// The addresses that are known.
pub(crate) struct Registry {
    marks: RwLock<Marks>,
    bytes_max: u64,
}

impl Registry {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { marks: RwLock::default(), bytes_max }
    }

    pub(crate) fn knowledge(&self, key: &Pubkey) -> Knowledge {
        match self.marks.read().by_key.get(key) {
            None => Knowledge::Unknown,
            Some(Mark::Fetched { account, .. }) => match account.upgrade() {
                Some(account) if !account.is_written() => Knowledge::Arriving,
                _ => Knowledge::Known,
            },
            Some(_) => Knowledge::Known,
        }
    }

    /// Whether an account came from the upstream, or does not exist there.
    pub(crate) fn is_upstreams(&self, key: &Pubkey) -> bool {
        matches!(
            self.marks.read().by_key.get(key),
            Some(Mark::Absent { .. } | Mark::Fetched { .. })
        )
    }

    /// Records that the ledger has these itself, unless something is known about them.
    pub(crate) fn mark_local(&self, keys: &[Pubkey]) {
        if keys.is_empty() {
            return;
        }
        let mut marks = self.marks.write();
        for key in keys {
            if let Entry::Vacant(entry) = marks.by_key.entry(*key) {
                entry.insert(Mark::Local);
                marks.usage.local += 1;
            }
        }
    }

    /// Records what the upstream has, and returns the accounts for the ledger to write. Nothing is recorded if it
    /// were too much.
    pub(crate) fn mark_fetched(
        &self,
        fetched: Vec<(Pubkey, Option<Arc<Account>>)>,
    ) -> Result<Vec<Arc<AdoptedAccount>>, FetchError> {
        let mut marks = self.marks.write();
        let bytes_of = |account: &Option<Arc<Account>>| {
            ENTRY_BYTES + account.as_ref().map_or(0, |it| it.0.data().len() as u64)
        };
        let more: u64 = fetched.iter().map(|(_, account)| bytes_of(account)).sum();
        marks.make_space(more, self.bytes_max)?;
        let mut adopted = Vec::new();
        for (key, account) in fetched {
            let bytes = bytes_of(&account);
            let account = account.filter(|it| !marks.offline_owners.contains(it.0.owner()));
            if marks.by_key.contains_key(&key) {
                continue;
            }
            match account {
                None => marks.insert_absent(key),
                Some(account) => {
                    let account = Arc::new(AdoptedAccount::new(key, account));
                    let mark = Mark::Fetched { account: Arc::downgrade(&account), bytes };
                    marks.by_key.insert(key, mark);
                    adopted.push(account);
                    marks.usage.fetched += 1;
                    marks.usage.bytes += bytes;
                }
            }
        }
        Ok(adopted)
    }

    /// Never fetches an account, nor, with `with_owned`, the accounts that it owns.
    pub(crate) fn set_offline(&self, key: Pubkey, with_owned: bool) -> Result<(), FetchError> {
        let mut marks = self.marks.write();
        marks.make_space(2 * ENTRY_BYTES, self.bytes_max)?;
        let mut added = 0;
        if matches!(marks.by_key.get(&key), None | Some(Mark::Absent { .. })) {
            // An absent address could be forgotten, and then fetched.
            if let Some(absent) = marks.by_key.insert(key, Mark::Offline) {
                marks.usage.subtract(&absent);
            }
            marks.usage.offline += 1;
            added += ENTRY_BYTES;
        }
        if with_owned && marks.offline_owners.insert(key) {
            added += ENTRY_BYTES;
        }
        marks.usage.bytes += added;
        Ok(())
    }

    /// Forgets what the upstream said about these.
    pub(crate) fn forget(&self, keys: impl IntoIterator<Item = Pubkey>) {
        let mut marks = self.marks.write();
        for key in keys {
            if let Entry::Occupied(entry) = marks.by_key.entry(key)
                && matches!(entry.get(), Mark::Absent { .. } | Mark::Fetched { .. })
            {
                let mark = entry.remove();
                marks.usage.subtract(&mark);
            }
        }
    }

    /// Forgets all that the upstream said.
    pub(crate) fn forget_all(&self) {
        let Marks { by_key, absent, usage, .. } = &mut *self.marks.write();
        absent.clear();
        by_key.retain(|_, mark| {
            let is_retained = matches!(mark, Mark::Local | Mark::Offline);
            if !is_retained {
                usage.subtract(mark);
            }
            is_retained
        });
    }

    pub(crate) fn usage(&self) -> RegistryUsage {
        self.marks.read().usage
    }

    /// Bytes of the map.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let entry_bytes = size_of::<(Pubkey, Mark)>() + 1;
        let marks = self.marks.read();
        let queue_bytes = marks.absent.capacity() * size_of::<(u64, Pubkey)>();
        (marks.by_key.capacity() * entry_bytes + queue_bytes) as u64
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }
}

impl RegistryUsage {
    fn subtract(&mut self, mark: &Mark) {
        match mark {
            Mark::Local => self.local -= 1,
            Mark::Absent { .. } => {
                self.absent -= 1;
                self.bytes -= ENTRY_BYTES;
            }
            Mark::Offline => {
                self.offline -= 1;
                self.bytes -= ENTRY_BYTES;
            }
            Mark::Fetched { bytes, .. } => {
                self.fetched -= 1;
                self.bytes -= bytes;
            }
        }
    }
}

impl BaseRecords<Account> for Registry {
    fn record(&self, address: &Address, slot: Slot, version: u64) -> Option<Arc<Account>> {
        let key = Pubkey::new_from_array(address.to_array()?);
        let marks = self.marks.read();
        let Mark::Fetched { account, .. } = marks.by_key.get(&key)? else { return None };
        let adopted = account.upgrade()?;
        adopted.is_later_than(slot, version).then(|| Arc::clone(adopted.account()))
    }
}

#[cfg(test)]
mod tests {
    use solana_account::AccountSharedData;

    use super::*;

    fn key(n: u8) -> Pubkey {
        Pubkey::new_from_array([n; 32])
    }

    fn account(bytes: usize, owner: Pubkey) -> Option<Arc<Account>> {
        Some(Arc::new(Account(AccountSharedData::new(1, bytes, &owner))))
    }

    #[test]
    fn absent_addresses_do_not_use_up_the_space_of_accounts() {
        let registry = Registry::new(10 * ENTRY_BYTES + 1_000);
        for n in 0..100 {
            registry.mark_fetched(vec![(key(n), None)]).expect("older ones are forgotten");
        }
        assert!(registry.usage().bytes <= 10 * ENTRY_BYTES + 1_000);
        assert_eq!(registry.knowledge(&key(99)), Knowledge::Known);
        assert_eq!(registry.knowledge(&key(0)), Knowledge::Unknown, "it is fetched again");
        let large = registry.mark_fetched(vec![(key(200), account(2_000, key(9)))]);
        assert_eq!(large.expect("absent ones are forgotten").len(), 1);
        let absent = registry.usage().absent;
        let err = registry.mark_fetched(vec![(key(201), account(2_000, key(9)))]);
        assert!(matches!(err, Err(FetchError::Full { .. })));
        assert_eq!(registry.usage().absent, absent, "nothing is forgotten in vain");
    }

    #[test]
    fn an_absent_address_that_is_set_offline_is_never_fetched() {
        let registry = Registry::new(10 * ENTRY_BYTES);
        registry.mark_fetched(vec![(key(1), None)]).expect("it has space");
        registry.set_offline(key(1), false).expect("it has space");
        for n in 2..100 {
            registry.mark_fetched(vec![(key(n), None)]).expect("older ones are forgotten");
        }
        assert_eq!(registry.knowledge(&key(1)), Knowledge::Known);
        assert_eq!(registry.usage().offline, 1);
    }

    #[test]
    fn addresses_that_are_forgotten_and_fetched_again_do_not_fill_memory() {
        let registry = Registry::new(1 << 20);
        for _ in 0..3 * FORGOTTEN_MAX {
            registry.mark_fetched(vec![(key(1), None)]).expect("it has space");
            registry.forget([key(1)]);
        }
        assert!(registry.marks.read().absent.len() as u64 <= FORGOTTEN_MAX + 2);
        assert_eq!(registry.usage(), RegistryUsage::default());
    }

    #[test]
    fn what_is_known_stays_and_older_views_see_it_as_it_was_fetched() {
        let registry = Registry::new(10_000);
        assert_eq!(registry.knowledge(&key(1)), Knowledge::Unknown);
        registry.mark_local(&[key(1)]);
        let fetched =
            vec![(key(1), account(3, key(9))), (key(2), account(3, key(9))), (key(3), None)];
        let adopted = registry.mark_fetched(fetched).expect("it has space");
        assert_eq!(adopted.iter().map(|it| it.pubkey()).collect::<Vec<_>>(), [key(2)]);
        assert_eq!(registry.knowledge(&key(1)), Knowledge::Known);
        assert_eq!(registry.knowledge(&key(2)), Knowledge::Arriving);
        assert_eq!(registry.knowledge(&key(3)), Knowledge::Known);
        assert!(!registry.is_upstreams(&key(1)));
        assert!(registry.is_upstreams(&key(2)) && registry.is_upstreams(&key(3)));
        let record = |slot| registry.record(&Address::from([2; 32]), slot, 5).is_some();
        adopted[0].set_written(10, 5);
        assert_eq!(registry.knowledge(&key(2)), Knowledge::Known);
        assert!(record(9) && !record(10));
        drop(adopted);
        assert!(!record(9), "every block has it");
        assert_eq!(registry.knowledge(&key(2)), Knowledge::Known);
    }

    #[test]
    fn bytes_are_bounded_and_come_back_when_they_are_forgotten() {
        let registry = Registry::new(2 * ENTRY_BYTES + 10);
        let first = registry.mark_fetched(vec![(key(1), account(10, key(9))), (key(2), None)]);
        assert_eq!(first.expect("it has space").len(), 1);
        registry.mark_fetched(vec![(key(3), None)]).expect("the older absent one is forgotten");
        assert_eq!(registry.knowledge(&key(2)), Knowledge::Unknown);
        let full = registry.mark_fetched(vec![(key(4), account(11, key(9)))]).err();
        let limit = 2 * ENTRY_BYTES + 10;
        assert_eq!(full, Some(FetchError::Full { bytes: limit + ENTRY_BYTES + 11, limit }));
        assert_eq!(registry.knowledge(&key(3)), Knowledge::Known, "it is not forgotten for that");
        assert_eq!(registry.knowledge(&key(4)), Knowledge::Unknown);
        assert!(registry.set_offline(key(4), false).is_err());
        registry.forget([key(1), key(7)]);
        assert_eq!(registry.usage().bytes, ENTRY_BYTES);
        registry.mark_local(&[key(8)]);
        registry.forget_all();
        let usage = RegistryUsage { local: 1, ..RegistryUsage::default() };
        assert_eq!(registry.usage(), usage);
        assert_eq!(registry.knowledge(&key(2)), Knowledge::Unknown);
    }

    #[test]
    fn offline_accounts_and_those_that_they_own_are_absent() {
        let registry = Registry::new(10_000);
        registry.set_offline(key(9), true).expect("it has space");
        registry.set_offline(key(9), true).expect("it is there already");
        assert_eq!(registry.knowledge(&key(9)), Knowledge::Known);
        assert!(!registry.is_upstreams(&key(9)));
        let adopted = registry.mark_fetched(vec![(key(1), account(3, key(9)))]);
        assert!(adopted.expect("it has space").is_empty());
        assert_eq!(registry.knowledge(&key(1)), Knowledge::Known);
        assert_eq!(registry.usage().bytes, 3 * ENTRY_BYTES);
    }
}
