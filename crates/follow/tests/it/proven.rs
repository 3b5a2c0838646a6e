//! A scripted chain with right bank hashes: each bank lists its parent's, computed from the plainest definition.

use std::collections::BTreeMap;

use lattice::{BankHashInputs, HardFork, LtHash, crossed_hard_forks};
use snapshot_solana::BankFields;
use solana_account::{Account, AccountSharedData, ReadableAccount};
use solana_clock::Clock;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;
use solana_sha256_hasher::{hash, hashv};
use solana_slot_hashes::SlotHashes;
use testkit::archive::HashedFields;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    SlotStatus, SubscribeUpdate, SubscribeUpdateAccountInfo, SubscribeUpdateBlockMeta,
    SubscribeUpdateEntry,
};
use yellowstone_grpc_proto::solana::storage::confirmed_block as proto;

use crate::archives::State;
use crate::script::{account, message, status, transaction};
use crate::snapshot::WALLET;

/// The newest bank of a chain, and the data that the next one needs.
#[derive(Clone)]
pub(crate) struct Proven {
    pub(crate) slot: u64,
    pub(crate) hash: Hash,
    /// Distinguishes banks of one slot.
    pub(crate) version: u8,
    pub(crate) hard_forks: Vec<HardFork>,
    /// Whether the source sends entries, which then lead to each blockhash.
    pub(crate) has_entries: bool,
    blockhash: Hash,
    lt_hash: LtHash,
    accounts: BTreeMap<Pubkey, AccountSharedData>,
    slot_hashes: Vec<(u64, Hash)>,
    /// The inputs of the newest bank's hash other than accounts.
    hashed: HashedFields,
}

impl Proven {
    pub(crate) fn new(fields: &BankFields, accounts: Vec<(Pubkey, AccountSharedData)>) -> Self {
        Self {
            slot: fields.slot,
            hash: fields.bank_hash,
            version: 0,
            hard_forks: fields.hard_forks.clone(),
            has_entries: false,
            blockhash: fields.blockhashes[fields.blockhashes.len() - 1],
            lt_hash: (*fields.lt_hash).clone(),
            accounts: accounts.into_iter().collect(),
            slot_hashes: Vec::new(),
            hashed: HashedFields::at(fields.slot),
        }
    }

    /// All accounts after the newest bank.
    pub(crate) fn accounts(&self) -> BTreeMap<Pubkey, AccountSharedData> {
        let exists = |(_, account): &(&Pubkey, &AccountSharedData)| account.lamports() > 0;
        let all = self.accounts.iter().filter(exists);
        all.map(|(pubkey, account)| (*pubkey, account.clone())).collect()
    }

    /// Returns the updates of the next bank, in which the wallet has these lamports, up to its block meta.
    pub(crate) fn bank(&mut self, slot: u64, lamports: u64) -> Vec<SubscribeUpdate> {
        self.bank_with(slot, vec![account(slot, WALLET, lamports, Vec::new())], Vec::new())
    }

