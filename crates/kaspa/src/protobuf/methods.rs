//! The requests of kaspad's gRPC: their numbers in `KaspadRequest`, their operations, and the shapes of their parameters
//! and replies.
//!
//! Invariant: the number of a reply in `KaspadResponse` is one greater than that of its request.

use super::objects::{
    ACCEPTED_IDS, BANDWIDTH_METRICS, BLOCK, CHAIN_BLOCK, CONNECTION_METRICS, CONSENSUS_METRICS,
    EMPTY, FEE_DETAILS, FEE_ESTIMATE, HEADER, MEMPOOL_ENTRIES_OF_ADDRESS, MEMPOOL_ENTRY,
    PROCESS_METRICS, PROFILE, PROVEN_TIP, RAW_BLOCK, RAW_TRANSACTION, STORAGE_METRICS, TRANSACTION,
};
use super::shape::Kind::{
    BlockReport, Bytes, BytesAsDigits, BytesAsText, DigitsAsBytes, Double, Enumeration, Flag,
    Inline, KnownAddress, List, NetworkName, NullableText, Number, Numbers, Object, PeerAddress,
    Signed, Text,
};
use super::shape::{Shape, field, optional};
use crate::operation::{Event, Method};

/// A request that calls a method.
#[derive(Debug)]
pub(super) struct MethodShape {
    /// The number of the request.
    pub(super) field: u32,
    pub(super) method: Method,
    /// The parameters of the request.
    pub(super) params: &'static Shape,
    /// The parameters of the reply.
    pub(super) reply: &'static Shape,
}

/// A request that starts or stops notifications.
#[derive(Debug)]
pub(super) struct ScopeShape {
    /// The number of the request.
    pub(super) field: u32,
    pub(super) event: Event,
    /// The parameters of the scope.
    pub(super) params: &'static Shape,
    /// Whether the request can only stop. Otherwise it has a command.
    pub(super) is_stop: bool,
}

const fn method(
    field: u32,
    method: Method,
    params: &'static Shape,
    reply: &'static Shape,
) -> MethodShape {
    MethodShape { field, method, params, reply }
}

const fn scope(field: u32, event: Event, params: &'static Shape) -> ScopeShape {
    ScopeShape { field, event, params, is_stop: false }
}

/// The requests that start or stop notifications. Finality conflicts include their resolution.
pub(super) static SCOPES: &[ScopeShape] = &[
    scope(1_007, Event::BlockAdded, &EMPTY),
    scope(1_022, Event::VirtualChainChanged, &CHAIN_SCOPE),
    scope(1_039, Event::FinalityConflict, &EMPTY),
    scope(1_049, Event::UtxosChanged, &ADDRESSES),
    scope(1_056, Event::SinkBlueScoreChanged, &EMPTY),
    ScopeShape { field: 1_065, event: Event::UtxosChanged, params: &ADDRESSES, is_stop: true },
    scope(1_067, Event::PruningPointUtxoSetOverride, &EMPTY),
    ScopeShape {
        field: 1_070,
        event: Event::PruningPointUtxoSetOverride,
        params: &EMPTY,
        is_stop: true,
    },
    scope(1_074, Event::VirtualDaaScoreChanged, &EMPTY),
    scope(1_081, Event::NewBlockTemplate, &EMPTY),
];

