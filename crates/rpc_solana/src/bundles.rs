//! The bundles that clients sent: their ids, signatures and results.
//!
//! In: verified bundles, for the ledger's queue. Out: the id, and later the status.
//! Bounds: [`BUNDLES_MAX`] bundles. At the bound the client with the most loses its oldest one.
//! Invariant: a bundle that is waiting or in a block is not queued again. No lock is held while the ledger's queue takes
//! a bundle.
//! Not here: JSON (`methods::bundles`), execution (`localnet`). A followed chain takes no bundles.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use chain_solana::{
    BundleCall, BundleResult, BundleSender, HistorySnapshot, SendError, VerifiedTransaction,
};
use clients::ClientId;
use foldhash::quality::RandomState;
use ledger::{Commitment, Slot};
use metrics::{Collector, Exposition, MetricKind};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use solana_signature::Signature;

/// Maximum number of bundles whose status is retained.
const BUNDLES_MAX: usize = 4_096;
/// Bytes of an entry without its signatures.
const ENTRY_BYTES: usize = 250;

/// The id of a bundle: the SHA-256 of its signatures in base58, separated by commas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BundleId([u8; 32]);

impl BundleId {
    fn new(signatures: &[Signature]) -> Self {
        let texts: Vec<String> = signatures.iter().map(Signature::to_string).collect();
        Self(Sha256::digest(texts.join(",")).into())
    }

    /// Parses the id from 64 hexadecimal digits. `None` for any other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits: Vec<u32> =
            text.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
        let bytes =
            digits.chunks_exact(2).filter_map(|pair| u8::try_from(pair[0] << 4 | pair[1]).ok());
        let bytes: Vec<u8> = bytes.collect();
        (digits.len() == 64).then_some(())?;
        bytes.try_into().ok().map(Self)
    }
}

impl std::fmt::Display for BundleId {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(to, "{byte:02x}"))
    }
}

/// The status of a bundle on the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BundleStatus {
    Pending,
    /// It was rejected, and no block has its transactions.
    Failed {
        reason: String,
    },
    /// A block of the chain has its transactions.
    Landed {
        slot: Slot,
    },
}

/// Why a bundle was not queued.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendBundleError {
    /// Another request is queueing it, and its outcome is not known yet. Fix: send again.
    #[error("another request is sending the same bundle: send it again")]
    BeingSent,
    #[error(transparent)]
    Send(#[from] SendError),
}

/// The bundles of a node. The default rejects all bundles.
#[derive(Default)]
pub struct Bundles {
    sender: Option<Arc<dyn BundleSender>>,
    retained: Mutex<Retained>,
    sent: AtomicU64,
}

#[derive(Default)]
struct Retained {
    entries: HashMap<BundleId, Entry, RandomState>,
    /// The bundles that the ledger's queue is taking.
    sending: HashSet<BundleId, RandomState>,
    /// The bundles of each client, the oldest first.
    by_client: HashMap<ClientId, VecDeque<BundleId>, RandomState>,
}

struct Entry {
    signatures: Box<[Signature]>,
    result: EntryResult,
}

enum EntryResult {
    Waiting(BundleCall),
    Known(BundleResult),
    Lost,
}

impl Bundles {
    /// Creates the bundles of a ledger that accepts them.
    pub fn new(sender: Arc<dyn BundleSender>) -> Self {
        Self { sender: Some(sender), ..Self::default() }
    }

    /// Whether the ledger takes bundles.
    pub(crate) fn is_served(&self) -> bool {
        self.sender.is_some()
    }

    /// Queues a bundle for execution, unless it is already waiting or in a block of `history`.
    pub(crate) fn send(
        &self,
        client: ClientId,
        transactions: Vec<VerifiedTransaction>,
        history: &HistorySnapshot,
    ) -> Result<BundleId, SendBundleError> {
        let sender = self.sender.as_ref().ok_or(SendError::Closed)?;
        let signatures: Box<[Signature]> =
            transactions.iter().map(VerifiedTransaction::signature).collect();
        let id = BundleId::new(&signatures);
        if !self.retained.lock().start_sending(id, history)? {
            return Ok(id);
        }
        let sent = sender.send_bundle(client.into(), transactions);
        let mut retained = self.retained.lock();
        retained.sending.remove(&id);
        let result = EntryResult::Waiting(sent?);
        retained.insert(client, id, Entry { signatures, result });
        self.sent.fetch_add(1, Ordering::Relaxed);
        Ok(id)
    }

