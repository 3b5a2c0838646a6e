//! `SubscribeGossip`: a cluster of one node.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::time::{Interval, MissedTickBehavior};
use tonic::Status;
use yellowstone_grpc_proto::geyser::subscribe_update_gossip::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    GossipTopology, SubscribeUpdateContactInfoNode, SubscribeUpdateGossip, SubscribeUpdatePing,
};

use crate::clock::now_ms;
use crate::encode::timestamp;
use crate::node::GrpcNode;

/// The table of the one node, then pings.
pub(crate) struct GossipStream {
    topology: Option<SubscribeUpdateContactInfoNode>,
    ping: Interval,
}

impl GossipStream {
    pub(crate) fn new(node: &GrpcNode, ping_interval: Duration) -> Result<Self, Status> {
        let own = node.contact_info();
        let own = own.ok_or_else(|| Status::unimplemented("this server has no gossip"))?;
        let mut ping = tokio::time::interval(ping_interval);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ping.reset();
        Ok(Self { topology: Some(own), ping })
    }
}

impl Stream for GossipStream {
    type Item = Result<SubscribeUpdateGossip, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let created_at = Some(timestamp(now_ms()));
        if let Some(node) = self.topology.take() {
            let update_oneof = Some(UpdateOneof::Snapshot(GossipTopology { nodes: vec![node] }));
            return Poll::Ready(Some(Ok(SubscribeUpdateGossip {
                update_oneof,
                created_at,
                seq: 1,
            })));
        }
        self.ping.poll_tick(context).map(|_| {
            let update_oneof = Some(UpdateOneof::Ping(SubscribeUpdatePing {}));
            Some(Ok(SubscribeUpdateGossip { update_oneof, created_at, seq: 0 }))
        })
    }
}