/// The requests that call methods, all that kaspad has.
pub(super) static METHODS: &[MethodShape] = &[
    method(1_001, Method::GetCurrentNetwork, &EMPTY, &NETWORK),
    method(1_003, Method::SubmitBlock, &SUBMIT_BLOCK, &SUBMITTED_BLOCK),
    method(1_005, Method::GetBlockTemplate, &TEMPLATE_PARAMS, &TEMPLATE),
    method(1_010, Method::GetPeerAddresses, &EMPTY, &PEER_ADDRESSES),
    method(1_012, Method::GetSink, &EMPTY, &SINK),
    method(1_014, Method::GetMempoolEntry, &MEMPOOL_ENTRY_PARAMS, &MEMPOOL_ENTRY_REPLY),
    method(1_016, Method::GetConnectedPeerInfo, &EMPTY, &PEERS),
    method(1_018, Method::AddPeer, &ADD_PEER, &EMPTY),
    method(1_020, Method::SubmitTransaction, &SUBMIT_TRANSACTION, &TRANSACTION_ID),
    method(1_025, Method::GetBlock, &BLOCK_PARAMS, &BLOCK_REPLY),
    method(1_027, Method::GetSubnetwork, &SUBNETWORK, &GAS_LIMIT),
    method(1_029, Method::GetVirtualChainFromBlock, &CHAIN_PARAMS, &CHAIN),
    method(1_031, Method::GetBlocks, &BLOCKS_PARAMS, &BLOCKS),
    method(1_033, Method::GetBlockCount, &EMPTY, &BLOCK_COUNT),
    method(1_035, Method::GetBlockDagInfo, &EMPTY, &DAG_INFO),
    method(1_037, Method::ResolveFinalityConflict, &FINALITY_BLOCK, &EMPTY),
    method(1_043, Method::GetMempoolEntries, &MEMPOOL_PARAMS, &MEMPOOL_ENTRIES),
    method(1_045, Method::Shutdown, &EMPTY, &EMPTY),
    method(1_047, Method::GetHeaders, &HEADERS_PARAMS, &HEADERS),
    method(1_052, Method::GetUtxosByAddresses, &ADDRESSES, &EMPTY),
    method(1_054, Method::GetSinkBlueScore, &EMPTY, &BLUE_SCORE),
    method(1_059, Method::Ban, &IP, &EMPTY),
    method(1_061, Method::Unban, &IP, &EMPTY),
    method(1_063, Method::GetInfo, &EMPTY, &NODE_INFO),
    method(1_072, Method::EstimateNetworkHashesPerSecond, &HASH_RATE_PARAMS, &HASH_RATE),
    method(1_077, Method::GetBalanceByAddress, &ADDRESS, &BALANCE),
    method(1_079, Method::GetBalancesByAddresses, &ADDRESSES, &EMPTY),
    method(1_084, Method::GetMempoolEntriesByAddresses, &MEMPOOL_ADDRESSES, &MEMPOOL_BY_ADDRESS),
    method(1_086, Method::GetCoinSupply, &EMPTY, &COIN_SUPPLY),
    method(1_088, Method::Ping, &EMPTY, &EMPTY),
    method(1_090, Method::GetMetrics, &METRICS_PARAMS, &METRICS),
    method(1_092, Method::GetServerInfo, &EMPTY, &SERVER_INFO),
    method(1_094, Method::GetSyncStatus, &EMPTY, &SYNC_STATUS),
    method(1_096, Method::GetDaaScoreTimestampEstimate, &DAA_SCORES, &TIMESTAMPS),
    method(1_100, Method::SubmitTransactionReplacement, &REPLACE_TRANSACTION, &REPLACED),
    method(1_102, Method::GetConnections, &CONNECTIONS_PARAMS, &CONNECTIONS),
    method(1_104, Method::GetSystemInfo, &EMPTY, &SYSTEM_INFO),
    method(1_106, Method::GetFeeEstimate, &EMPTY, &FEES),
    method(1_108, Method::GetFeeEstimateExperimental, &FEES_PARAMS, &FEES_WITH_DETAILS),
    method(1_110, Method::GetCurrentBlockColor, &HASH, &BLOCK_COLOR),
    method(1_112, Method::GetUtxoReturnAddress, &RETURN_ADDRESS_PARAMS, &RETURN_ADDRESS),
    method(1_114, Method::GetVirtualChainFromBlockV2, &CHAIN_V2_PARAMS, &CHAIN_V2),
    method(1_116, Method::GetBlockRewardInfo, &HASH, &REWARD),
    method(1_118, Method::GetSeqCommitLaneProof, &SEQUENCE_PROOF_PARAMS, &SEQUENCE_PROOF),
];

