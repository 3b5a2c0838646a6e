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

use crate::compress::Coding;
use crate::methods::Method;
use crate::node::Node;
use crate::params::Params;
use crate::stamp::Name;

/// Records that one answer may be watched by: each takes a place of [`query::WATCHED_MAX`].
const RECORDS_MAX: usize = 32;

/// What a call reads.
pub(crate) struct Reads {
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
    pub(crate) is_kept: bool,
    /// What it tells of, if that has a hash of its own.
    pub(crate) name: Option<Name>,
    /// What is to be so for an answer that was kept, beside that nothing that was read has changed.
    only_if: Option<Arc<OnlyIf>>,
}

type OnlyIf = dyn Fn(&Node) -> bool + Send + Sync;

/// What follows from the text of a call whose answer is kept.
pub(crate) struct Meaning {
    pub(crate) key: Box<[u8]>,
    pub(crate) commitment: Commitment,
    pub(crate) min_context_slot: Option<Slot>,
    only_if: Option<Arc<OnlyIf>>,
}

impl Meaning {
    /// Of a call.
    pub(crate) fn of(asked: &Asked) -> Self {
        let Reads { commitment, min_context_slot, only_if, .. } = &asked.reads;
        Self {
            key: asked.key.clone(),
            commitment: *commitment,
            min_context_slot: *min_context_slot,
            only_if: only_if.clone(),
        }
    }

    /// Whether an answer may come from the cache.
    pub(crate) fn may_be_kept(&self, node: &Node) -> bool {
        self.only_if.as_ref().is_none_or(|only_if| only_if(node))
    }
}

/// A call and what it reads.
pub(crate) struct Asked {
    /// As all know it who mean the same.
    pub(crate) key: Box<[u8]>,
    pub(crate) reads: Reads,
}

impl Reads {
    /// A call that reads nothing that ever changes.
    pub(crate) fn nothing(commitment: Commitment, min_context_slot: Option<Slot>) -> Self {
        Self {
            commitment,
            min_context_slot,
            key: None,
            records: Vec::new(),
            block: false,
            bytes_min: 0,
            is_kept: true,
            name: None,
            only_if: None,
        }
    }

    /// And everything that a key finds.
    pub(crate) fn key(self, key: (KeyKind, Address)) -> Self {
        Self { key: Some(key), ..self }
    }

    /// And these records; `None` if they are too many.
    pub(crate) fn records(self, records: impl IntoIterator<Item = Address>) -> Option<Self> {
        let records: Vec<_> = records.into_iter().take(RECORDS_MAX + 1).collect();
        (records.len() <= RECORDS_MAX).then_some(Self { records, ..self })
    }

    /// And these records; if they are too many, the block, and then it is not worth keeping.
    pub(crate) fn records_or_block(self, records: Vec<Address>) -> Self {
        if records.len() <= RECORDS_MAX {
            return Self { records, ..self };
        }
        Self { block: true, is_kept: false, ..self }
    }

    /// And nothing else than what has this name.
    pub(crate) fn named(self, name: Name) -> Self {
        Self { name: Some(name), ..self }
    }

    /// For a name that its answer gets, not to keep it.
    pub(crate) fn not_kept(self) -> Self {
        Self { is_kept: false, ..self }
    }

    /// And something that is so now, and else nothing of it may be answered from the cache.
    pub(crate) fn only_if(self, is_so: impl Fn(&Node) -> bool + Send + Sync + 'static) -> Self {
        Self { only_if: Some(Arc::new(is_so)), ..self }
    }

    /// And the block, if that is so.
    pub(crate) fn block_if(self, block: bool) -> Self {
        Self { block, ..self }
    }

    /// And is so long at least.
    pub(crate) fn at_least(self, bytes_min: u64) -> Self {
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
pub(crate) fn key(method: &Method, params: Params<'_>, coding: Coding) -> Option<Box<[u8]>> {
    let params: Value = serde_json::from_str(params.text().unwrap_or("null")).ok()?;
    let mut key = Vec::with_capacity(128);
    key.extend_from_slice(method.name.as_bytes());
    key.push(number(coding));
    write(&mut key, &params).ok()?;
    Some(key.into())
}

/// A call as it came, for whoever may know it already; `None` if it is too long for that.
pub(crate) fn text(method: &Method, params: Params<'_>, coding: Coding) -> Option<Vec<u8>> {
    let params = params.text().unwrap_or_default();
    let len = method.name.len() + 1 + params.len();
    if len > cache::TEXT_BYTES_MAX {
        return None;
    }
    let mut text = Vec::with_capacity(len);
    text.extend_from_slice(method.name.as_bytes());
    text.push(number(coding));
    text.extend_from_slice(params.as_bytes());
    Some(text)
}

fn number(coding: Coding) -> u8 {
    match coding {
        Coding::Plain => 0,
        Coding::Gzip => 1,
        Coding::Zstd => 2,
    }
}

/// Objects in the order of their members' names, whatever `serde_json` keeps.
fn write(out: &mut Vec<u8>, value: &Value) -> serde_json::Result<()> {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            out.push(b'{');
            for (name, value) in members {
                serde_json::to_writer(&mut *out, name)?;
                write(out, value)?;
            }
            out.push(b'}');
            Ok(())
        }
        Value::Array(elements) => {
            out.push(b'[');
            for element in elements {
                write(out, element)?;
                out.push(b',');
            }
            out.push(b']');
            Ok(())
        }
        scalar => serde_json::to_writer(out, scalar),
    }
}
