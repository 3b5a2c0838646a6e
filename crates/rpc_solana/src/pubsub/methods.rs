//! JSON-RPC over WebSocket: the subscribing and unsubscribing methods, and `getVersion`.
//!
//! Parameters, defaults, the order of checks and the error messages are those of Agave 4.2 (`rpc_pubsub.rs`).
//! Cost: microseconds; a message is at most `Config::message_bytes_max` bytes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::time::Duration;

use super::payload::Payload;
use super::session::Session;
use super::subscription::{BlockFilter, LogsFilter, Subscription};
use super::{PubSub, address_sets, notification, transaction_filter};
use crate::commitment::level;
use jsonrpc::envelope::{self, Call, Id, Request};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{MethodOutput, MethodResult};
use ledger::Commitment;
use serde::Serialize;
use solana::{Encoding, Filters};
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_rpc_client_types::config::{
    RpcAccountInfoConfig, RpcBlockSubscribeConfig, RpcBlockSubscribeFilter,
    RpcProgramAccountsConfig, RpcSignatureSubscribeConfig, RpcTransactionLogsConfig,
    RpcTransactionLogsFilter,
};
use solana_rpc_client_types::response::{RpcApiVersion, RpcVersionInfo};
use solana_signature::Signature;
use solana_transaction_status::UiTransactionEncoding;
use subscriptions::{SubscribeError, SubscriptionId};

/// The response to a message; `None` if it needs none.
pub(super) fn handle_message(pubsub: &PubSub, session: &Session, message: &str) -> Option<Vec<u8>> {
    let received_at = pubsub.pool.now();
    let read = envelope::read(message);
    let (calls, id, only_unsubscribes) = match &read {
        Err(_) => (1, None, false),
        Ok(Request::Single(call)) => (1, call.id(), is_unsubscribe_call(call)),
        Ok(Request::Batch(calls)) => (calls.len(), None, calls.iter().all(is_unsubscribe_call)),
    };
    if only_unsubscribes {
        session.count_calls(pubsub, calls);
    } else if let Err(err) = session.admit(pubsub, calls) {
        record_call(pubsub, None, received_at, Err(&err));
        return Some(envelope::error_response(&err, id.unwrap_or(&Id::Null), true));
    }
    match read {
        Err(err) => {
            record_call(pubsub, None, received_at, Err(&err));
            Some(envelope::error_response(&err, &Id::Null, true))
        }
        Ok(Request::Single(call)) => handle_call(pubsub, session, received_at, call),
        Ok(Request::Batch(calls)) => {
            let mut text = Vec::new();
            for call in calls {
                let Some(reply) = handle_call(pubsub, session, received_at, call) else { continue };
                text.push(if text.is_empty() { b'[' } else { b',' });
                text.extend_from_slice(&reply);
            }
            if text.is_empty() {
                return None;
            }
            text.push(b']');
            Some(text)
        }
    }
}

/// Whether a call ends a subscription. No rate limit refuses it.
fn is_unsubscribe_call(call: &Call<'_>) -> bool {
    matches!(call, Call::Method { method, .. } if is_unsubscribe(method))
}

/// Whether a method ends subscriptions.
fn is_unsubscribe(method: &str) -> bool {
    matches!(
        method,
        "accountUnsubscribe"
            | "programUnsubscribe"
            | "logsUnsubscribe"
            | "signatureUnsubscribe"
            | "blockUnsubscribe"
            | "slotUnsubscribe"
            | "slotsUpdatesUnsubscribe"
            | "rootUnsubscribe"
            | "voteUnsubscribe"
            | "transactionUnsubscribe"
            | "addressesUnsubscribe"
    )
}

/// Records a call that arrived at `received_at` and its result. `method` is `None` for a message that is no call.
pub(super) fn record_call(
    pubsub: &PubSub,
    method: Option<&str>,
    received_at: Duration,
    result: Result<&MethodOutput, &RpcError>,
) {
    let duration = pubsub.pool.now().saturating_sub(received_at);
    pubsub.metrics.record_call(method, duration, result);
}

fn handle_call(
    pubsub: &PubSub,
    session: &Session,
    received_at: Duration,
    call: Call<'_>,
) -> Option<Vec<u8>> {
    let (id, method, params) = match call {
        Call::Notification => return None,
        Call::Invalid { id, versioned, err } => {
            record_call(pubsub, None, received_at, Err(&err));
            return Some(envelope::error_response(&err, &id, versioned));
        }
        Call::Method { id, method, params } => (id, method, params),
    };
    let result = catch_unwind(AssertUnwindSafe(|| run(pubsub, session, &method, params)));
    let result = result.unwrap_or_else(|_| {
        tracing::error!(%method, "a method panicked; its request got -32603");
        Err(RpcError::internal())
    });
    record_call(pubsub, Some(&method), received_at, result.as_ref());
    let reply = result.and_then(|output| output.into_response(&id));
    Some(match reply {
        Ok(text) => text.as_bytes().to_vec(),
        Err(err) => envelope::error_response(&err, &id, true),
    })
}

