//! `SubscribeGossip`: the table of the cluster's nodes, then its changes, and pings.
//!
//! Shape: a stream takes its next message from the table, so a client that does not read costs nothing.
//! Bounds: a stream counts for its connection and for the API key of its client, and ends when that is removed.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chain_solana::{is_unspecified, reachable_address};
use futures_util::Stream;
use grpc_server::{Revocation, StreamPermits};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};
use tonic::Status;
use yellowstone_grpc_proto::geyser::subscribe_update_gossip::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    GossipTopology, SubscribeUpdateContactInfoNode, SubscribeUpdateContactInfoRemoved,
    SubscribeUpdateGossip, SubscribeUpdatePing,
};

use crate::clock::now_ms;
use crate::encode::timestamp;
use crate::gossip_table::{GossipStep, GossipTable};

/// The messages of one client.
pub(crate) type GossipStream =
    Pin<Box<dyn Stream<Item = Result<SubscribeUpdateGossip, Status>> + Send>>;

/// A client, and how far it is.
struct GossipClient {
    table: Arc<GossipTable>,
    changed: watch::Receiver<u64>,
    /// The address of the node that it reached.
    reached: Option<IpAddr>,
    /// The newest revision that the client has.
    revision: Option<u64>,
    ping: Interval,
    /// The revocation of the client's API key, if it has one.
    revocation: Option<Revocation>,
    _permits: StreamPermits,
}

/// Returns the stream of a new client. `reached` is the address on which the client reached the node; the revocation is
/// that of its API key, if it has one.
pub(crate) fn stream(
    table: Arc<GossipTable>,
    ping_interval: Duration,
    reached: Option<IpAddr>,
    permits: StreamPermits,
    revocation: Option<Revocation>,
) -> GossipStream {
    let mut ping = tokio::time::interval(ping_interval);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping.reset();
    let changed = table.subscribe();
    let revision = None;
    let client =
        GossipClient { changed, table, reached, revision, ping, revocation, _permits: permits };
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
                return Ok(message(update(step, self.reached), revision));
            }
            tokio::select! {
                _ = self.ping.tick() => {
                    return Ok(message(UpdateOneof::Ping(SubscribeUpdatePing {}), 0));
                }
                Ok(()) = self.changed.changed() => {}
                () = wait_until_revoked(&mut self.revocation) => {
                    return Err(Status::unauthenticated("the API key was removed"));
                }
            }
        }
    }
}

/// Waits until the key of a client is removed: forever, if it has none.
async fn wait_until_revoked(revocation: &mut Option<Revocation>) {
    match revocation {
        Some(revocation) => revocation.wait_for_removal().await,
        None => std::future::pending().await,
    }
}

fn update(step: GossipStep, reached: Option<IpAddr>) -> UpdateOneof {
    let reachable = |node| with_reachable_addresses(Arc::unwrap_or_clone(node), reached);
    match step {
        GossipStep::Whole(nodes) => {
            let nodes = nodes.into_iter().map(reachable).collect();
            UpdateOneof::Snapshot(GossipTopology { nodes })
        }
        GossipStep::Changed(node) => UpdateOneof::Node(reachable(node)),
        GossipStep::Left(identity) => {
            let pubkey = identity.to_bytes().to_vec();
            UpdateOneof::Removed(SubscribeUpdateContactInfoRemoved { pubkey })
        }
    }
}

/// Returns the node with addresses that the client can dial. Only this node has unspecified ones.
fn with_reachable_addresses(
    mut node: SubscribeUpdateContactInfoNode,
    reached: Option<IpAddr>,
) -> SubscribeUpdateContactInfoNode {
    for address in [&mut node.tpu_quic, &mut node.rpc, &mut node.rpc_pubsub] {
        let bound = address.as_ref().and_then(|text| text.parse::<SocketAddr>().ok());
        if let Some(bound) = bound.filter(|bound| is_unspecified(bound.ip())) {
            *address = reachable_address(bound, reached).map(|address| address.to_string());
        }
    }
    node
}

fn message(update: UpdateOneof, seq: u64) -> SubscribeUpdateGossip {
    let created_at = Some(timestamp(now_ms()));
    SubscribeUpdateGossip { update_oneof: Some(update), created_at, seq }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_addresses_on_which_it_can_reach_the_node() {
        let text = |text: &str| Some(text.to_owned());
        let node = SubscribeUpdateContactInfoNode {
            tpu_quic: text("0.0.0.0:8901"),
            rpc: text("[::]:8899"),
            rpc_pubsub: text("10.77.0.1:8900"),
            ..SubscribeUpdateContactInfoNode::default()
        };
        let reached = Some([10, 77, 0, 9].into());
        let reachable = with_reachable_addresses(node.clone(), reached);
        assert_eq!(reachable.tpu_quic, text("10.77.0.9:8901"));
        assert_eq!(reachable.rpc, text("10.77.0.9:8899"));
        assert_eq!(reachable.rpc_pubsub, text("10.77.0.1:8900"));
        let unknown = with_reachable_addresses(node, None);
        assert_eq!((unknown.tpu_quic, unknown.rpc), (None, None));
    }
}
