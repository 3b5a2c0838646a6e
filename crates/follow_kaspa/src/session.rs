//! A session with one source: its check, the chain up to its sink, and then the changes as they come.
//!
//! In: replies and notifications of the source. Out: messages for the writer.
//! Shape: the chain is requested from our sink whenever the source says that it changed, and at an interval. The
//! virtual state is joined once the chain has reached the sink: subscribe, read the state, then apply what came
//! meanwhile.
//! Bounds: one call at a time; see [`crate::ConnectionConfig`].
//! Not here: which source (`sources`), the check of its version (`plain_calls`), pages and pieces of the chain
//! (`chain_pages`), merged blocks (`merge_set`).

use std::convert::Infallible;
use std::sync::Arc;

use chain_kaspa::{ChainReader, VirtualMode};
use kaspa::{
    AddressPayload, BlockDagInfo, BlockTemplate, Encoding, Event, Hash, KaspaAddress, Method,
    Network, Notification, Scope,
};
use tokio::time::{Instant, sleep_until};

use crate::config::{SessionConfig, SourceConfig};
use crate::connection::{Connection, ReceivedNotification};
use crate::long_message::decode_reply;
use crate::source_error::SourceError;
use crate::status::FollowStatus;
use crate::writer_queue::{WriterHandle, WriterMessage};

/// The receiver of the reward in a block template, which is never mined.
const TEMPLATE_PAYLOAD: AddressPayload = AddressPayload::PublicKey([1; 32]);
/// The events that may be passed on to the sinks.
const RELAYABLE_EVENTS: [Event; 4] = [
    Event::BlockAdded,
    Event::NewBlockTemplate,
    Event::FinalityConflict,
    Event::FinalityConflictResolved,
];

/// The parts of a session that do not depend on its source.
pub(crate) struct SessionContext {
    pub(crate) network: Network,
    pub(crate) config: SessionConfig,
    pub(crate) reader: ChainReader,
    pub(crate) status: Arc<FollowStatus>,
    pub(crate) writer: WriterHandle,
    /// Whether a session that stalls ends, because there are other sources.
    pub(crate) has_others: bool,
}

/// A session with a source whose network and version were checked.
pub(crate) struct Session<'a> {
    pub(crate) context: &'a SessionContext,
    pub(crate) connection: Connection,
    /// Whether the next pages are requested block by block.
    pub(crate) is_in_pieces: bool,
    has_utxo_index: bool,
    virtual_mode: VirtualMode,
    /// The parents of the last block template.
    template_parents: Vec<Hash>,
    /// The number of consecutive templates with these parents, after the first one.
    equal_templates: u32,
    /// Whether the source said that its chain changed.
    is_chain_changed: bool,
    /// Whether the source replaced its UTXO set since the virtual state was joined.
    is_set_replaced: bool,
    timers: Timers,
}

/// The times of a session's next actions.
struct Timers {
    poll: Instant,
    template: Instant,
    stall: Instant,
    /// When the announced DAA score is shown in any case.
    release: Option<Instant>,
}

impl<'a> Session<'a> {
    /// Checks a source, and opens a session with it.
    pub(crate) async fn open(
        context: &'a SessionContext,
        source: &SourceConfig,
        mut connection: Connection,
        is_in_pieces: bool,
    ) -> Result<Self, SourceError> {
        let info = connection.check_server(context.network).await?;
        let server = source.server();
        if !info.has_utxo_index {
            tracing::warn!(%server, "the source has no index of UTXOs (--utxoindex): the virtual state is the sink's");
        }
        context.status.open_session(server.to_string(), info.is_synced);
        context.writer.send(WriterMessage::SourceOpened { server }).await?;
        let now = Instant::now();
        let timers = Timers { poll: now, template: now, stall: now, release: None };
        Ok(Self {
            context,
            connection,
            is_in_pieces,
            has_utxo_index: info.has_utxo_index,
            virtual_mode: VirtualMode::Off,
            template_parents: Vec::new(),
            equal_templates: 0,
            is_chain_changed: false,
            is_set_replaced: false,
            timers,
        })
    }

