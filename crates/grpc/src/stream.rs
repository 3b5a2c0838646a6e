//! One subscription: requests in, messages out.
//!
//! Shape: a stream that the response's body polls. It takes prepared requests, sends pings, and takes messages from its
//! delivery. It does so only while the client reads. Otherwise one prepared request waits, and further ones are not read.
//! Not here: reading requests (`request_reader`), the order of messages (`delivery`), frames (`response_body`).

use std::sync::Arc;
use std::task::{Context, Poll};

use grpc_server::{Event, Requests, StatusTimer, StreamClient, StreamId, StreamPermits};
use tokio::time::{Interval, MissedTickBehavior};
use tonic::Status;

use crate::broker::Broker;
use crate::clock::now_ms;
use crate::delivery::Delivery;
use crate::encode;
use crate::filter_index::IndexedFilters;
use crate::ids::ListenerId;
use crate::queue::{Message, Queue};
use crate::request_reader::{RequestReader, StreamRequest};

/// Requests that one poll takes: further ones wait for the next poll.
const REQUESTS_PER_POLL: usize = 4;

/// The stream of a subscription. Dropping it ends the subscription.
pub(crate) struct UpdateStream {
    broker: Arc<Broker>,
    id: ListenerId,
    queue: Arc<Queue>,
    delivery: Delivery,
    requests: Option<RequestReader>,
    ping: Interval,
    /// The status that ends the stream.
    end: Option<Status>,
    timer: Arc<StatusTimer>,
    _permits: StreamPermits,
}

impl UpdateStream {
    pub(crate) fn new(
        broker: &Arc<Broker>,
        requests: Requests,
        timer: Arc<StatusTimer>,
        client: StreamClient,
    ) -> Result<Self, Status> {
        let (id, queue) = broker.connect(Arc::clone(&timer), client.id)?;
        let requests = RequestReader::start(Arc::clone(broker), client.id, requests);
        let mut ping = tokio::time::interval(broker.config.ping_interval());
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ping.reset(); // the first one after an interval
        Ok(Self {
            broker: Arc::clone(broker),
            id,
            delivery: Delivery::new(Arc::clone(broker), id, Arc::clone(&queue)),
            queue,
            requests: Some(requests),
            ping,
            end: None,
            timer,
            _permits: client.permits,
        })
    }

    fn poll_requests(&mut self, context: &mut Context<'_>) {
        for _ in 0..REQUESTS_PER_POLL {
            let Some(requests) = &mut self.requests else { return };
            match requests.poll_next(context) {
                Poll::Pending => return,
                // The client sends no further request, and still gets updates.
                Poll::Ready(None) => self.requests = None,
                Poll::Ready(Some(request)) => {
                    if let Err(status) = request.and_then(|request| self.handle(request)) {
                        self.requests = None;
                        self.end = Some(status);
                    }
                }
            }
        }
        context.waker().wake_by_ref();
    }

    fn handle(&mut self, request: StreamRequest) -> Result<(), Status> {
        match request {
            StreamRequest::Ping { id } => {
                // A full queue is closed by the next update.
                let _ = self.queue.push(encode::pong(id, now_ms()));
                Ok(())
            }
            StreamRequest::Filters { filters, from_slot } => {
                let is_set = self.delivery.set_filters(filters, from_slot);
                is_set.inspect_err(|_| self.broker.server.counters.record(Event::RequestRefused))
            }
        }
    }

    /// The next message, or the status that ends the stream.
    pub(crate) fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Message, Status>> {
        while self.ping.poll_tick(context).is_ready() {
            // Without space for a ping there is enough to send.
            if let Some(ping) = self.delivery.count(encode::ping(now_ms())) {
                return Poll::Ready(Ok(ping));
            }
        }
        if !self.delivery.is_within_update() {
            self.poll_requests(context);
        }
        match self.end.take() {
            Some(status) => Poll::Ready(Err(status)),
            None => self.delivery.poll_next(context),
        }
    }
}

impl Drop for UpdateStream {
    fn drop(&mut self) {
        IndexedFilters::disconnect(&self.broker, self.id);
        self.timer.end(StreamId(self.id.0), self.queue.sending());
    }
}
