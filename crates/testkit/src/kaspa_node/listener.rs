//! One client's subscriptions, and the messages that wait for its socket.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use kaspa::{Event, KaspaAddress, Outpoint, Scope, ScriptPublicKey, UtxoEntry};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::notices::{Notice, UtxoSelection, chain_structure};
use super::wire::{Encoding, Frame, Structure};

/// A client.
pub(crate) struct Listener {
    /// The number in the reply to subscribe.
    pub(crate) id: u64,
    pub(crate) encoding: Encoding,
    pub(crate) outbox: Arc<Outbox>,
    events: BTreeSet<Event>,
    /// Whether changes of the chain include accepted ids. `None`: not subscribed.
    chain_with_ids: Option<bool>,
    utxos: UtxoScope,
    /// The number of messages to send before the connection is cut.
    messages_left: Option<u64>,
}

/// The UTXOs of a client's subscription.
#[derive(Default)]
enum UtxoScope {
    #[default]
    None,
    All,
    Scripts(HashSet<ScriptPublicKey>),
}

/// The messages that wait for a socket. Unbounded, like the queues of kaspad.
#[derive(Default)]
pub(crate) struct Outbox {
    items: Mutex<VecDeque<Outgoing>>,
    pub(crate) ready: Notify,
}

/// The next action of a connection.
pub(crate) enum Outgoing {
    Frame(Frame),
    /// The connection ends without a close frame.
    Cut,
}

impl Outbox {
    fn push(&self, item: Outgoing) {
        self.items.lock().push_back(item);
        self.ready.notify_one();
    }

    pub(crate) fn take_first(&self) -> Option<Outgoing> {
        self.items.lock().pop_front()
    }
}

impl Listener {
    pub(crate) fn new(id: u64, encoding: Encoding, outbox: Arc<Outbox>) -> Self {
        Self {
            id,
            encoding,
            outbox,
            events: BTreeSet::new(),
            chain_with_ids: None,
            utxos: UtxoScope::None,
            messages_left: None,
        }
    }

    /// Whether it has any subscription.
    pub(crate) fn is_subscribed(&self) -> bool {
        let has_utxos = !matches!(self.utxos, UtxoScope::None);
        !self.events.is_empty() || self.chain_with_ids.is_some() || has_utxos
    }

    /// Cuts the connection after this many further messages.
    pub(crate) fn cut_after(&mut self, messages: u64) {
        self.messages_left = Some(messages);
        if messages == 0 {
            self.outbox.push(Outgoing::Cut);
        }
    }

    pub(crate) fn send(&mut self, frame: Frame) {
        if self.messages_left == Some(0) {
            return;
        }
        self.outbox.push(Outgoing::Frame(frame));
        if let Some(left) = self.messages_left {
            self.cut_after(left - 1);
        }
    }

    /// Starts notifications. A set narrows a subscription to all, as in kaspad.
    pub(crate) fn subscribe(&mut self, scope: Scope) {
        match scope {
            Scope::UtxosChanged { addresses } if addresses.is_empty() => {
                self.utxos = UtxoScope::All;
            }
            Scope::UtxosChanged { addresses } => match &mut self.utxos {
                UtxoScope::Scripts(known) => known.extend(scripts(&addresses)),
                utxos => *utxos = UtxoScope::Scripts(scripts(&addresses).collect()),
            },
            Scope::VirtualChainChanged { include_accepted_transaction_ids } => {
                self.chain_with_ids = Some(include_accepted_transaction_ids);
            }
            Scope::Other(event) => {
                self.events.insert(event);
            }
        }
    }

    /// Stops notifications. An empty list of addresses ends all of them; a set does not end a subscription to all.
    pub(crate) fn unsubscribe(&mut self, scope: Scope) {
        match scope {
            Scope::UtxosChanged { addresses } if addresses.is_empty() => {
                self.utxos = UtxoScope::None;
            }
            Scope::UtxosChanged { addresses } => {
                let UtxoScope::Scripts(known) = &mut self.utxos else { return };
                for script in scripts(&addresses) {
                    known.remove(&script);
                }
                if known.is_empty() {
                    self.utxos = UtxoScope::None;
                }
            }
            Scope::VirtualChainChanged { .. } => self.chain_with_ids = None,
            Scope::Other(event) => {
                self.events.remove(&event);
            }
        }
    }

    /// Sends a notification if the client has subscribed to it.
    pub(crate) fn notify(
        &mut self,
        notice: &Notice,
        report: impl Fn(&Outpoint, &UtxoEntry) -> UtxoEntry,
    ) {
        if let Some(content) = self.select_content(notice, report) {
            let frame = self.encoding.notification(notice.event(), &content);
            self.send(frame);
        }
    }

    fn select_content(
        &self,
        notice: &Notice,
        report: impl Fn(&Outpoint, &UtxoEntry) -> UtxoEntry,
    ) -> Option<Structure> {
        match notice {
            Notice::UtxosChanged(diff) => {
                let scripts = match &self.utxos {
                    UtxoScope::None => return None,
                    UtxoScope::All => None,
                    UtxoScope::Scripts(scripts) => Some(scripts),
                };
                let is_selected = |entry: &UtxoEntry| {
                    scripts.is_none_or(|scripts| scripts.contains(&entry.script_public_key))
                };
                let selection = UtxoSelection {
                    added: diff.added.iter().filter(|(_, entry)| is_selected(entry)).collect(),
                    removed: diff.removed.iter().filter(|(_, entry)| is_selected(entry)).collect(),
                };
                // kaspad sends empty notifications only to subscriptions to all.
                let is_empty = selection.added.is_empty() && selection.removed.is_empty();
                (scripts.is_none() || !is_empty).then(|| selection.to_structure(report))
            }
            Notice::VirtualChainChanged { path, accepted } => {
                let accepted = if self.chain_with_ids? { accepted.as_slice() } else { &[] };
                Some(chain_structure(path, accepted))
            }
            notice => self.events.contains(&notice.event()).then(|| notice.to_structure()),
        }
    }
}

fn scripts(addresses: &[KaspaAddress]) -> impl Iterator<Item = ScriptPublicKey> {
    addresses.iter().map(|address| ScriptPublicKey::from_payload(&address.payload))
}
