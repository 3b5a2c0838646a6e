//! The follower's parts as the servers see them: the upstream that answers forwarded requests, and the events.

use std::sync::Arc;

use chain_kaspa::ChainEvent;
use clients::ClientId;
use follow_kaspa::{EventSink, Forwarder};
use hyper::body::Bytes;
use kaspa::{Encoding, Notification, Operation};
use rpc_kaspa::{Forward, ForwardError, ForwardFuture, PublisherInput};

/// Forwards requests to the sources.
pub(super) struct SourceForward(pub(super) Arc<Forwarder>);

impl Forward for SourceForward {
    fn forward(
        &self,
        client: ClientId,
        encoding: Encoding,
        operation: Operation,
        request: Bytes,
    ) -> ForwardFuture<'_> {
        Box::pin(async move {
            let reply = self.0.forward(client, encoding, operation, request).await;
            reply.map_err(ForwardError::new)
        })
    }
}

/// Passes the events of the chain and of the sources to the publisher, which never waits.
pub(super) struct PublisherSink(pub(super) PublisherInput);

impl EventSink for PublisherSink {
    fn send_events(&mut self, events: &[ChainEvent]) {
        self.0.send_chain(events.to_vec());
    }

    fn send_notification(&mut self, encoding: Encoding, notification: &Notification) {
        self.0.send_upstream(encoding, notification.clone());
    }
}
