//! Cacheable calls: the dependencies of their results, and their cache keys.
//!
//! Lists by an index key depend on the key: such a list changes only with a record that has the key, or had it.
//! Long accounts depend on their records. Results over all accounts depend on the block. Finalized history
//! never changes: whether it is still retained is checked at each request.
//! If parsing reads data outside of the record (token accounts as `jsonParsed` have their mint's decimals, and
//! the time), the result depends on the block as well.

use std::any::Any;
use std::sync::Arc;

use cache::Weight;
use http_server::ContentEncoding;
use ledger::{Address, Commitment, KeyKind, Slot};
use query::{ChangeTracker, Dependency};
use serde_json::Value;

use crate::ledger_versions::LedgerVersions;

/// Records that one result may depend on: each uses an entry of [`query::WATCHED_MAX`].
const RECORDS_MAX: usize = 32;

/// The dependencies of the result of a call.
pub struct Dependencies {
    /// Commitment of the view that the result is read from.
    pub commitment: Commitment,
    /// Slot that the view must have reached.
    pub min_context_slot: Option<Slot>,
    /// An index key that finds everything in the result.
    key: Option<(KeyKind, Address)>,
    /// Records that are in the result, or determine it.
    records: Vec<Address>,
    block: bool,
    /// Lower bound of the length of the response, not compressed.
    pub bytes_min: u64,
    /// Whether the response is worth caching.
    pub is_cacheable: bool,
    /// The immutable object in the result that has a hash of its own.
    pub(crate) immutable_hash: Option<Arc<ImmutableHash>>,
    /// Condition for the use of a cached response, in addition to unchanged dependencies.
    pub(crate) precondition: Option<Arc<Precondition>>,
    /// State that is compared itself, because nothing tracks its changes.
    pub(crate) compared: Option<ComparedState>,
}

/// The state that a result describes, and that a later state is compared with.
#[derive(Clone)]
pub(crate) struct ComparedState {
    pub(crate) is_same: Arc<Precondition>,
    /// Bytes that the comparison retains.
    pub(crate) bytes: u64,
}

pub(crate) type Precondition = dyn Fn(&dyn LedgerVersions) -> bool + Send + Sync;

/// Reads the hash of an immutable object, if it is there.
pub(crate) type ImmutableHash = dyn Fn(&dyn LedgerVersions) -> Option<[u8; 32]> + Send + Sync;

/// The text that identifies a call, and the encoding of its response.
#[derive(Clone, Copy)]
pub struct CallText<'a> {
    /// Name of the called method.
    pub method: &'static str,
    /// Its parameters as the client wrote them.
    pub params: Option<&'a str>,
    /// Encoding of the response body.
    pub coding: ContentEncoding,
}

/// The parsed form of a call with a cached response.
pub(crate) struct ParsedCall {
    pub(crate) key: Box<[u8]>,
    pub(crate) commitment: Commitment,
    pub(crate) min_context_slot: Option<Slot>,
    pub(crate) precondition: Option<Arc<Precondition>>,
}

impl Weight for ParsedCall {
    fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.key.len()) as u64
    }
}

impl ParsedCall {
    /// Creates the parsed form of `call`.
    pub(crate) fn from_call(call: &CacheableCall) -> Self {
        let Dependencies { commitment, min_context_slot, precondition, .. } = &call.dependencies;
        Self {
            key: call.key.clone(),
            commitment: *commitment,
            min_context_slot: *min_context_slot,
            precondition: precondition.clone(),
        }
    }

    /// Returns whether a cached response may be used.
    pub(crate) fn meets_precondition(&self, ledger: &dyn LedgerVersions) -> bool {
        self.precondition.as_ref().is_none_or(|precondition| precondition(ledger))
    }
}

/// A call with its cache key and dependencies.
pub struct CacheableCall {
    /// Equal for all calls with the same meaning.
    pub key: Box<[u8]>,
    /// The dependencies of its result.
    pub dependencies: Dependencies,
}

impl Dependencies {
    /// Creates dependencies on nothing that ever changes.
    pub fn none(commitment: Commitment, min_context_slot: Option<Slot>) -> Self {
        Self {
            commitment,
            min_context_slot,
            key: None,
            records: Vec::new(),
            block: false,
            bytes_min: 0,
            is_cacheable: true,
            immutable_hash: None,
            precondition: None,
            compared: None,
        }
    }

    /// Adds a dependency on everything that a key finds.
    pub fn with_key(self, key: (KeyKind, Address)) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Adds records; returns `None` if they are too many.
    pub fn with_records(self, records: impl IntoIterator<Item = Address>) -> Option<Self> {
        let records: Vec<_> = records.into_iter().take(RECORDS_MAX + 1).collect();
        (records.len() <= RECORDS_MAX).then_some(Self { records, ..self })
    }

    /// Adds records. If they are too many, it adds the block, and the result is not worth caching.
    pub fn with_records_or_block(self, records: Vec<Address>) -> Self {
        if records.len() <= RECORDS_MAX {
            return Self { records, ..self };
        }
        Self { block: true, is_cacheable: false, ..self }
    }

