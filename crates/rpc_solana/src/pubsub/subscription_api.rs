//! Solana's calls over WebSocket: their names, and which of them run as set tasks.

use std::sync::Arc;

use jsonrpc::MethodResult;
use jsonrpc::params::Params;
use jsonrpc::pubsub::SubscriptionApi;
use subscriptions::{Conflated, SubscriptionId};
use tokio_tungstenite::tungstenite::{Bytes, Utf8Bytes};

use super::address_sets::{self, SetTask};
use super::block_items::ConflatedState;
use super::methods;
use super::solana_subscriptions::{SolanaPubSub, SolanaSession, SolanaSubscriptions};

/// The methods, and the execution path of each.
const METHODS: &[(&str, &str)] = &[
    ("accountSubscribe", "inline"),
    ("accountUnsubscribe", "inline"),
    ("addressesSubscribe", "medium"),
    ("addressesUnsubscribe", "medium"),
    ("addressesUpdate", "medium"),
    ("blockSubscribe", "inline"),
    ("blockUnsubscribe", "inline"),
    ("getVersion", "inline"),
    ("logsSubscribe", "inline"),
    ("logsUnsubscribe", "inline"),
    ("programSubscribe", "inline"),
    ("programUnsubscribe", "inline"),
    ("rootSubscribe", "inline"),
    ("rootUnsubscribe", "inline"),
    ("signatureSubscribe", "inline"),
    ("signatureUnsubscribe", "inline"),
    ("slotSubscribe", "inline"),
    ("slotUnsubscribe", "inline"),
    ("slotsUpdatesSubscribe", "inline"),
    ("slotsUpdatesUnsubscribe", "inline"),
    ("transactionSubscribe", "inline"),
    ("transactionUnsubscribe", "inline"),
    ("voteSubscribe", "inline"),
    ("voteUnsubscribe", "inline"),
];

impl SubscriptionApi for SolanaSubscriptions {
    type Task = SetTask;

    const METHODS: &'static [(&'static str, &'static str)] = METHODS;

    const LONG_METHODS: &'static [&'static str] =
        &["addressesSubscribe", "addressesUpdate", "transactionSubscribe"];

    const BINARY_MARKER: Option<u8> = Some(address_sets::BINARY);

    fn is_unsubscribe(method: &str) -> bool {
        methods::is_unsubscribe(method)
    }

    fn run_call(
        pubsub: &SolanaPubSub,
        session: &SolanaSession,
        method: &str,
        params: Params<'_>,
    ) -> MethodResult {
        methods::run_call(pubsub, session, method, params)
    }

    fn catch_up(pubsub: &SolanaPubSub, session: &SolanaSession, subscription: SubscriptionId) {
        methods::catch_up(pubsub, session, subscription);
    }

    fn needs_task(text: &str, message_bytes_max: usize) -> bool {
        SetTask::is_set_message(text, message_bytes_max)
    }

    fn text_task(
        pubsub: &Arc<SolanaPubSub>,
        session: &Arc<SolanaSession>,
        text: Utf8Bytes,
    ) -> SetTask {
        SetTask::from_text(pubsub, session, text)
    }

    fn binary_task(
        pubsub: &Arc<SolanaPubSub>,
        session: &Arc<SolanaSession>,
        message: Bytes,
    ) -> Option<SetTask> {
        Some(SetTask::from_binary(pubsub, session, message))
    }

    fn conflated_task(
        pubsub: &Arc<SolanaPubSub>,
        session: &Arc<SolanaSession>,
        conflated: Conflated<ConflatedState>,
    ) -> Option<SetTask> {
        SetTask::from_conflated(pubsub, session, conflated)
    }
}
