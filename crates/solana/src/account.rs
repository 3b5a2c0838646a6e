//! An account as the ledger stores it, and the keys of its indexes.

use std::sync::Arc;

use ledger::{Address, KeyKind, Record};
use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;
use spl_generic_token::token::GenericTokenAccount;
use spl_generic_token::{token, token_2022};

use crate::non_circulating::is_non_circulating_withdrawer;
use crate::token::{holding, token_data};
use crate::{key_kind, pack, patch};

/// An account. Its data is shared with the VM that wrote it, until its block is rooted and the
/// account is packed (`pack`).
#[derive(Clone, Debug, PartialEq)]
pub struct Account(pub AccountSharedData);

impl Account {
    /// The account as a change to the ledger: `None` if it has no lamports, as on Solana.
    pub fn into_record(self) -> Option<Arc<Self>> {
        (self.0.lamports() > 0).then(|| Arc::new(self))
    }
}

impl Record for Account {
    fn keys(&self, key: &mut dyn FnMut(KeyKind, Address)) {
        let program = Address::from(self.0.owner().to_bytes());
        key(key_kind::PROGRAM, program);
        if *self.0.owner() == solana_sdk_ids::stake::id() && may_not_circulate(self.0.data()) {
            key(key_kind::LOCKUP, program);
        }
        let Some(data) = token_data(&self.0) else { return };
        let mint = token_2022::Account::unpack_account_mint_unchecked(data);
        let owner = token_2022::Account::unpack_account_owner_unchecked(data);
        key(key_kind::MINT, Address::from(mint.to_bytes()));
        key(key_kind::OWNER, Address::from(owner.to_bytes()));
        if let Some(delegate) = delegate(data) {
            key(key_kind::DELEGATE, delegate);
        }
    }

    fn pack(&self, packed: &mut Vec<u8>) -> bool {
        pack::pack(&self.0, packed)
    }

    fn unpack(keys: &[(KeyKind, Address)], packed: &[u8], _: &dyn Fn() -> Address) -> Option<Self> {
        pack::unpack(keys, packed).map(Self)
    }

    fn packed_rank(packed: &[u8], kind: Option<KeyKind>) -> Option<Option<u64>> {
        match kind {
            None => pack::lamports(packed).map(Some),
            Some(key_kind::MINT) => pack::amount(packed).map(Some),
            Some(_) => Some(None),
        }
    }

    fn patch(&self, base: &Self, patch: &mut Vec<u8>) -> bool {
        patch::patch(&self.0, &base.0, patch)
    }

    fn apply_patch(base: &Self, patch: &[u8]) -> Option<Self> {
        patch::apply_patch(&base.0, patch).map(Self)
    }

    fn patched_rank(_: &Self, patch: &[u8], kind: Option<KeyKind>) -> Option<Option<u64>> {
        match kind {
            None => patch::lamports(patch).map(Some),
            Some(key_kind::MINT) => None,
            Some(_) => Some(None),
        }
    }

    /// Its data may be shared with the VM.
    fn weight(&self) -> usize {
        const ARC_BYTES: usize = 16;
        size_of::<Self>() + ARC_BYTES + size_of::<Vec<u8>>() + self.0.data().len()
    }

    /// By lamports.
    fn global_rank(&self) -> Option<u64> {
        Some(self.0.lamports())
    }

    /// The holders of a mint by amount.
    fn rank_in(&self, kind: KeyKind) -> Option<u64> {
        (kind == key_kind::MINT).then(|| holding(&self.0).map_or(0, |(_, amount)| amount))
    }
}

/// Whether a stake account's lockup has a time or an epoch, or its withdrawer is one of those whose
/// stake does not circulate. Its state is 1 or 2 (a 4-byte tag at offset 0); the withdrawer is at
/// offset 44, the time and the epoch at offset 76 (8 bytes each).
fn may_not_circulate(data: &[u8]) -> bool {
    let is_stake = data.get(..4).is_some_and(|tag| matches!(tag, [1 | 2, 0, 0, 0]));
    let Some(lockup) = data.get(76..92).filter(|_| is_stake) else { return false };
    lockup.iter().any(|byte| *byte != 0)
        || Pubkey::try_from(&data[44..76]).is_ok_and(|it| is_non_circulating_withdrawer(&it))
}

/// The delegate of a valid token account: a 4-byte tag at offset 72, then the key.
fn delegate(data: &[u8]) -> Option<Address> {
    debug_assert!(data.len() >= token::Account::get_packed_len());
    let tagged: &[u8; 36] = data.get(72..108)?.try_into().ok()?;
    let (tag, key) = tagged.split_at(4);
    (tag == [1, 0, 0, 0]).then(|| Address::try_from(key).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(owner: Pubkey, data: &[u8]) -> Vec<KeyKind> {
        let mut account = AccountSharedData::new(7, 0, &owner);
        account.set_data_from_slice(data);
        let account = Account(account);
        assert_eq!(account.global_rank(), Some(7));
        let mut keys = Vec::new();
        account.keys(&mut |kind, _| keys.push(kind));
        keys
    }

    #[test]
    fn a_stake_account_is_found_by_its_lockup_or_its_withdrawer() {
        let stake = |tag: u32, unlocks: i64, epoch: u64| {
            let mut data = vec![0; 200];
            data[..4].copy_from_slice(&tag.to_le_bytes());
            data[76..84].copy_from_slice(&unlocks.to_le_bytes());
            data[84..92].copy_from_slice(&epoch.to_le_bytes());
            data
        };
        let program = solana_sdk_ids::stake::id();
        let both = [key_kind::PROGRAM, key_kind::LOCKUP];
        assert_eq!(keys(program, &stake(1, 5, 0)), both);
        assert_eq!(keys(program, &stake(2, 0, 5)), both);
        assert_eq!(keys(program, &stake(2, 0, 0)), both[..1]);
        assert_eq!(keys(program, &stake(3, 5, 5)), both[..1]);
        assert_eq!(keys(program, &stake(1, 5, 5)[..80]), both[..1]);
        assert_eq!(keys(token::id(), &stake(1, 5, 5)), both[..1]);
        let withdrawer = solana_pubkey::pubkey!("3FFaheyqtyAXZSYxDzsr5CVKvJuvZD1WE1VEsBtDbRqB");
        for (tag, expected) in [(1, &both[..]), (2, &both), (3, &both[..1])] {
            let mut named = stake(tag, 0, 0);
            named[44..76].copy_from_slice(withdrawer.as_ref());
            assert_eq!(keys(program, &named), *expected);
        }
    }
}