    /// Follows the source. Ends only with an error.
    pub(crate) async fn run(&mut self) -> Result<Infallible, SourceError> {
        self.catch_up().await?;
        self.subscribe().await?;
        self.catch_up().await?;
        self.is_in_pieces = false;
        self.context.status.set_caught_up();
        tracing::info!(sink = %self.context.status.proven().hash, "the chain has reached the sink of the source");
        if self.has_utxo_index {
            self.join_virtual().await?;
        }
        self.follow_changes().await
    }

    async fn subscribe(&mut self) -> Result<(), SourceError> {
        let mut scopes = vec![
            Scope::VirtualChainChanged { include_accepted_transaction_ids: false },
            Scope::Other(Event::VirtualDaaScoreChanged),
            Scope::Other(Event::PruningPointUtxoSetOverride),
        ];
        if self.has_utxo_index {
            scopes.push(Scope::UtxosChanged { addresses: Vec::new() });
        }
        scopes.extend(relayed_scopes(&self.context.config));
        for scope in scopes {
            self.connection.subscribe(&scope).await?;
        }
        Ok(())
    }

    async fn follow_changes(&mut self) -> Result<Infallible, SourceError> {
        let has_others = self.context.has_others;
        self.timers.stall = Instant::now() + self.context.config.stall_timeout;
        loop {
            let release = self.timers.release;
            tokio::select! {
                received = self.connection.next_notification() => {
                    self.handle_notification(received?).await?;
                }
                () = sleep_until(self.timers.poll) => self.is_chain_changed = true,
                () = sleep_until(self.timers.template), if self.has_utxo_index => {
                    self.check_virtual().await?;
                }
                () = sleep_until(release.unwrap_or(self.timers.poll)), if release.is_some() => {
                    self.timers.release = None;
                    self.context.writer.send(WriterMessage::ReleaseDaaScore).await?;
                }
                () = sleep_until(self.timers.stall), if has_others => {
                    let limit = self.context.config.stall_timeout;
                    return Err(SourceError::Stalled { limit });
                }
                () = self.context.writer.closed() => return Err(SourceError::WriterEnded),
            }
            // Notifications from before the last reply are about the state before it.
            if self.is_chain_changed && !self.connection.has_stored() {
                self.catch_up().await?;
            }
            if std::mem::take(&mut self.is_set_replaced) {
                self.join_virtual().await?;
            }
        }
    }

    /// Requests the chain until it ends at the sink of the source.
    async fn catch_up(&mut self) -> Result<(), SourceError> {
        self.is_chain_changed = false;
        loop {
            let page = self.apply_next_page().await?;
            let config = &self.context.config;
            let now = Instant::now();
            self.timers.poll = now + config.poll_interval;
            if page.added > 0 {
                self.timers.stall = now + config.stall_timeout;
            }
            if page.is_last {
                return Ok(());
            }
        }
    }

    async fn handle_notification(
        &mut self,
        received: ReceivedNotification,
    ) -> Result<(), SourceError> {
        let ReceivedNotification { notification, bytes } = received;
        let writer = &self.context.writer;
        self.context.status.count_notification();
        match notification {
            Notification::VirtualChainChanged(_) | Notification::SinkBlueScoreChanged { .. } => {
                self.is_chain_changed = true;
            }
            Notification::UtxosChanged(changes) => {
                let permit = writer.permit(bytes).await?;
                writer.send(WriterMessage::UtxosChanged { changes, permit }).await?;
            }
            Notification::VirtualDaaScoreChanged { virtual_daa_score } => {
                let delay = self.context.config.daa_score_delay;
                self.timers.release = Some(Instant::now() + delay);
                writer.send(WriterMessage::AnnounceDaaScore(virtual_daa_score)).await?;
            }
            Notification::PruningPointUtxoSetOverride => {
                writer.send(WriterMessage::ReplaceUtxoSet).await?;
                self.is_chain_changed = true;
                self.is_set_replaced = self.has_utxo_index;
            }
            notification @ (Notification::BlockAdded(_)
            | Notification::NewBlockTemplate
            | Notification::FinalityConflict { .. }
            | Notification::FinalityConflictResolved { .. }) => {
                let permit = writer.permit(bytes).await?;
                let encoding = Encoding::Borsh;
                writer.send(WriterMessage::Relay { encoding, notification, permit }).await?;
            }
        }
        Ok(())
    }

