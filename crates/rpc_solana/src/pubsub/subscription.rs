//! The subscriptions: Solana's nine kinds, transactions and sets of addresses; their identity, and the topics and keys
//! under which they are indexed.

use std::sync::Arc;

use address::{AddressTable, TableFull};
use ledger::{Address, Commitment, KeyKind};
use solana::{Encoding, Filters};
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction_status::{TransactionDetails, UiTransactionEncoding};
use subscriptions::{AddressSet, ExactKey, Filter, Interest, Topic};

use super::key_kind;
use super::transaction_filter::TransactionFilter;

/// Nothing is published here. Addresses indexed here count against the limits of the client and the node.
const COUNTED: Topic = Topic(u16::MAX);

/// A subscription. Equal ones are shared by all clients that have them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subscription {
    Account {
        pubkey: Pubkey,
        commitment: Commitment,
        encoding: Encoding,
    },
    Program {
        program: Pubkey,
        commitment: Commitment,
        encoding: Encoding,
        filters: Filters,
        /// Distinguishes subscriptions, as on Agave, and has no other effect.
        with_context: bool,
    },
    Logs {
        filter: LogsFilter,
        commitment: Commitment,
    },
    Signature {
        signature: Signature,
        commitment: Commitment,
        /// Whether to notify also that it was received.
        received: bool,
    },
    Block {
        filter: BlockFilter,
        commitment: Commitment,
        encoding: UiTransactionEncoding,
        details: TransactionDetails,
        rewards: bool,
        version_max: Option<u8>,
    },
    Slot,
    SlotsUpdates,
    Root,
    Vote,
    /// Whole transactions, as providers offer them.
    Transaction {
        filter: Arc<TransactionFilter>,
        commitment: Commitment,
        encoding: UiTransactionEncoding,
        details: TransactionDetails,
        rewards: bool,
        version_max: Option<u8>,
    },
    /// Changes of a set of addresses. The set itself is in the registry.
    Addresses {
        key_kind: KeyKind,
        commitment: Commitment,
        encoding: Encoding,
    },
}

/// The transactions whose logs are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogsFilter {
    AllButVotes,
    All,
    Mentioning(Pubkey),
}

/// The blocks that are sent, and which of their transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockFilter {
    All,
    /// Blocks with a transaction that names it; only such transactions are sent.
    Mentioning(Pubkey),
}

/// The kinds of publications; with a commitment, a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubscriptionKind {
    Account,
    Program,
    Logs,
    Signature,
    Block,
    Slot,
    SlotsUpdates,
    Root,
    Vote,
    Transaction,
    Addresses,
}

impl SubscriptionKind {
    /// The topic of a kind that has commitments.
    pub(super) fn at(self, commitment: Commitment) -> Topic {
        Topic(self as u16 * 3 + commitment as u16)
    }

    /// The topic of a kind that has none.
    pub(super) fn topic(self) -> Topic {
        self.at(Commitment::Processed)
    }
}

impl Subscription {
    /// The `method` of its notifications.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Account { .. } => "accountNotification",
            Self::Program { .. } => "programNotification",
            Self::Logs { .. } => "logsNotification",
            Self::Signature { .. } => "signatureNotification",
            Self::Block { .. } => "blockNotification",
            Self::Slot => "slotNotification",
            Self::SlotsUpdates => "slotsUpdatesNotification",
            Self::Root => "rootNotification",
            Self::Vote => "voteNotification",
            Self::Transaction { .. } => "transactionNotification",
            Self::Addresses { .. } => "addressesNotification",
        }
    }

    /// The topics and filters to index it under. Its address is registered until the interests are dropped.
    pub(super) fn interests(
        &self,
        addresses: &Arc<AddressTable>,
    ) -> Result<Vec<Interest>, TableFull> {
        let single_key = |key_kind: KeyKind, pubkey: &Pubkey| {
            let set = AddressSet::register(addresses, [Address::from(pubkey.to_bytes())])?;
            Ok(Filter::Set(key_kind, Arc::new(set)))
        };
        let (topic, filter) = match self {
            Self::Account { pubkey, commitment, .. } => {
                (SubscriptionKind::Account.at(*commitment), single_key(key_kind::ITSELF, pubkey)?)
            }
            Self::Program { program, commitment, .. } => {
                (SubscriptionKind::Program.at(*commitment), single_key(key_kind::PROGRAM, program)?)
            }
            Self::Logs { filter, commitment } => {
                let filter = match filter {
                    LogsFilter::All | LogsFilter::AllButVotes => Filter::All,
                    LogsFilter::Mentioning(pubkey) => single_key(key_kind::MENTIONED, pubkey)?,
                };
                (SubscriptionKind::Logs.at(*commitment), filter)
            }
            Self::Signature { signature, commitment, received } => {
                return Ok(signature_interests(signature, *commitment, *received));
            }
            // Blocks are few: their transactions are filtered when they are encoded.
            Self::Block { commitment, .. } => {
                (SubscriptionKind::Block.at(*commitment), Filter::All)
            }
            Self::Slot => (SubscriptionKind::Slot.topic(), Filter::All),
            Self::SlotsUpdates => (SubscriptionKind::SlotsUpdates.topic(), Filter::All),
            Self::Root => (SubscriptionKind::Root.topic(), Filter::All),
            Self::Vote => (SubscriptionKind::Vote.topic(), Filter::All),
            Self::Transaction { filter, commitment, .. } => {
                (SubscriptionKind::Transaction.at(*commitment), filter.lookup_filter(addresses)?)
            }
            Self::Addresses { key_kind, commitment, .. } => {
                let empty = Arc::new(AddressSet::empty(addresses));
                (SubscriptionKind::Addresses.at(*commitment), Filter::Set(*key_kind, empty))
            }
        };
        let mut interests = vec![Interest { topic, filter }];
        if let Self::Transaction { filter, .. } = self
            && let Some(filter) = filter.counted_filter(addresses)?
        {
            interests.push(Interest { topic: COUNTED, filter });
        }
        Ok(interests)
    }
}

/// "Received" is sent when the transaction is processed: transactions that wait to be executed are not announced.
fn signature_interests(
    signature: &Signature,
    commitment: Commitment,
    received: bool,
) -> Vec<Interest> {
    let interest = |commitment| Interest {
        topic: SubscriptionKind::Signature.at(commitment),
        filter: Filter::Exact(ExactKey::from(signature.as_ref())),
    };
    let mut interests = vec![interest(commitment)];
    if received && commitment != Commitment::Processed {
        interests.push(interest(Commitment::Processed));
    }
    interests
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_kinds_share_a_topic() {
        use SubscriptionKind::{
            Account, Addresses, Block, Logs, Program, Root, Signature, Slot, SlotsUpdates,
            Transaction, Vote,
        };
        let kinds = [
            Account,
            Program,
            Logs,
            Signature,
            Block,
            Slot,
            SlotsUpdates,
            Root,
            Vote,
            Transaction,
            Addresses,
        ];
        let topics: HashSet<_> = kinds
            .iter()
            .flat_map(|kind| Commitment::ALL.map(|commitment| kind.at(commitment)))
            .collect();
        assert_eq!(topics.len(), kinds.len() * Commitment::ALL.len());
    }
}