fn run(pubsub: &PubSub, session: &Session, method: &str, params: Params<'_>) -> MethodResult {
    let Some(subscription) = parse_subscription(method, params)? else {
        return match method {
            _ if is_unsubscribe(method) => unsubscribe(session, params),
            "addressesSubscribe" | "addressesUpdate" => Err(address_sets::not_in_a_batch()),
            "getVersion" => version(pubsub, params),
            _ => Err(RpcError::method_not_found()),
        };
    };
    let id = subscribe(pubsub, session, subscription.clone())?;
    if let Subscription::Signature { signature, commitment, .. } = &subscription {
        catch_up(pubsub, session, &subscription, id, signature, *commitment);
    }
    MethodOutput::json(&id.0)
}

/// The subscription that a call requests; `None` if its method does not subscribe.
pub(super) fn parse_subscription(
    method: &str,
    params: Params<'_>,
) -> Result<Option<Subscription>, RpcError> {
    Ok(Some(match method {
        "accountSubscribe" => account(params)?,
        "programSubscribe" => program(params)?,
        "logsSubscribe" => logs(params)?,
        "signatureSubscribe" => signature(params)?,
        "blockSubscribe" => block(params)?,
        "slotSubscribe" => without_params(params, Subscription::Slot)?,
        "slotsUpdatesSubscribe" => without_params(params, Subscription::SlotsUpdates)?,
        "rootSubscribe" => without_params(params, Subscription::Root)?,
        "voteSubscribe" => without_params(params, Subscription::Vote)?,
        "transactionSubscribe" => transaction_filter::parse_subscription(params)?,
        _ => return Ok(None),
    }))
}

fn subscribe(
    pubsub: &PubSub,
    session: &Session,
    subscription: Subscription,
) -> Result<SubscriptionId, RpcError> {
    let refused = |reason: &dyn std::fmt::Display| {
        RpcError::internal_with(format!("Internal Error: Subscription refused. {reason}"))
    };
    let interests =
        subscription.interests(pubsub.reader.addresses()).map_err(|full| refused(&full))?;
    let id = session.subscribe(subscription, interests, pubsub.event_cursor.position());
    id.map_err(|err| subscribe_error(&err))
}

/// The error of a subscription that is refused. It names the setting.
pub(super) fn subscribe_error(err: &SubscribeError) -> RpcError {
    let reason = match err {
        SubscribeError::NodeFull { .. } => "Node subscription limit reached".to_owned(),
        SubscribeError::ListenerFull { limit } => format!(
            "Connection subscription limit reached: {limit} \
             (pubsub.subscriptions_per_connection_max)"
        ),
        SubscribeError::AddressesFull { limit } => {
            format!("Node address limit reached: {limit} (--max-tracked-addresses)")
        }
        SubscribeError::ListenerAddressesFull { limit } => format!(
            "Connection address limit reached: {limit} \
             (pubsub.tracked_addresses_per_connection_max)"
        ),
        SubscribeError::Unknown => return RpcError::invalid_params("Invalid subscription id."),
        other => other.to_string(),
    };
    RpcError::internal_with(format!("Internal Error: Subscription refused. {reason}"))
}

/// Notifies of a signature that is already at its commitment: no event will come for it.
///
/// The subscription exists by now, and starts at a position. The effects of events up to that position can be read by
/// now, and the notifier does not send them to this client; it sends those of later events. The state that we read may
/// contain a later event too. Then the registry delivers only the first of the two notifications.
fn catch_up(
    pubsub: &PubSub,
    session: &Session,
    subscription: &Subscription,
    id: SubscriptionId,
    signature: &Signature,
    commitment: Commitment,
) {
    let history = pubsub.history.snapshot();
    let Some(executed) = history.transaction(signature, commitment) else { return };
    let notification = notification::processed(executed);
    if let Some(text) = notification::text(pubsub, subscription, id, notification) {
        let bytes = text.len();
        session.finish(id, Payload::Whole(text), bytes);
    }
}

/// Any `...Unsubscribe` method ends a subscription of any kind, as on Agave.
fn unsubscribe(session: &Session, params: Params<'_>) -> MethodResult {
    let (id,): (u64,) = params.parse(1)?;
    if !session.unsubscribe(SubscriptionId(id)) {
        return Err(RpcError::invalid_params("Invalid subscription id."));
    }
    MethodOutput::json(&true)
}

