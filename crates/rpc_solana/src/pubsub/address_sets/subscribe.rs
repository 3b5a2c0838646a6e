//! `addressesSubscribe`: its parameters, and the subscription to the registered set.
//!
//! In: a list of addresses and options. Out: the reply, and a [`SetActivation`] to start.
//! Not here: reading and registering the addresses (the parent), the snapshot (`snapshot`).

use jsonrpc::MethodOutput;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::pubsub::subscribe_error;
use ledger::{BlockId, Commitment, KeyKind, Slot};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use solana::Encoding;
use solana_account_decoder_client_types::{UiAccountEncoding, UiDataSliceConfig};
use solana_commitment_config::CommitmentLevel;
use solana_hash::Hash;
use subscriptions::{AddressSet, ResumeFrom, SetSubscription, SlowConsumerPolicy};
use websocket::SessionOutput;

use super::pending_reply::PendingReply;
use super::set_activation::{SetActivation, SetParams};
use crate::pubsub::address_stream::AddressList;
use crate::pubsub::block_items::BlockItems;
use crate::pubsub::key_kind;
use crate::pubsub::solana_subscriptions::{SolanaPubSub, SolanaSession};
use crate::pubsub::subscription::{Subscription, SubscriptionKind};

/// A subscription to make.
pub(super) struct SubscribeRequest {
    params: SetParams,
    from: Option<BlockId>,
    snapshot: bool,
    slow_consumer_policy: SlowConsumerPolicy,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum KeyKindParam {
    #[default]
    Account,
    Program,
    TokenOwner,
    TokenMint,
    TokenDelegate,
    Mentions,
}

impl KeyKindParam {
    fn key_kind(self) -> KeyKind {
        match self {
            Self::Account => key_kind::ITSELF,
            Self::Program => key_kind::PROGRAM,
            Self::TokenOwner => solana::key_kind::OWNER,
            Self::TokenMint => solana::key_kind::MINT,
            Self::TokenDelegate => solana::key_kind::DELEGATE,
            Self::Mentions => key_kind::MENTIONED,
        }
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum SlowConsumerParam {
    #[default]
    Close,
    Conflate,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Options {
    facet: KeyKindParam,
    commitment: Option<CommitmentLevel>,
    encoding: Option<UiAccountEncoding>,
    data_slice: Option<UiDataSliceConfig>,
    snapshot: bool,
    resume: Option<Resume>,
    when_slow: SlowConsumerParam,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resume {
    slot: Slot,
    block: String,
}

/// The addresses and the options of a call.
pub(super) fn parse_subscribe(
    pubsub: &SolanaPubSub,
    session: &SolanaSession,
    params: Params<'_>,
) -> Result<(AddressList, SubscribeRequest), RpcError> {
    let (addresses, options): (Box<RawValue>, Option<Options>) = params.parse(1)?;
    let options = options.unwrap_or_default();
    let key_kind = options.facet.key_kind();
    let commitment = match options.commitment.unwrap_or(CommitmentLevel::Finalized) {
        CommitmentLevel::Processed => Commitment::Processed,
        CommitmentLevel::Confirmed => Commitment::Confirmed,
        CommitmentLevel::Finalized => Commitment::Finalized,
    };
    let encoding = Encoding {
        form: options.encoding.unwrap_or(UiAccountEncoding::Base64),
        slice: options.data_slice,
    };
    check_snapshot(options.snapshot, key_kind)?;
    let from = options
        .resume
        .map(|resume| find_resume_block(pubsub, session, commitment, &resume))
        .transpose()?;
    let request = SubscribeRequest {
        params: SetParams { key_kind, commitment, encoding },
        from,
        snapshot: options.snapshot,
        slow_consumer_policy: match options.when_slow {
            SlowConsumerParam::Close => SlowConsumerPolicy::Close,
            SlowConsumerParam::Conflate => SlowConsumerPolicy::Conflate,
        },
    };
    Ok((AddressList::from_json(addresses), request))
}

/// Refuses a snapshot of transactions: they are not part of the state.
pub(super) fn check_snapshot(is_requested: bool, key_kind: KeyKind) -> Result<(), RpcError> {
    if is_requested && key_kind == key_kind::MENTIONED {
        let message = "Invalid params: snapshot: what mentions an address has no present state";
        return Err(RpcError::invalid_params(message));
    }
    Ok(())
}

/// Subscribes to a registered set. Cost: the message's addresses, in one step.
pub(super) fn subscribe_set(
    pubsub: &SolanaPubSub,
    session: &SolanaSession,
    pending_reply: &PendingReply,
    set: AddressSet,
    request: SubscribeRequest,
) -> Result<(Vec<SessionOutput<BlockItems>>, SetActivation), RpcError> {
    let SubscribeRequest { params, from, snapshot, slow_consumer_policy } = request;
    let SetParams { key_kind, commitment, encoding } = params;
    let count = set.len();
    let subscription = SetSubscription {
        identity: Subscription::Addresses { key_kind, commitment, encoding },
        topic: SubscriptionKind::Addresses.at(commitment),
        key_kind,
        set,
        slow_consumer_policy,
    };
    let activation = session.subscribe_set(subscription);
    let activation = activation.map_err(|err| subscribe_error(&err))?;
    let view = pubsub.api.complete_view(commitment);
    let block = view.block();
    let result = json!({
        "subscription": activation.subscription.0,
        "addresses": count,
        "slot": block.slot,
        "block": view.meta().last_blockhash().to_string(),
    });
    let activation = SetActivation {
        activation,
        params,
        added: None,
        from: ResumeFrom::Block(from.unwrap_or(block)),
        snapshot: snapshot.then_some(view),
    };
    let reply = pending_reply.reply_subscribed(pubsub, MethodOutput::json(&result));
    Ok((reply, activation))
}

fn find_resume_block(
    pubsub: &SolanaPubSub,
    session: &SolanaSession,
    commitment: Commitment,
    resume: &Resume,
) -> Result<BlockId, RpcError> {
    let hash = resume.block.parse::<Hash>();
    let hash = hash.map_err(|_| RpcError::invalid_params("Invalid params: resume.block"))?;
    let block = pubsub.api.recent_blocks.lock().find(&hash);
    let block =
        block.filter(|block| block.slot == resume.slot && session.reaches(commitment, *block));
    block.ok_or_else(|| {
        let (_, newest) = pubsub.api.reader.version_and_block(commitment);
        if newest.slot < resume.slot {
            // A client that was connected to another replica.
            return RpcError::invalid_params(format!(
                "Cannot resume: block {} of slot {} is ahead of this node, which is at slot {}; try again",
                resume.block, resume.slot, newest.slot
            ));
        }
        RpcError::invalid_params(format!(
            "Cannot resume: block {} of slot {} is not among the last {} (pubsub.resume_blocks), \
             of at most {} bytes (pubsub.resume_bytes); subscribe with a snapshot",
            resume.block,
            resume.slot,
            pubsub.api.config.resume_blocks,
            pubsub.api.config.resume_bytes
        ))
    })
}
