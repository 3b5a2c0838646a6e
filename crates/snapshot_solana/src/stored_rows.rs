//! The rows that a followed ledger stores with its blocks and accounts. The ledger on disk does not interpret them.
//!
//! | row       | written                         | holds                                                           |
//! |-----------|---------------------------------|-----------------------------------------------------------------|
//! | `genesis` | once                            | format, the cluster's genesis hash, and what never changes      |
//! | `epochs`  | with the first bank of an epoch | the stakes of the newest epochs, and who votes and leads there  |
//! | `bank`    | with each bank                  | its blockhashes, the sum over all accounts that it has, and the |
//! |           |                                 | block of an archive that the ledger jumped to                   |
//!
//! Bounds: 12 KiB a bank; 105 bytes for each vote account of an epoch.
//! A snapshot of a cluster has the same bytes in its manifest.
//! Not here: header and checksum of a row (`store`), their use by a restart (`follow`).

use lattice::{HardFork, LT_HASH_BYTES, LtHash};
use ledger::Slot;
use solana::{EpochStakes, EpochVoter};
use solana_epoch_schedule::EpochSchedule;
use solana_hash::Hash;
use solana_inflation::Inflation;
use solana_pubkey::Pubkey;
use store::{ByteReader, ByteWriter, DecodeError};

use crate::bank_fields::BankFields;

/// The format of the rows. Raised when a row changes.
pub const FORMAT: u32 = 2;

/// Number of the newest epochs with stored stakes: those that are published. Agave stores five.
pub const EPOCHS_STORED: usize = 10;

/// The constant properties of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainRow {
    /// The hash of the genesis block, which names the cluster.
    pub genesis_hash: Hash,
    /// Seconds since 1970 of the genesis block.
    pub genesis_unix_timestamp: i64,
    /// The slots of each epoch.
    pub epoch_schedule: EpochSchedule,
    /// The nominal duration of a slot in nanoseconds.
    pub ns_per_slot: u128,
    /// The fee of a signature.
    pub lamports_per_signature: u64,
    /// The rates of inflation.
    pub inflation: Inflation,
}

/// The properties of a bank that its block and its accounts do not have.
#[derive(Clone, Debug, PartialEq)]
pub struct BankRow {
    /// The hashes that transactions may use, the oldest first.
    pub blockhashes: Vec<Hash>,
    /// `None` if banks were not verified.
    pub lattice: Option<LatticeRow>,
    /// The last jump of the ledger.
    pub jump: Option<JumpRow>,
}

/// A jump of the ledger to the block of an archive. No block before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JumpRow {
    /// The slot of the block. Its transactions are unknown.
    pub slot: Slot,
    /// The slot of the parent that its bank hash was computed with. Its block has the one that the ledger jumped from.
    pub parent_slot: Slot,
}

/// The inputs of the bank hash that the block does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct LatticeRow {
    /// The sum over all accounts after the bank.
    pub lt_hash: LtHash,
    /// The hard forks of the chain, which bank hashes cover.
    pub hard_forks: Vec<HardFork>,
}

/// The reason why the row of a chain cannot be read.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum ChainRowError {
    /// Another version of the program wrote the row.
    #[error("format {0}, this version reads {FORMAT}")]
    Format(u32),
    /// The value that cannot be read.
    #[error("cannot read its {0}")]
    Field(&'static str),
}

impl From<DecodeError> for ChainRowError {
    fn from(err: DecodeError) -> Self {
        Self::Field(err.what)
    }
}

impl ChainRow {
    /// Creates the row of the chain of a bank.
    pub fn new(genesis_hash: Hash, fields: &BankFields) -> Self {
        Self {
            genesis_hash,
            genesis_unix_timestamp: fields.genesis_unix_timestamp,
            epoch_schedule: fields.epoch_schedule.clone(),
            ns_per_slot: fields.ns_per_slot,
            lamports_per_signature: fields.lamports_per_signature,
            inflation: fields.inflation,
        }
    }

