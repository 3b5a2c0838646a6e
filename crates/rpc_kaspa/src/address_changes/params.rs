//! The parameters of the three methods, except the list of addresses (`registration`).

use kaspa::Hash;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use subscriptions::SubscriptionId;

use crate::call::Call;

/// The parameters of `addressesSubscribe`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubscribeParams {
    /// [`crate::registration::Registration`] reads them in steps.
    #[serde(rename = "addresses")]
    _addresses: IgnoredAny,
    /// Whether the UTXOs at the first position are sent.
    #[serde(default)]
    pub(super) snapshot: bool,
    /// The position of the last notification that the client has.
    pub(super) resume: Option<ResumePosition>,
}

/// The members of a position that name its block. Others are ignored, so a client may send it as it got it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResumePosition {
    pub(super) chain_block: Hash,
    pub(super) daa_score: u64,
}

/// The parameters of `addressesUnsubscribe` and `addressesPosition`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubscriptionParams {
    subscription: u64,
}

/// Reads the parameters of a call. Cost: the length of its message.
///
/// Errors: the text of the error reply.
pub(super) fn read_params<T: DeserializeOwned>(call: &Call) -> Result<T, String> {
    let request = call.request.json().map_err(|error| error.to_string())?;
    let params = serde_json::from_str(request.params.get());
    params.map_err(|error| format!("Invalid params: {error}"))
}

/// Reads the number of a subscription, the only parameter of a call.
///
/// Errors: the text of the error reply.
pub(super) fn read_subscription(call: &Call) -> Result<SubscriptionId, String> {
    let SubscriptionParams { subscription } = read_params(call)?;
    Ok(SubscriptionId(subscription))
}
