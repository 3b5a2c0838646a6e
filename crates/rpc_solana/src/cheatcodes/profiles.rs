//! The profiles of transactions that clients requested, for a later lookup by key or tag.
//!
//! Bounds: [`PROFILES_MAX`] profiles and [`BYTES_MAX`]; the oldest is evicted first. A profile with more bytes is
//! returned and not retained.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use ledger::Slot;
use parking_lot::Mutex;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;

/// Maximum number of retained profiles, as in surfpool.
const PROFILES_MAX: usize = 200;
/// Maximum bytes of retained profiles.
const BYTES_MAX: u64 = 16 << 20;
/// Bytes of an account or a log line, without its text or data.
const ENTRY_BYTES: u64 = 150;

/// The profile of a transaction that ran without effect.
pub(crate) struct Profile {
    pub(crate) slot: Slot,
    /// A UUID, or the signature of an executed transaction.
    pub(crate) key: String,
    pub(crate) tag: Option<String>,
    /// The run of all its instructions.
    pub(crate) transaction: ProfilePart,
    /// The runs of each instruction. `None` if their consumption is not known.
    pub(crate) instructions: Option<Vec<ProfilePart>>,
    /// The accounts that the transaction only reads.
    pub(crate) readonly: Vec<(Pubkey, AccountSharedData)>,
}

/// The effects of a transaction or of one instruction.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProfilePart {
    pub(crate) accounts: Vec<ProfiledAccount>,
    pub(crate) compute_units: u64,
    pub(crate) logs: Vec<String>,
    pub(crate) error: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct ProfiledAccount {
    pub(crate) pubkey: Pubkey,
    /// `None` for an account that the transaction only reads.
    pub(crate) change: Option<AccountChange>,
}

/// An account before and after a run; `None` if it does not exist.
#[derive(Clone, Debug)]
pub(crate) struct AccountChange {
    pub(crate) before: Option<AccountSharedData>,
    pub(crate) after: Option<AccountSharedData>,
}

impl ProfilePart {
    fn bytes(&self) -> u64 {
        let logs = self.logs.iter().map(|line| ENTRY_BYTES + line.len() as u64);
        let account = |account: &Option<AccountSharedData>| {
            account.as_ref().map_or(0, |account| account.data().len() as u64)
        };
        let accounts = self.accounts.iter().map(|profiled| {
            let change = profiled.change.as_ref();
            let data = change.map_or(0, |it| account(&it.before) + account(&it.after));
            ENTRY_BYTES + data
        });
        ENTRY_BYTES + logs.sum::<u64>() + accounts.sum::<u64>()
    }
}

impl Profile {
    fn bytes(&self) -> u64 {
        let parts = self.instructions.iter().flatten().chain([&self.transaction]);
        let readonly = self.readonly.iter().map(|(_, it)| ENTRY_BYTES + it.data().len() as u64);
        let tag = self.tag.as_ref().map_or(0, String::len) as u64;
        parts.map(ProfilePart::bytes).sum::<u64>() + readonly.sum::<u64>() + tag
    }
}

#[derive(Default)]
pub(crate) struct Profiles(Mutex<Retained>);

#[derive(Default)]
struct Retained {
    /// The profiles with their bytes, the oldest first.
    profiles: VecDeque<(Arc<Profile>, u64)>,
    bytes: u64,
    /// Number of keys that were made.
    keys: u64,
    hasher: RandomState,
}