    /// Returns the signatures of a bundle, and its result if there is one. `None` if the bundle is not known.
    ///
    /// Call it before the history is read: a bundle with a result is in the history.
    pub(crate) fn find(&self, id: &BundleId) -> Option<FoundBundle> {
        let mut retained = self.retained.lock();
        let entry = retained.entries.get_mut(id)?;
        let result = entry.result.take_result();
        Some(FoundBundle { signatures: entry.signatures.clone(), result })
    }

    fn len(&self) -> usize {
        self.retained.lock().entries.len()
    }
}

pub(crate) struct FoundBundle {
    pub(crate) signatures: Box<[Signature]>,
    result: Option<Result<Slot, String>>,
}

impl FoundBundle {
    /// Returns its status on the chain of `history`.
    pub(crate) fn status(&self, history: &HistorySnapshot) -> BundleStatus {
        if let Some(slot) = find_slot(&self.signatures, history) {
            // A bundle in a block has the status of its transactions.
            let transactions = self.signatures.iter();
            let mut found = transactions
                .filter_map(|signature| history.transaction(signature, Commitment::Processed));
            let is_shown = found.all(|executed| executed.has_status());
            return if is_shown { BundleStatus::Landed { slot } } else { BundleStatus::Pending };
        }
        let first_slot = history.first_slot().unwrap_or(0);
        match &self.result {
            None => BundleStatus::Pending,
            Some(Err(reason)) => BundleStatus::Failed { reason: reason.clone() },
            // Its block is older than the history.
            Some(Ok(slot)) if *slot < first_slot => BundleStatus::Landed { slot: *slot },
            Some(Ok(slot)) => {
                let reason = format!("the block of slot {slot} was left for another fork");
                BundleStatus::Failed { reason }
            }
        }
    }
}

/// Finds the slot of the block that has all of these transactions.
fn find_slot(signatures: &[Signature], history: &HistorySnapshot) -> Option<Slot> {
    let slot = |signature| Some(history.transaction(signature, Commitment::Processed)?.slot);
    let first = slot(signatures.first()?)?;
    signatures.iter().all(|signature| slot(signature) == Some(first)).then_some(first)
}

impl EntryResult {
    /// Returns the result, if there is one: a slot, or the reason of a failure.
    fn take_result(&mut self) -> Option<Result<Slot, String>> {
        if let Self::Waiting(call) = self
            && call.poll(|| Waker::noop().clone()).is_ready()
            && let Self::Waiting(call) = std::mem::replace(self, Self::Lost)
        {
            *self = call.wait().map_or(Self::Lost, Self::Known);
        }
        match self {
            Self::Waiting(_) => None,
            Self::Known(result) => Some(result.clone().map_err(|err| err.to_string())),
            Self::Lost => Some(Err(SendError::Closed.to_string())),
        }
    }
}

impl Retained {
    /// Marks a bundle as being sent. Returns false if it is waiting, or is in a block of `history`.
    fn start_sending(
        &mut self,
        id: BundleId,
        history: &HistorySnapshot,
    ) -> Result<bool, SendBundleError> {
        let is_known = self.entries.get_mut(&id).is_some_and(|known| {
            let is_waiting = known.result.take_result().is_none();
            is_waiting || find_slot(&known.signatures, history).is_some()
        });
        if is_known {
            return Ok(false);
        }
        if self.sending.insert(id) { Ok(true) } else { Err(SendBundleError::BeingSent) }
    }

    fn insert(&mut self, client: ClientId, id: BundleId, entry: Entry) {
        self.remove(&id);
        while self.entries.len() >= BUNDLES_MAX && self.evict_oldest() {}
        self.entries.insert(id, entry);
        self.by_client.entry(client).or_default().push_back(id);
    }

