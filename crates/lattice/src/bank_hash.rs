//! The bank hash, which votes sign and the SlotHashes sysvar lists.

use sha2::{Digest, Sha256};

use crate::lt_hash::LtHash;

/// The values that a bank hash covers.
#[derive(Clone, Copy, Debug)]
pub struct BankHashInputs<'a> {
    /// The bank hash of the parent.
    pub parent_hash: [u8; 32],
    /// The signatures that the messages of the block's transactions require. Failed transactions count, and so do those
    /// that only paid their fee. Signatures that a precompile checks do not count.
    pub signature_count: u64,
    /// The block's own blockhash: the newest that its child may use.
    pub last_blockhash: [u8; 32],
    /// The hash over all accounts after the block.
    pub lt_hash: &'a LtHash,
    /// The hard forks between the parent and the block ([`crossed_hard_forks`]).
    pub hard_forks: u64,
}

impl BankHashInputs<'_> {
    /// Returns the bank hash: SHA-256 over the inputs.
    pub fn hash(&self) -> [u8; 32] {
        let signature_count = self.signature_count.to_le_bytes();
        let hash = sha256(&[&self.parent_hash, &signature_count, &self.last_blockhash]);
        let hash = sha256(&[&hash, &self.lt_hash.to_bytes()]);
        match self.hard_forks {
            0 => hash,
            forks => sha256(&[&hash, &forks.to_le_bytes()]),
        }
    }
}

/// A slot at which the cluster was restarted with other rules or another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardFork {
    /// The first slot after the restart.
    pub slot: u64,
    /// Number of restarts at that slot.
    pub count: u64,
}

/// Returns the number of hard forks above `parent_slot` and at or below `slot`.
pub fn crossed_hard_forks(forks: &[HardFork], parent_slot: u64, slot: u64) -> u64 {
    let crossed = forks.iter().filter(|fork| parent_slot < fork.slot && fork.slot <= slot);
    crossed.fold(0, |sum, fork| sum.saturating_add(fork.count))
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_input_changes_the_hash() {
        let lt_hash = LtHash::from_bytes(&[1; crate::LT_HASH_BYTES]);
        let inputs = BankHashInputs {
            parent_hash: [1; 32],
            signature_count: 2,
            last_blockhash: [3; 32],
            lt_hash: &lt_hash,
            hard_forks: 0,
        };
        let changed = [
            BankHashInputs { parent_hash: [2; 32], ..inputs },
            BankHashInputs { signature_count: 3, ..inputs },
            BankHashInputs { last_blockhash: [4; 32], ..inputs },
            BankHashInputs { lt_hash: &LtHash::EMPTY, ..inputs },
            BankHashInputs { hard_forks: 1, ..inputs },
        ];
        assert!(changed.iter().all(|changed| changed.hash() != inputs.hash()));
    }

    #[test]
    fn a_hard_fork_counts_in_the_first_block_at_or_above_its_slot() {
        let forks = [HardFork { slot: 10, count: 1 }, HardFork { slot: 12, count: 2 }];
        let crossed = |parent, slot| crossed_hard_forks(&forks, parent, slot);
        assert_eq!(crossed(8, 9), 0);
        assert_eq!(crossed(9, 10), 1);
        assert_eq!(crossed(9, 11), 1);
        assert_eq!(crossed(10, 11), 0);
        assert_eq!(crossed(9, 12), 3);
        assert_eq!(crossed(12, 13), 0);
    }
}
