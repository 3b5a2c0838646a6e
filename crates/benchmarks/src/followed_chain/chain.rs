//! A synthetic chain of mainnet's shape, slot by slot, with right bank hashes.
//!
//! Shape of a slot: Clock and SlotHashes; votes, which write the vote account and the payer; swaps, which write some eight
//! accounts each, most of them hot; stake rewards in some slots; RecentBlockhashes and SlotHistory; the metadata. The
//! entries are apart, because not every follower requests them: 64 ticks, and one with transactions before each tick.
//! The hashes are computed by `verify`, whose CPU time is a measurement too.
//! Bounds: all slots are in memory, encoded.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use cpu_time::ThreadTime;
use ledger::BlockId;
use snapshot_ledger::BulkLoader;
use snapshot_solana::Progress;
use solana::{Account, Entry};
use solana_account::{ReadableAccount, WritableAccount};
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;
use solana_signature::Signature;
use testkit::synthetic::{Synthetic, Updates};
use verify::{AccountChange, FrozenBank, RootBank, Verifier, VerifierConfig, next_entry_hash};
use yellowstone_grpc_proto::geyser::SlotStatus;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;

use super::messages;
use super::shape::Shape;
use super::snapshot::{self, SLOT, SnapshotFile};

/// Bytes of a chunk of frames, and one frame more.
const CHUNK_BYTES: usize = 128 << 10;
/// Slots from a bank to the one that makes it the root.
const ROOT_AFTER: u64 = 32;
/// Ticks of a slot.
const TICKS: usize = 64;
/// Slots in the SlotHashes sysvar.
const SLOT_HASHES_MAX: usize = 512;
const RECENT_BLOCKHASHES_BYTES: usize = 6_008;
const SLOT_HISTORY_BYTES: usize = 131_097;

pub(super) struct Slot {
    pub(super) slot: u64,
    pub(super) updates: usize,
    /// Different accounts among them.
    pub(super) accounts: usize,
    pub(super) transactions: usize,
    /// Frames up to the last account. The first chunk begins with the bank's creation, Clock and SlotHashes.
    pub(super) content: Vec<Bytes>,
    /// The entries.
    pub(super) entries: Bytes,
    /// The metadata and the statuses that follow.
    pub(super) end: Bytes,
}

impl Slot {
    /// Bytes without entries.
    pub(super) fn bytes(&self) -> usize {
        self.content.iter().chain([&self.end]).map(Bytes::len).sum()
    }

    /// The messages, without the heads of their frames and without entries.
    pub(super) fn messages(&self) -> impl Iterator<Item = &[u8]> {
        self.content.iter().chain([&self.end]).flat_map(|chunk| {
            let mut rest = &chunk[..];
            std::iter::from_fn(move || {
                let (head, after) = rest.split_at_checked(messages::HEAD_BYTES)?;
                let len = u32::from_be_bytes(*head.last_chunk()?) as usize;
                let (message, next) = after.split_at_checked(len)?;
                rest = next;
                Some(message)
            })
        })
    }
}

/// The chain so far.
pub(super) struct Chain {
    shape: Shape,
    synthetic: Synthetic,
    updates: Updates,
    /// Accounts of the snapshot.
    loader: BulkLoader,
    /// Accounts that were written since.
    accounts: HashMap<Pubkey, Option<Arc<Account>>>,
    verifier: Verifier,
    block: BlockId,
    blockhash: Hash,
    bank_hash: Hash,
    /// The newest first.
    slot_hashes: VecDeque<(u64, Hash)>,
    write_version: u64,
    /// CPU time of the hashes of all banks without rewards, and their number.
    freezes: (Duration, u32),
}

/// A slot that is being made.
struct OpenSlot {
    slot: u64,
    frames: BytesMut,
    content: Vec<Bytes>,
    updates: usize,
    /// The signature of each transaction.
    signatures: Vec<Signature>,
    changes: HashMap<Pubkey, AccountChange>,
}

impl OpenSlot {
    fn put(&mut self, update: UpdateOneof) {
        if let UpdateOneof::Transaction(update) = &update
            && let Some(info) = &update.transaction
        {
            // The messages are made here: each has 64 bytes.
            self.signatures.push(Signature::try_from(&info.signature[..]).unwrap_or_default());
        }
        messages::put(&mut self.frames, update);
        if self.frames.len() >= CHUNK_BYTES {
            self.content.push(self.frames.split().freeze());
        }
    }
}

impl OpenSlot {
    /// The index of the next transaction.
    fn next_index(&self) -> u64 {
        self.signatures.len() as u64
    }