    /// Removes a bundle that is sent again.
    fn remove(&mut self, id: &BundleId) {
        if self.entries.remove(id).is_some() {
            self.by_client.values_mut().for_each(|ids| ids.retain(|known| known != id));
            self.by_client.retain(|_, ids| !ids.is_empty());
        }
    }

    /// Removes the oldest bundle of the client with the most. Returns false if there is none.
    fn evict_oldest(&mut self) -> bool {
        let largest = self.by_client.iter_mut().max_by_key(|(_, ids)| ids.len());
        let Some((client, ids)) = largest else { return false };
        let client = *client;
        let oldest = ids.pop_front();
        if ids.is_empty() {
            self.by_client.remove(&client);
        }
        oldest.is_some_and(|oldest| self.entries.remove(&oldest).is_some())
    }
}

impl Collector for Bundles {
    fn write(&self, to: &mut Exposition) {
        if !self.is_served() {
            return;
        }
        let help = "Bundles whose status is retained.";
        to.single("hydrant_bundles", MetricKind::Gauge, help, self.len());
        let help = "Bundles that were queued for execution.";
        let sent = self.sent.load(Ordering::Relaxed);
        to.single("hydrant_bundles_sent_total", MetricKind::Counter, help, sent);
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        if !self.is_served() {
            return Vec::new();
        }
        let signatures = chain_solana::BUNDLE_TRANSACTIONS_MAX * size_of::<Signature>();
        vec![("bundles", (self.len() * (ENTRY_BYTES + signatures)) as u64)]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use chain_solana::{History, HistoryLimits, Sender, pending};
    use ledger::BlockId;

    use super::*;

    struct NoSender;

    /// A queue that takes a bundle when the test says so.
    struct SlowSender {
        is_called: mpsc::SyncSender<()>,
        may_return: Mutex<mpsc::Receiver<()>>,
    }

    impl BundleSender for SlowSender {
        fn send_bundle(
            &self,
            _: Sender,
            _: Vec<VerifiedTransaction>,
        ) -> Result<BundleCall, SendError> {
            self.is_called.send(()).expect("the test waits");
            self.may_return.lock().recv().expect("the test goes on");
            Err(SendError::Closed)
        }
    }

    impl BundleSender for NoSender {
        fn send_bundle(
            &self,
            _: Sender,
            _: Vec<VerifiedTransaction>,
        ) -> Result<BundleCall, SendError> {
            Err(SendError::Closed)
        }
    }

    fn signature(number: u32) -> Signature {
        let mut bytes = [0; 64];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        Signature::from(bytes)
    }

    fn entry(number: u32, result: BundleResult) -> (BundleId, Entry) {
        let signatures: Box<[Signature]> = [signature(number)].into();
        let result = EntryResult::Known(result);
        (BundleId::new(&signatures), Entry { signatures, result })
    }

    #[test]
    fn an_id_is_the_signatures_hash_in_hexadecimal() {
        let id = BundleId::new(&[signature(1), signature(2)]);
        let text = id.to_string();
        assert_eq!(text.len(), 64);
        assert_eq!(BundleId::parse(&text), Some(id));
        assert_eq!(BundleId::parse(&text.to_uppercase()), Some(id));
        assert_ne!(BundleId::new(&[signature(2), signature(1)]), id);
        // SHA-256 of "1111…1,1111…1", with 64 ones on either side.
        let zero = Signature::default();
        let expected = Sha256::digest(format!("{0},{0}", "1".repeat(64)));
        assert_eq!(BundleId::new(&[zero, zero]), BundleId(expected.into()));
        for text in ["", "ab", &text[1..], "é".repeat(32).as_str(), "g".repeat(64).as_str()] {
            assert_eq!(BundleId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_client_with_the_most_bundles_loses_its_oldest() {
        let bundles = Bundles::new(Arc::new(NoSender));
        let quiet = ClientId(1);
        let flood = ClientId(2);
        let first = entry(0, Ok(7));
        let own = first.0;
        bundles.retained.lock().insert(quiet, first.0, first.1);
        let mut ids = Vec::new();
        for number in 1..10_000 {
            let (id, entry) = entry(number, Ok(7));
            bundles.retained.lock().insert(flood, id, entry);
            ids.push(id);
        }
        assert_eq!(bundles.len(), BUNDLES_MAX);
        assert!(bundles.find(&own).is_some());
        assert!(bundles.find(&ids[9_998 - BUNDLES_MAX]).is_none());
        assert!(bundles.find(&ids[9_999 - BUNDLES_MAX + 1]).is_some());
        let retained = bundles.retained.lock();
        assert_eq!(retained.by_client.values().map(VecDeque::len).sum::<usize>(), BUNDLES_MAX);
    }

    #[test]
    fn as_many_clients_as_bundles_do_not_exceed_the_bound() {
        let bundles = Bundles::new(Arc::new(NoSender));
        for number in 0..2 * BUNDLES_MAX as u32 {
            let (id, entry) = entry(number, Ok(7));
            bundles.retained.lock().insert(ClientId(number.into()), id, entry);
        }
        let retained = bundles.retained.lock();
        assert_eq!((retained.entries.len(), retained.by_client.len()), (BUNDLES_MAX, BUNDLES_MAX));
    }

    #[test]
    fn a_status_does_not_wait_for_the_ledgers_queue_and_a_second_send_is_busy() {
        const WAIT: Duration = Duration::from_secs(30);
        let (is_called, called) = mpsc::sync_channel(1);
        let (go_on, may_return) = mpsc::sync_channel(1);
        let sender = SlowSender { is_called, may_return: Mutex::new(may_return) };
        let bundles = Arc::new(Bundles::new(Arc::new(sender)));
        let (known, known_entry) = entry(1, Ok(7));
        bundles.retained.lock().insert(ClientId(1), known, known_entry);
        let limits = HistoryLimits { blocks_max: 10, bytes_max: u64::MAX };
        let history = History::new(limits, BlockId { slot: 0, version: 0 }).snapshot();
        let sending = Arc::clone(&bundles);
        let of_first = Arc::clone(&history);
        let sent = std::thread::spawn(move || sending.send(ClientId(2), Vec::new(), &of_first));
        called.recv_timeout(WAIT).expect("the queue is called");
        let (found, is_found) = mpsc::sync_channel(1);
        let finding = Arc::clone(&bundles);
        std::thread::spawn(move || found.send(finding.find(&known).is_some()));
        assert!(is_found.recv_timeout(WAIT).expect("it does not wait"));
        // The queue may refuse the first one, so the second is not accepted.
        let second = bundles.send(ClientId(3), Vec::new(), &history);
        assert!(matches!(second, Err(SendBundleError::BeingSent)), "{second:?}");
        go_on.send(()).expect("the queue waits");
        assert!(sent.join().expect("it ends").is_err());
        assert!(bundles.retained.lock().sending.is_empty(), "it may be sent again");
    }

    #[test]
    fn a_status_is_pending_until_the_ledger_has_a_result() {
        let bundles = Bundles::new(Arc::new(NoSender));
        let (call, reply) = pending();
        let (id, waiting) = entry(1, Ok(0));
        let waiting = Entry { result: EntryResult::Waiting(call), ..waiting };
        bundles.retained.lock().insert(ClientId(1), id, waiting);
        let limits = HistoryLimits { blocks_max: 10, bytes_max: u64::MAX };
        let history = History::new(limits, BlockId { slot: 0, version: 0 });
        let status = || {
            let found = bundles.find(&id).expect("it is known");
            found.status(&history.snapshot())
        };
        assert_eq!(status(), BundleStatus::Pending);
        drop(reply);
        let reason = "the ledger is shutting down".to_owned();
        assert_eq!(status(), BundleStatus::Failed { reason });
        assert!(bundles.find(&BundleId::new(&[signature(9)])).is_none());
    }
}
