//! Streams of sources: connects to one after another and sends the received updates to the writer.
//!
//! In: the configured sources, the root (where a stream resumes), gaps that the writer has found. Out: [`Message`]s.
//! Shape: available messages are sent at once, in batches. A batch ends with a message that something waits for
//! ([`is_awaited`]), so that the writer has it before the rest is decoded.
//! Bounds: a message of at most `message_bytes_max`, also after decompression; a batch of [`BATCH_BYTES_MAX`] and one
//! message; of messages that the writer has not handled, `queue_bytes_max` bytes. At that bound nothing more is read,
//! and the source closes the stream of a slow reader.
//! Invariant: a source that serves stays in use, unless it stalls or lags behind another one (`source_slots`). After a
//! failure the next one is tried at once, and after a round without success there is a pause.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use chain_solana::ExecutedTransaction;
use feed::{SourceId, StreamStart, Update};
use futures_util::{FutureExt, StreamExt};
use http_client::{Server, describe_error};
use ledger::{BlockId, Slot};
use prost::Message as _;
use solana_hash::Hash;
use solana_sdk_ids::sysvar;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tonic::codec::CompressionEncoding;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use verify::SignedVote;
use yellowstone_grpc_proto::geyser::geyser_client::GeyserClient;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, GetSlotRequest, SubscribeReplayInfoRequest, SubscribeRequest,
    SubscribeRequestFilterAccounts, SubscribeRequestFilterBlockFooter,
    SubscribeRequestFilterBlocksMeta, SubscribeRequestFilterEntry, SubscribeRequestFilterSlots,
    SubscribeRequestFilterTransactions, SubscribeRequestPing, SubscribeUpdate,
};

use crate::checked_bank::CheckedBank;
use crate::clock::now;
use crate::convert::{self, BlockFacts, WrittenAccount};
use crate::footers::Footers;
use crate::gap_rounds::GapRounds;
use crate::jump::{ConfirmedState, Jump};
use crate::source_slots::{FAR_SLOTS_MAX, SourceSlots, Standstill, StreamProgress};
use crate::status::FollowStatus;
use crate::stream_end::{StreamEnd, log_end};

pub(crate) const FILTER: &str = "follow";
/// Updates that are sent to the writer at once.
const BATCH_MAX: usize = 256;
/// Bytes of them, and one message more.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Batches that wait for the writer; their bytes are bounded too.
const BATCHES_MAX: usize = 256;
/// Windows of HTTP/2, for a stream and for a connection: the bytes that a source may send ahead.
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
/// Timeout of a connection, and of the response to a request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between requests for the source's newest slot.
const SLOT_INTERVAL: Duration = Duration::from_secs(2);
/// Interval between the writer's checks for overdue banks.
const TICK_INTERVAL: Duration = Duration::from_millis(200);
/// The most slots between a source's oldest slot and the start of a stream above a gap. A larger value loses more
/// slots; a smaller one may never start on a source whose window moves on quickly.
const MARGIN_SLOTS_MAX: u64 = 64;
/// Bytes of a permit of the queue.
const PERMIT_BYTES: usize = 1_024;

/// A server of Yellowstone gRPC.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceConfig {
    /// URL of the source: `http[s]://HOST:PORT`.
    pub url: String,
    /// The value of `x-token`, if the server wants one.
    pub x_token: Option<String>,
}

impl SourceConfig {
    /// Returns what logs and responses show of the source.
    pub fn server(&self) -> Server {
        Server::from_url(&self.url)
    }

    /// Whether the URL can be connected to: a valid host and port, and no characters that a URL cannot have.
    pub fn has_valid_url(&self) -> bool {
        let schemes = ["http://", "https://"];
        schemes.iter().any(|scheme| self.url.starts_with(scheme))
            && self.server().is_valid()
            && Endpoint::from_shared(self.url.clone()).is_ok()
    }
}

/// Neither the token nor the URL, which may have one.
impl fmt::Debug for SourceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceConfig({})", self.server())
    }
}

