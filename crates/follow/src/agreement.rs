//! The bank hashes that independent sources list.
//!
//! In: the SlotHashes sysvar of each source, which every bank writes; a provider that sends one account is enough. Out:
//! reports to the writer, in messages.
//! Bounds: a message of at most [`MESSAGE_BYTES_MAX`]; of each source one message waits for the writer, with at most
//! [`REPORTS_MAX`] hashes. A source that sends nothing is closed after `stall_timeout`, and connected to again.
//! Invariant: a source that says nothing agrees with nothing.
//! Not here: how many must agree, and whether they do (`verify`).

use std::sync::Arc;

use futures_util::StreamExt;
use ledger::Slot;
use solana_hash::Hash;
use solana_sdk_ids::sysvar;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::WeakSender;
use tokio::time::Instant;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, SubscribeRequest, SubscribeRequestFilterAccounts, SubscribeRequestPing,
};

use crate::clock::now;
use crate::proof_status::{ProofStatus, SourceStatus};
use crate::stream::{
    FILTER, Message, Reports, SourceConfig, StreamConfig, connect, parse_token, subscribe,
};
use crate::stream_end::{StreamEnd, log_end};

/// Bytes of a message: the sysvar has 20,488.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Hashes that are reported at once; the sysvar has as many.
const REPORTS_MAX: usize = 512;

/// The independent sources of a follower.
pub(crate) struct AgreementSources {
    pub(crate) sources: Vec<SourceConfig>,
    pub(crate) config: StreamConfig,
    pub(crate) proof: Arc<ProofStatus>,
    pub(crate) messages: WeakSender<Message>,
}

impl AgreementSources {
    /// Starts a task for each source. They end with the returned set, or once the writer has ended.
    pub(crate) fn start(self) -> tokio::task::JoinSet<()> {
        let config = StreamConfig { message_bytes_max: MESSAGE_BYTES_MAX, ..self.config };
        let mut tasks = tokio::task::JoinSet::new();
        for (number, source) in (0..).zip(self.sources) {
            let task = AgreementSource {
                number,
                source,
                config: config.clone(),
                proof: Arc::clone(&self.proof),
                messages: self.messages.clone(),
                permit: Arc::new(Semaphore::new(1)),
                newest: 0,
            };
            tasks.spawn(task.run());
        }
        tasks
    }
}

struct AgreementSource {
    number: u16,
    source: SourceConfig,
    config: StreamConfig,
    proof: Arc<ProofStatus>,
    messages: WeakSender<Message>,
    permit: Arc<Semaphore>,
    /// The newest slot that was reported.
    newest: Slot,
}

impl AgreementSource {
    async fn run(mut self) {
        let mut delay = self.config.reconnect_delay_min;
        loop {
            let newest = self.newest;
            let (Ok(end) | Err(end)) = self.follow().await;
            self.set_connected(false);
            if matches!(end, StreamEnd::WriterEnded) {
                return;
            }
            log_end(&self.source.server(), &end);
            // A source that listed something was healthy.
            let is_healthy = self.newest > newest;
            delay = if is_healthy { self.config.reconnect_delay_min } else { delay };
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(self.config.reconnect_delay_max);
        }
    }

    async fn follow(&mut self) -> Result<StreamEnd, StreamEnd> {
        let client = connect(&self.source, &self.config).await?;
        let token = parse_token(&self.source)?;
        let (mut updates, requests) =
            subscribe(&client, token.as_ref(), subscribe_request()).await?;
        self.set_connected(true);
        let server = self.source.server();
        tracing::info!(%server, "following a source of bank hashes");
        let stall = self.config.stall_timeout;
        let mut listed_at = Instant::from_std(now());
        loop {
            // Only the sysvar counts: a source that merely replies to pings confirms no bank.
            let next = tokio::time::timeout_at(listed_at + stall, updates.next()).await;
            let Some(update) = next.map_err(|_| StreamEnd::Stalled(stall))? else {
                return Ok(StreamEnd::Ended);
            };
            match update.map_err(StreamEnd::Refused)?.update_oneof {
                Some(UpdateOneof::Ping(_)) => {
                    let ping = Some(SubscribeRequestPing { id: 1 });
                    // Without space, earlier replies are still unsent.
                    let _ = requests.try_send(SubscribeRequest { ping, ..Default::default() });
                }
                Some(UpdateOneof::Account(update)) => {
                    let Some(account) = update.account else { continue };
                    if account.pubkey == sysvar::slot_hashes::ID.to_bytes() {
                        self.report(&account.data).await?;
                        listed_at = Instant::from_std(now());
                    }
                }
                _ => {}
            }
        }
    }

    /// Sends the new entries of the sysvar: its newest one, and those above the newest reported slot.
    async fn report(&mut self, data: &[u8]) -> Result<(), StreamEnd> {
        let entries = verify::slot_hashes(data).take(REPORTS_MAX).enumerate();
        let new = entries.take_while(|(at, (slot, _))| *at == 0 || *slot > self.newest);
        let hashes: Vec<(Slot, Hash)> = new.map(|(_, entry)| entry).collect();
        let Some((slot, _)) = hashes.first() else { return Ok(()) };
        self.newest = self.newest.max(*slot);
        if let Some(status) = self.status() {
            status.list(*slot);
        }
        let permit = Arc::clone(&self.permit).acquire_owned().await;
        let permit = permit.map_err(|_| StreamEnd::WriterEnded)?;
        let reports = Reports { source: self.number, hashes, _permit: permit };
        let messages = self.messages.upgrade().ok_or(StreamEnd::WriterEnded)?;
        messages.send(Message::Reports(reports)).await.map_err(|_| StreamEnd::WriterEnded)
    }

    fn status(&self) -> Option<&SourceStatus> {
        self.proof.sources().get(usize::from(self.number))
    }

    fn set_connected(&self, is_connected: bool) {
        if let Some(status) = self.status() {
            status.set_connected(is_connected);
        }
    }
}

/// The SlotHashes sysvar after each write, of every fork.
fn subscribe_request() -> SubscribeRequest {
    let account = vec![sysvar::slot_hashes::ID.to_string()];
    let filter = SubscribeRequestFilterAccounts { account, ..Default::default() };
    SubscribeRequest {
        accounts: [(FILTER.to_owned(), filter)].into(),
        commitment: Some(CommitmentLevel::Processed.into()),
        ..SubscribeRequest::default()
    }
}
