//! The names of filters in the index, and the keys under which it finds them.

use solana_pubkey::Pubkey;
use solana_signature::Signature;

use super::shared_predicate::SharedPredicate;

/// A filter of one client: its kind, and its number among those of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FilterId {
    pub(crate) kind: FilterKind,
    pub(super) number: u32,
}

/// The kinds of filters that have updates, in the order in which a client gets messages of one update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FilterKind {
    Slot,
    Account,
    Transaction,
    TransactionStatus,
    Entry,
    Block,
    BlockFooter,
    BlockMeta,
}

/// A key under which filters are found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IndexKey {
    Account(Pubkey),
    Owner(Pubkey),
    /// An account of a transaction.
    TransactionAccount(Pubkey),
    /// A transaction's first signature.
    Signature(Signature),
    /// Every update that matches this predicate.
    Shared(SharedPredicate),
    /// Every update that filters of this kind match.
    All(FilterKind),
}
