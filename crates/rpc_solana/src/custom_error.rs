//! Agave's own errors of JSON-RPC: the codes -32001 to -32021, with their messages and data.
//!
//! Shape: one variant for each error that this node can return. Codes, messages and data are those of
//! `solana_rpc_client_api::custom_error` 4.2; a test compares each with it. That crate would add an HTTP client
//! and 38 other crates, which the server does not need, so it is a dependency of the tests only.
//! Not here: how an error is serialized (`error.rs`).

use jsonrpc::error::RpcError;
use ledger::Slot;
use serde_json::{Value, json};
use solana_rpc_client_types::response::RpcSimulateTransactionResult;
use solana_transaction_status::EncodeError;

/// An error that clients know by its code.
#[derive(Debug)]
pub(crate) enum RpcCustomError {
    /// The first retained block is later than the requested slot.
    BlockCleanedUp {
        slot: Slot,
        first_available_block: Slot,
    },
    /// The transaction fails when it is simulated. Data: the simulation's result.
    SendTransactionPreflightFailure {
        message: String,
        result: Box<RpcSimulateTransactionResult>,
    },
    TransactionSignatureVerificationFailure,
    /// The slot has no block yet.
    BlockNotAvailable {
        slot: Slot,
    },
    /// The node has fallen behind the chain. Data: the number of slots that it is behind, if known.
    NodeUnhealthy {
        num_slots_behind: Option<Slot>,
    },
    SlotSkipped {
        slot: Slot,
    },
    NoSnapshot,
    /// The configuration excludes the key from the indices.
    KeyExcludedFromSecondaryIndex {
        index_key: String,
    },
    UnsupportedTransactionVersion(u8),
    /// The bank of the request's commitment is older than the client requests. Data: that bank's slot.
    MinContextSlotNotReached {
        context_slot: Slot,
    },
    /// Rewards of the epoch are still being paid. Data: the current height, and the height at which the payment is
    /// complete.
    EpochRewardsPeriodActive {
        slot: Slot,
        current_block_height: u64,
        rewards_complete_block_height: u64,
    },
    /// Rewards were requested for a slot in which none are paid. Data: the slot.
    SlotNotEpochBoundary {
        slot: Slot,
    },
    /// A page of signatures starts at an unknown one.
    FilterTransactionNotFound {
        signature: String,
    },
    NoSlotHistory,
}

impl RpcCustomError {
    fn code(&self) -> i64 {
        match self {
            Self::BlockCleanedUp { .. } => -32001,
            Self::SendTransactionPreflightFailure { .. } => -32002,
            Self::TransactionSignatureVerificationFailure => -32003,
            Self::BlockNotAvailable { .. } => -32004,
            Self::NodeUnhealthy { .. } => -32005,
            Self::SlotSkipped { .. } => -32007,
            Self::NoSnapshot => -32008,
            Self::KeyExcludedFromSecondaryIndex { .. } => -32010,
            Self::UnsupportedTransactionVersion(_) => -32015,
            Self::MinContextSlotNotReached { .. } => -32016,
            Self::EpochRewardsPeriodActive { .. } => -32017,
            Self::SlotNotEpochBoundary { .. } => -32018,
            Self::FilterTransactionNotFound { .. } => -32020,
            Self::NoSlotHistory => -32021,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::BlockCleanedUp { slot, first_available_block: first } => format!(
                "Block {slot} cleaned up, does not exist on node. First available block: {first}"
            ),
            Self::SendTransactionPreflightFailure { message, .. } => message.clone(),
            Self::TransactionSignatureVerificationFailure => {
                "Transaction signature verification failure".to_owned()
            }
            Self::BlockNotAvailable { slot } => format!("Block not available for slot {slot}"),
            Self::NodeUnhealthy { num_slots_behind: None } => "Node is unhealthy".to_owned(),
            Self::NodeUnhealthy { num_slots_behind: Some(slots) } => {
                format!("Node is behind by {slots} slots")
            }
            Self::SlotSkipped { slot } => {
                format!("Slot {slot} was skipped, or missing due to ledger jump to recent snapshot")
            }
            Self::NoSnapshot => "No snapshot".to_owned(),
            Self::KeyExcludedFromSecondaryIndex { index_key } => format!(
                "{index_key} excluded from account secondary indexes; this RPC method unavailable for key"
            ),
            Self::UnsupportedTransactionVersion(version) => format!(
                "Transaction version ({version}) is not supported by the requesting client. Please try \
                 the request again with the following configuration parameter: \
                 \"maxSupportedTransactionVersion\": {version}"
            ),
            Self::MinContextSlotNotReached { .. } => {
                "Minimum context slot has not been reached".to_owned()
            }
            Self::EpochRewardsPeriodActive { slot, .. } => {
                format!("Epoch rewards period still active at slot {slot}")
            }
            Self::SlotNotEpochBoundary { slot } => format!(
                "Rewards cannot be found because slot {slot} is not the epoch boundary. This may be due \
                 to gap in the queried node's local ledger or long-term storage"
            ),
            Self::FilterTransactionNotFound { signature } => {
                format!("Transaction {signature} not found")
            }
            Self::NoSlotHistory => "No slot history".to_owned(),
        }
    }