    /// Joins the virtual state. Differences from before the subscription are missing until the chain accepts them, or
    /// until the blocks that the virtual block merges are read.
    async fn join_virtual(&mut self) -> Result<(), SourceError> {
        self.context.writer.send(WriterMessage::JoinVirtual).await?;
        self.virtual_mode = VirtualMode::Joining;
        self.template_parents.clear();
        self.timers.template = Instant::now();
        self.seed_virtual(false).await
    }

    /// Sets the virtual state to the effect of the blocks that the virtual block merges. If the sink is not its only
    /// parent, that is done on a quiet chain only: on others the messages are faster.
    async fn seed_virtual(&mut self, is_quiet: bool) -> Result<(), SourceError> {
        let BlockDagInfo { sink, virtual_parents, virtual_daa_score: daa_score, .. } =
            self.connection.request_dag_info().await?;
        let has_own_sink = sink == self.context.reader.status().sink.hash;
        let is_only_parent = virtual_parents == [sink];
        if !has_own_sink || !(is_only_parent || is_quiet) {
            return self.context.writer.send(WriterMessage::AnnounceDaaScore(daa_score)).await;
        }
        let sink = self.request_block(sink).await?;
        let merged = if is_only_parent {
            self.context.writer.new_merged_blocks(sink.block)
        } else {
            self.request_merged_blocks(&virtual_parents, sink).await?
        };
        self.context.writer.seed_virtual(daa_score, merged).await
    }

    /// Counts the templates in a row that are of the same virtual block.
    fn count_equal_templates(&mut self, template: &BlockTemplate) {
        let parents = template.header.parents.direct();
        if self.template_parents == parents {
            self.equal_templates = self.equal_templates.saturating_add(1);
        } else {
            self.equal_templates = 0;
            self.template_parents = parents.to_vec();
        }
    }

    /// Compares the virtual state with a block template, after everything that came before the template.
    async fn check_virtual(&mut self) -> Result<(), SourceError> {
        let payload = TEMPLATE_PAYLOAD;
        let address = KaspaAddress { prefix: self.context.network.prefix(), payload };
        let method = Method::GetBlockTemplate;
        let encode = |id| Method::encode_borsh_get_block_template(id, &address);
        let reply = self.connection.call(method, encode).await?;
        let decode =
            |structure: &[u8]| BlockTemplate::decode_borsh(structure).map_err(SourceError::from);
        let template = match reply {
            Ok(structure) => Some(decode_reply(structure, decode).await),
            Err(_) => None,
        };
        while self.connection.has_stored() {
            let received = self.connection.next_notification().await?;
            self.handle_notification(received).await?;
        }
        if self.is_chain_changed {
            self.catch_up().await?;
        }
        // A source that is not in sync makes no templates.
        if let Some(template) = template {
            let template = Box::new(template?);
            self.count_equal_templates(&template);
            let before = self.virtual_mode;
            let check = |reply| WriterMessage::CheckTemplate { template, reply };
            self.virtual_mode = self.context.writer.request(check).await?;
            self.context.status.count_template();
            if before == VirtualMode::Exact && self.virtual_mode == VirtualMode::Joining {
                tracing::warn!("a message about the virtual state was lost; it is joined again");
                self.join_virtual().await?;
            } else if self.virtual_mode == VirtualMode::Joining {
                // On a quiet chain no later block completes the state. More and more rarely, if that does not help.
                let is_quiet = self.equal_templates.is_power_of_two();
                self.seed_virtual(is_quiet).await?;
            }
        }
        let config = &self.context.config;
        let interval = match self.virtual_mode {
            VirtualMode::Exact => config.template_interval,
            VirtualMode::Joining | VirtualMode::Off => config.joining_interval,
        };
        self.timers.template = Instant::now() + interval;
        Ok(())
    }
}

/// Returns the scopes of the events that are passed on to the sinks.
pub(crate) fn relayed_scopes(config: &SessionConfig) -> impl Iterator<Item = Scope> {
    let relayed = config.relayed_events.iter().copied();
    relayed.filter(|event| RELAYABLE_EVENTS.contains(event)).map(Scope::Other)
}
