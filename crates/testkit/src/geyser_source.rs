//! A server of Yellowstone gRPC that says what a test scripts.
//!
//! In: updates, which every stream gets in this order from its `from_slot` on; cuts; the updates of later streams. Out:
//! the requests that came.
//! Bounds: the script, which stays in memory.

use std::net::SocketAddr;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use futures_util::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};
use yellowstone_grpc_proto::geyser::geyser_server::{Geyser, GeyserServer};
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::*;

type Updates = Pin<Box<dyn Stream<Item = Result<SubscribeUpdate, Status>> + Send>>;

type Damage = Arc<dyn Fn(&mut SubscribeUpdate) + Send + Sync>;

/// A scripted source. Clones are the same one.
#[derive(Clone)]
pub struct Source(Arc<Shared>);

struct Shared {
    /// Each with the sessions that get it.
    log: Mutex<Vec<(Range<usize>, SubscribeUpdate)>>,
    len: watch::Sender<usize>,
    /// Rises when all streams are cut.
    cuts: watch::Sender<u64>,
    requests: Mutex<Vec<SubscribeRequest>>,
    /// The updates of the streams after the first one.
    later: Mutex<Option<Vec<SubscribeUpdate>>>,
    newest: AtomicU64,
    /// The oldest slot that can be replayed; 0 if the source does not say it and refuses none.
    first_available: AtomicU64,
    /// Slots by which the window moves on after each response that names its oldest one.
    window_step: AtomicU64,
    /// The faults in the updates of the first sessions.
    damage: Mutex<(usize, Option<Damage>)>,
    sessions: AtomicUsize,
    refuses_entries: AtomicBool,
    token: Option<&'static str>,
}

impl Source {
    /// A source that wants `token`, if there is one.
    pub fn new(token: Option<&'static str>) -> Self {
        Self(Arc::new(Shared {
            log: Mutex::default(),
            len: watch::Sender::new(0),
            cuts: watch::Sender::new(0),
            requests: Mutex::default(),
            later: Mutex::default(),
            newest: AtomicU64::new(0),
            first_available: AtomicU64::new(0),
            window_step: AtomicU64::new(0),
            damage: Mutex::default(),
            sessions: AtomicUsize::new(0),
            refuses_entries: AtomicBool::new(false),
            token,
        }))
    }

    /// Serves on a free port of the loopback.
    pub async fn serve(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        let server = tonic::transport::Server::builder();
        let service = GeyserServer::new(self.clone());
        tokio::spawn(async move { server.serve_with_incoming(service, incoming).await });
        address
    }

    /// Sends updates to all streams, and to those that come later.
    pub fn send(&self, updates: impl IntoIterator<Item = SubscribeUpdate>) {
        let mut log = self.0.log.lock();
        log.extend(updates.into_iter().map(|update| (0..usize::MAX, update)));
        self.0.len.send_replace(log.len());
    }

    /// Sends `damaged` updates to the sessions so far, and `right` ones to those that come later.
    pub fn send_damaged(
        &self,
        damaged: impl IntoIterator<Item = SubscribeUpdate>,
        right: impl IntoIterator<Item = SubscribeUpdate>,
    ) {
        let next = self.0.sessions.load(Ordering::Relaxed);
        let mut log = self.0.log.lock();
        log.extend(damaged.into_iter().map(|update| (0..next, update)));
        log.extend(right.into_iter().map(|update| (next..usize::MAX, update)));
        self.0.len.send_replace(log.len());
    }

    /// Removes the updates below a slot, so that they are no longer sent.
    pub fn forget_below(&self, slot: u64) {
        for (sessions, _) in self.0.log.lock().iter_mut().filter(|(_, it)| slot_of(it) < slot) {
            *sessions = 0..0;
        }
    }

    /// Streams that start below a slot are refused from now on.
    pub fn limit_replay(&self, first_available: u64) {
        self.0.first_available.store(first_available, Ordering::Relaxed);
    }

    /// Moves the window on by `slots` after each response that names its oldest slot, as a busy source's window moves
    /// before the next request arrives.
    pub fn move_window(&self, slots: u64) {
        self.0.window_step.store(slots, Ordering::Relaxed);
    }

    /// Removes updates from what later streams get.
    pub fn forget(&self, is_forgotten: impl Fn(&SubscribeUpdate) -> bool) {
        self.0.log.lock().retain(|(_, update)| !is_forgotten(update));
    }

    /// Damages what the next sessions get, up to this number of them.
    pub fn damage(
        &self,
        sessions: usize,
        damage: impl Fn(&mut SubscribeUpdate) + Send + Sync + 'static,
    ) {
        let sessions = sessions.saturating_add(self.0.sessions.load(Ordering::Relaxed));
        *self.0.damage.lock() = (sessions, Some(Arc::new(damage)));
    }

    /// Replaces the script for all streams after the first one, as if the source had been repaired.
    pub fn repair_after_first_stream(&self, updates: Vec<SubscribeUpdate>) {
        *self.0.later.lock() = Some(updates);
    }

    /// Refuses requests for entries, as a server does whose operator does not serve them.
    pub fn refuse_entries(&self) {
        self.0.refuses_entries.store(true, Ordering::Relaxed);
    }

