//! Changes of a set of addresses, chain block by chain block, each with its position: `addressesSubscribe`,
//! `addressesUnsubscribe` and `addressesPosition`, which kaspad does not have. In JSON only.
//!
//! A subscription follows the sink: the log of blocks names it as confirmed. A virtual block has no name that a client
//! could resume from. Each chain block that changes UTXOs of the set is one notification, when it joins the chain
//! (`update`) and when it leaves it (`rollback`).
//! Invariant: a client that has applied a notification has the UTXOs at its `position`. If it connects again and resumes
//! from there, it gets all later changes, each once.
//! Bounds: `subscriptions::Limits`. A client resumes from a block within `retained_steps` and `retained_bytes`. A snapshot
//! must be read within [`crate::Settings::list_timeout_ms`], and what changes meanwhile waits in the client's queue.
//! Not here: the shapes of messages (`kaspa`), the log of blocks and the queues (`subscriptions`).

mod catch_up;
mod notification;
mod params;
mod position;
mod snapshot;
mod subscribe;
mod unsubscribe;

pub(crate) use notification::{encode_end, publish_blocks};
pub(crate) use position::PositionTask;
pub(crate) use subscribe::SubscribeTask;
pub(crate) use unsubscribe::UnsubscribeTask;