    fn data(&self) -> Option<Value> {
        Some(match self {
            Self::SendTransactionPreflightFailure { result, .. } => json!(result),
            Self::NodeUnhealthy { num_slots_behind } => {
                json!({ "numSlotsBehind": num_slots_behind })
            }
            Self::MinContextSlotNotReached { context_slot } => {
                json!({ "contextSlot": context_slot })
            }
            Self::EpochRewardsPeriodActive {
                slot,
                current_block_height,
                rewards_complete_block_height,
            } => json!({
                "currentBlockHeight": current_block_height,
                "rewardsCompleteBlockHeight": rewards_complete_block_height,
                "slot": slot,
            }),
            Self::SlotNotEpochBoundary { slot } => json!({ "slot": slot }),
            _ => return None,
        })
    }
}

impl From<EncodeError> for RpcCustomError {
    fn from(err: EncodeError) -> Self {
        match err {
            EncodeError::UnsupportedTransactionVersion(version) => {
                Self::UnsupportedTransactionVersion(version)
            }
        }
    }
}

impl From<RpcCustomError> for RpcError {
    fn from(err: RpcCustomError) -> Self {
        Self { code: err.code(), message: err.message(), data: err.data() }
    }
}

#[cfg(test)]
mod tests {
    use jsonrpc_core::Error as AgaveError;
    use solana_rpc_client_api::custom_error::RpcCustomError as Agave;

    use super::*;

    #[track_caller]
    fn check(ours: RpcCustomError, agaves: Agave) {
        let agaves = AgaveError::from(agaves);
        let agaves =
            RpcError { code: agaves.code.code(), message: agaves.message, data: agaves.data };
        assert_eq!(RpcError::from(ours), agaves);
    }

    fn simulation() -> RpcSimulateTransactionResult {
        serde_json::from_value(json!({ "err": null, "logs": ["a"], "unitsConsumed": 7 }))
            .expect("a result of a simulation")
    }

    #[test]
    fn codes_messages_and_data_are_agaves() {
        let index_key = || "key".to_owned();
        check(
            RpcCustomError::BlockCleanedUp { slot: 1, first_available_block: 2 },
            Agave::BlockCleanedUp { slot: 1, first_available_block: 2 },
        );
        check(
            RpcCustomError::SendTransactionPreflightFailure {
                message: index_key(),
                result: Box::new(simulation()),
            },
            Agave::SendTransactionPreflightFailure { message: index_key(), result: simulation() },
        );
        check(
            RpcCustomError::TransactionSignatureVerificationFailure,
            Agave::TransactionSignatureVerificationFailure,
        );
        check(RpcCustomError::BlockNotAvailable { slot: 3 }, Agave::BlockNotAvailable { slot: 3 });
        for num_slots_behind in [None, Some(9)] {
            check(
                RpcCustomError::NodeUnhealthy { num_slots_behind },
                Agave::NodeUnhealthy { num_slots_behind },
            );
        }
        check(RpcCustomError::SlotSkipped { slot: 4 }, Agave::SlotSkipped { slot: 4 });
        check(RpcCustomError::NoSnapshot, Agave::NoSnapshot);
        check(
            RpcCustomError::KeyExcludedFromSecondaryIndex { index_key: index_key() },
            Agave::KeyExcludedFromSecondaryIndex { index_key: index_key() },
        );
        let unsupported = || EncodeError::UnsupportedTransactionVersion(1);
        check(unsupported().into(), unsupported().into());
        check(
            RpcCustomError::MinContextSlotNotReached { context_slot: 7 },
            Agave::MinContextSlotNotReached { context_slot: 7 },
        );
        check(
            RpcCustomError::EpochRewardsPeriodActive {
                slot: 1,
                current_block_height: 2,
                rewards_complete_block_height: 3,
            },
            Agave::EpochRewardsPeriodActive {
                slot: 1,
                current_block_height: 2,
                rewards_complete_block_height: 3,
            },
        );
        check(
            RpcCustomError::SlotNotEpochBoundary { slot: 5 },
            Agave::SlotNotEpochBoundary { slot: 5 },
        );
        check(
            RpcCustomError::FilterTransactionNotFound { signature: index_key() },
            Agave::FilterTransactionNotFound { signature: index_key() },
        );
        check(RpcCustomError::NoSlotHistory, Agave::NoSlotHistory);
    }
}
