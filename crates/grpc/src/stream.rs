//! One subscription: requests in, messages out.
//!
//! Shape: a stream that the response's body polls. It reads requests, replays, pings, and takes messages from its queue.
//! It does so only while the client reads, so a client that does not read sends no requests either.
//! Bounds: the messages of a replay are encoded one at a time, when the one before is with HTTP/2.
//! Not here: what is queued (`broker`), frames (`response_body`).

use std::sync::Arc;
use std::task::{Context, Poll};

use api_keys::Permit;
use bytes::Bytes;
use tokio::time::{Interval, MissedTickBehavior};
use tonic::Status;
use yellowstone_grpc_proto::geyser::SubscribeRequest;

use crate::broker::{Broker, ReplayStep};
use crate::clock::now_ms;
use crate::counters::Event;
use crate::encode::{self, Encoder};
use crate::filter::{FilterSet, MessageSpec};
use crate::index::ListenerId;
use crate::queue::{Message, Queue};
use crate::requests::Requests;
use crate::status_timer::StatusTimer;
use crate::stream_key::StreamKey;
use crate::update::Update;

/// Requests that one poll reads: further ones wait for the next poll.
const REQUESTS_PER_POLL: usize = 4;
/// Reads of the log that one poll makes without a match.
const REPLAY_READS_PER_POLL: usize = 4;

/// The stream of a subscription. Dropping it ends the subscription.
pub(crate) struct UpdateStream {
    broker: Arc<Broker>,
    id: ListenerId,
    queue: Arc<Queue>,
    requests: Option<Requests>,
    ping: Interval,
    is_replaying: bool,
    replayed: Option<Replayed>,
    /// The status that ends the stream.
    end: Option<Status>,
    timer: Arc<StatusTimer>,
    _permit: Option<Permit>,
}

impl UpdateStream {
    pub(crate) fn new(
        broker: &Arc<Broker>,
        requests: Requests,
        timer: Arc<StatusTimer>,
        key: StreamKey,
    ) -> Result<Self, Status> {
        let (id, queue) = broker.connect(Arc::clone(&timer), key.number)?;
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
            replayed: None,
            end: None,
            timer,
            _permit: key.permit,
        })
    }

    fn poll_requests(&mut self, context: &mut Context<'_>) {
        for _ in 0..REQUESTS_PER_POLL {
            let Some(requests) = &mut self.requests else { return };
            match requests.poll_next(context) {
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
        self.replayed = None;
        self.is_replaying = request.from_slot.is_some();
        Ok(())
    }

    /// The next message of a replay. `None` if there is none yet, or no more.
    fn poll_replay(&mut self, context: &Context<'_>) -> Option<Result<Message, Status>> {
        for _ in 0..REPLAY_READS_PER_POLL {
            if let Some(bytes) = self.replayed.as_mut().and_then(Replayed::next_message) {
                return Some(self.count(bytes).ok_or_else(|| self.broker.exhausted()));
            }
            self.replayed = None;
            if !self.is_replaying {
                return None;
            }
            match self.broker.replay(self.id) {
                ReplayStep::Lost => return Some(Err(Broker::lagged())),
                ReplayStep::Live => self.is_replaying = false,
                ReplayStep::Updates { filters, updates } => {
                    self.broker.counters.add(Event::Replayed, updates.len() as u64);
                    let updates = updates.into_iter();
                    self.replayed = Some(Replayed { filters, updates, current: None });
                }
            }
        }
        context.waker().wake_by_ref();
        None
    }

    /// A message that was in no queue. `None` if the bound of all messages has no space for it.
    fn count(&self, bytes: Bytes) -> Option<Message> {
        let count = self.queue.sending().try_count(bytes.len())?;
        Some(Message { bytes, count })
    }

    /// The next message, or the status that ends the stream.
    pub(crate) fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Message, Status>> {
        while self.ping.poll_tick(context).is_ready() {
            // Without space for a ping there is enough to send.
            if let Some(ping) = self.count(encode::ping(now_ms())) {
                return Poll::Ready(Ok(ping));
            }
        }
        self.poll_requests(context);
        if let Some(status) = self.end.take() {
            return Poll::Ready(Err(status));
        }
        if let Some(status) = self.queue.closed() {
            return Poll::Ready(Err(status));
        }
        match self.poll_replay(context) {
            Some(message) => Poll::Ready(message),
            // What is queued comes after what is replayed.
            None if self.is_replaying => Poll::Pending,
            None => self.queue.poll_next(context),
        }
    }
}

impl Drop for UpdateStream {
    fn drop(&mut self) {
        self.broker.disconnect(self.id);
        self.timer.end(self.id, self.queue.sending());
    }
}

/// Updates of the log that a client gets.
struct Replayed {
    filters: Arc<FilterSet>,
    updates: std::vec::IntoIter<Arc<Update>>,
    current: Option<(Arc<Update>, std::vec::IntoIter<MessageSpec>)>,
}

impl Replayed {
    fn next_message(&mut self) -> Option<Bytes> {
        loop {
            if let Some((update, specs)) = &mut self.current
                && let Some(spec) = specs.next()
            {
                return Some(Encoder::new(update).message(spec));
            }
            let update = self.updates.next()?;
            let specs = self.filters.messages_of(&update).into_iter();
            self.current = Some((update, specs));
        }
    }
}