/// Timeouts and limits of streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// Bytes of a message at most. Accounts have up to 10 MiB. Default: 64 MiB.
    pub message_bytes_max: usize,
    /// Bytes of updates that wait for the writer. Default: 128 MiB. One message may exceed it.
    pub queue_bytes_max: usize,
    /// A stream without any message for this long is closed. Servers ping every 15 s. Default: 45 s.
    pub stall_timeout: Duration,
    /// A stream that is more slots than this behind another source, and does not catch up within `stall_timeout`, is
    /// closed. Default: 150, which is a minute of 400 ms.
    pub lag_slots_max: u64,
    /// A stream that waits above a gap is closed after this time without an archive, and all sources are tried again
    /// from the root on. Default: 5 minutes.
    pub archive_timeout: Duration,
    /// The pauses after rounds without success start with this one and double. Default: 250 ms.
    pub reconnect_delay_min: Duration,
    /// The longest pause. Default: 10 s.
    pub reconnect_delay_max: Duration,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            message_bytes_max: 64 << 20,
            queue_bytes_max: 128 << 20,
            stall_timeout: Duration::from_secs(45),
            lag_slots_max: 150,
            archive_timeout: Duration::from_secs(300),
            reconnect_delay_min: Duration::from_millis(250),
            reconnect_delay_max: Duration::from_secs(10),
        }
    }
}

pub(crate) enum Message {
    /// A stream was opened. Its number rises.
    Opened {
        session: u64,
        start: StreamStart,
    },
    /// Updates of a stream, as they were received.
    Updates {
        session: u64,
        received: Instant,
        updates: Vec<(convert::Converted, usize)>,
        _permit: OwnedSemaphorePermit,
    },
    Closed(u64),
    /// Votes with valid signatures.
    Votes(Vec<SignedVote>),
    /// The transactions of a bank were checked.
    Checked(CheckedBank),
    /// The transactions of a bank were executed, with the results that the source reported.
    Executed(BlockId),
    /// Hashes that an independent source lists.
    Reports(Reports),
    /// The confirmed state is requested.
    State(oneshot::Sender<ConfirmedState>),
    /// The ledger jumps to the block of an archive.
    Jump(Box<Jump>),
    Tick(Instant),
}

/// Bank hashes that an independent source lists.
pub(crate) struct Reports {
    pub(crate) source: u16,
    /// Slots and hashes, the newest first.
    pub(crate) hashes: Vec<(Slot, Hash)>,
    /// One message of a source is on its way at a time.
    pub(crate) _permit: OwnedSemaphorePermit,
}

pub(crate) fn source_update(
    source: SourceId,
    converted: convert::Converted,
    bytes: usize,
) -> Update<WrittenAccount, Arc<ExecutedTransaction>, BlockFacts> {
    let convert::Converted { slot, bank_id, kind } = converted;
    Update { source, slot, bank_id, bytes, kind }
}

/// An open stream of a source.
struct OpenStream {
    session: u64,
    /// The index of the source.
    at: usize,
    requests: mpsc::Sender<SubscribeRequest>,
    progress: StreamProgress,
    footers: Footers,
}

/// The start of a stream above a gap.
#[derive(Clone, Copy)]
struct DetachedStart {
    /// Whether the source has refused the slot after the root.
    was_refused: bool,
    /// Slots between the oldest one that the source can replay and the start. The window moves on while the request is
    /// on its way.
    margin: u64,
}

/// Connects to sources and sends their updates.
pub(crate) struct Streams {
    pub(crate) sources: Vec<SourceConfig>,
    /// Of each source: whether its entries and footers are requested. No more once it has refused the request.
    pub(crate) with_entries: Vec<bool>,
    pub(crate) config: StreamConfig,
    pub(crate) status: Arc<FollowStatus>,
    pub(crate) messages: mpsc::Sender<Message>,
    /// The last session in which the writer found a gap.
    pub(crate) gaps: watch::Receiver<u64>,
    pub(crate) permits: Arc<Semaphore>,
    /// Whether an upstream provides archives that close gaps.
    pub(crate) has_archives: bool,
}

/// The channel between the streams and the writer.
pub(crate) fn message_channel(
    config: &StreamConfig,
) -> (mpsc::Sender<Message>, mpsc::Receiver<Message>, Arc<Semaphore>) {
    let (sender, receiver) = mpsc::channel(BATCHES_MAX);
    (sender, receiver, Arc::new(Semaphore::new(queue_permits(config))))
}