    /// Ends all streams.
    pub fn cut(&self) {
        self.0.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Sets the slot that `GetSlot` answers.
    pub fn set_newest(&self, slot: u64) {
        self.0.newest.store(slot, Ordering::Relaxed);
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<SubscribeRequest> {
        self.0.requests.lock().clone()
    }
}

/// The slot of an update.
pub fn slot_of(update: &SubscribeUpdate) -> u64 {
    match &update.update_oneof {
        Some(UpdateOneof::Account(it)) => it.slot,
        Some(UpdateOneof::Slot(it)) => it.slot,
        Some(UpdateOneof::Transaction(it)) => it.slot,
        Some(UpdateOneof::BlockMeta(it)) => it.slot,
        Some(UpdateOneof::Entry(it)) => it.slot,
        _ => u64::MAX,
    }
}

#[tonic::async_trait]
impl Geyser for Source {
    type SubscribeStream = Updates;
    type SubscribeDeshredStream =
        Pin<Box<dyn Stream<Item = Result<SubscribeUpdateDeshred, Status>> + Send>>;
    type SubscribeGossipStream =
        Pin<Box<dyn Stream<Item = Result<SubscribeUpdateGossip, Status>> + Send>>;

    async fn subscribe(
        &self,
        request: Request<Streaming<SubscribeRequest>>,
    ) -> Result<Response<Updates>, Status> {
        let token = request.metadata().get("x-token").and_then(|token| token.to_str().ok());
        if token != self.0.token {
            return Err(Status::unauthenticated("no valid auth token"));
        }
        let mut requests = request.into_inner();
        let first =
            requests.next().await.ok_or_else(|| Status::invalid_argument("no request"))??;
        if self.0.refuses_entries.load(Ordering::Relaxed) && !first.entry.is_empty() {
            return Err(Status::invalid_argument("entry: at most 0 filters are allowed"));
        }
        let first_available = self.0.first_available.load(Ordering::Relaxed);
        let from_slot = first.from_slot.unwrap_or(first_available);
        if from_slot < first_available {
            let text = format!("from_slot {from_slot} is not available, first: {first_available}");
            return Err(Status::out_of_range(text));
        }
        let shared = Arc::clone(&self.0);
        let session = shared.sessions.fetch_add(1, Ordering::Relaxed);
        if session > 0
            && let Some(later) = shared.later.lock().take()
        {
            *shared.log.lock() = later.into_iter().map(|update| (0..usize::MAX, update)).collect();
        }
        let (damaged, damage) = shared.damage.lock().clone();
        let damage = damage.filter(|_| session < damaged);
        shared.requests.lock().push(first);
        let later = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Some(Ok(request)) = requests.next().await {
                later.requests.lock().push(request);
            }
        });
        let state = (shared.len.subscribe(), shared.cuts.subscribe(), 0, shared);
        let updates = futures_util::stream::unfold((state, damage), move |state| async move {
            let ((mut len, mut cuts, mut at, shared), damage) = state;
            loop {
                let next = shared.log.lock().get(at).map(|(sessions, update)| {
                    let is_meant = sessions.contains(&session) && slot_of(update) >= from_slot;
                    is_meant.then(|| update.clone())
                });
                if let Some(update) = next {
                    at += 1;
                    if let Some(mut update) = update {
                        if let Some(damage) = &damage {
                            damage(&mut update);
                        }
                        return Some((Ok(update), ((len, cuts, at, shared), damage)));
                    }
                    continue;
                }
                tokio::select! {
                    changed = len.changed() => changed.ok()?,
                    _ = cuts.changed() => return None,
                }
            }
        });
        Ok(Response::new(Box::pin(updates)))
    }

    async fn subscribe_deshred(
        &self,
        _: Request<Streaming<SubscribeDeshredRequest>>,
    ) -> Result<Response<Self::SubscribeDeshredStream>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn subscribe_gossip(
        &self,
        _: Request<SubscribeGossipRequest>,
    ) -> Result<Response<Self::SubscribeGossipStream>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn subscribe_replay_info(
        &self,
        _: Request<SubscribeReplayInfoRequest>,
    ) -> Result<Response<SubscribeReplayInfoResponse>, Status> {
        if self.0.first_available.load(Ordering::Relaxed) == 0 {
            return Err(Status::unimplemented("not scripted"));
        }
        let slots = self.0.window_step.load(Ordering::Relaxed);
        let first = self.0.first_available.fetch_add(slots, Ordering::Relaxed);
        Ok(Response::new(SubscribeReplayInfoResponse { first_available: Some(first) }))
    }

    async fn ping(&self, _: Request<PingRequest>) -> Result<Response<PongResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn get_latest_blockhash(
        &self,
        _: Request<GetLatestBlockhashRequest>,
    ) -> Result<Response<GetLatestBlockhashResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn get_block_height(
        &self,
        _: Request<GetBlockHeightRequest>,
    ) -> Result<Response<GetBlockHeightResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn get_slot(
        &self,
        _: Request<GetSlotRequest>,
    ) -> Result<Response<GetSlotResponse>, Status> {
        let slot = self.0.newest.load(Ordering::Relaxed);
        Ok(Response::new(GetSlotResponse { slot }))
    }

    async fn is_blockhash_valid(
        &self,
        _: Request<IsBlockhashValidRequest>,
    ) -> Result<Response<IsBlockhashValidResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn get_version(
        &self,
        _: Request<GetVersionRequest>,
    ) -> Result<Response<GetVersionResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }
}