    /// Replaces the records by the block if they are more than `records_max`.
    pub fn limit_records(self, records_max: usize) -> Self {
        if self.records.len() <= records_max {
            return self;
        }
        Self { records: Vec::new(), block: true, ..self }
    }

    /// Creates dependencies on an immutable object of an API alone. `hash` reads its hash: equal hashes mean equal
    /// results.
    pub fn immutable<A: LedgerVersions>(
        self,
        hash: impl Fn(&A) -> Option<[u8; 32]> + Send + Sync + 'static,
    ) -> Self {
        let hash = move |ledger: &dyn LedgerVersions| hash(api(ledger)?);
        Self { immutable_hash: Some(Arc::new(hash)), ..self }
    }

    /// Excludes the result from the cache. It still gets a validator.
    pub fn not_cacheable(self) -> Self {
        Self { is_cacheable: false, ..self }
    }

    /// Adds a condition that is true now. While it is false, the cache is not used.
    pub fn with_precondition<A: LedgerVersions>(
        self,
        precondition: impl Fn(&A) -> bool + Send + Sync + 'static,
    ) -> Self {
        let precondition =
            move |ledger: &dyn LedgerVersions| api(ledger).is_some_and(&precondition);
        Self { precondition: Some(Arc::new(precondition)), ..self }
    }

    /// Makes the result current as long as the state that it describes is the same. `is_same` compares that state, which
    /// it retains in `bytes` bytes, with the present one. Such a result is revalidated, but not cached.
    pub fn with_compared_state<A: LedgerVersions>(
        self,
        bytes: u64,
        is_same: impl Fn(&A) -> bool + Send + Sync + 'static,
    ) -> Self {
        let is_same = move |ledger: &dyn LedgerVersions| api(ledger).is_some_and(&is_same);
        let compared = Some(ComparedState { is_same: Arc::new(is_same), bytes });
        Self { compared, is_cacheable: false, ..self }
    }

    /// Adds the block as a dependency if `block` is true.
    pub fn with_block_if(self, block: bool) -> Self {
        Self { block, ..self }
    }

    /// Sets the lower bound of the length.
    pub fn min_bytes(self, bytes_min: u64) -> Self {
        Self { bytes_min, ..self }
    }

    /// Starts to watch all dependencies.
    pub fn watch(&self, changes: &Arc<ChangeTracker>) -> Box<[u64]> {
        let key = self.key.iter().map(|(kind, key)| Dependency::Key(*kind, key));
        let records = self.records.iter().map(Dependency::Record);
        let block = self.block.then_some(Dependency::Block);
        key.chain(records).chain(block).map(|dependency| changes.watch(dependency)).collect()
    }
}

/// Returns the API behind a ledger; `None` if it is of another type.
fn api<A: LedgerVersions>(ledger: &dyn LedgerVersions) -> Option<&A> {
    let ledger: &dyn Any = ledger;
    ledger.downcast_ref()
}

impl CallText<'_> {
    /// Returns the canonical key of a call: independent of the order of members, and of white space.
    pub fn cache_key(self) -> Option<Box<[u8]>> {
        let params: Value = serde_json::from_str(self.params.unwrap_or("null")).ok()?;
        let mut key = Vec::with_capacity(128);
        key.extend_from_slice(self.method.as_bytes());
        key.push(coding_tag(self.coding));
        write_canonical(&mut key, &params).ok()?;
        Some(key.into())
    }

    /// Returns the key of a call by its exact text; `None` if the text is too long.
    pub fn memo_key(self) -> Option<Vec<u8>> {
        let params = self.params.unwrap_or_default();
        let len = self.method.len() + 1 + params.len();
        if len > cache::TEXT_BYTES_MAX {
            return None;
        }
        let mut text = Vec::with_capacity(len);
        text.extend_from_slice(self.method.as_bytes());
        text.push(coding_tag(self.coding));
        text.extend_from_slice(params.as_bytes());
        Some(text)
    }
}

fn coding_tag(coding: ContentEncoding) -> u8 {
    match coding {
        ContentEncoding::Plain => 0,
        ContentEncoding::Gzip => 1,
        ContentEncoding::Zstd => 2,
    }
}

/// Writes a value with the members of objects sorted by name, independent of the order that `serde_json`
/// retains.
fn write_canonical(out: &mut Vec<u8>, value: &Value) -> serde_json::Result<()> {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            out.push(b'{');
            for (name, value) in members {
                serde_json::to_writer(&mut *out, name)?;
                write_canonical(out, value)?;
            }
            out.push(b'}');
            Ok(())
        }
        Value::Array(elements) => {
            out.push(b'[');
            for element in elements {
                write_canonical(out, element)?;
                out.push(b',');
            }
            out.push(b']');
            Ok(())
        }
        scalar => serde_json::to_writer(out, scalar),
    }
}
