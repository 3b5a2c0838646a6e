//! The bank's fields in bincode. Fields that Hydrant does not read are as short as possible.

use solana_sha256_hasher::hashv;

use super::PlainLtHash;

/// A storage file as the bank lists it.
#[derive(Clone, Copy, Debug)]
pub struct StorageFile {
    /// Slot of the file.
    pub slot: u64,
    /// The number after the slot in its name.
    pub id: u64,
    /// Bytes of its accounts.
    pub bytes: u64,
}

/// The values that a bank's hash covers besides its accounts.
#[derive(Clone, Copy, Debug)]
pub struct HashedFields {
    /// The slot of its parent.
    pub parent_slot: u64,
    /// The bank hash of its parent.
    pub parent_hash: [u8; 32],
    /// Signatures that its transactions require.
    pub signature_count: u64,
    /// Blockhash of the bank.
    pub last_blockhash: [u8; 32],
    /// A hard fork of the cluster: its slot, and how often the cluster was restarted there.
    pub hard_fork: Option<(u64, u64)>,
}

impl HashedFields {
    /// Those of a bank that no other knows.
    pub fn at(slot: u64) -> Self {
        let parent_hash = [3; 32];
        let last_blockhash = [4; 32];
        let parent_slot = slot - 1;
        let signature_count = 1;
        let hard_fork = None;
        Self { parent_slot, parent_hash, signature_count, last_blockhash, hard_fork }
    }
}

/// A vote account with stake in an epoch.
#[derive(Clone, Copy, Debug)]
pub struct ArchivedVoter {
    /// Address of the vote account.
    pub vote_account: [u8; 32],
    /// The identity of its node.
    pub node: [u8; 32],
    /// The key that signs its votes.
    pub authorized_voter: [u8; 32],
    /// Lamports delegated to it.
    pub stake: u64,
}

/// The values of a bank that its hash does not cover.
#[derive(Clone, Debug)]
pub struct UnhashedFields {
    /// Transactions since genesis.
    pub transaction_count: u64,
    /// Slots of an epoch; there is no warm-up.
    pub slots_per_epoch: u64,
    /// Initial and terminal rate, taper, the foundation's part and its years.
    pub inflation: [f64; 5],
    /// The vote accounts of epochs.
    pub epoch_stakes: Vec<(u64, Vec<ArchivedVoter>)>,
}

impl Default for UnhashedFields {
    fn default() -> Self {
        let inflation = [0.0; 5];
        let epoch_stakes = Vec::new();
        Self { transaction_count: 77, slots_per_epoch: 8_192, inflation, epoch_stakes }
    }
}

impl UnhashedFields {
    /// The epochs as an archive has them. Half of a vote account's data stands for the rest of it.
    fn epochs(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let n = |number: u64| number.to_le_bytes();
        out.extend(n(self.epoch_stakes.len() as u64));
        for (epoch, voters) in &self.epoch_stakes {
            out.extend(n(*epoch));
            out.extend([0; 4]);
            out.extend(n(voters.len() as u64));
            for voter in voters {
                out.extend(voter.vote_account);
                out.extend([voter.stake, 1_000, 72].into_iter().flat_map(n));
                out.extend(3_u32.to_le_bytes());
                out.extend(voter.node);
                out.extend([9; 36]);
                out.extend([7; 32 + 1 + 8]);
            }
            out.extend([0, 0, *epoch, 0].into_iter().flat_map(n)); // delegations, history
            out.extend(n(voters.iter().map(|voter| voter.stake).sum()));
            out.extend(n(voters.len() as u64));
            for voter in voters {
                out.extend(voter.node);
                out.extend(n(1));
                out.extend(voter.vote_account);
                out.extend(n(voter.stake));
            }
            out.extend(n(voters.len() as u64));
            for voter in voters {
                out.extend(voter.vote_account);
                out.extend(voter.authorized_voter);
            }
        }
        out
    }
}

/// The fields of the bank at `slot` that states these files, this capitalization and this hash.
pub fn bank_fields(
    slot: u64,
    files: &[StorageFile],
    lamports: u64,
    lattice: &PlainLtHash,
) -> Vec<u8> {
    let unhashed = UnhashedFields::default();
    bank_fields_with(slot, HashedFields::at(slot), &unhashed, files, lamports, lattice)
}

/// Encodes a bank with these fields.
pub fn bank_fields_with(
    slot: u64,
    hashed: HashedFields,
    unhashed: &UnhashedFields,
    files: &[StorageFile],
    lamports: u64,
    lattice: &PlainLtHash,
) -> Vec<u8> {
    let HashedFields { parent_slot, parent_hash, signature_count, last_blockhash: last, hard_fork } =
        hashed;
    let lattice = lattice.bytes();
    let bank_hash = hashv(&[&parent_hash, &signature_count.to_le_bytes(), &last]);
    let mut bank_hash = hashv(&[bank_hash.as_ref(), &lattice]).to_bytes();
    if let Some((_, count)) = hard_fork.filter(|(fork, _)| (parent_slot + 1..=slot).contains(fork))
    {
        bank_hash = hashv(&[&bank_hash, &count.to_le_bytes()]).to_bytes();
    }
    let mut out = Vec::new();
    let mut raw = |bytes: &[u8]| out.extend_from_slice(bytes);
    let n = |number: u64| number.to_le_bytes();
    raw(&n(1)); // blockhash queue: index, last, two hashes, retained
    raw(&[1]);
    raw(&last);
    raw(&n(2));
    for (index, hash) in [(1, last), (0, [5; 32])] {
        raw(&hash);
        [5_000, index, 0].into_iter().for_each(|number| raw(&n(number)));
    }
    raw(&n(300));
    raw(&n(0)); // ancestors
    raw(&bank_hash);
    raw(&parent_hash);
    raw(&n(parent_slot));
    raw(&n(hard_fork.iter().len() as u64));
    hard_fork
        .into_iter()
        .for_each(|(fork, count)| [fork, count].iter().for_each(|it| raw(&n(*it))));
    raw(&n(unhashed.transaction_count));
    raw(&n(0)); // ticks
    raw(&n(signature_count));
    raw(&n(lamports));
    raw(&n(0)); // ticks at most
    raw(&[0]); // hashes per tick
    raw(&n(64));
    raw(&400_000_000_u128.to_le_bytes());
    raw(&n(1_700_000_000));
    raw(&[0; 16]);
    raw(&n(slot));
    raw(&n(0));
    raw(&n(slot)); // height
    raw(&[0; 32 + 16 + 33 + 8]); // leader, fees, rent
    raw(&[0; 8 + 33 + 8 + 17]); // rent collector
    [unhashed.slots_per_epoch; 2].into_iter().for_each(|number| raw(&n(number)));
    raw(&[0; 17]); // rest of the epoch schedule
    unhashed.inflation.into_iter().for_each(|rate| raw(&rate.to_le_bytes()));
    raw(&[0; 8]); // unused
    raw(&[0; 5 * 8]); // stakes
    raw(&[0; 4 * 8]); // accounts and stakes without use
    raw(&[1]);
    raw(&n(files.len() as u64));
    for file in files {
        [file.slot, 1, file.id, file.bytes].into_iter().for_each(|number| raw(&n(number)));
    }
    raw(&n(0));
    raw(&n(slot));
    raw(&[0; 64 + 40 + 16]);
    raw(&n(5_000));
    raw(&[0, 0]);
    raw(&unhashed.epochs());
    raw(&[1]);
    raw(&lattice);
    raw(&[0]);
    out
}
