//! Which calls are answered from the cache: what they read, and by what they are known.
//!
//! Lists by an index key: such a list changes only with a record that has the key, or had it. Accounts that
//! are long: with their records. What is told of all accounts: with the block. What is finalized in history
//! never changes: whether it is still kept is asked with each call.
//! Where parsing reads what is not in the record (token accounts as `jsonParsed` have their mint's
//! decimals, and the time), the block is read too.

use std::sync::Arc;

use ledger::{Address, Commitment, KeyKind, Slot};
use query::{ChangeTracker, Dependency};
use serde_json::Value;

use crate::content_encoding::ContentEncoding;
use crate::etag::ImmutableId;
use crate::methods::Method;
use crate::node::Node;
use crate::params::Params;

/// Records that one answer may be watched by: each takes a place of [`query::WATCHED_MAX`].
const RECORDS_MAX: usize = 32;

/// What a call reads.
pub(crate) struct Dependencies {
    pub(crate) commitment: Commitment,
    pub(crate) min_context_slot: Option<Slot>,
    /// Any one key by which everything is found that the answer has.
    key: Option<(KeyKind, Address)>,
    /// Records that are in it, or say what is looked for.
    records: Vec<Address>,
    block: bool,
    /// So many bytes the answer has at least, as it is sent plain.
    pub(crate) bytes_min: u64,
    /// Whether its answer is worth keeping.
    pub(crate) is_cacheable: bool,
    /// What it tells of, if that has a hash of its own.
    pub(crate) immutable_id: Option<ImmutableId>,
    /// What is to be so for an answer that was kept, beside that nothing that was read has changed.
    precondition: Option<Arc<Precondition>>,
}

type Precondition = dyn Fn(&Node) -> bool + Send + Sync;

/// What follows from the text of a call whose answer is kept.
pub(crate) struct ParsedCall {
    pub(crate) key: Box<[u8]>,
    pub(crate) commitment: Commitment,
    pub(crate) min_context_slot: Option<Slot>,
    precondition: Option<Arc<Precondition>>,
}

impl ParsedCall {
    /// Of a call.
    pub(crate) fn from_call(asked: &CacheableCall) -> Self {
        let Dependencies { commitment, min_context_slot, precondition: only_if, .. } =
            &asked.dependencies;
        Self {
            key: asked.key.clone(),
            commitment: *commitment,
            min_context_slot: *min_context_slot,
            precondition: only_if.clone(),
        }
    }

    /// Whether an answer may come from the cache.
    pub(crate) fn meets_precondition(&self, node: &Node) -> bool {
        self.precondition.as_ref().is_none_or(|only_if| only_if(node))
    }
}

/// A call and what it reads.
pub(crate) struct CacheableCall {
    /// As all know it who mean the same.
    pub(crate) key: Box<[u8]>,
    pub(crate) dependencies: Dependencies,
}

impl Dependencies {
    /// A call that reads nothing that ever changes.
    pub(crate) fn none(commitment: Commitment, min_context_slot: Option<Slot>) -> Self {
        Self {
            commitment,
            min_context_slot,
            key: None,
            records: Vec::new(),
            block: false,
            bytes_min: 0,
            is_cacheable: true,
            immutable_id: None,
            precondition: None,
        }
    }

    /// And everything that a key finds.
    pub(crate) fn with_key(self, key: (KeyKind, Address)) -> Self {
        Self { key: Some(key), ..self }
    }

    /// And these records; `None` if they are too many.
    pub(crate) fn with_records(self, records: impl IntoIterator<Item = Address>) -> Option<Self> {
        let records: Vec<_> = records.into_iter().take(RECORDS_MAX + 1).collect();
        (records.len() <= RECORDS_MAX).then_some(Self { records, ..self })
    }

    /// And these records; if they are too many, the block, and then it is not worth keeping.
    pub(crate) fn with_records_or_block(self, records: Vec<Address>) -> Self {
        if records.len() <= RECORDS_MAX {
            return Self { records, ..self };
        }
        Self { block: true, is_cacheable: false, ..self }
    }

    /// And nothing else than what has this name.
    pub(crate) fn immutable(self, name: ImmutableId) -> Self {
        Self { immutable_id: Some(name), ..self }
    }

    /// For a name that its answer gets, not to keep it.
    pub(crate) fn not_cacheable(self) -> Self {
        Self { is_cacheable: false, ..self }
    }

    /// And something that is so now, and else nothing of it may be answered from the cache.
    pub(crate) fn with_precondition(
        self,
        is_so: impl Fn(&Node) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { precondition: Some(Arc::new(is_so)), ..self }
    }

    /// And the block, if that is so.
    pub(crate) fn with_block_if(self, block: bool) -> Self {
        Self { block, ..self }
    }

    /// And is so long at least.
    pub(crate) fn min_bytes(self, bytes_min: u64) -> Self {
        Self { bytes_min, ..self }
    }

    /// Begins to watch all of it.
    pub(crate) fn watch(&self, changes: &Arc<ChangeTracker>) -> Box<[u64]> {
        let key = self.key.iter().map(|(facet, key)| Dependency::Key(*facet, key));
        let records = self.records.iter().map(Dependency::Record);
        let block = self.block.then_some(Dependency::Block);
        key.chain(records).chain(block).map(|read| changes.watch(read)).collect()
    }
}

/// A call as all know it who mean the same: whatever the order of its members and the space between.
pub(crate) fn cache_key(
    method: &Method,
    params: Params<'_>,
    coding: ContentEncoding,
) -> Option<Box<[u8]>> {
    let params: Value = serde_json::from_str(params.text().unwrap_or("null")).ok()?;
    let mut key = Vec::with_capacity(128);
    key.extend_from_slice(method.name.as_bytes());
    key.push(coding_tag(coding));
    write_canonical(&mut key, &params).ok()?;
    Some(key.into())
}

/// A call as it came, for whoever may know it already; `None` if it is too long for that.
pub(crate) fn memo_key(
    method: &Method,
    params: Params<'_>,
    coding: ContentEncoding,
) -> Option<Vec<u8>> {
    let params = params.text().unwrap_or_default();
    let len = method.name.len() + 1 + params.len();
    if len > cache::TEXT_BYTES_MAX {
        return None;
    }
    let mut text = Vec::with_capacity(len);
    text.extend_from_slice(method.name.as_bytes());
    text.push(coding_tag(coding));
    text.extend_from_slice(params.as_bytes());
    Some(text)
}

fn coding_tag(coding: ContentEncoding) -> u8 {
    match coding {
        ContentEncoding::Plain => 0,
        ContentEncoding::Gzip => 1,
        ContentEncoding::Zstd => 2,
    }
}

/// Objects in the order of their members' names, whatever `serde_json` keeps.
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
