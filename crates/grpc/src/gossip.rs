//! `SubscribeGossip`: the table of the cluster's nodes, then its changes, and pings.
//!
//! Shape: a stream takes from the table what it sends next, so a client that does not read costs nothing.
//! Bounds: a stream counts for the API key of its client, and ends when that is removed.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use api_keys::Permit;
use futures_util::Stream;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};
use tonic::Status;
use yellowstone_grpc_proto::geyser::subscribe_update_gossip::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    GossipTopology, SubscribeUpdateContactInfoRemoved, SubscribeUpdateGossip, SubscribeUpdatePing,
};

use crate::clock::now_ms;
use crate::encode::timestamp;
use crate::gossip_table::{GossipStep, GossipTable};
use crate::stream_key::Revocation;

/// What one client gets.
pub(crate) type GossipStream =
    Pin<Box<dyn Stream<Item = Result<SubscribeUpdateGossip, Status>> + Send>>;

/// A client, and how far it is.
struct GossipClient {
    table: Arc<GossipTable>,
    changed: watch::Receiver<u64>,
    /// What it has.
    revision: Option<u64>,
    ping: Interval,
    /// If it has an API key.
    revocation: Option<Revocation>,
    _permit: Option<Permit>,
}

/// The stream of a new client, with the permit and the revocation of its API key, if it has one.
pub(crate) fn stream(
    table: Arc<GossipTable>,
    ping_interval: Duration,
    (permit, revocation): (Option<Permit>, Option<Revocation>),
) -> GossipStream {
    let mut ping = tokio::time::interval(ping_interval);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping.reset();
    let (changed, revision) = (table.subscribe(), None);
    let client = GossipClient { changed, table, revision, ping, revocation, _permit: permit };
    Box::pin(futures_util::stream::unfold(Some(client), |client| async move {
        let mut client = client?;
        let update = client.next().await;
        let client = update.is_ok().then_some(client);
        Some((update, client))
    }))
}

impl GossipClient {
    async fn next(&mut self) -> Result<SubscribeUpdateGossip, Status> {
        loop {
            // Before the table is read, so that no later change is missed.
            self.changed.borrow_and_update();
            if let Some((step, revision)) = self.table.next(self.revision) {
                self.revision = Some(revision);
                return Ok(message(update(step), revision));
            }
            tokio::select! {
                _ = self.ping.tick() => {
                    return Ok(message(UpdateOneof::Ping(SubscribeUpdatePing {}), 0));
                }
                Ok(()) = self.changed.changed() => {}
                () = revoked(&mut self.revocation) => {
                    return Err(Status::unauthenticated("the API key was removed"));
                }
            }
        }
    }
}

/// Waits until the key of a client is removed: for ever, if it has none.
async fn revoked(revocation: &mut Option<Revocation>) {
    match revocation {
        Some(revocation) => revocation.happened().await,
        None => std::future::pending().await,
    }
}

fn update(step: GossipStep) -> UpdateOneof {
    match step {
        GossipStep::Whole(nodes) => {
            let nodes = nodes.into_iter().map(Arc::unwrap_or_clone).collect();
            UpdateOneof::Snapshot(GossipTopology { nodes })
        }
        GossipStep::Changed(node) => UpdateOneof::Node(Arc::unwrap_or_clone(node)),
        GossipStep::Left(identity) => {
            let pubkey = identity.to_bytes().to_vec();
            UpdateOneof::Removed(SubscribeUpdateContactInfoRemoved { pubkey })
        }
    }
}

fn message(update: UpdateOneof, seq: u64) -> SubscribeUpdateGossip {
    let created_at = Some(timestamp(now_ms()));
    SubscribeUpdateGossip { update_oneof: Some(update), created_at, seq }
}
