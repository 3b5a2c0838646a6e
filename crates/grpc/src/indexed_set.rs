//! The filters of a client as the index has them.

use std::sync::Arc;

use clients::Share;

use crate::filter::FilterSet;
use crate::ids::SetId;

/// Filters that the index has, and what they count for their client.
pub(crate) struct IndexedSet {
    pub(crate) id: SetId,
    pub(crate) filters: Arc<FilterSet>,
    /// Their bytes, and the cost of those without a list.
    _shares: [Share; 2],
}

impl IndexedSet {
    pub(crate) fn new(id: SetId, filters: FilterSet, shares: [Share; 2]) -> Self {
        Self { id, filters: Arc::new(filters), _shares: shares }
    }
}
