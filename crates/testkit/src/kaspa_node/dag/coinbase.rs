//! Coinbases, and the Merkle root over a block's transactions.

use kaspa::{Hash, ScriptPublicKey, SubnetworkId, Transaction, TransactionOutput};

use super::blocks::{ChainState, Ghostdag};

/// New coins of each block, in sompi, in the first years of a network.
pub(crate) const SUBSIDY: u64 = 5_000_000_000;
/// The version of coinbases since Toccata.
const COINBASE_VERSION: u16 = 1;
/// The prefix of the miner's data in a template of kaspad 2.1.0.
const VERSION_DATA: &[u8] = b"2.1.0/";

/// The parts of a coinbase's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CoinbasePayload {
    pub(crate) blue_score: u64,
    pub(crate) subsidy: u64,
    pub(crate) script: ScriptPublicKey,
    pub(crate) extra_data: Vec<u8>,
}

impl CoinbasePayload {
    /// Reads a payload. A shorter one has no subsidy and an empty script.
    pub(crate) fn parse(payload: &[u8]) -> Self {
        let number = |at: usize| {
            let bytes = payload.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_le_bytes)
        };
        let byte = |at: usize| payload.get(at).copied().unwrap_or(0);
        let script_end = 19 + usize::from(byte(18));
        Self {
            blue_score: number(0),
            subsidy: number(8),
            script: ScriptPublicKey {
                version: u16::from_le_bytes([byte(16), byte(17)]),
                script: payload.get(19..script_end).unwrap_or_default().into(),
            },
            extra_data: payload.get(script_end..).unwrap_or_default().to_vec(),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.blue_score.to_le_bytes().to_vec();
        bytes.extend(self.subsidy.to_le_bytes());
        bytes.extend(self.script.version.to_le_bytes());
        // At most 150 bytes, which kaspad checks for every miner.
        bytes.push(self.script.script.len() as u8);
        bytes.extend(&*self.script.script);
        bytes.extend(&self.extra_data);
        bytes
    }
}

/// The miner of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miner {
    /// The script that receives the reward.
    pub script: ScriptPublicKey,
    /// Data in the coinbase, after the version of kaspad.
    pub extra_data: Vec<u8>,
}

/// Builds the coinbase of a block. It pays the miners of merged blue blocks, and its own miner for red ones.
pub(crate) fn coinbase(ghostdag: &Ghostdag, state: &ChainState, miner: &Miner) -> Transaction {
    let is_first =
        |hash: &Hash| Some(*hash) == ghostdag.selected_parent && ghostdag.blue_score == 1;
    let output =
        |amount, script_public_key| TransactionOutput { amount, script_public_key, covenant: None };
    // The first block of a network earns nothing.
    let earned = |hash: &&Hash| !is_first(hash);
    let reward = |hash: &Hash| state.rewards.iter().find(|reward| reward.block == *hash);
    let blues = ghostdag.blues.iter().filter(earned).filter_map(reward);
    let mut outputs: Vec<TransactionOutput> =
        blues.map(|reward| output(reward.amount, reward.script.clone())).collect();
    let reds: u64 = ghostdag.reds.iter().filter_map(reward).map(|reward| reward.amount).sum();
    if reds > 0 {
        outputs.push(output(reds, miner.script.clone()));
    }
    let payload = CoinbasePayload {
        blue_score: ghostdag.blue_score,
        subsidy: SUBSIDY,
        script: miner.script.clone(),
        extra_data: [VERSION_DATA, &miner.extra_data].concat(),
    };
    Transaction {
        version: COINBASE_VERSION,
        outputs,
        subnetwork_id: SubnetworkId::COINBASE,
        payload: payload.to_bytes(),
        ..Transaction::default()
    }
}

/// The root over the hashes of a block's transactions.
pub(crate) fn merkle_root(transactions: &[Transaction]) -> Hash {
    let mut level: Vec<Hash> = transactions.iter().map(Transaction::hash).collect();
    while level.len() > 1 {
        let join = |pair: &[Hash]| branch(&pair[0], &pair.get(1).copied().unwrap_or_default());
        level = level.chunks(2).map(join).collect();
    }
    level.first().copied().unwrap_or_default()
}

fn branch(left: &Hash, right: &Hash) -> Hash {
    let mut hasher =
        blake2b_simd::Params::new().hash_length(32).key(b"MerkleBranchHash").to_state();
    hasher.update(&left.0).update(&right.0);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(hasher.finalize().as_bytes());
    Hash(bytes)
}
