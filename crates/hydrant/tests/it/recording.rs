//! Recorded runs of real validators (`cargo xtask rig --record`), and a follower to which a run is replayed.
//!
//! In a directory of `tests`: `snapshot-SLOT-HASH.tar.zst` is a validator's archive, `stream.zst` has the updates of
//! its plugin after that slot, and `frozen_banks.log` its lines about these banks. `answers.zst`, which only the single
//! validator has, are its responses, one a line, each with its final slot, or with none if it is equal at all later
//! ones.
//! Shape: the stream is sent in parts that end with a processed slot. The follower handles one before the next is sent.
//! Not here: the recording (`xtask/src/rig`), the expectations (`recorded_validator`, `recorded_cluster`).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use chain_solana::EventSink;
use follow::FollowerConfig;
use ledger::Commitment;
use prost::Message;
use serde_json::Value;
use testkit::geyser_source::{self, slot_of};
use tokio::runtime::Runtime;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{SlotStatus, SubscribeUpdate};

use crate::followed_ledger::{Following, config, wait};

/// The values that a validator logs of a bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrozenBank {
    pub(super) slot: u64,
    pub(super) hash: String,
    pub(super) signature_count: String,
    pub(super) last_blockhash: String,
    pub(super) capitalization: String,
    pub(super) lt_checksum: String,
}

/// A recorded response of a validator.
pub(super) struct Recorded {
    /// `None` if the response is equal at all later final slots.
    pub(super) slot: Option<u64>,
    pub(super) method: String,
    pub(super) params: Value,
    pub(super) answer: Value,
}

/// The messages up to the one that reports a slot as processed.
pub(super) struct Chunk {
    pub(super) slot: u64,
    pub(super) updates: Vec<SubscribeUpdate>,
}

/// A recorded run, without its responses.
pub(super) struct Recording {
    pub(super) archive: PathBuf,
    pub(super) chunks: Vec<Chunk>,
    /// The updates after the last processed slot.
    pub(super) rest: Vec<SubscribeUpdate>,
    /// In the order in which the banks were frozen.
    pub(super) frozen_banks: Vec<FrozenBank>,
}

impl Recording {
    /// Reads a recording in a directory of `tests`.
    pub(super) fn read(name: &str) -> Self {
        let dir = directory(name);
        let log = std::fs::read_to_string(dir.join("frozen_banks.log")).expect("the log");
        let bytes = read_zst(&dir.join("stream.zst"));
        let mut messages = bytes.as_slice();
        let mut chunks = Vec::new();
        let mut rest = Vec::new();
        while !messages.is_empty() {
            let update =
                SubscribeUpdate::decode_length_delimited(&mut messages).expect("a message");
            let processed = processed_slot(&update);
            rest.push(update);
            if let Some(slot) = processed {
                chunks.push(Chunk { slot, updates: std::mem::take(&mut rest) });
            }
        }
        let frozen_banks = log.lines().map(parse_frozen_bank).collect();
        Self { archive: find_archive(&dir), chunks, rest, frozen_banks }
    }

    /// Returns all updates, in their order.
    pub(super) fn updates(&self) -> impl Iterator<Item = &SubscribeUpdate> {
        self.chunks.iter().flat_map(|chunk| &chunk.updates).chain(&self.rest)
    }
}