    /// Encodes the row.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = ByteWriter::default();
        out.u32(FORMAT);
        out.key(self.genesis_hash.as_bytes());
        out.i64(self.genesis_unix_timestamp);
        let schedule = &self.epoch_schedule;
        out.u64(schedule.slots_per_epoch);
        out.u64(schedule.leader_schedule_slot_offset);
        out.u8(u8::from(schedule.warmup));
        out.u64(schedule.first_normal_epoch);
        out.u64(schedule.first_normal_slot);
        out.bytes(&self.ns_per_slot.to_le_bytes());
        out.u64(self.lamports_per_signature);
        let Inflation { initial, terminal, taper, foundation, foundation_term, .. } =
            self.inflation;
        for rate in [initial, terminal, taper, foundation, foundation_term] {
            out.u64(rate.to_bits());
        }
        out.0
    }

    /// Decodes the row. Fails if its format is another one or its bytes are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ChainRowError> {
        let mut from = ByteReader::new(bytes);
        let format = from.u32("format")?;
        if format != FORMAT {
            return Err(ChainRowError::Format(format));
        }
        let genesis_hash = hash(&mut from)?;
        let genesis_unix_timestamp = from.i64("time of genesis")?;
        let epoch_schedule = EpochSchedule {
            slots_per_epoch: from.u64("slots of an epoch")?,
            leader_schedule_slot_offset: from.u64("offset of the leader schedule")?,
            warmup: from.bool("warmup")?,
            first_normal_epoch: from.u64("first normal epoch")?,
            first_normal_slot: from.u64("first normal slot")?,
        };
        let ns_per_slot = from.bytes("duration of a slot")?.try_into();
        let ns_per_slot = ns_per_slot.map_err(|_| DecodeError { what: "duration of a slot" })?;
        let lamports_per_signature = from.u64("fee of a signature")?;
        let mut inflation = Inflation::new_disabled();
        for rate in [
            &mut inflation.initial,
            &mut inflation.terminal,
            &mut inflation.taper,
            &mut inflation.foundation,
            &mut inflation.foundation_term,
        ] {
            *rate = f64::from_bits(from.u64("rate of inflation")?);
        }
        from.end()?;
        Ok(Self {
            genesis_hash,
            genesis_unix_timestamp,
            epoch_schedule,
            ns_per_slot: u128::from_le_bytes(ns_per_slot),
            lamports_per_signature,
            inflation,
        })
    }
}

impl BankRow {
    /// Encodes the row.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = ByteWriter::default();
        out.list(&self.blockhashes, |out, hash| out.key(hash.as_bytes()));
        out.option(self.lattice.as_ref(), |out, lattice| {
            out.bytes(&lattice.lt_hash.to_bytes());
            out.list(&lattice.hard_forks, |out, fork| {
                out.u64(fork.slot);
                out.u64(fork.count);
            });
        });
        out.option(self.jump, |out, jump| {
            out.u64(jump.slot);
            out.u64(jump.parent_slot);
        });
        out.0
    }

    /// Decodes the row. Fails if its bytes are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = ByteReader::new(bytes);
        let blockhashes = from.list("blockhashes", hash)?;
        let lattice = from.option("sum over all accounts", read_lattice)?;
        let jump = from.option("jump", |from| {
            Ok(JumpRow { slot: from.u64("jump")?, parent_slot: from.u64("parent of a jump")? })
        })?;
        from.end()?;
        Ok(Self { blockhashes, lattice, jump })
    }
}

fn read_lattice(from: &mut ByteReader<'_>) -> Result<LatticeRow, DecodeError> {
    let what = "sum over all accounts";
    let lt_hash: &[u8; LT_HASH_BYTES] =
        from.bytes(what)?.try_into().map_err(|_| DecodeError { what })?;
    let hard_forks = from.list("hard forks", |from| {
        Ok(HardFork { slot: from.u64("hard fork")?, count: from.u64("hard fork")? })
    })?;
    Ok(LatticeRow { lt_hash: LtHash::from_bytes(lt_hash), hard_forks })
}

/// Encodes the stakes of epochs, the oldest first.
pub fn write_epochs<'a>(epochs: impl Iterator<Item = &'a EpochStakes>) -> Vec<u8> {
    let mut out = ByteWriter::default();
    let epochs: Vec<&EpochStakes> = epochs.collect();
    out.list(&epochs, |out, stakes| {
        out.u64(stakes.epoch);
        out.list(&stakes.voters, |out, voter| {
            out.key(voter.vote_account.as_array());
            out.key(voter.node.as_array());
            let authorized_voter = voter.authorized_voter.as_ref();
            out.option(authorized_voter, |out, pubkey| out.key(pubkey.as_array()));
            out.u64(voter.stake);
        });
    });
    out.0
}

/// Decodes the stakes of epochs. Fails if the bytes are invalid.
pub fn read_epochs(bytes: &[u8]) -> Result<Vec<EpochStakes>, DecodeError> {
    let mut from = ByteReader::new(bytes);
    let epochs = from.list("epochs", |from| {
        let epoch = from.u64("epoch")?;
        let voters = from.list("voters", |from| {
            Ok(EpochVoter {
                vote_account: pubkey(from)?,
                node: pubkey(from)?,
                authorized_voter: from.option("authorized voter", pubkey)?,
                stake: from.u64("stake")?,
            })
        })?;
        Ok(EpochStakes { epoch, voters })
    })?;
    from.end()?;
    Ok(epochs)
}