/// The content of the notification of an added block.
pub(super) static BLOCK_ADDED: Shape = Shape(&[field(3, "block", Object(&BLOCK))]);

static CHAIN_SCOPE: Shape = Shape(&[field(1, "include_accepted_transaction_ids", Flag)]);
static ADDRESSES: Shape = Shape(&[field(1, "addresses", List(&Text))]);
static ADDRESS: Shape = Shape(&[field(1, "address", Text)]);
static BALANCE: Shape = Shape(&[field(1, "balance", Number)]);
static HASH: Shape = Shape(&[field(1, "hash", Text)]);
static IP: Shape = Shape(&[field(1, "ip", Text)]);
static NETWORK: Shape = Shape(&[field(1, "network", Text)]);
static SINK: Shape = Shape(&[field(1, "sink", Text)]);
static BLUE_SCORE: Shape = Shape(&[field(1, "blueScore", Number)]);
static SYNC_STATUS: Shape = Shape(&[field(1, "isSynced", Flag)]);
static BLOCK_COLOR: Shape = Shape(&[field(1, "blue", Flag)]);
static HASH_RATE: Shape = Shape(&[field(1, "networkHashesPerSecond", Number)]);
static TRANSACTION_ID: Shape = Shape(&[field(1, "transactionId", Text)]);
static RETURN_ADDRESS: Shape = Shape(&[field(1, "returnAddress", Text)]);
static SUBNETWORK: Shape = Shape(&[field(1, "subnetworkId", Text)]);
static GAS_LIMIT: Shape = Shape(&[field(1, "gasLimit", Number)]);
static FINALITY_BLOCK: Shape = Shape(&[field(1, "finalityBlockHash", Text)]);
static CONNECTIONS_PARAMS: Shape = Shape(&[field(1, "includeProfileData", Flag)]);
static FEES_PARAMS: Shape = Shape(&[field(1, "verbose", Flag)]);
static DAA_SCORES: Shape = Shape(&[field(1, "daaScores", Numbers)]);
static TIMESTAMPS: Shape = Shape(&[field(1, "timestamps", Numbers)]);
static HEADERS: Shape = Shape(&[field(1, "headers", List(&Text))]);
static SUBMITTED_BLOCK: Shape = Shape(&[field(1, "report", BlockReport)]);
static PEERS: Shape = Shape(&[field(1, "peerInfo", List(&Object(&PEER)))]);
static MEMPOOL_ENTRIES: Shape = Shape(&[field(1, "mempoolEntries", List(&Object(&MEMPOOL_ENTRY)))]);
static MEMPOOL_ENTRY_REPLY: Shape = Shape(&[field(1, "mempoolEntry", Object(&MEMPOOL_ENTRY))]);
static BLOCK_REPLY: Shape = Shape(&[field(3, "block", Object(&BLOCK))]);
static FEES: Shape = Shape(&[field(1, "estimate", Object(&FEE_ESTIMATE))]);
static REPLACE_TRANSACTION: Shape = Shape(&[field(1, "transaction", Object(&RAW_TRANSACTION))]);

static SUBMIT_BLOCK: Shape =
    Shape(&[field(2, "block", Object(&RAW_BLOCK)), field(3, "allowNonDaaBlocks", Flag)]);

static TEMPLATE_PARAMS: Shape =
    Shape(&[field(1, "payAddress", Text), field(2, "extraData", BytesAsText)]);

static TEMPLATE: Shape = Shape(&[field(2, "isSynced", Flag), field(3, "block", Object(&BLOCK))]);

static PEER_ADDRESSES: Shape = Shape(&[
    field(1, "knownAddresses", List(&KnownAddress)),
    field(2, "bannedAddresses", List(&KnownAddress)),
]);