/// Reads the responses of a recording.
pub(super) fn read_responses(name: &str) -> Vec<Recorded> {
    let text = String::from_utf8(read_zst(&directory(name).join("answers.zst"))).expect("text");
    text.lines().map(parse_recorded).collect()
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn read_zst(path: &Path) -> Vec<u8> {
    let file = std::fs::File::open(path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    zstd::decode_all(file).expect("a packed file")
}

fn find_archive(dir: &Path) -> PathBuf {
    let entries = dir.read_dir().unwrap_or_else(|err| panic!("{}: {err}", dir.display()));
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    paths.find(|path| path.to_string_lossy().ends_with(".tar.zst")).expect("an archive")
}

/// Returns the slot that a message reports as processed.
fn processed_slot(update: &SubscribeUpdate) -> Option<u64> {
    match &update.update_oneof {
        Some(UpdateOneof::Slot(it)) if it.status == i32::from(SlotStatus::SlotProcessed) => {
            Some(it.slot)
        }
        _ => None,
    }
}

fn parse_frozen_bank(line: &str) -> FrozenBank {
    let after = |name: &str| {
        let (_, rest) = line.split_once(name).expect(name);
        let word = rest.split_whitespace().next().expect("a word");
        word.trim_end_matches(',').to_owned()
    };
    FrozenBank {
        slot: after("bank frozen: ").parse().expect("a slot"),
        hash: after(" hash: "),
        signature_count: after("signature_count: "),
        last_blockhash: after("last_blockhash: "),
        capitalization: after("capitalization: "),
        lt_checksum: after("checksum: "),
    }
}

fn parse_recorded(line: &str) -> Recorded {
    let mut line: Value = serde_json::from_str(line).expect("JSON");
    Recorded {
        slot: line["slot"].as_u64(),
        method: line["method"].as_str().expect("a method").to_owned(),
        params: line["params"].take(),
        answer: line["answer"].take(),
    }
}

/// A follower, and the scripted source that sends it a recording.
pub(super) struct Replay {
    pub(super) following: Following,
    pub(super) source: geyser_source::Source,
    /// The first slot after the archive.
    pub(super) first: u64,
    /// Updates that the follower was sent, without those that it ignores.
    sent: u64,
    _runtime: Runtime,
}

impl Replay {
    /// Starts a follower that verifies the sequence of banks.
    pub(super) fn start(archive: &Path) -> Self {
        Self::start_with(archive, None, |config, _| config, Vec::new())
    }

    /// Starts a follower with the settings that `set` returns. `set` gets the address of the independent source, if
    /// any.
    pub(super) fn start_with(
        archive: &Path,
        independent: Option<&geyser_source::Source>,
        set: impl FnOnce(FollowerConfig, Option<SocketAddr>) -> FollowerConfig,
        sinks: Vec<Box<dyn EventSink>>,
    ) -> Self {
        let source = geyser_source::Source::new(None);
        let runtime = Runtime::new().expect("a runtime");
        let address = runtime.block_on(source.serve());
        let independent = independent.map(|source| runtime.block_on(source.serve()));
        let config = set(config(address), independent);
        let following = Following::start_with(config, archive, sinks);
        let first = following.status.root() + 1;
        Self { following, source, first, sent: 0, _runtime: runtime }
    }

    /// Sends messages, and waits until the follower has handled them.
    pub(super) fn send(&mut self, updates: Vec<SubscribeUpdate>) {
        let is_handled = |update: &&SubscribeUpdate| {
            let belongs_to_bank = match &update.update_oneof {
                Some(UpdateOneof::Slot(it)) => ![
                    i32::from(SlotStatus::SlotFirstShredReceived),
                    i32::from(SlotStatus::SlotCompleted),
                ]
                .contains(&it.status),
                _ => true,
            };
            // The source sends nothing below its client's first slot.
            slot_of(update) >= self.first && belongs_to_bank
        };
        self.sent += updates.iter().filter(is_handled).count() as u64;
        self.source.send(updates);
        let status = &self.following.status;
        wait("all updates are handled", || {
            self.handled_updates() >= self.sent || status.mismatch().is_some() || status.gaps() > 0
        });
        assert_eq!((status.mismatch(), status.last_gap()), (None, None));
        assert_eq!(self.handled_updates(), self.sent);
        // Other threads check a bank, and its root is applied later.
        wait("all roots are applied", || {
            self.metric("hydrant_follow_check_queue{of=\"unproven_banks\"}") == 0
                && self.metric("hydrant_follow_deferred_roots") == 0
        });
    }

    /// Returns the number of updates that the follower has handled.
    fn handled_updates(&self) -> u64 {
        self.metric("hydrant_follow_events_total{event=\"update\"}")
    }

    fn metric(&self, name: &str) -> u64 {
        let mut out = metrics::Exposition::default();
        metrics::Collector::write(&*self.following.status, &mut out);
        let text = out.into_string();
        let value = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
        text.lines().find_map(value).expect(name)
    }

    /// Returns the parts of the hash of the processed tip.
    pub(super) fn frozen_bank(&self) -> FrozenBank {
        let view = self.following.reader.view(Commitment::Processed);
        let info = view.meta();
        let parts = &info.hash_components;
        FrozenBank {
            slot: view.block().slot,
            hash: info.bank_hash.to_string(),
            signature_count: parts.signature_count.to_string(),
            last_blockhash: parts.last_blockhash.to_string(),
            capitalization: info.capitalization.to_string(),
            lt_checksum: parts.lt_checksum.to_string(),
        }
    }

    pub(super) fn final_slot(&self) -> u64 {
        self.following.reader.view(Commitment::Finalized).block().slot
    }
}