fn pubkey(from: &mut ByteReader<'_>) -> Result<Pubkey, DecodeError> {
    from.key("pubkey").map(Pubkey::new_from_array)
}

fn hash(from: &mut ByteReader<'_>) -> Result<Hash, DecodeError> {
    from.key("hash").map(Hash::new_from_array)
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    fn pubkey(random: &mut Rng) -> Pubkey {
        Pubkey::new_from_array(std::array::from_fn(|_| random.u8(..)))
    }

    fn hash(random: &mut Rng) -> Hash {
        Hash::new_from_array(std::array::from_fn(|_| random.u8(..)))
    }

    fn chain(random: &mut Rng) -> ChainRow {
        let mut fields = BankFields::empty();
        fields.genesis_unix_timestamp = random.i64(..);
        fields.epoch_schedule = EpochSchedule {
            slots_per_epoch: random.u64(..),
            leader_schedule_slot_offset: random.u64(..),
            warmup: random.bool(),
            first_normal_epoch: random.u64(..),
            first_normal_slot: random.u64(..),
        };
        fields.ns_per_slot = random.u128(..);
        fields.lamports_per_signature = random.u64(..);
        fields.inflation.initial = random.f64();
        fields.inflation.terminal = random.f64();
        fields.inflation.taper = random.f64();
        fields.inflation.foundation = random.f64();
        fields.inflation.foundation_term = random.f64();
        ChainRow::new(hash(random), &fields)
    }

    fn bank(random: &mut Rng) -> BankRow {
        let bytes: [u8; LT_HASH_BYTES] = std::array::from_fn(|_| random.u8(..));
        let lattice = random.bool().then(|| LatticeRow {
            lt_hash: LtHash::from_bytes(&bytes),
            hard_forks: (0..random.usize(0..4))
                .map(|_| HardFork { slot: random.u64(..), count: random.u64(..) })
                .collect(),
        });
        let blockhashes = (0..random.usize(0..301)).map(|_| hash(random)).collect();
        let jump =
            random.bool().then(|| JumpRow { slot: random.u64(..), parent_slot: random.u64(..) });
        BankRow { blockhashes, lattice, jump }
    }

    fn epochs(random: &mut Rng) -> Vec<EpochStakes> {
        let voter = |random: &mut Rng| EpochVoter {
            vote_account: pubkey(random),
            node: pubkey(random),
            authorized_voter: random.bool().then(|| pubkey(random)),
            stake: random.u64(..),
        };
        let epoch = |random: &mut Rng| EpochStakes {
            epoch: random.u64(..),
            voters: (0..random.usize(0..9)).map(|_| voter(random)).collect(),
        };
        (0..random.usize(0..5)).map(|_| epoch(random)).collect()
    }

    #[test]
    fn rows_come_back_as_they_were_and_a_cut_or_longer_one_is_refused() {
        for seed in 0..100 {
            let mut random = Rng::with_seed(seed);
            let chain = chain(&mut random);
            let bank = bank(&mut random);
            let epochs = epochs(&mut random);
            let rows = [chain.to_bytes(), bank.to_bytes(), write_epochs(epochs.iter())];
            assert_eq!(ChainRow::from_bytes(&rows[0]), Ok(chain), "seed {seed}");
            assert_eq!(BankRow::from_bytes(&rows[1]).ok(), Some(bank), "seed {seed}");
            assert_eq!(read_epochs(&rows[2]).ok(), Some(epochs), "seed {seed}");
            let cuts = rows.each_ref().map(|row| row[..random.usize(0..row.len())].to_vec());
            let longer = rows.map(|row| [row, vec![0]].concat());
            for [chain, bank, epochs] in [cuts, longer] {
                assert!(ChainRow::from_bytes(&chain).is_err(), "seed {seed}");
                assert!(BankRow::from_bytes(&bank).is_err(), "seed {seed}");
                assert!(read_epochs(&epochs).is_err(), "seed {seed}");
            }
        }
    }

    #[test]
    fn another_format_is_named() {
        let mut row = chain(&mut Rng::with_seed(1)).to_bytes();
        row[0] += 1;
        assert_eq!(ChainRow::from_bytes(&row), Err(ChainRowError::Format(FORMAT + 1)));
    }
}
