//! What a client can subscribe to: Solana's nine kinds, transactions and sets of addresses; what makes
//! two subscriptions the same, and under which topics and keys the engine files them.

use std::sync::Arc;

use address::{AddressTable, TableFull};
use ledger::{Address, Commitment, KeyKind};
use solana::{Encoding, Filters};
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_transaction_status::{TransactionDetails, UiTransactionEncoding};
use subscriptions::{AddressSet, ExactKey, Filter, Interest, Topic};

use super::transaction_filter::TransactionFilter;

/// What an address is to a notification, beside what it is to an account (`solana::facet`).
pub(super) mod key_kind {
    use ledger::KeyKind;

    /// The account itself.
    pub(in crate::pubsub) const ITSELF: KeyKind = KeyKind(128);
    /// The account's program.
    pub(in crate::pubsub) const PROGRAM: KeyKind = solana::key_kind::PROGRAM;
    /// Any account that a transaction names.
    pub(in crate::pubsub) const MENTIONED: KeyKind = KeyKind(129);

    /// Those that a set can be of.
    pub(in crate::pubsub) const ALL: [KeyKind; 6] = [
        ITSELF,
        PROGRAM,
        solana::key_kind::OWNER,
        solana::key_kind::MINT,
        solana::key_kind::DELEGATE,
        MENTIONED,
    ];
}

/// Nothing is published here. What is filed here counts among the addresses that a client and the node may have.
const COUNTED: Topic = Topic(u16::MAX);

/// A subscription. Equal ones are one, for however many clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subscription {
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
        /// Agave tells subscriptions apart by it and then forgets it. So do we.
        with_context: bool,
    },
    Logs {
        filter: LogsFilter,
        commitment: Commitment,
    },
    Signature {
        signature: Signature,
        commitment: Commitment,
        /// Whether to tell also that it was received.
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
    /// What happens to a set of addresses. The set itself is the engine's.
    Addresses {
        key_kind: KeyKind,
        commitment: Commitment,
        encoding: Encoding,
    },
}

/// Whose logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LogsFilter {
    AllButVotes,
    All,
    Mentioning(Pubkey),
}

/// Which blocks, and what of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum BlockFilter {
    All,
    /// Those with a transaction that names it, and of those only such transactions.
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
    /// As clients see it in `method`.
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

    /// Under what it is filed. Its address is registered until the interests are dropped.
    pub(super) fn interests(
        &self,
        addresses: &Arc<AddressTable>,
    ) -> Result<Vec<Interest>, TableFull> {
        let held = |facet: KeyKind, pubkey: &Pubkey| {
            let set = AddressSet::register(addresses, [Address::from(pubkey.to_bytes())])?;
            Ok(Filter::Set(facet, Arc::new(set)))
        };
        let (topic, filter) = match self {
            Self::Account { pubkey, commitment, .. } => {
                (SubscriptionKind::Account.at(*commitment), held(key_kind::ITSELF, pubkey)?)
            }
            Self::Program { program, commitment, .. } => {
                (SubscriptionKind::Program.at(*commitment), held(key_kind::PROGRAM, program)?)
            }
            Self::Logs { filter: of, commitment } => {
                let filter = match of {
                    LogsFilter::All | LogsFilter::AllButVotes => Filter::All,
                    LogsFilter::Mentioning(pubkey) => held(key_kind::MENTIONED, pubkey)?,
                };
                (SubscriptionKind::Logs.at(*commitment), filter)
            }
            Self::Signature { signature, commitment, received } => {
                return Ok(signature_interests(signature, *commitment, *received));
            }
            // Blocks are few: which of their transactions count is looked at when they are encoded.
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
            Self::Addresses { key_kind: facet, commitment, .. } => {
                let nothing = Arc::new(AddressSet::empty(addresses));
                (SubscriptionKind::Addresses.at(*commitment), Filter::Set(*facet, nothing))
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

/// "Received" is told when the transaction is processed: what is waiting to be executed is not
/// announced.
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
