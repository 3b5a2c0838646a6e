//! The requests that the model node understands, whatever their encoding.

use kaspa::{Hash, Header, KaspaAddress, Method, Scope, Transaction};

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Without one the request gets no reply.
    pub(crate) id: Option<u64>,
    /// The operation.
    pub(crate) operation: kaspa::Operation,
    /// The parameters. `None` if they do not have the shape of the operation.
    pub(crate) call: Option<Call>,
}

/// An operation with its parameters.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Subscribe(Scope),
    Unsubscribe(Scope),
    /// A method without parameters.
    Plain(Method),
    Addresses {
        method: Method,
        addresses: Vec<KaspaAddress>,
    },
    BalanceByAddress(KaspaAddress),
    Block {
        hash: Hash,
        include_transactions: bool,
    },
    BlockColor(Hash),
    Blocks {
        low_hash: Option<Hash>,
        include_blocks: bool,
        include_transactions: bool,
    },
    Chain {
        start: Hash,
        include_ids: bool,
        min_confirmation_count: Option<u64>,
    },
    ChainV2 {
        start: Hash,
        is_full: bool,
        min_confirmation_count: Option<u64>,
    },
    Template {
        pay_address: KaspaAddress,
        extra_data: Vec<u8>,
    },
    SubmitBlock {
        header: Box<Header>,
        transactions: Vec<Transaction>,
    },
    SubmitTransaction(Box<Transaction>),
    MempoolEntry(Hash),
    MempoolEntries {
        /// Whether only orphans are listed.
        is_orphans_only: bool,
    },
    /// A method that is not modelled.
    Other(Method),
}

/// Whether a method has no parameters and is modelled.
pub(super) fn is_plain(method: Method) -> bool {
    matches!(
        method,
        Method::Ping
            | Method::GetServerInfo
            | Method::GetSyncStatus
            | Method::GetCurrentNetwork
            | Method::GetSink
            | Method::GetConnectedPeerInfo
            | Method::GetPeerAddresses
            | Method::GetBlockCount
            | Method::GetBlockDagInfo
            | Method::GetSinkBlueScore
            | Method::GetInfo
            | Method::GetCoinSupply
            | Method::GetFeeEstimate
    )
}