    /// The entries after those of the parent, with this number of hashes for each tick.
    fn entries(&self, blockhash: Hash, tick_hashes: u64) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut last = blockhash;
        let mut rest = &self.signatures[..];
        for tick in 0..TICKS {
            let taken = rest.len().div_ceil(TICKS - tick);
            let starting_transaction_index = (self.signatures.len() - rest.len()) as u64;
            let of_entry = rest.split_off(..taken).unwrap_or_default();
            let before_tick = if taken > 0 { tick_hashes / 2 } else { 0 };
            let mut push = |num_hashes, signatures: Option<&[&Signature]>| {
                last = next_entry_hash(last, num_hashes, signatures);
                let count = signatures.map_or(0, <[_]>::len) as u64;
                let first = starting_transaction_index + if count > 0 { 0 } else { taken as u64 };
                entries.push(Entry {
                    num_hashes,
                    hash: last,
                    transaction_count: count,
                    starting_transaction_index: first,
                });
            };
            if taken > 0 {
                let signatures: Vec<&Signature> = of_entry.iter().collect();
                push(before_tick, Some(&signatures));
            }
            push(tick_hashes - before_tick, None);
        }
        entries
    }
}

impl Chain {
    pub(super) fn new(
        synthetic: &Synthetic,
        snapshot: &SnapshotFile,
        shape: Shape,
    ) -> Result<Self> {
        let limits = query::LedgerConfig::new(snapshot.addresses_max);
        let progress = Progress::default();
        let loaded = snapshot_ledger::load_snapshot(&limits, &snapshot.path, None, 1, &progress)?;
        let (snapshot, loader) = loaded.into_parts();
        let fields = snapshot.bank;
        let block = BlockId { slot: SLOT, version: 0 };
        let lt_hash = (*fields.lt_hash).clone();
        let root = RootBank { block, bank_hash: fields.bank_hash, lt_hash };
        Ok(Self {
            shape,
            updates: Updates::new(synthetic),
            synthetic: synthetic.clone(),
            loader,
            accounts: HashMap::new(),
            verifier: Verifier::new(VerifierConfig::default(), root),
            block,
            blockhash: *fields.blockhashes.last().context("a blockhash")?,
            bank_hash: fields.bank_hash,
            slot_hashes: VecDeque::new(),
            write_version: 0,
            freezes: (Duration::ZERO, 0),
        })
    }

    /// Mean CPU time in milliseconds of a bank's hash, without those that pay rewards.
    pub(super) fn lattice_ms(&self) -> f64 {
        self.freezes.0.as_secs_f64() * 1e3 / f64::from(self.freezes.1.max(1))
    }

    pub(super) fn slot(&mut self, pays_rewards: bool) -> Result<Slot> {
        let slot = self.block.slot + 1;
        let mut open = OpenSlot {
            slot,
            frames: BytesMut::new(),
            content: Vec::new(),
            updates: 0,
            signatures: Vec::new(),
            changes: HashMap::new(),
        };
        self.slot_hashes.push_front((self.block.slot, self.bank_hash));
        self.slot_hashes.truncate(SLOT_HASHES_MAX);
        open.put(messages::status(slot, SlotStatus::SlotCreatedBank));
        self.write_sysvar(&mut open, sysvar::clock::ID, snapshot::clock(slot));
        let slot_hashes = self.slot_hashes_data();
        self.write_sysvar(&mut open, sysvar::slot_hashes::ID, slot_hashes);
        if pays_rewards {
            let account = Arc::new(snapshot::stake(&self.synthetic, slot)?);
            for n in 0..self.shape.rewarded_stakes {
                let address = snapshot::stake_address(n);
                self.write(&mut open, address, Some(Arc::clone(&account)), None);
            }
        }
        self.transactions(&mut open)?;
        let mut blockhashes = vec![7; RECENT_BLOCKHASHES_BYTES];
        blockhashes[..8].copy_from_slice(&slot.to_le_bytes());
        self.write_sysvar(&mut open, sysvar::recent_blockhashes::ID, blockhashes);
        let mut history = vec![0xff; SLOT_HISTORY_BYTES];
        history[..8].copy_from_slice(&slot.to_le_bytes());
        self.write_sysvar(&mut open, sysvar::slot_history::ID, history);
        self.freeze(open, pays_rewards)
    }

    /// Votes and other transactions, in turn.
    fn transactions(&mut self, open: &mut OpenSlot) -> Result<()> {
        let Shape { votes, transactions, .. } = self.shape;
        let mut voted = 0;
        let mut changes = Vec::new();
        for n in 0..transactions.max(1) {
            while voted < votes && voted * transactions <= n * votes {
                self.vote(open, voted)?;
                voted += 1;
            }
            // Some eight writes on average.
            self.updates.transaction(&mut changes);
            if n % 7 < 4 {
                self.updates.transaction(&mut changes);
            }
            let index = open.next_index();
            let mut keys: Vec<Pubkey> = Vec::with_capacity(changes.len() + 1);
            for change in changes.drain(..).rev() {
                let pubkey = Pubkey::try_from(change.address.as_bytes()).context("an address")?;
                keys.push(pubkey);
                self.write(open, pubkey, change.record, Some(index));
            }
            keys.push(spl_token_interface::ID);
            open.put(messages::swap(open.slot, index, &keys));
        }
        Ok(())
    }

