//! Solana's PubSub over WebSocket: nine kinds of subscriptions, as Agave 4.2 serves them.
//!
//! In: events of the ledger ([`EventSender`]), and the calls of clients ([`SolanaSubscriptions`]). Out: notifications,
//! each encoded once for all listeners of a subscription.
//! What Agave does and clients rely on:
//! - an account is sent once for each slot that changed it, never on subscribing; a closed one is sent as an
//!   empty account;
//! - defaults are `finalized` and the encoding `binary`; `dataSlice` distinguishes subscriptions and does
//!   not cut (see [`Config::apply_data_slice`]); `minContextSlot` and `withContext` do nothing;
//! - equal parameters on one connection are one subscription, which one unsubscribe ends;
//! - a program's notifications leave out accounts that were closed or changed their owner (sets of
//!   `addressesSubscribe` get them as `left`).
//!
//! What Agave does not have: `transactionSubscribe` (`transaction_filter`), and subscriptions to sets of up to
//! millions of addresses (`address_sets`), which start at an exact block and change in place.
//!
//! Differences: a signature that is already at its commitment is notified a moment after the reply; finalized
//! notifications come for every block, none is skipped; a slow client is closed with a reason.
//! Bounds: [`Config`]. Not here: connections (`websocket`), JSON-RPC over them (`jsonrpc::pubsub`), matching and queues
//! (`subscriptions`).

mod address_notification;
mod address_sets;
mod address_stream;
mod block_items;
mod config;
mod key_kind;
mod methods;
mod notification;
mod notifier;
mod recent_blocks;
mod solana_subscriptions;
mod subscription;
mod subscription_api;
mod transaction_filter;

use std::io;
use std::sync::Arc;

use chain_solana::{ClusterInfo, EventBounds, EventSender, History, Reader, event_channel};
use clients::RateLimiter;
use cpu_pool::Pool;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::pubsub::{JsonRpcProtocol, PubSubServer};
use ledger::Commitment;

use self::subscription::SubscriptionKind;
pub use config::Config;
pub use solana_subscriptions::{SolanaPubSub, SolanaSubscriptions};

/// Parses the parameters of a call. Returns whether its method subscribes.
pub(crate) fn read_call(method: &str, params: Params<'_>) -> Result<bool, RpcError> {
    Ok(methods::parse_subscription(method, params)?.is_some())
}

/// Creates the subscriptions, and the sender of the ledger's events. Starts a thread, which ends when the sender is
/// dropped. Long encoding and set tasks run on the pool. Calls and sent bytes are charged to the rate limits of their
/// client.
///
/// Errors: the thread could not be started.
pub fn start(
    config: Config,
    cluster_info: Arc<ClusterInfo>,
    reader: Reader,
    history: Arc<History>,
    pool_and_clients: (Arc<Pool>, Arc<RateLimiter>),
) -> io::Result<(Arc<SolanaPubSub>, EventSender)> {
    let transport = config.transport();
    let preallocated =
        if config.preallocate_tracked_addresses { config.tracked_addresses_max } else { 0 };
    let bounds = EventBounds { events_max: config.events_max, bytes_max: None, has_reserve: false };
    let (sender, events) = event_channel(bounds);
    let api = SolanaSubscriptions::new(config, cluster_info, reader, history, events.counters());
    let (pool, clients) = pool_and_clients;
    let protocol = JsonRpcProtocol::new(api);
    let pubsub = Arc::new(PubSubServer::new(protocol, transport, pool, clients));
    if preallocated > 0 {
        preallocate(&pubsub, preallocated);
    }
    pubsub.subscriptions.start_at(|commitment| pubsub.api.complete_view(commitment).block());
    notifier::start(Arc::clone(&pubsub), events)?;
    Ok((pubsub, sender))
}

/// Allocates memory for addresses: in the address table, and in the index of sets of accounts, at each commitment.
fn preallocate(pubsub: &SolanaPubSub, addresses: usize) {
    pubsub.api.reader.addresses().reserve(addresses);
    for commitment in Commitment::ALL {
        let topic = SubscriptionKind::Addresses.at(commitment);
        pubsub.subscriptions.reserve(topic, key_kind::ITSELF, addresses);
    }
}
