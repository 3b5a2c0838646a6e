//! Filters of whole blocks: what of a block a client gets.

use std::hash::{Hash, Hasher};

use solana_pubkey::Pubkey;
use tonic::Status;
use yellowstone_grpc_proto::geyser::SubscribeRequestFilterBlocks;

use super::common::{AddressFilter, FILTER_BYTES};
use crate::config::Config;

/// The content of a block's message. Two filters of the same content are equal, so their message is encoded once.
#[derive(Debug)]
pub(crate) struct BlockFilter {
    accounts: AddressFilter,
    /// The content of the request, to compare.
    identity: Vec<u8>,
    pub(crate) with_transactions: bool,
    pub(crate) with_accounts: bool,
    pub(crate) with_entries: bool,
}

impl BlockFilter {
    pub(super) fn new(
        filter: &SubscribeRequestFilterBlocks,
        config: &Config,
    ) -> Result<Self, Status> {
        let cuckoo = filter.cuckoo_account_include.as_ref();
        let include = &filter.account_include;
        Ok(Self {
            accounts: AddressFilter::new("account_include", include, cuckoo, config)?,
            identity: prost::Message::encode_to_vec(filter),
            with_transactions: filter.include_transactions.unwrap_or(true),
            with_accounts: filter.include_accounts.unwrap_or(false),
            with_entries: filter.include_entries.unwrap_or(false),
        })
    }

    /// Whether the account, or a transaction with it, is in the message.
    pub(crate) fn includes(&self, key: &Pubkey) -> bool {
        self.accounts.matches(key)
    }

    /// Whether all transactions are in the message.
    pub(crate) fn includes_all(&self) -> bool {
        self.accounts.is_any()
    }

    pub(super) fn bytes(&self) -> usize {
        FILTER_BYTES + self.accounts.bytes() + self.identity.len()
    }
}

impl PartialEq for BlockFilter {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
    }
}

impl Eq for BlockFilter {}

impl Hash for BlockFilter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity.hash(state);
    }
}