/// Permits of the queue, of [`PERMIT_BYTES`] each.
fn queue_permits(config: &StreamConfig) -> usize {
    config.queue_bytes_max.div_ceil(PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS)
}

impl Streams {
    /// Runs until the writer has ended.
    pub(crate) async fn run(mut self) {
        let mut session = 0;
        let mut at = 0;
        let mut failures = 0_u32;
        let mut gaps = GapRounds::new(self.sources.len());
        let mut margin = 0;
        let slots = SourceSlots::new(self.sources.len());
        loop {
            session += 1;
            let source = self.sources[at].clone();
            let root = self.status.root();
            let detached = self
                .starts_above(&gaps)
                .then(|| DetachedStart { was_refused: gaps.was_refused(at), margin });
            let end = self.follow(session, at, &slots, detached).await;
            self.status.is_connected.store(false, Ordering::Relaxed);
            let (Err(end) | Ok(end)) = end;
            if matches!(end, StreamEnd::WriterEnded)
                || self.messages.send(Message::Closed(session)).await.is_err()
            {
                return;
            }
            let text = format!("{}: {}", source.server(), describe_error(&end));
            *self.status.last_stream_end.lock() = Some(text);
            log_end(&source.server(), &end);
            self.status.left_streams.fetch_add(u64::from(end.is_choice()), Ordering::Relaxed);
            if matches!(end, StreamEnd::NoBank(_) | StreamEnd::FarSlot { .. }) {
                slots.doubt(at, now());
            }
            if self.refuses_entries(at, &end) {
                continue;
            }
            // The window moved on while the request was on its way: a pause would only lose more slots.
            if detached.is_some() && end.is_out_of_window() {
                let is_first = margin < MARGIN_SLOTS_MAX;
                margin = margin.saturating_mul(2).clamp(1, MARGIN_SLOTS_MAX);
                if is_first {
                    gaps.record_refusal(at);
                    continue;
                }
            } else {
                margin = 0;
            }
            // A source that moved the root was healthy; it is tried again first.
            if self.status.root() > root && !matches!(end, StreamEnd::Lagging { .. }) {
                failures = 0;
                gaps = GapRounds::new(self.sources.len());
                continue;
            }
            gaps.record(at, &end);
            if matches!(end, StreamEnd::NoArchive(_)) {
                // Another source may have the banks now.
                gaps = GapRounds::new(self.sources.len());
            }
            if detached.is_none() && gaps.was_refused(at) && self.starts_above(&gaps) {
                // It can start above the gap. The others may have stalled, and would again.
                continue;
            }
            failures = failures.saturating_add(1);
            let next = (at + 1) % self.sources.len();
            if next != at {
                // The window of another source need not move as fast.
                margin = 0;
            }
            at = next;
            let rounds = failures / self.sources.len() as u32;
            if rounds > 0 && failures.is_multiple_of(self.sources.len() as u32) {
                let factor = 1_u32 << rounds.saturating_sub(1).min(16);
                let delay = self.config.reconnect_delay_min.saturating_mul(factor);
                tokio::select! {
                    () = tokio::time::sleep(delay.min(self.config.reconnect_delay_max)) => {}
                    () = self.messages.closed() => return,
                }
            }
        }
    }

    /// Whether the next stream starts above the gap: an archive can close it.
    fn starts_above(&self, gaps: &GapRounds) -> bool {
        self.has_archives && gaps.are_lasting() && self.status.mismatch().is_none()
    }

    /// Whether a source may have refused a request for its entries: its operator does not serve them. The next request
    /// to it has none.
    fn refuses_entries(&mut self, at: usize, end: &StreamEnd) -> bool {
        let StreamEnd::Refused(status) = end else { return false };
        let may_be = status.code() == tonic::Code::InvalidArgument;
        let refuses = may_be && std::mem::replace(&mut self.with_entries[at], false);
        if refuses {
            let server = self.sources[at].server();
            tracing::warn!(%server, "entries and block footers are not requested any more");
        }
        refuses
    }