static PEER: Shape = Shape(&[
    field(1, "id", Text),
    field(2, "address", PeerAddress),
    field(3, "last_ping_duration", Signed),
    field(6, "is_outbound", Flag),
    field(7, "time_offset", Signed),
    field(8, "user_agent", Text),
    field(9, "advertised_protocol_version", Number),
    field(10, "time_connected", Signed),
    field(11, "is_ibd_peer", Flag),
]);

static ADD_PEER: Shape =
    Shape(&[field(1, "peerAddress", PeerAddress), field(2, "isPermanent", Flag)]);

static MEMPOOL_ENTRY_PARAMS: Shape = Shape(&[
    field(1, "transactionId", Text),
    field(2, "includeOrphanPool", Flag),
    field(3, "filterTransactionPool", Flag),
]);

static MEMPOOL_PARAMS: Shape =
    Shape(&[field(1, "includeOrphanPool", Flag), field(2, "filterTransactionPool", Flag)]);

static MEMPOOL_ADDRESSES: Shape = Shape(&[
    field(1, "addresses", List(&Text)),
    field(2, "includeOrphanPool", Flag),
    field(3, "filterTransactionPool", Flag),
]);

static MEMPOOL_BY_ADDRESS: Shape =
    Shape(&[field(1, "entries", List(&Object(&MEMPOOL_ENTRIES_OF_ADDRESS)))]);

static SUBMIT_TRANSACTION: Shape =
    Shape(&[field(1, "transaction", Object(&RAW_TRANSACTION)), field(2, "allowOrphan", Flag)]);

static REPLACED: Shape = Shape(&[
    field(1, "transactionId", Text),
    field(2, "replacedTransaction", Object(&TRANSACTION)),
]);

static BLOCK_PARAMS: Shape =
    Shape(&[field(1, "hash", Text), field(3, "includeTransactions", Flag)]);

static CHAIN_PARAMS: Shape = Shape(&[
    field(1, "startHash", Text),
    field(2, "includeAcceptedTransactionIds", Flag),
    optional(3, "minConfirmationCount", Number),
]);

static CHAIN: Shape = Shape(&[
    field(1, "removedChainBlockHashes", List(&Text)),
    field(2, "acceptedTransactionIds", List(&Object(&ACCEPTED_IDS))),
    field(3, "addedChainBlockHashes", List(&Text)),
]);

static BLOCKS_PARAMS: Shape = Shape(&[
    field(1, "lowHash", NullableText),
    field(2, "includeBlocks", Flag),
    field(3, "includeTransactions", Flag),
]);

static BLOCKS: Shape =
    Shape(&[field(3, "blocks", List(&Object(&BLOCK))), field(4, "blockHashes", List(&Text))]);

static BLOCK_COUNT: Shape =
    Shape(&[field(1, "blockCount", Number), field(2, "headerCount", Number)]);

static DAG_INFO: Shape = Shape(&[
    field(1, "network", NetworkName),
    field(2, "blockCount", Number),
    field(3, "headerCount", Number),
    field(4, "tipHashes", List(&Text)),
    field(5, "difficulty", Double),
    field(6, "pastMedianTime", Signed),
    field(7, "virtualParentHashes", List(&Text)),
    field(8, "pruningPointHash", Text),
    field(9, "virtualDaaScore", Number),
    field(10, "sink", Text),
]);

static HEADERS_PARAMS: Shape =
    Shape(&[field(1, "startHash", Text), field(2, "limit", Number), field(3, "isAscending", Flag)]);

static NODE_INFO: Shape = Shape(&[
    field(1, "p2pId", Text),
    field(2, "mempoolSize", Number),
    field(3, "serverVersion", Text),
    field(4, "isUtxoIndexed", Flag),
    field(5, "isSynced", Flag),
    field(11, "hasNotifyCommand", Flag),
    field(12, "hasMessageId", Flag),
]);

static HASH_RATE_PARAMS: Shape =
    Shape(&[field(1, "windowSize", Number), field(2, "startHash", NullableText)]);

static COIN_SUPPLY: Shape =
    Shape(&[field(1, "maxSompi", Number), field(2, "circulatingSompi", Number)]);

