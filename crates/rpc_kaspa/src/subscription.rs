//! The subscriptions of clients, and their topics.

use kaspa::Event;
use ledger::KeyKind;
use subscriptions::{Filter, Interest, Topic};

use crate::message_format::MessageFormat;

/// The key kind of the addresses in sets: the address of a script.
pub(crate) const SCRIPTS: KeyKind = KeyKind(0);

/// A subscription of a client. Equal ones are shared, so that a notification is encoded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subscription {
    /// An event without parameters.
    Event(MessageFormat, Event),
    /// Changes of the selected chain.
    ChainChanges {
        /// The format of the notifications.
        format: MessageFormat,
        /// Whether the ids of accepted transactions are included.
        has_accepted_ids: bool,
    },
    /// Changes of all UTXOs.
    AllUtxos(MessageFormat),
    /// Changes of the UTXOs of a set of addresses.
    Utxos(MessageFormat),
    /// Changes of a set of addresses, chain block by chain block. In JSON only.
    Addresses,
}

impl Subscription {
    /// The format of its notifications.
    pub(crate) fn format(self) -> MessageFormat {
        match self {
            Self::Event(format, _)
            | Self::ChainChanges { format, .. }
            | Self::AllUtxos(format)
            | Self::Utxos(format) => format,
            Self::Addresses => MessageFormat::Json,
        }
    }

    /// The topic of its publications. Each subscription has its own, but for the sets of addresses.
    pub(crate) fn topic(self) -> Topic {
        let kind = match self {
            Self::Event(_, event) => u16::from(event.variant()),
            Self::ChainChanges { has_accepted_ids: false, .. } => 16,
            Self::ChainChanges { has_accepted_ids: true, .. } => 17,
            Self::AllUtxos(_) => 18,
            Self::Utxos(_) => 19,
            Self::Addresses => 20,
        };
        let format = match self.format() {
            MessageFormat::Borsh => 0,
            MessageFormat::Json => 1,
            MessageFormat::Protobuf => 2,
        };
        Topic(kind * 3 + format)
    }

    /// The publications that it matches, if it is not to a set.
    pub(crate) fn interests(self) -> Vec<Interest> {
        vec![Interest { topic: self.topic(), filter: Filter::All }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_distinct() {
        let mut topics = Vec::new();
        for format in MessageFormat::ALL {
            topics.extend(Event::ALL.iter().map(|event| Subscription::Event(format, *event)));
            for has_accepted_ids in [false, true] {
                topics.push(Subscription::ChainChanges { format, has_accepted_ids });
            }
            topics.extend([Subscription::AllUtxos(format), Subscription::Utxos(format)]);
        }
        topics.push(Subscription::Addresses);
        let count = topics.len();
        let mut topics: Vec<u16> = topics.into_iter().map(|it| it.topic().0).collect();
        topics.sort_unstable();
        topics.dedup();
        assert_eq!(topics.len(), count);
    }
}
