//! The bank's fields in the order in which Agave 4.2 writes them; the reverse of `bank_fields`.
//!
//! In: what a bank states, and the totals of its accounts. Out: the bytes of `snapshots/SLOT/SLOT`. What the accounts
//! have as well (current stakes, rent) is left empty.

use lattice::LtHash;
use solana::{EpochStakes, EpochVoter};
use solana_epoch_schedule::EpochSchedule;

use crate::archived_bank::{ArchivedBank, STORAGE_ID};
use crate::bank_fields::BankFields;

const TICKS_PER_SLOT: u64 = 64;
/// Blockhashes that are stored at most.
const BLOCKHASHES_MAX: u64 = 300;
const NS_PER_YEAR: f64 = 365.242_199 * 86_400.0 * 1e9;
/// The version of a vote account's data.
const VOTE_STATE_V4: u32 = 3;

/// The totals of a storage file.
pub(crate) struct StorageTotals {
    pub(crate) bytes: u64,
    pub(crate) lamports: u64,
    pub(crate) lt_hash: LtHash,
}

/// Bytes in bincode.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn zeros(&mut self, len: usize) {
        self.0.resize(self.0.len() + len, 0);
    }

    fn numbers(&mut self, numbers: impl IntoIterator<Item = u64>) {
        numbers.into_iter().for_each(|number| self.raw(&number.to_le_bytes()));
    }

    fn schedule(&mut self, schedule: &EpochSchedule) {
        self.numbers([schedule.slots_per_epoch, schedule.leader_schedule_slot_offset]);
        self.raw(&[schedule.warmup.into()]);
        self.numbers([schedule.first_normal_epoch, schedule.first_normal_slot]);
    }
}

pub(crate) fn encode(archived: &ArchivedBank, storage: &StorageTotals) -> Vec<u8> {
    let bank = &archived.fields;
    let mut out = Fields::default();
    write_blockhashes(&mut out, bank);
    out.numbers([0]); // ancestors
    out.raw(&bank.bank_hash.to_bytes());
    out.raw(&bank.parent_hash.to_bytes());
    out.numbers([bank.parent_slot, bank.hard_forks.len() as u64]);
    bank.hard_forks.iter().for_each(|fork| out.numbers([fork.slot, fork.count]));
    let ticks = (bank.slot + 1) * TICKS_PER_SLOT;
    out.numbers([bank.transaction_count, ticks, bank.signature_count, storage.lamports, ticks]);
    out.raw(&[0]); // hashes per tick
    out.numbers([TICKS_PER_SLOT]);
    out.raw(&bank.ns_per_slot.to_le_bytes());
    out.raw(&bank.genesis_unix_timestamp.to_le_bytes());
    let slots_per_year = NS_PER_YEAR / bank.ns_per_slot as f64;
    out.raw(&slots_per_year.to_le_bytes());
    let epoch = bank.epoch_schedule.get_epoch(bank.slot);
    out.numbers([storage.bytes, bank.slot, epoch, bank.block_height]);
    out.raw(archived.leader.as_array());
    out.numbers([0, bank.lamports_per_signature]);
    out.zeros(4 * 8 + 1); // how fees change
    out.numbers([0, epoch]); // collected rent, rent collector
    out.schedule(&bank.epoch_schedule);
    out.raw(&slots_per_year.to_le_bytes());
    out.zeros(17); // rent
    out.schedule(&bank.epoch_schedule);
    let rates = &bank.inflation;
    for rate in [
        rates.initial,
        rates.terminal,
        rates.taper,
        rates.foundation,
        rates.foundation_term,
        0.0, // unused
    ] {
        out.raw(&rate.to_le_bytes());
    }
    // Current stakes: vote accounts, delegations, unused, epoch, history.
    out.numbers([0, 0, 0, epoch, 0]);
    out.zeros(4 * 8); // unused accounts, stakes
    out.raw(&[1]);
    write_accounts_db(&mut out, bank.slot, storage);
    out.numbers([bank.lamports_per_signature]);
    out.raw(&[0, 0]); // incremental persistence, epoch accounts hash
    out.numbers([bank.epoch_stakes.len() as u64]);
    bank.epoch_stakes.iter().for_each(|stakes| write_stakes(&mut out, stakes));
    out.raw(&[1]);
    out.raw(&storage.lt_hash.to_bytes());
    out.raw(&[0]); // block id
    out.0
}

fn write_blockhashes(out: &mut Fields, bank: &BankFields) {
    let hashes = &bank.blockhashes;
    let newest = hashes.len().saturating_sub(1) as u64;
    out.numbers([newest]);
    out.raw(&[1]);
    out.raw(&hashes.last().copied().unwrap_or_default().to_bytes());
    out.numbers([hashes.len() as u64]);
    for (index, hash) in (0..).zip(hashes) {
        out.raw(&hash.to_bytes());
        out.numbers([bank.lamports_per_signature, index, 0]); // and a time
    }
    out.numbers([BLOCKHASHES_MAX]);
}

fn write_accounts_db(out: &mut Fields, slot: u64, storage: &StorageTotals) {
    out.numbers([1, slot, 1, STORAGE_ID, storage.bytes]);
    out.numbers([0, slot]); // and a write version
    out.zeros(2 * 32 + 5 * 8); // unused hashes, statistics
    out.numbers([0, 0]); // roots, with and without hashes
}

fn write_stakes(out: &mut Fields, EpochStakes { epoch, voters }: &EpochStakes) {
    let count = voters.len() as u64;
    out.numbers([*epoch]);
    out.raw(&0_u32.to_le_bytes());
    out.numbers([count]);
    for voter in voters {
        let data_len = 4 + 32;
        out.raw(voter.vote_account.as_array());
        out.numbers([voter.stake, 0, data_len]); // and its lamports
        out.raw(&VOTE_STATE_V4.to_le_bytes());
        out.raw(voter.node.as_array());
        out.zeros(32 + 1 + 8); // owner, executable, rent epoch
    }
    out.numbers([0, 0, *epoch, 0]); // delegations, unused, epoch, history
    out.numbers([voters.iter().map(|voter| voter.stake).sum(), count]);
    for voter in voters {
        out.raw(voter.node.as_array());
        out.numbers([1]);
        out.raw(voter.vote_account.as_array());
        out.numbers([voter.stake]);
    }
    let authorized = |voter: &EpochVoter| Some((voter.vote_account, voter.authorized_voter?));
    let authorized: Vec<_> = voters.iter().filter_map(authorized).collect();
    out.numbers([authorized.len() as u64]);
    for (vote_account, authorized_voter) in authorized {
        out.raw(vote_account.as_array());
        out.raw(authorized_voter.as_array());
    }
}
