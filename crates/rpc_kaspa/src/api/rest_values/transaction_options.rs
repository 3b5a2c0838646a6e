//! The options that say which members of a transaction are written.

use jsonrpc::error::RpcError;
use serde::Deserialize;

/// The members of a transaction, in their order.
pub(super) const FIELDS: &[&str] = &[
    "subnetwork_id",
    "transaction_id",
    "hash",
    "mass",
    "payload",
    "block_hash",
    "block_time",
    "is_accepted",
    "accepting_block_hash",
    "accepting_block_blue_score",
    "accepting_block_time",
    "inputs",
    "outputs",
];

/// Which members of a transaction are written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct TransactionOptions {
    /// The only members that are written. All of them if it is missing.
    fields: Option<Vec<String>>,
    /// Whether inputs are written. Null otherwise.
    pub(super) inputs: bool,
    /// Whether outputs are written. Null otherwise.
    pub(super) outputs: bool,
    pub(super) previous_outpoints: PreviousOutpoints,
}

/// The members of a spent output that are written with its input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum PreviousOutpoints {
    /// Only the transaction and the index.
    #[default]
    No,
    /// The address and the amount, too.
    Light,
    /// All members of the output.
    Full,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        let previous_outpoints = PreviousOutpoints::default();
        Self { fields: None, inputs: true, outputs: true, previous_outpoints }
    }
}

impl TransactionOptions {
    /// Checks the names of the fields.
    pub(super) fn check(self) -> Result<Self, RpcError> {
        let mut fields = self.fields.iter().flatten();
        match fields.find(|field| !FIELDS.contains(&field.as_str())) {
            None => Ok(self),
            Some(unknown) => Err(RpcError::invalid_params(format!(
                "Invalid params: fields: {unknown:?} is not one of {}",
                FIELDS.join(", ")
            ))),
        }
    }

    /// Whether a member is written.
    pub(super) fn has_field(&self, name: &str) -> bool {
        self.fields.as_ref().is_none_or(|fields| fields.iter().any(|field| field == name))
    }
}
