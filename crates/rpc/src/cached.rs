//! Which calls are answered from the cache: what they read, and by what they are known.
//!
//! Lists by an index key: such a list changes only with a record that has the key, or had it.
//! Where parsing reads what is not in the record (token accounts as `jsonParsed` have their mint's
//! decimals, and the time), the block is read too.

use std::sync::Arc;

use ledger::{Address, Commitment, Facet, Slot};
use query::{Changes, Read};
use serde_json::Value;

use crate::compress::Coding;
use crate::methods::Method;
use crate::params::Params;

/// What a call reads.
pub(crate) struct Reads {
    pub(crate) commitment: Commitment,
    pub(crate) min_context_slot: Option<Slot>,
    /// Any one key by which everything is found that the answer has.
    pub(crate) key: (Facet, Address),
    /// Records that say what is looked for.
    pub(crate) records: Vec<Address>,
    pub(crate) block: bool,
}

impl Reads {
    /// Begins to watch all of it.
    pub(crate) fn watch(&self, changes: &Arc<Changes>) -> Box<[u64]> {
        let records = self.records.iter().map(Read::Record);
        let block = self.block.then_some(Read::Block);
        let all = [Read::Key(self.key.0, &self.key.1)].into_iter().chain(records).chain(block);
        all.map(|read| changes.watch(read)).collect()
    }
}

/// A call as all know it who mean the same: whatever the order of its members and the space between.
pub(crate) fn key(method: &Method, params: Params<'_>, coding: Coding) -> Option<Vec<u8>> {
    let params: Value = serde_json::from_str(params.text()?).ok()?;
    let mut key = Vec::with_capacity(128);
    key.extend_from_slice(method.name.as_bytes());
    key.push(match coding {
        Coding::Plain => 0,
        Coding::Gzip => 1,
        Coding::Zstd => 2,
    });
    write(&mut key, &params).ok()?;
    Some(key)
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
