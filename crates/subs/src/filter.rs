//! What a subscription wants to hear of.

use std::borrow::Borrow;

use address::AddressRef;
use ledger::{Facet, Key};

/// A kind of publication, at one commitment if it has one. The caller gives the numbers their
/// meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(pub u16);

/// A place in the stream of what is published; a later one is greater. The caller counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// One topic, and what of it.
pub struct Interest {
    /// Which kind of publication.
    pub topic: Topic,
    /// Which of that kind.
    pub filter: Filter,
}

/// Which publications of a topic.
pub enum Filter {
    /// Every one.
    All,
    /// Those that carry one of these keys. An empty set means none, never all.
    Keys(Vec<HeldKey>),
    /// Those of this name.
    Name(Name),
}

/// A key that stays valid because its address is held.
pub struct HeldKey {
    /// What the address is to the publication.
    pub facet: Facet,
    /// The address; released when the last listener of the subscription goes.
    pub address: AddressRef,
}

impl HeldKey {
    /// The key as publications carry it.
    pub fn key(&self) -> Key {
        Key { facet: self.facet, id: self.address.id() }
    }
}

/// Opaque bytes that name a publication exactly, where an address would not do (a signature). The
/// caller bounds their length.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(Box<[u8]>);

impl From<&[u8]> for Name {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}
