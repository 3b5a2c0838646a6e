//! What a subscription wants to hear of.

use std::borrow::Borrow;
use std::sync::Arc;

use ledger::KeyKind;

use crate::address_set::AddressSet;

/// A kind of publication, at one commitment if it has one. The caller gives the numbers their
/// meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(pub u16);

/// A place in the stream of what is published; a later one is greater. The caller counts, except on
/// the topics of tracked sets, where it is the number of a [`crate::Poll`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// Later than all: who waits for it hears nothing yet.
    pub(crate) const MAX: Self = Self(u64::MAX);
}

/// One topic, and what of it.
#[derive(Clone)]
pub struct Interest {
    /// Which kind of publication.
    pub topic: Topic,
    /// Which of that kind.
    pub filter: Filter,
}

/// Which publications of a topic.
#[derive(Clone)]
pub enum Filter {
    /// Every one.
    All,
    /// Those that carry one of these addresses under the facet. An empty set means none, never all.
    Set(KeyKind, Arc<AddressSet>),
    /// Those of this name.
    Exact(ExactKey),
}

/// Opaque bytes that name a publication exactly, where an address would not do (a signature). The
/// caller bounds their length.
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
