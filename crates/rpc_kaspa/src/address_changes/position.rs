//! `addressesPosition`: the position that a subscription has reached.
//!
//! Blocks that do not change the set have no notification, so the position of the last notification may be far back. A
//! client requests the newest one from time to time, and resumes from it.
//! Invariant: all notifications up to the position are written before the reply.

use kaspa::encode_json_addresses_position;
use ledger::Commitment;
use subscriptions::{SubscribeError, SubscriptionId};
use websocket::SessionOutput;

use super::params::read_subscription;
use crate::call::{Call, StepOutput};
use crate::kaspa_rpc::NoItems;
use crate::subscription::Subscription;

/// A call of `addressesPosition`.
pub(crate) struct PositionTask {
    call: Call,
}

impl PositionTask {
    pub(crate) fn new(call: Call) -> Self {
        Self { call }
    }

    pub(crate) fn step(self) -> StepOutput<Self> {
        let call = &self.call;
        let id = match read_subscription(call) {
            Ok(id) => id,
            Err(text) => return call.fail(text),
        };
        let identity = call.session.identity(id);
        if identity.is_none_or(|it| *it != Subscription::Addresses) {
            return call.fail(SubscribeError::Unknown.to_string());
        }
        match reply_position(call, id) {
            Some(output) => (output, None),
            // The chain has moved meanwhile.
            None => (vec![SessionOutput::Backoff], Some(Box::new(self))),
        }
    }
}

/// Returns the notifications up to the newest published block, and then its position. `None` if further blocks were
/// published meanwhile, and this one is no longer retained.
fn reply_position(call: &Call, id: SubscriptionId) -> Option<Vec<SessionOutput<NoItems>>> {
    let session = &call.session;
    let tip = call.server.subscriptions.tip(Commitment::Confirmed)?;
    let step = session.delivered_step(Commitment::Confirmed, tip)?;
    if !session.reaches(Commitment::Confirmed, tip) {
        return None;
    }
    let position = call.server.recent_blocks.lock().find_position(tip)?;
    let (reply, _) = call.reply::<PositionTask>(encode_json_addresses_position(call.id, &position));
    let mut output = vec![SessionOutput::QueuedUntil(id, step)];
    output.extend(reply);
    Some(output)
}
