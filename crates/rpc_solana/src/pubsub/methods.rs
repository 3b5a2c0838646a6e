//! The calls that run where the socket is polled: the subscribing and unsubscribing methods, and `getVersion`.
//!
//! Parameters, defaults, the order of checks and the error messages are those of Agave 4.2 (`rpc_pubsub.rs`).
//! Cost: microseconds; a message is at most `Config::message_bytes_max` bytes.

use std::str::FromStr;

use super::solana_subscriptions::{SolanaPubSub, SolanaSession};
use super::subscription::{BlockFilter, LogsFilter, Subscription};
use super::transaction_filter::TransactionSubscribeParams;
use super::{notification, transaction_filter};
use crate::commitment::level;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::pubsub::subscribe_error;
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
use solana_transaction_status::UiTransactionEncoding;
use subscriptions::{Position, SubscriptionId};
use websocket::Payload;

/// Runs a call.
pub(super) fn run_call(
    pubsub: &SolanaPubSub,
    session: &SolanaSession,
    method: &str,
    params: Params<'_>,
) -> MethodResult {
    let Some(subscription) = parse_subscription(method, params)? else {
        return match method {
            _ if is_unsubscribe(method) => jsonrpc::pubsub::unsubscribe(session, params),
            "addressesSubscribe" | "addressesUpdate" => Err(not_in_a_batch()),
            "getVersion" => version(pubsub, params),
            _ => Err(RpcError::method_not_found()),
        };
    };
    let id = subscribe(pubsub, session, subscription)?;
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
        "transactionSubscribe" => transaction(params)?,
        _ => return Ok(None),
    }))
}

/// The error of a call for a set within a batch.
fn not_in_a_batch() -> RpcError {
    RpcError::invalid_request("addressesSubscribe and addressesUpdate cannot be in a batch")
}

/// Whether a method ends subscriptions.
pub(super) fn is_unsubscribe(method: &str) -> bool {
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

fn subscribe(
    pubsub: &SolanaPubSub,
    session: &SolanaSession,
    subscription: Subscription,
) -> Result<SubscriptionId, RpcError> {
    if matches!(subscription, Subscription::Signature { .. }) {
        // Its notification may come from history at once.
        pubsub.check_state()?;
    }
    let interests = subscription.interests(pubsub.api.reader.addresses());
    let interests = interests.map_err(|full| subscribe_error(&full.into()))?;
    let position = Position(pubsub.api.events.sent());
    let id = session.subscribe_on_hold(subscription, interests, position);
    id.map_err(|err| subscribe_error(&err))
}

/// Notifies of a signature that is already at its commitment: no event will come for it.
///
/// The subscription starts at a position. The effects of events up to that position can be read by now, and the
/// notifier does not send them to this client; it sends those of later events. The state that we read may contain a
/// later event too. Then the registry delivers only the first of the two notifications.
pub(super) fn catch_up(pubsub: &SolanaPubSub, session: &SolanaSession, id: SubscriptionId) {
    let Some(subscription) = session.identity(id) else { return };
    let Subscription::Signature { signature, commitment, .. } = &*subscription else { return };
    let history = pubsub.api.history.snapshot();
    let Some(executed) = history.transaction(signature, *commitment) else { return };
    executed.show_status();
    let notification = notification::processed(executed);
    if let Some(text) = notification::text(pubsub, &subscription, id, notification) {
        let bytes = text.len();
        session.finish(id, Payload::Whole(text), bytes);
    }
}

fn version(pubsub: &SolanaPubSub, params: Params<'_>) -> MethodResult {
    params.none()?;
    MethodOutput::json(&sorted(&RpcVersionInfo {
        solana_core: RpcApiVersion::default().to_string(),
        feature_set: Some(pubsub.api.cluster_info.feature_set),
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

fn transaction(params: Params<'_>) -> Result<Subscription, RpcError> {
    let params = transaction_filter::parse_params(params)?;
    let TransactionSubscribeParams { filter, commitment, encoding, details, rewards, version_max } =
        params;
    Ok(Subscription::Transaction { filter, commitment, encoding, details, rewards, version_max })
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