impl Profiles {
    /// Makes a key: a UUID that no client can guess and no other profile has.
    pub(crate) fn new_key(&self) -> String {
        let mut retained = self.0.lock();
        retained.keys += 1;
        let hash = |half: u64| retained.hasher.hash_one((retained.keys, half));
        // The bits of version 4 and variant 1.
        let high = hash(0) & !0xf000 | 0x4000;
        let low = hash(1) & !(0b11 << 62) | 0b10 << 62;
        let text = format!("{high:016x}{low:016x}");
        let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]];
        parts.join("-")
    }

    /// Retains a profile, and evicts the oldest ones beyond the bounds.
    pub(crate) fn insert(&self, profile: Arc<Profile>) {
        let bytes = profile.bytes();
        if bytes > BYTES_MAX {
            return;
        }
        let mut retained = self.0.lock();
        let retained = &mut *retained;
        retained.bytes += bytes;
        retained.profiles.push_back((profile, bytes));
        while retained.profiles.len() > PROFILES_MAX || retained.bytes > BYTES_MAX {
            let Some((_, oldest)) = retained.profiles.pop_front() else { break };
            retained.bytes -= oldest;
        }
    }

    /// Finds the profile with a key.
    pub(crate) fn find_by_key(&self, key: &str) -> Option<Arc<Profile>> {
        let retained = self.0.lock();
        let mut profiles = retained.profiles.iter();
        profiles.find(|(profile, _)| profile.key == key).map(|(profile, _)| Arc::clone(profile))
    }

    /// Finds the profiles with a tag, the oldest first.
    pub(crate) fn list_by_tag(&self, tag: &str) -> Vec<Arc<Profile>> {
        let retained = self.0.lock();
        let tagged = retained.profiles.iter().map(|(profile, _)| profile);
        tagged.filter(|profile| profile.tag.as_deref() == Some(tag)).map(Arc::clone).collect()
    }

    /// Returns number and bytes of the retained profiles.
    pub(crate) fn usage(&self) -> (usize, u64) {
        let retained = self.0.lock();
        (retained.profiles.len(), retained.bytes)
    }
}

#[cfg(test)]
mod tests {
    use solana_account::WritableAccount;

    use super::*;

    fn profile(key: &str, tag: &str, bytes: usize) -> Arc<Profile> {
        let mut account = AccountSharedData::new(1, bytes, &Pubkey::default());
        account.set_lamports(2);
        let change = AccountChange { before: None, after: Some(account) };
        let accounts = vec![ProfiledAccount { pubkey: Pubkey::default(), change: Some(change) }];
        Arc::new(Profile {
            slot: 1,
            key: key.to_owned(),
            tag: Some(tag.to_owned()),
            transaction: ProfilePart { accounts, ..ProfilePart::default() },
            instructions: None,
            readonly: Vec::new(),
        })
    }

    #[test]
    fn the_oldest_profiles_leave_first() {
        let profiles = Profiles::default();
        for number in 0..5_000 {
            profiles.insert(profile(
                &number.to_string(),
                if number % 2 == 0 { "a" } else { "b" },
                10,
            ));
        }
        let (count, bytes) = profiles.usage();
        assert_eq!(count, PROFILES_MAX);
        assert!(bytes < 200 * 1_000, "{bytes}");
        assert!(profiles.find_by_key("4799").is_none() && profiles.find_by_key("4800").is_some());
        let tagged = profiles.list_by_tag("b");
        assert_eq!((tagged.len(), tagged[0].key.as_str()), (100, "4801"));
        assert!(profiles.list_by_tag("c").is_empty());
    }

    #[test]
    fn retained_profiles_have_bounded_bytes() {
        let profiles = Profiles::default();
        for number in 0..20 {
            profiles.insert(profile(&number.to_string(), "a", 2 << 20));
        }
        assert_eq!(profiles.usage().0, 7);
        profiles.insert(profile("large", "a", 17 << 20));
        assert!(profiles.find_by_key("large").is_none());
        let (count, bytes) = profiles.usage();
        assert!(count == 7 && bytes <= BYTES_MAX);
    }

    #[test]
    fn keys_are_different_uuids() {
        let profiles = Profiles::default();
        let keys: std::collections::HashSet<String> =
            (0..100).map(|_| profiles.new_key()).collect();
        assert_eq!(keys.len(), 100);
        for key in keys {
            let lens: Vec<_> = key.split('-').map(str::len).collect();
            assert_eq!(lens, [8, 4, 4, 4, 12], "{key}");
            assert_eq!(&key[14..15], "4", "{key}");
            assert!("89ab".contains(&key[19..20]), "{key}");
        }
    }
}
