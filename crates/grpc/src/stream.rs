//! One subscription: requests in, messages out.
//!
//! Shape: a stream that the connection polls. It reads requests, replays, pings, and takes messages from its queue. It
//! does so only while the client reads, so a client that does not read sends no requests either.
//! Not here: what is queued (`broker`).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::{Interval, MissedTickBehavior};
use tonic::{Status, Streaming};
use yellowstone_grpc_proto::geyser::SubscribeRequest;

use crate::broker::{Broker, ReplayStep};
use crate::clock::now_ms;
use crate::counters::Event;
use crate::encode::{self, Encoder};
use crate::filter::FilterSet;
use crate::index::ListenerId;
use crate::queue::Queue;
use crate::status_timer::StatusTimer;

/// Requests that one poll reads: further ones wait for the next poll.
const REQUESTS_PER_POLL: usize = 4;
/// Reads of the log that one poll makes without a match.
const REPLAY_READS_PER_POLL: usize = 4;

/// The stream of a subscription. Dropping it ends the subscription.
pub(crate) struct UpdateStream {
    broker: Arc<Broker>,
    id: ListenerId,
    queue: Arc<Queue>,
    requests: Option<Streaming<SubscribeRequest>>,
    ping: Interval,
    is_replaying: bool,
    /// Messages of a replay.
    replayed: VecDeque<Bytes>,
    /// The status that ends the stream.
    end: Option<Status>,
    has_ended: bool,
    timer: Arc<StatusTimer>,
}

impl UpdateStream {
    pub(crate) fn new(
        broker: &Arc<Broker>,
        requests: Streaming<SubscribeRequest>,
        timer: Arc<StatusTimer>,
    ) -> Result<Self, Status> {
        let (id, queue) = broker.connect(Arc::clone(&timer))?;
        let mut ping = tokio::time::interval(broker.config.ping_interval());
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ping.reset(); // the first one after an interval
        Ok(Self {
            broker: Arc::clone(broker),
            id,
            queue,
            requests: Some(requests),
            ping,
            is_replaying: false,
            replayed: VecDeque::new(),
            end: None,
            has_ended: false,
            timer,
        })
    }

    fn poll_requests(&mut self, context: &mut Context<'_>) {
        for _ in 0..REQUESTS_PER_POLL {
            let Some(requests) = &mut self.requests else { return };
            match Pin::new(requests).poll_next(context) {
                Poll::Pending => return,
                // The client sends no further request, and still gets updates.
                Poll::Ready(None) => self.requests = None,
                Poll::Ready(Some(Err(status))) => {
                    self.requests = None;
                    self.end = Some(status);
                }
                Poll::Ready(Some(Ok(request))) => {
                    if let Err(status) = self.handle(&request) {
                        self.broker.counters.record(Event::RequestRefused);
                        self.requests = None;
                        self.end = Some(status);
                    }
                }
            }
        }
        context.waker().wake_by_ref();
    }

    fn handle(&mut self, request: &SubscribeRequest) -> Result<(), Status> {
        if let Some(ping) = &request.ping {
            // A full queue is closed by the next update.
            let _ = self.queue.push(encode::pong(ping.id, now_ms()));
            let only_ping = SubscribeRequest { ping: Some(*ping), ..SubscribeRequest::default() };
            if *request == only_ping {
                return Ok(());
            }
        }
        let filters = FilterSet::new(request, &self.broker.config)?;
        self.broker.set_filters(self.id, Arc::new(filters), request.from_slot)?;
        self.clear_replayed();
        self.is_replaying = request.from_slot.is_some();
        Ok(())
    }

    /// Reads the next updates from the log, until there is a message or the client is live.
    fn replay(&mut self, context: &Context<'_>) {
        for _ in 0..REPLAY_READS_PER_POLL {
            match self.broker.replay(self.id) {
                ReplayStep::Lost => {
                    self.end = Some(Broker::lagged());
                    return;
                }
                ReplayStep::Live => {
                    self.is_replaying = false;
                    return;
                }
                ReplayStep::Updates { filters, updates } => {
                    self.broker.counters.add(Event::Replayed, updates.len() as u64);
                    for update in &updates {
                        let mut encoder = Encoder::new(update);
                        for spec in filters.messages_of(update) {
                            let message = encoder.message(spec);
                            self.broker.budget.add(message.len());
                            self.replayed.push_back(message);
                        }
                    }
                    if !self.replayed.is_empty() {
                        return;
                    }
                }
            }
        }
        context.waker().wake_by_ref();
    }

    fn clear_replayed(&mut self) {
        let bytes = self.replayed.drain(..).map(|message| message.len()).sum();
        self.broker.budget.release(bytes);
    }

    fn end(&mut self, status: Status) -> Poll<Option<Result<Bytes, Status>>> {
        self.has_ended = true;
        Poll::Ready(Some(Err(status)))
    }
}

impl Stream for UpdateStream {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.has_ended {
            return Poll::Ready(None);
        }
        if this.ping.poll_tick(context).is_ready() {
            return Poll::Ready(Some(Ok(encode::ping(now_ms()))));
        }
        this.poll_requests(context);
        if let Some(status) = this.end.take() {
            return this.end(status);
        }
        if this.is_replaying && this.replayed.is_empty() {
            this.replay(context);
            if let Some(status) = this.end.take() {
                return this.end(status);
            }
        }
        if let Some(message) = this.replayed.pop_front() {
            this.broker.budget.release(message.len());
            return Poll::Ready(Some(Ok(message)));
        }
        match this.queue.poll_next(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(message)) => Poll::Ready(Some(Ok(message))),
            Poll::Ready(Err(status)) => this.end(status),
        }
    }
}

impl Drop for UpdateStream {
    fn drop(&mut self) {
        self.clear_replayed();
        self.broker.disconnect(self.id);
        self.timer.stop(self.id);
    }
}