    /// Follows one stream: from the slot after the root, or above a gap if it is detached.
    async fn follow(
        &mut self,
        session: u64,
        at: usize,
        slots: &SourceSlots,
        detached: Option<DetachedStart>,
    ) -> Result<StreamEnd, StreamEnd> {
        let source = self.sources[at].clone();
        let client = connect(&source, &self.config).await?;
        let token = parse_token(&source)?;
        let next = self.status.root() + 1;
        let (start, from_slot) = match detached {
            None => (StreamStart::AfterRoot, Some(next)),
            Some(DetachedStart { was_refused, margin }) => {
                match first_available(&client, token.as_ref()).await {
                    // Whatever it refused, it has what follows the root now.
                    Some(first) if first <= next && was_refused => {
                        (StreamStart::AfterRoot, Some(next))
                    }
                    Some(first) => {
                        let newest = match margin {
                            0 => None,
                            _ => newest_slot(&client, token.as_ref()).await,
                        };
                        (StreamStart::AtSlot, Some(choose_start(first, newest, margin).max(next)))
                    }
                    None if was_refused => (StreamStart::MidSlot, None),
                    None => (StreamStart::MidSlot, Some(next)),
                }
            }
        };
        let request = subscribe_request(from_slot, self.with_entries[at]);
        let (updates, requests) = subscribe(&client, token.as_ref(), request).await?;
        self.send(Message::Opened { session, start }).await?;
        self.status.sessions.fetch_add(1, Ordering::Relaxed);
        self.status.is_connected.store(true, Ordering::Relaxed);
        tracing::info!(server = %source.server(), from_slot, ?start, "following a source");
        let StreamConfig { stall_timeout, lag_slots_max, .. } = self.config;
        let root = self.status.root();
        let progress =
            StreamProgress::new(slots.clone(), at, stall_timeout, lag_slots_max, root, now());
        let mut polls = tokio::task::JoinSet::new();
        polls.spawn(poll_slot(client, token, slots.clone(), at));
        let others = self.sources.iter().enumerate().filter(|(other, _)| *other != at);
        for (other, source) in others {
            polls.spawn(poll_other(source.clone(), self.config.clone(), slots.clone(), other));
        }
        let footers = Footers::default();
        let open = OpenStream { session, at, requests, progress, footers };
        self.receive(updates, open).await
    }

    async fn receive(
        &mut self,
        mut stream: tonic::Streaming<SubscribeUpdate>,
        mut open: OpenStream,
    ) -> Result<StreamEnd, StreamEnd> {
        let mut ticks = tokio::time::interval(TICK_INTERVAL);
        let stall = self.config.stall_timeout;
        let mut received_at = now();
        let mut attached_at = now();
        loop {
            let batch = tokio::select! {
                batch = next_batch(&mut stream) => batch,
                changed = self.gaps.changed() => {
                    let gap = *self.gaps.borrow_and_update();
                    match changed {
                        Ok(()) if gap != open.session => continue,
                        Ok(()) => return Ok(StreamEnd::Gap),
                        Err(_) => return Ok(StreamEnd::WriterEnded),
                    }
                }
                _ = ticks.tick() => {
                    if now() - received_at > stall {
                        return Ok(StreamEnd::Stalled(stall));
                    }
                    let archive_timeout = self.config.archive_timeout;
                    if !self.status.needs_archive() {
                        attached_at = now();
                    } else if now() - attached_at > archive_timeout {
                        return Ok(StreamEnd::NoArchive(archive_timeout));
                    }
                    let all = queue_permits(&self.config);
                    let free = self.permits.available_permits();
                    let queued = all.saturating_sub(free) * PERMIT_BYTES + open.footers.bytes();
                    self.status.queued_bytes.store(queued as u64, Ordering::Relaxed);
                    // Until a source says its slot, that of the one before it counts.
                    let newest = Some(open.progress.newest_at_source()).filter(|slot| *slot > 0);
                    newest.inspect(|slot| self.status.upstream.store(*slot, Ordering::Relaxed));
                    let limit = self.config.lag_slots_max;
                    let handled = *self.status.handled_stream.lock();
                    let handled = handled.filter(|handled| handled.session == open.session);
                    let is_full = free < all / 2;
                    let standstill = handled.and_then(|it| open.progress.standstill(&it, is_full));
                    match standstill {
                        None => {}
                        Some(Standstill::Stalled) => return Ok(StreamEnd::NoBank(stall)),
                        Some(Standstill::Lagging(slots)) => {
                            return Ok(StreamEnd::Lagging { slots, limit, timeout: stall });
                        }
                    }
                    self.send(Message::Tick(now())).await?;
                    continue;
                }
            };
            received_at = now();
            let Some(batch) = batch else { return Ok(StreamEnd::Ended) };
            self.forward(&mut open, batch, received_at).await?;
        }
    }