    /// The next bank with these writes, and with these transactions besides one of its own.
    pub(crate) fn bank_with(
        &mut self,
        slot: u64,
        writes: Vec<SubscribeUpdate>,
        transactions: Vec<SubscribeUpdate>,
    ) -> Vec<SubscribeUpdate> {
        let parent = (self.slot, self.blockhash);
        self.slot_hashes.insert(0, (self.slot, self.hash));
        self.slot_hashes.truncate(512);
        let clock = Clock { slot, unix_timestamp: 1_700_000_000 + slot as i64, ..Clock::default() };
        let sysvar = |id: Pubkey, data: Vec<u8>| account(slot, id.to_bytes(), 1, data);
        let bytes = bincode::serialize(&clock).expect("a clock");
        let hashes =
            bincode::serialize(&SlotHashes::new(&self.slot_hashes)).expect("it has a wire form");
        let mut all = vec![
            status(slot, SlotStatus::SlotCreatedBank),
            sysvar(sysvar::clock::ID, bytes),
            sysvar(sysvar::slot_hashes::ID, hashes),
            sysvar(sysvar::recent_blockhashes::ID, slot.to_le_bytes().to_vec()),
        ];
        all.extend(writes);
        let count = transactions.len() as u64 + 1;
        all.push(transaction(slot, count - 1));
        all.extend(transactions);
        all.push(sysvar(sysvar::slot_history::ID, slot.to_be_bytes().to_vec()));
        let entries = if self.has_entries { new_entries(slot, parent.1, &all) } else { Vec::new() };
        let blockhash = entries.last().map_or_else(
            || {
                let mut bytes = [self.version + 1; 32];
                bytes[..8].copy_from_slice(&slot.to_le_bytes());
                Hash::new_from_array(bytes)
            },
            |last| Hash::new_from_array(last.hash.clone().try_into().expect("32 bytes")),
        );
        self.freeze(slot, blockhash, &all);
        all.push(message(UpdateOneof::BlockMeta(SubscribeUpdateBlockMeta {
            slot,
            blockhash: blockhash.to_string(),
            block_time: Some(proto::UnixTimestamp { timestamp: 1_700_000_000 + slot as i64 }),
            block_height: Some(proto::BlockHeight { block_height: slot }),
            parent_slot: parent.0,
            parent_blockhash: parent.1.to_string(),
            executed_transaction_count: count,
            entries_count: entries.len() as u64,
            ..Default::default()
        })));
        all.extend(entries.into_iter().map(|entry| message(UpdateOneof::Entry(entry))));
        all
    }

    /// Computes the hash of the bank that wrote `updates`.
    fn freeze(&mut self, slot: u64, blockhash: Hash, updates: &[SubscribeUpdate]) {
        let mut signature_count = 0;
        for update in updates {
            match &update.update_oneof {
                Some(UpdateOneof::Account(update)) => {
                    let info = update.account.as_ref().expect("an account");
                    let (pubkey, after) = account_mut(info);
                    let before = self.accounts.insert(pubkey, after.clone());
                    let sum = |account: &AccountSharedData| solana::lt_hash(&pubkey, account);
                    if let Some(before) = before {
                        self.lt_hash.mix_out(&sum(&before));
                    }
                    self.lt_hash.mix_in(&sum(&after));
                }
                Some(UpdateOneof::Transaction(update)) => {
                    let info = update.transaction.as_ref().and_then(|it| it.transaction.as_ref());
                    signature_count += info.expect("a transaction").signatures.len() as u64;
                }
                _ => {}
            }
        }
        self.hashed = HashedFields {
            parent_slot: self.slot,
            parent_hash: self.hash.to_bytes(),
            signature_count,
            last_blockhash: blockhash.to_bytes(),
            hard_fork: self.hard_forks.last().map(|fork| (fork.slot, fork.count)),
        };
        let inputs = BankHashInputs {
            parent_hash: self.hash.to_bytes(),
            signature_count,
            last_blockhash: blockhash.to_bytes(),
            lt_hash: &self.lt_hash,
            hard_forks: crossed_hard_forks(&self.hard_forks, self.slot, slot),
        };
        self.hash = Hash::new_from_array(inputs.hash());
        (self.slot, self.blockhash) = (slot, blockhash);
    }

    /// Adds an account to the newest bank, as a liar does: its hash is that of the altered accounts.
    pub(crate) fn add_account(&mut self, address: [u8; 32], lamports: u64) {
        let pubkey = Pubkey::from(address);
        let rent_epoch = u64::MAX;
        let account: AccountSharedData =
            Account { lamports, rent_epoch, ..Account::default() }.into();
        self.lt_hash.mix_in(&solana::lt_hash(&pubkey, &account));
        self.accounts.insert(pubkey, account);
        let HashedFields { parent_hash, signature_count, last_blockhash, .. } = self.hashed;
        let lt_hash = &self.lt_hash;
        let hard_forks = 0;
        let inputs =
            BankHashInputs { parent_hash, signature_count, last_blockhash, lt_hash, hard_forks };
        self.hash = Hash::new_from_array(inputs.hash());
    }

