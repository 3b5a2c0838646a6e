//! The subscriptions of one client, as kaspad counts them: at most one for each event.

use kaspa::Event;
use subscriptions::SubscriptionId;

/// The number of events.
const EVENTS: usize = 9;

/// The subscriptions of one client.
#[derive(Debug, Default)]
pub(crate) struct ClientSubscriptions {
    /// By the number of the event. That to changes of UTXOs is in `utxos`.
    by_event: [Option<SubscriptionId>; EVENTS],
    pub(crate) utxos: UtxoSubscription,
}

/// A client's subscription to changes of UTXOs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UtxoSubscription {
    /// The client has no subscription.
    #[default]
    None,
    /// The subscription to all UTXOs.
    All(SubscriptionId),
    /// To those of a set of addresses.
    Set(SubscriptionId),
}

impl ClientSubscriptions {
    /// Records the subscription to an event, or its end. Returns the one before, if it was another one.
    pub(crate) fn replace(
        &mut self,
        event: Event,
        id: Option<SubscriptionId>,
    ) -> Option<SubscriptionId> {
        let entry = self.by_event.get_mut(usize::from(event.variant()))?;
        std::mem::replace(entry, id).filter(|before| Some(*before) != id)
    }
}

impl UtxoSubscription {
    /// Returns the id of the subscription.
    pub(crate) fn id(self) -> Option<SubscriptionId> {
        match self {
            Self::None => None,
            Self::All(id) | Self::Set(id) => Some(id),
        }
    }
}