    /// Sends the updates of a batch up to the first failure.
    async fn forward(
        &self,
        open: &mut OpenStream,
        batch: Vec<Result<(SubscribeUpdate, usize), tonic::Status>>,
        received: Instant,
    ) -> Result<(), StreamEnd> {
        let OpenStream { session, at, requests, progress, footers } = open;
        let newest = progress.newest_known().max(self.status.processed());
        let is_far = |slot: Slot| slot > newest.saturating_add(FAR_SLOTS_MAX);
        // A source that does not say its slot may be far ahead of what is known here.
        let has_said_slot = progress.newest_at_source() > 0;
        let mut updates = Vec::with_capacity(batch.len());
        let mut bytes = 0;
        let mut end = Ok(());
        for message in batch {
            let received_message = message.map_err(|status| self.refusal(status));
            let converted = received_message.and_then(|(message, message_bytes)| {
                match message.update_oneof {
                    Some(UpdateOneof::Ping(_)) => {
                        let ping = Some(SubscribeRequestPing { id: 1 });
                        // Without space, earlier replies are still unsent.
                        let _ = requests.try_send(SubscribeRequest { ping, ..Default::default() });
                        Ok(None)
                    }
                    Some(UpdateOneof::BlockFooter(footer)) => {
                        footers.insert(footer);
                        Ok(None)
                    }
                    Some(update) => {
                        // Any status but "dead" follows a shred of the slot.
                        if let UpdateOneof::Slot(slot) = &update
                            && !is_far(slot.slot)
                        {
                            self.status.cluster.shred_slot.fetch_max(slot.slot, Ordering::Relaxed);
                        }
                        let converted = convert::update(update)?;
                        Ok(converted.map(|mut converted| {
                            if !self.with_entries[*at] {
                                converted.expect_no_entries();
                            }
                            converted.add_footer(footers);
                            let memory_bytes = converted.memory_bytes(message_bytes);
                            (converted, memory_bytes)
                        }))
                    }
                    None => Ok(None),
                }
            });
            match converted {
                Ok(Some((converted, _))) if has_said_slot && is_far(converted.slot) => {
                    let slot = converted.slot;
                    end = Err(StreamEnd::FarSlot { slot, newest, limit: FAR_SLOTS_MAX });
                    break;
                }
                Ok(Some((converted, memory_bytes))) => {
                    progress.record(converted.slot);
                    bytes += memory_bytes;
                    updates.push((converted, memory_bytes));
                }
                Ok(None) => {}
                Err(err) => {
                    end = Err(err);
                    break;
                }
            }
        }
        if !updates.is_empty() {
            let permits = bytes.div_ceil(PERMIT_BYTES).min(queue_permits(&self.config));
            let permits = u32::try_from(permits).unwrap_or(u32::MAX);
            let permit = Arc::clone(&self.permits).acquire_many_owned(permits).await;
            let permit = permit.map_err(|_| StreamEnd::WriterEnded)?;
            let session = *session;
            self.send(Message::Updates { session, received, updates, _permit: permit }).await?;
        }
        end
    }

    /// tonic has no code of its own for its limit.
    fn refusal(&self, status: tonic::Status) -> StreamEnd {
        let text = status.message();
        if text.contains("length too large") || text.contains("size limit") {
            let limit = self.config.message_bytes_max;
            return StreamEnd::MessageTooLarge { limit, status };
        }
        StreamEnd::Refused(status)
    }

    async fn send(&self, message: Message) -> Result<(), StreamEnd> {
        self.messages.send(message).await.map_err(|_| StreamEnd::WriterEnded)
    }
}

/// Returns the available messages, with their bytes, up to one that is awaited, and at least one; `None` if the stream
/// has ended.
async fn next_batch(
    stream: &mut tonic::Streaming<SubscribeUpdate>,
) -> Option<Vec<Result<(SubscribeUpdate, usize), tonic::Status>>> {
    let sized = |message: SubscribeUpdate| {
        let bytes = message.encoded_len();
        (message, bytes)
    };
    let first = stream.next().await?;
    let mut is_last = first.as_ref().is_ok_and(is_awaited);
    let mut batch = vec![first.map(sized)];
    let mut bytes = 0;
    while !is_last && batch.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
        let Some(Some(next)) = stream.next().now_or_never() else { break };
        is_last = next.as_ref().is_ok_and(is_awaited);
        let next = next.map(sized);
        bytes += next.as_ref().map_or(0, |(_, bytes)| *bytes);
        batch.push(next);
    }
    Some(batch)
}

