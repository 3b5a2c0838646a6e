//! Filters: which publications a subscription matches.

use std::borrow::Borrow;
use std::sync::Arc;

use ledger::KeyKind;

use crate::address_set::AddressSet;

/// A kind of publication, at one commitment if it has one. The caller defines the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(pub u16);

/// A position in the stream of publications; a later one is greater. The caller counts, except on
/// the topics of tracked sets, where it is the number of a [`crate::BlockStep`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// Later than all others: a subscriber at this position gets nothing yet.
    pub(crate) const MAX: Self = Self(u64::MAX);
}

/// A topic, and a filter for its publications.
#[derive(Clone)]
pub struct Interest {
    /// Topic of the matched publications.
    pub topic: Topic,
    /// Which publications of that kind.
    pub filter: Filter,
}

/// A filter for the publications of a topic.
#[derive(Clone)]
pub enum Filter {
    /// All publications of the topic.
    All,
    /// Those that carry one of these addresses under the key kind. An empty set matches none, never all.
    Set(KeyKind, Arc<AddressSet>),
    /// Publications that have this exact key.
    Exact(ExactKey),
}

/// Opaque bytes that identify a publication, if it is not an address (a signature). The caller bounds their length.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExactKey(Box<[u8]>);

impl From<&[u8]> for ExactKey {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl Borrow<[u8]> for ExactKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}
