//! This node's validator: its tower of lockouts, and the vote transaction for each block.

use std::collections::VecDeque;

use ledger::Slot;
use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;
use solana_vote_interface::instruction::tower_sync;
use solana_vote_interface::state::{
    Lockout, MAX_LOCKOUT_HISTORY, TowerSync, VoteStateV4, VoteStateVersions,
};

use crate::keypairs::NodeKeypairs;

/// The lockouts of a validator that votes for every block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tower {
    lockouts: VecDeque<Lockout>,
    root: Option<Slot>,
}

impl Tower {
    /// The tower of a vote account.
    pub(crate) fn restore(lockouts: impl IntoIterator<Item = Lockout>, root: Option<Slot>) -> Self {
        Self { lockouts: lockouts.into_iter().collect(), root }
    }

    /// Votes for a slot: expired lockouts are removed, the oldest may become the root, the others double.
    pub(crate) fn vote(&mut self, slot: Slot) {
        while self.lockouts.back().is_some_and(|last| !last.is_locked_out_at_slot(slot)) {
            self.lockouts.pop_back();
        }
        if self.lockouts.len() == MAX_LOCKOUT_HISTORY {
            self.root = self.lockouts.pop_front().map(|oldest| oldest.slot());
        }
        self.lockouts.push_back(Lockout::new(slot));
        let depth = self.lockouts.len();
        for (index, lockout) in self.lockouts.iter_mut().enumerate() {
            if depth > index + lockout.confirmation_count() as usize {
                lockout.increase_confirmation_count(1);
            }
        }
    }

    /// The slots of the votes, the oldest first.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        self.lockouts.iter().map(Lockout::slot).collect()
    }

    /// The transaction that updates the vote account with this tower.
    pub(crate) fn transaction(
        &self,
        vote: &Vote<'_>,
        blockhash: &Hash,
    ) -> Option<VersionedTransaction> {
        let sync = TowerSync {
            lockouts: self.lockouts.clone(),
            root: self.root,
            hash: vote.bank_hash,
            timestamp: Some(vote.unix_timestamp),
            block_id: vote.bank_hash,
        };
        let identity = vote.identity.pubkey();
        let instruction = tower_sync(&vote.vote_account, &vote.voter.pubkey(), sync);
        let message = Message::new_with_blockhash(&[instruction], Some(&identity), blockhash);
        let signers = [vote.identity, vote.voter];
        let signers = if vote.voter.pubkey() == identity { &signers[..1] } else { &signers };
        VersionedTransaction::try_new(VersionedMessage::Legacy(message), signers).ok()
    }
}

/// The authorized voter of a vote account: its own key, or the identity in older ledgers.
pub(crate) fn voter(vote_account: Option<&Account>, keypairs: &NodeKeypairs) -> Keypair {
    let identity = keypairs.identity.pubkey();
    let state = vote_account.and_then(|account| {
        VoteStateV4::deserialize(account.0.data(), &keypairs.vote_account.pubkey()).ok()
    });
    let last = state.and_then(|state| state.authorized_voters.last().map(|(_, voter)| *voter));
    let is_identity = last == Some(identity);
    let keypair = if is_identity { &keypairs.identity } else { &keypairs.vote_account };
    keypair.insecure_clone()
}

/// A vote account with the time of its last vote moved back to `unix_timestamp`. `None` if it is not later.
pub(crate) fn with_time(
    account: &AccountSharedData,
    vote_account: &Pubkey,
    unix_timestamp: i64,
) -> Option<AccountSharedData> {
    let mut state = VoteStateV4::deserialize(account.data(), vote_account).ok()?;
    if state.last_timestamp.timestamp <= unix_timestamp {
        return None;
    }
    state.last_timestamp.timestamp = unix_timestamp;
    let mut account = account.clone();
    let state = VoteStateVersions::new_v4(state);
    bincode::serialize_into(account.data_as_mut_slice(), &state).ok()?;
    Some(account)
}

/// The contents of a vote except the tower.
pub(crate) struct Vote<'a> {
    /// Pays for the vote.
    pub(crate) identity: &'a Keypair,
    /// The authorized voter. Signs as well if it is another key.
    pub(crate) voter: &'a Keypair,
    pub(crate) vote_account: Pubkey,
    /// The hash of the newest bank in the vote.
    pub(crate) bank_hash: Hash,
    /// Seconds since 1970 of that bank.
    pub(crate) unix_timestamp: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voting_for_every_slot_roots_the_one_31_below() {
        let mut tower = Tower::default();
        (1..=31).for_each(|slot| tower.vote(slot));
        assert_eq!(tower.root, None);
        tower.vote(32);
        assert_eq!(tower.root, Some(1));
        assert_eq!(tower.slots(), (2..=32).collect::<Vec<_>>());
        assert_eq!(tower.lockouts[0].confirmation_count(), 31);
        assert_eq!(tower.lockouts[30].confirmation_count(), 1);
    }

    #[test]
    fn a_jump_of_slots_drops_expired_lockouts() {
        let mut tower = Tower::default();
        (1..=4).for_each(|slot| tower.vote(slot));
        tower.vote(100);
        assert_eq!(tower.slots(), vec![100]);
    }
}