/// Whether readers wait for the effect of a message: a bank freezes, is whole, or is confirmed by its child.
fn is_awaited(message: &SubscribeUpdate) -> bool {
    match &message.update_oneof {
        Some(UpdateOneof::BlockMeta(_)) => true,
        Some(UpdateOneof::Account(update)) => {
            let awaited = [sysvar::slot_history::ID, sysvar::slot_hashes::ID];
            let pubkey = update.account.as_ref().map(|account| &account.pubkey[..]);
            pubkey.is_some_and(|pubkey| awaited.iter().any(|id| id.as_ref() == pubkey))
        }
        _ => false,
    }
}

/// Parses the value of `x-token`.
pub(crate) fn parse_token(
    source: &SourceConfig,
) -> Result<Option<MetadataValue<Ascii>>, StreamEnd> {
    let token = source.x_token.as_deref().map(MetadataValue::<Ascii>::try_from).transpose();
    token.map_err(|_| StreamEnd::Token)
}

/// Opens a stream. Returns it, and the sender of further requests.
pub(crate) async fn subscribe(
    client: &GeyserClient<Channel>,
    token: Option<&MetadataValue<Ascii>>,
    first: SubscribeRequest,
) -> Result<(tonic::Streaming<SubscribeUpdate>, mpsc::Sender<SubscribeRequest>), StreamEnd> {
    let (requests, receiver) = mpsc::channel::<SubscribeRequest>(4);
    // The queue is new and has space for it.
    let _ = requests.try_send(first);
    let receiver = futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|request| (request, receiver))
    });
    let mut request = tonic::Request::new(receiver);
    if let Some(token) = token {
        request.metadata_mut().insert("x-token", token.clone());
    }
    let mut subscriber = client.clone();
    let response = tokio::time::timeout(CONNECT_TIMEOUT, subscriber.subscribe(request)).await;
    let response = response.map_err(|_| StreamEnd::Stalled(CONNECT_TIMEOUT))?;
    Ok((response.map_err(StreamEnd::Refused)?.into_inner(), requests))
}

pub(crate) async fn connect(
    source: &SourceConfig,
    config: &StreamConfig,
) -> Result<GeyserClient<Channel>, StreamEnd> {
    connect_within(CONNECT_TIMEOUT, source, config).await
}