fn version(pubsub: &PubSub, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&sorted(&RpcVersionInfo {
        solana_core: RpcApiVersion::default().to_string(),
        feature_set: Some(pubsub.cluster_info.feature_set),
    })?)
}

/// Sorts the members: Agave serializes results through `Value`, which does so.
fn sorted(result: &impl Serialize) -> Result<serde_json::Value, RpcError> {
    serde_json::to_value(result).map_err(|_| RpcError::internal())
}

fn without_params(
    params: Params<'_>,
    subscription: Subscription,
) -> Result<Subscription, RpcError> {
    params.none()?;
    Ok(subscription)
}

fn account(params: Params<'_>) -> Result<Subscription, RpcError> {
    let (pubkey, config): (String, Option<RpcAccountInfoConfig>) = params.parse(1)?;
    let config = config.unwrap_or_default();
    Ok(Subscription::Account {
        pubkey: parse(&pubkey, "pubkey")?,
        commitment: level(config.commitment),
        encoding: encoding(&config),
    })
}

fn program(params: Params<'_>) -> Result<Subscription, RpcError> {
    let (program, config): (String, Option<RpcProgramAccountsConfig>) = params.parse(1)?;
    let config = config.unwrap_or_default();
    let filters = Filters::new(config.filters.unwrap_or_default());
    // Agave puts the name of the error code before the message here, and only here.
    let filters =
        filters.map_err(|err| RpcError::invalid_params(format!("Invalid params: {err}")))?;
    Ok(Subscription::Program {
        program: parse(&program, "pubkey")?,
        commitment: level(config.account_config.commitment),
        encoding: encoding(&config.account_config),
        filters,
        with_context: config.with_context.unwrap_or_default(),
    })
}

fn logs(params: Params<'_>) -> Result<Subscription, RpcError> {
    let (filter, config): (RpcTransactionLogsFilter, Option<RpcTransactionLogsConfig>) =
        params.parse(1)?;
    let filter = match filter {
        RpcTransactionLogsFilter::All => LogsFilter::AllButVotes,
        RpcTransactionLogsFilter::AllWithVotes => LogsFilter::All,
        RpcTransactionLogsFilter::Mentions(keys) => match keys.as_slice() {
            [key] => LogsFilter::Mentioning(parse(key, "mentions")?),
            _ => {
                let message = "Invalid Request: Only 1 address supported";
                return Err(RpcError::invalid_params(message));
            }
        },
    };
    Ok(Subscription::Logs {
        filter,
        commitment: level(config.and_then(|config| config.commitment)),
    })
}

fn signature(params: Params<'_>) -> Result<Subscription, RpcError> {
    let (signature, config): (String, Option<RpcSignatureSubscribeConfig>) = params.parse(1)?;
    let config = config.unwrap_or_default();
    Ok(Subscription::Signature {
        signature: parse(&signature, "signature")?,
        commitment: level(config.commitment),
        received: config.enable_received_notification.unwrap_or_default(),
    })
}

fn block(params: Params<'_>) -> Result<Subscription, RpcError> {
    let (filter, config): (RpcBlockSubscribeFilter, Option<RpcBlockSubscribeConfig>) =
        params.parse(1)?;
    let config = config.unwrap_or_default();
    let commitment = level(config.commitment);
    if commitment == Commitment::Processed {
        let message = "Method does not support commitment below `confirmed`";
        return Err(RpcError::invalid_params(message));
    }
    let filter = match filter {
        RpcBlockSubscribeFilter::All => BlockFilter::All,
        RpcBlockSubscribeFilter::MentionsAccountOrProgram(key) => {
            BlockFilter::Mentioning(parse(&key, "mentions_account_or_program")?)
        }
    };
    Ok(Subscription::Block {
        filter,
        commitment,
        encoding: config.encoding.unwrap_or(UiTransactionEncoding::Base64),
        details: config.transaction_details.unwrap_or_default(),
        rewards: config.show_rewards.unwrap_or_default(),
        version_max: config.max_supported_transaction_version,
    })
}

/// The default is the oldest encoding, `binary`, unlike over HTTP. `minContextSlot` is ignored, as on Agave.
fn encoding(config: &RpcAccountInfoConfig) -> Encoding {
    Encoding {
        form: config.encoding.unwrap_or(UiAccountEncoding::Binary),
        slice: config.data_slice,
    }
}

fn parse<T: FromStr>(text: &str, name: &str) -> Result<T, RpcError> {
    let invalid = || RpcError::invalid_params(format!("Invalid Request: Invalid {name} provided"));
    text.parse().map_err(|_| invalid())
}
