//! The API key with which a subscription was opened.

use api_keys::{KeyNumber, Permit};

/// The API key of a subscription, and its permit. Without API keys there is neither.
#[derive(Default)]
pub(crate) struct StreamKey {
    pub(crate) number: Option<KeyNumber>,
    pub(crate) permit: Option<Permit>,
}