static METRICS_PARAMS: Shape = Shape(&[
    field(1, "processMetrics", Flag),
    field(2, "connectionMetrics", Flag),
    field(3, "bandwidthMetrics", Flag),
    field(4, "consensusMetrics", Flag),
    field(5, "storageMetrics", Flag),
    field(6, "customMetrics", Flag),
]);

static METRICS: Shape = Shape(&[
    field(1, "serverTime", Number),
    field(11, "processMetrics", Object(&PROCESS_METRICS)),
    field(12, "connectionMetrics", Object(&CONNECTION_METRICS)),
    field(13, "bandwidthMetrics", Object(&BANDWIDTH_METRICS)),
    field(14, "consensusMetrics", Object(&CONSENSUS_METRICS)),
    field(15, "storageMetrics", Object(&STORAGE_METRICS)),
]);

static SERVER_INFO: Shape = Shape(&[
    field(1, "rpcApiVersion", Number),
    field(2, "rpcApiRevision", Number),
    field(3, "serverVersion", Text),
    field(4, "networkId", Text),
    field(5, "hasUtxoIndex", Flag),
    field(6, "isSynced", Flag),
    field(7, "virtualDaaScore", Number),
]);

static CONNECTIONS: Shape = Shape(&[
    field(1, "clients", Number),
    field(2, "peers", Number),
    field(3, "profileData", Object(&PROFILE)),
]);

static SYSTEM_INFO: Shape = Shape(&[
    field(1, "version", Text),
    field(2, "systemId", BytesAsDigits),
    field(3, "gitHash", BytesAsDigits),
    field(4, "cpuPhysicalCores", Number),
    field(5, "totalMemory", Number),
    field(6, "fdLimit", Number),
    field(7, "proxySocketLimitPerCpuCore", Number),
]);

static FEES_WITH_DETAILS: Shape = Shape(&[
    field(1, "estimate", Object(&FEE_ESTIMATE)),
    field(2, "verbose", Object(&FEE_DETAILS)),
]);

static RETURN_ADDRESS_PARAMS: Shape =
    Shape(&[field(1, "txid", Text), field(2, "acceptingBlockDaaScore", Number)]);

/// The levels of detail of getVirtualChainFromBlockV2.
const VERBOSITY_LEVELS: &[(&str, u64)] = &[("None", 0), ("Low", 1), ("High", 2), ("Full", 3)];

static CHAIN_V2_PARAMS: Shape = Shape(&[
    field(1, "startHash", Text),
    optional(2, "dataVerbosityLevel", Enumeration(VERBOSITY_LEVELS)),
    optional(3, "minConfirmationCount", Number),
]);

static CHAIN_V2: Shape = Shape(&[
    field(1, "removedChainBlockHashes", List(&Text)),
    field(2, "addedChainBlockHashes", List(&Text)),
    field(3, "chainBlockAcceptedTransactions", List(&Object(&CHAIN_BLOCK))),
]);

const BLOCK_COLORS: &[(&str, u64)] = &[("unknown", 0), ("blue", 1), ("red", 2)];

static REWARD: Shape = Shape(&[
    field(1, "header", Object(&HEADER)),
    field(2, "blockColor", Enumeration(BLOCK_COLORS)),
    optional(3, "confirmationCount", Number),
    optional(4, "mergingChainBlockHash", Text),
    optional(5, "rewardAmount", Number),
]);

static SEQUENCE_PROOF_PARAMS: Shape =
    Shape(&[field(1, "blockHash", DigitsAsBytes), field(2, "laneKey", DigitsAsBytes)]);

static SEQUENCE_PROOF: Shape = Shape(&[
    field(1, "smtProof", Bytes),
    field(2, "lane", Inline(&PROVEN_TIP)),
    field(4, "payloadAndCtxDigest", DigitsAsBytes),
    field(5, "parentSeqCommit", DigitsAsBytes),
    field(6, "inactivityShortcut", DigitsAsBytes),
]);
