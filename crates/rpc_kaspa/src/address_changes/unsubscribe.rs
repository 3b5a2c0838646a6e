//! `addressesUnsubscribe`: ends a subscription, and cleans up in steps.

use chain_kaspa::LedgerBlock;
use kaspa::encode_json_addresses_unsubscribed;
use subscriptions::SubscribeError;
use websocket::Payload;

use super::params::read_subscription;
use crate::call::{Call, StepOutput};
use crate::kaspa_rpc::NoItems;
use crate::subscription::Subscription;

type Removal = subscriptions::UnsubscribeTask<Subscription, Payload<NoItems>, LedgerBlock>;

/// A call of `addressesUnsubscribe`.
pub(crate) struct UnsubscribeTask {
    call: Call,
    removal: Option<Box<Removal>>,
}

impl UnsubscribeTask {
    pub(crate) fn new(call: Call) -> Self {
        Self { call, removal: None }
    }

    pub(crate) fn step(mut self) -> StepOutput<Self> {
        if let Some(removal) = &mut self.removal {
            if removal.step() {
                return (Vec::new(), Some(Box::new(self)));
            }
            return self.call.reply(encode_json_addresses_unsubscribed(self.call.id));
        }
        let id = match read_subscription(&self.call) {
            Ok(id) => id,
            Err(text) => return self.call.fail(text),
        };
        let session = &self.call.session;
        let identity = session.identity(id).filter(|it| **it == Subscription::Addresses);
        match identity.and_then(|_| session.start_unsubscribe(id)) {
            None => self.call.fail(SubscribeError::Unknown.to_string()),
            Some(removal) => {
                self.removal = Some(Box::new(removal));
                (Vec::new(), Some(Box::new(self)))
            }
        }
    }
}