    /// The state after the newest bank, for an archive.
    pub(crate) fn state(&self) -> State {
        State::new(self.slot, self.hashed, &self.accounts())
    }

    /// The accounts that were closed so far.
    pub(crate) fn closed_accounts(&self) -> Vec<[u8; 32]> {
        let closed = self.accounts.iter().filter(|(_, account)| account.lamports() == 0);
        closed.map(|(pubkey, _)| pubkey.to_bytes()).collect()
    }

    /// Returns frozen and confirmed banks.
    pub(crate) fn chain(&mut self, slots: std::ops::RangeInclusive<u64>) -> Vec<SubscribeUpdate> {
        let bank = |slot: u64| {
            let mut all = self.bank(slot, slot * 10);
            all.extend(
                [SlotStatus::SlotProcessed, SlotStatus::SlotConfirmed].map(|it| status(slot, it)),
            );
            all
        };
        slots.flat_map(bank).collect()
    }

    /// Returns the update of an independent source: the SlotHashes sysvar that a child of this bank writes.
    pub(crate) fn child_slot_hashes(&self) -> SubscribeUpdate {
        let mut hashes = self.slot_hashes.clone();
        hashes.insert(0, (self.slot, self.hash));
        let data = bincode::serialize(&SlotHashes::new(&hashes)).expect("it has a wire form");
        account(self.slot + 1, sysvar::slot_hashes::ID.to_bytes(), 1, data)
    }
}

/// An entry of three hashes with the first transaction, one with the others, and a tick, by the plainest definition.
fn new_entries(slot: u64, parent: Hash, updates: &[SubscribeUpdate]) -> Vec<SubscribeUpdateEntry> {
    let mut transactions = BTreeMap::new();
    for update in updates {
        if let Some(UpdateOneof::Transaction(update)) = &update.update_oneof {
            let info = update.transaction.as_ref().expect("a transaction");
            let signatures = &info.transaction.as_ref().expect("its content").signatures;
            transactions.insert(info.index, signatures.clone());
        }
    }
    let transactions: Vec<_> = transactions.into_values().collect();
    let first = hash(hash(parent.as_ref()).as_ref());
    let first = hashv(&[first.as_ref(), merkle_root(&transactions[..1].concat()).as_ref()]);
    let mut entries = vec![(3, first, 0, 1)];
    let rest = &transactions[1..];
    if !rest.is_empty() {
        let second = hashv(&[first.as_ref(), merkle_root(&rest.concat()).as_ref()]);
        entries.push((1, second, 1, rest.len()));
    }
    let last = entries[entries.len() - 1].1;
    entries.push((1, hash(last.as_ref()), transactions.len(), 0));
    let entry = |(index, (num_hashes, hash, starting, count)): (u64, (u64, Hash, usize, usize))| {
        SubscribeUpdateEntry {
            slot,
            index,
            num_hashes,
            hash: hash.to_bytes().to_vec(),
            executed_transaction_count: count as u64,
            starting_transaction_index: starting as u64,
            bank_id: 0,
        }
    };
    (0..).zip(entries).map(entry).collect()
}

fn merkle_root(signatures: &[Vec<u8>]) -> Hash {
    let mut level: Vec<Hash> = signatures.iter().map(|item| hashv(&[&[0], item])).collect();
    while level.len() > 1 {
        let pair = |pair: &[Hash]| hashv(&[&[1], pair[0].as_ref(), pair[pair.len() - 1].as_ref()]);
        level = level.chunks(2).map(pair).collect();
    }
    level[0]
}

fn account_mut(info: &SubscribeUpdateAccountInfo) -> (Pubkey, AccountSharedData) {
    let key = |bytes: &[u8]| Pubkey::try_from(bytes).expect("32 bytes");
    let account = Account {
        lamports: info.lamports,
        data: info.data.to_vec(),
        owner: key(&info.owner),
        executable: info.executable,
        rent_epoch: info.rent_epoch,
    };
    (key(&info.pubkey), account.into())
}
