//! Headers of blocks, and their hashes.

use std::fmt;

use crate::hash::{Blake2b, FieldHasher, Hash};

/// The most parents of a header, counted once for each level: 255 levels of 2,048.
const PARENTS_MAX: usize = 255 * 2_048;

/// The work below a block, as a number in big-endian order.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlueWork(pub [u8; 24]);

/// Consecutive levels that have the same parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentLevels {
    /// The number of levels up to the last of these, counted from the lowest of the header.
    pub cumulative_level: u8,
    /// The parents on each of these levels.
    pub parents: Vec<Hash>,
}

/// The parents of a block: level 0 are its direct parents. A header is refused if its levels do not increase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parents(Vec<ParentLevels>);

/// Parents that no header has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidParents {
    /// A run of levels does not end above the run before it.
    #[error("the levels of parents do not increase")]
    LevelsNotIncreasing,
    /// The levels have too many parents together.
    #[error("a header has more than {PARENTS_MAX} parents on all levels")]
    TooMany,
}

/// The header of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version of the rules of the block.
    pub version: u16,
    /// The parents, level by level.
    pub parents: Parents,
    /// The root over the block's transactions.
    pub hash_merkle_root: Hash,
    /// The root over the transactions that the block accepts.
    pub accepted_id_merkle_root: Hash,
    /// The hash over the UTXO set after the block's acceptance.
    pub utxo_commitment: Hash,
    /// Unix time in milliseconds.
    pub timestamp_ms: u64,
    /// The target of the proof of work, in compact form.
    pub bits: u32,
    /// The solution of the proof of work.
    pub nonce: u64,
    /// The number of blocks that count for the difficulty adjustment.
    pub daa_score: u64,
    /// The work of all blue blocks below.
    pub blue_work: BlueWork,
    /// The number of blue blocks below.
    pub blue_score: u64,
    /// The block below which history may be deleted.
    pub pruning_point: Hash,
}

impl BlueWork {
    /// Returns the number without leading zeros.
    pub fn significant_bytes(&self) -> &[u8] {
        let zeros = self.0.iter().take_while(|byte| **byte == 0).count();
        &self.0[zeros..]
    }
}

impl fmt::Debug for BlueWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Parents {
    /// Checks runs of levels.
    pub fn new(runs: Vec<ParentLevels>) -> Result<Self, InvalidParents> {
        let mut last_level = 0;
        let mut parents = 0;
        for run in &runs {
            if run.cumulative_level <= last_level {
                return Err(InvalidParents::LevelsNotIncreasing);
            }
            parents += usize::from(run.cumulative_level - last_level) * run.parents.len();
            last_level = run.cumulative_level;
        }
        if parents > PARENTS_MAX { Err(InvalidParents::TooMany) } else { Ok(Self(runs)) }
    }

    /// Returns the direct parents. The first one is the selected parent.
    pub fn direct(&self) -> &[Hash] {
        self.0.first().map_or(&[], |run| &run.parents)
    }

    /// Returns the runs of levels.
    pub fn runs(&self) -> &[ParentLevels] {
        &self.0
    }

    /// Returns the number of levels.
    fn level_count(&self) -> usize {
        self.0.last().map_or(0, |run| usize::from(run.cumulative_level))
    }
}

impl Header {
    /// Returns the hash of the block.
    pub fn hash(&self) -> Hash {
        let mut hasher = Blake2b::with_key(b"BlockHash");
        hasher.write_u16(self.version);
        hasher.write_len(self.parents.level_count());
        let mut last_level = 0;
        for run in self.parents.runs() {
            for _ in last_level..run.cumulative_level {
                hasher.write_len(run.parents.len());
                run.parents.iter().for_each(|parent| hasher.write_hash(parent));
            }
            last_level = run.cumulative_level;
        }
        hasher.write_hash(&self.hash_merkle_root);
        hasher.write_hash(&self.accepted_id_merkle_root);
        hasher.write_hash(&self.utxo_commitment);
        hasher.write_u64(self.timestamp_ms);
        hasher.write_u32(self.bits);
        hasher.write_u64(self.nonce);
        hasher.write_u64(self.daa_score);
        hasher.write_u64(self.blue_score);
        hasher.write_bytes(self.blue_work.significant_bytes());
        hasher.write_hash(&self.pruning_point);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_must_increase_and_are_bounded() {
        let run = |cumulative_level, parents| ParentLevels {
            cumulative_level,
            parents: vec![Hash::default(); parents],
        };
        assert!(Parents::new(Vec::new()).is_ok());
        assert!(Parents::new(vec![run(1, 2), run(3, 1)]).is_ok());
        for runs in [vec![run(0, 1)], vec![run(2, 1), run(2, 1)], vec![run(2, 1), run(1, 1)]] {
            assert_eq!(Parents::new(runs), Err(InvalidParents::LevelsNotIncreasing));
        }
        assert!(Parents::new(vec![run(255, 2_048)]).is_ok());
        assert_eq!(Parents::new(vec![run(255, 2_049)]), Err(InvalidParents::TooMany));
    }

    #[test]
    fn leading_zeros_are_left_out() {
        let mut work = BlueWork::default();
        assert_eq!(work.significant_bytes(), [0_u8; 0]);
        work.0[22] = 1;
        assert_eq!(work.significant_bytes(), [1, 0]);
    }
}