    fn vote(&mut self, open: &mut OpenSlot, n: usize) -> Result<()> {
        let [identity, vote_account] = snapshot::voter(n);
        let index = open.next_index();
        let mut vote = snapshot::vote_state(n)?;
        // A timestamp in unused bytes of the account: every vote changes it.
        if let Some((_, end)) = vote.0.data_as_mut_slice().split_last_chunk_mut::<8>() {
            *end = open.slot.to_le_bytes();
        }
        let payer = snapshot::wallet(1_000_000_000 - open.slot * 5_000);
        self.write(open, identity, Some(Arc::new(payer)), Some(index));
        self.write(open, vote_account, Some(Arc::new(vote)), Some(index));
        let keys = [identity, vote_account, solana_sdk_ids::vote::ID];
        open.put(messages::vote(open.slot, index, &keys));
        Ok(())
    }

    fn write_sysvar(&mut self, open: &mut OpenSlot, id: Pubkey, data: Vec<u8>) {
        self.write(open, id, Some(Arc::new(snapshot::sysvar_account(data))), None);
    }

    fn write(
        &mut self,
        open: &mut OpenSlot,
        pubkey: Pubkey,
        after: Option<Arc<Account>>,
        by: Option<u64>,
    ) {
        self.write_version += 1;
        open.updates += 1;
        let after = after.filter(|account| account.0.lamports() > 0);
        let version = self.write_version;
        open.put(messages::account(open.slot, &pubkey, after.as_deref(), version, by));
        let before = self.accounts.insert(pubkey, after.clone());
        if let Some(change) = open.changes.get_mut(&pubkey) {
            change.after = after;
            return;
        }
        let before = before.unwrap_or_else(|| self.loader.account(&pubkey));
        open.changes.insert(pubkey, AccountChange { pubkey, before, after });
    }

    fn slot_hashes_data(&self) -> Vec<u8> {
        let mut data = (self.slot_hashes.len() as u64).to_le_bytes().to_vec();
        for (slot, hash) in &self.slot_hashes {
            data.extend(slot.to_le_bytes());
            data.extend(hash.to_bytes());
        }
        data
    }

    fn freeze(&mut self, mut open: OpenSlot, pays_rewards: bool) -> Result<Slot> {
        let slot = open.slot;
        let transactions = open.next_index();
        let block = BlockId { slot, version: slot };
        let entries = open.entries(self.blockhash, self.shape.tick_hashes);
        let blockhash = entries.last().context("a tick")?.hash;
        let changes: Vec<AccountChange> = open.changes.into_values().collect();
        let frozen = FrozenBank {
            block,
            parent: self.block,
            changes: &changes,
            signature_count: transactions,
            blockhash,
        };
        let started = ThreadTime::now();
        self.verifier.freeze(&frozen, Duration::ZERO)?;
        if !pays_rewards {
            self.freezes = (self.freezes.0 + started.elapsed(), self.freezes.1 + 1);
        }
        self.bank_hash = self.verifier.bank_hash(block).context("the bank was frozen")?;
        let rooted = slot.saturating_sub(ROOT_AFTER);
        if rooted > SLOT {
            self.verifier.root(BlockId { slot: rooted, version: rooted })?;
        }
        if !open.frames.is_empty() {
            open.content.push(open.frames.split().freeze());
        }
        let mut end = BytesMut::new();
        let hashes = [&self.blockhash, &blockhash];
        let entries_len = entries.len() as u64;
        messages::put(&mut end, messages::block_meta(slot, hashes, transactions, entries_len));
        for status in [SlotStatus::SlotProcessed, SlotStatus::SlotConfirmed] {
            messages::put(&mut end, messages::status(slot, status));
        }
        if rooted > SLOT {
            messages::put(&mut end, messages::status(rooted, SlotStatus::SlotFinalized));
        }
        (self.block, self.blockhash) = (block, blockhash);
        let mut entry_frames = BytesMut::new();
        for (index, entry) in (0..).zip(&entries) {
            messages::put(&mut entry_frames, messages::entry(slot, index, entry));
        }
        Ok(Slot {
            slot,
            updates: open.updates,
            accounts: changes.len(),
            transactions: usize::try_from(transactions)?,
            content: open.content,
            entries: entry_frames.freeze(),
            end: end.freeze(),
        })
    }
}