/// Connects to a source. `timeout` limits the TCP handshake and the TLS handshake, each.
async fn connect_within(
    timeout: Duration,
    source: &SourceConfig,
    config: &StreamConfig,
) -> Result<GeyserClient<Channel>, StreamEnd> {
    let endpoint = Endpoint::from_shared(source.url.clone()).map_err(StreamEnd::Connect)?;
    let mut endpoint = endpoint
        .connect_timeout(timeout)
        .tcp_nodelay(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    if source.url.starts_with("https://") {
        let tls = ClientTlsConfig::new().with_native_roots().timeout(timeout);
        endpoint = endpoint.tls_config(tls).map_err(StreamEnd::Connect)?;
    }
    let channel = endpoint.connect().await.map_err(StreamEnd::Connect)?;
    Ok(GeyserClient::new(channel)
        .max_decoding_message_size(config.message_bytes_max)
        .accept_compressed(CompressionEncoding::Zstd))
}

/// Everything of every bank from a slot on, or from now on. Entries and footers only for servers that pass them on.
fn subscribe_request(from_slot: Option<Slot>, with_entries: bool) -> SubscribeRequest {
    let name = || FILTER.to_owned();
    let slots = SubscribeRequestFilterSlots {
        interslot_updates: Some(true),
        ..SubscribeRequestFilterSlots::default()
    };
    let entries = with_entries.then(|| (name(), SubscribeRequestFilterEntry::default()));
    let footer = SubscribeRequestFilterBlockFooter { include_certificates: Some(true) };
    let footers = with_entries.then(|| (name(), footer));
    SubscribeRequest {
        entry: entries.into_iter().collect(),
        block_footer: footers.into_iter().collect(),
        accounts: [(name(), SubscribeRequestFilterAccounts::default())].into(),
        transactions: [(name(), SubscribeRequestFilterTransactions::default())].into(),
        blocks_meta: [(name(), SubscribeRequestFilterBlocksMeta::default())].into(),
        slots: [(name(), slots)].into(),
        commitment: Some(CommitmentLevel::Processed.into()),
        from_slot,
        ..SubscribeRequest::default()
    }
}

/// The oldest slot that a source can replay; `None` if it does not say.
async fn first_available(
    client: &GeyserClient<Channel>,
    token: Option<&MetadataValue<Ascii>>,
) -> Option<Slot> {
    let mut request = tonic::Request::new(SubscribeReplayInfoRequest {});
    request.set_timeout(CONNECT_TIMEOUT);
    if let Some(token) = token {
        request.metadata_mut().insert("x-token", token.clone());
    }
    let response = client.clone().subscribe_replay_info(request).await.ok()?;
    response.into_inner().first_available
}

/// The newest slot of a source; `None` if it does not say.
async fn newest_slot(
    client: &GeyserClient<Channel>,
    token: Option<&MetadataValue<Ascii>>,
) -> Option<Slot> {
    let commitment = Some(CommitmentLevel::Processed.into());
    let mut request = tonic::Request::new(GetSlotRequest { commitment });
    request.set_timeout(CONNECT_TIMEOUT);
    if let Some(token) = token {
        request.metadata_mut().insert("x-token", token.clone());
    }
    let response = client.clone().get_slot(request).await.ok()?;
    Some(response.into_inner().slot)
}

/// Returns the start of a stream in a source's window, which has the slots from `first` to `newest`. The margin takes at
/// most half of it: the start must not be above the window, and each slot below the start is lost.
fn choose_start(first: Slot, newest: Option<Slot>, margin: u64) -> Slot {
    let half = newest.map(|newest| newest.saturating_sub(first).div_ceil(2));
    first.saturating_add(half.map_or(margin, |half| margin.min(half)))
}

/// Requests the newest slot of a source periodically. A source without this call is not an error.
async fn poll_slot(
    client: GeyserClient<Channel>,
    token: Option<MetadataValue<Ascii>>,
    slots: SourceSlots,
    source: usize,
) {
    let mut ticks = tokio::time::interval(SLOT_INTERVAL);
    loop {
        ticks.tick().await;
        if let Some(slot) = newest_slot(&client, token.as_ref()).await {
            slots.record(source, slot);
        }
    }
}

/// As [`poll_slot`], of a source that is not followed now. One that cannot be reached says nothing.
async fn poll_other(source: SourceConfig, config: StreamConfig, slots: SourceSlots, at: usize) {
    let (Ok(client), Ok(token)) = (connect(&source, &config).await, parse_token(&source)) else {
        return;
    };
    poll_slot(client, token, slots, at).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_above_a_gap_starts_within_the_window_of_its_source() {
        assert_eq!(choose_start(1_000, Some(2_000), 64), 1_064);
        // A short window: half of it, and more than nothing, because it moves on.
        assert_eq!(choose_start(1_000, Some(1_020), 64), 1_010);
        assert_eq!(choose_start(1_000, Some(1_001), 64), 1_001);
        assert_eq!(choose_start(1_000, Some(1_000), 64), 1_000);
        // A source that lies, and one that does not say.
        assert_eq!(choose_start(1_000, Some(900), 64), 1_000);
        assert_eq!(choose_start(1_000, None, 64), 1_064);
    }

    #[tokio::test]
    async fn a_source_that_never_answers_the_tls_handshake_is_left() {
        // The system accepts the connection, and no program reads it.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let source = SourceConfig { url: format!("https://{address}"), x_token: None };
        let config = StreamConfig::default();
        let connecting = connect_within(Duration::from_millis(20), &source, &config);
        let connected = tokio::time::timeout(Duration::from_secs(120), connecting).await;
        let end = connected.expect("it ends").expect_err("the source is silent");
        let text = describe_error(&end);
        assert!(text.contains("TLS handshake timeout"), "{text}");
    }
}
