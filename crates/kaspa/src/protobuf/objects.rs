//! The objects that requests and replies have in common: blocks, transactions, UTXOs, and those of single methods.
//!
//! The numbers are those of kaspad 2.1.0's `rpc.proto`, the keys those of its wRPC in JSON.

use super::shape::Kind::{
    BlueWork, DigitsAsBytes, Double, Flag, Float, LevelRun, List, Number, Object, Script, Signed,
    Text, Words, Wrapped,
};
use super::shape::{FieldShape, Shape, field, optional};

/// The names of script kinds: in JSON, and in protobuf.
const SCRIPT_CLASSES: &[(&str, &str)] = &[
    ("NonStandard", "nonstandard"),
    ("PubKey", "pubkey"),
    ("PubKeyECDSA", "pubkeyecdsa"),
    ("ScriptHash", "scripthash"),
];

pub(super) static EMPTY: Shape = Shape(&[]);

static OUTPOINT: Shape = Shape(&[field(1, "transactionId", Text), field(2, "index", Number)]);

static COVENANT: Shape =
    Shape(&[field(1, "authorizingInput", Number), field(2, "covenantId", Text)]);

static SCRIPT_VERBOSE: Shape = Shape(&[
    field(5, "scriptPublicKeyType", Words(SCRIPT_CLASSES)),
    field(6, "scriptPublicKeyAddress", Text),
]);

static INPUT: Shape = Shape(&[
    field(1, "previousOutpoint", Object(&OUTPOINT)),
    field(2, "signatureScript", Text),
    field(3, "sequence", Number),
    field(5, "sigOpCount", Number),
    field(6, "computeBudget", Number),
]);

static OUTPUT: Shape = Shape(&[
    field(1, "value", Number),
    field(2, "scriptPublicKey", Script),
    field(3, "verboseData", Object(&SCRIPT_VERBOSE)),
    optional(4, "covenant", Object(&COVENANT)),
]);

/// An output in a request. Its verbose data is not read.
static RAW_OUTPUT: Shape = Shape(&[
    field(1, "value", Number),
    field(2, "scriptPublicKey", Script),
    optional(4, "covenant", Object(&COVENANT)),
]);

static TRANSACTION_VERBOSE: Shape = Shape(&[
    field(1, "transactionId", Text),
    field(2, "hash", Text),
    field(4, "computeMass", Number),
    field(12, "blockHash", Text),
    field(14, "blockTime", Number),
]);

pub(super) static TRANSACTION: Shape = Shape(&[
    field(1, "version", Number),
    field(2, "inputs", List(&Object(&INPUT))),
    field(3, "outputs", List(&Object(&OUTPUT))),
    field(4, "lockTime", Number),
    field(5, "subnetworkId", Text),
    field(6, "gas", Number),
    field(8, "payload", Text),
    field(9, "verboseData", Object(&TRANSACTION_VERBOSE)),
    field(10, "storageMass", Number),
]);

/// A transaction in a request. Its verbose data is not read.
pub(super) static RAW_TRANSACTION: Shape = Shape(&[
    field(1, "version", Number),
    field(2, "inputs", List(&Object(&INPUT))),
    field(3, "outputs", List(&Object(&RAW_OUTPUT))),
    field(4, "lockTime", Number),
    field(5, "subnetworkId", Text),
    field(6, "gas", Number),
    field(8, "payload", Text),
    field(10, "storageMass", Number),
]);

pub(super) static HEADER: Shape = Shape(&[
    HEADER_VERSION,
    HEADER_TRANSACTIONS,
    HEADER_ACCEPTED,
    HEADER_UTXOS,
    HEADER_TIME,
    HEADER_BITS,
    HEADER_NONCE,
    HEADER_DAA_SCORE,
    HEADER_BLUE_DIFFICULTY,
    HEADER_PARENTS,
    HEADER_BLUE_SCORE,
    HEADER_PRUNING_POINT,
    field(15, "hash", Text),
]);

/// A header in a request. Its hash is not read.
static RAW_HEADER: Shape = Shape(&[
    HEADER_VERSION,
    HEADER_TRANSACTIONS,
    HEADER_ACCEPTED,
    HEADER_UTXOS,
    HEADER_TIME,
    HEADER_BITS,
    HEADER_NONCE,
    HEADER_DAA_SCORE,
    HEADER_BLUE_DIFFICULTY,
    HEADER_PARENTS,
    HEADER_BLUE_SCORE,
    HEADER_PRUNING_POINT,
]);

const HEADER_VERSION: FieldShape = field(1, "version", Number);
const HEADER_TRANSACTIONS: FieldShape = field(3, "hashMerkleRoot", Text);
const HEADER_ACCEPTED: FieldShape = field(4, "acceptedIdMerkleRoot", Text);
const HEADER_UTXOS: FieldShape = field(5, "utxoCommitment", Text);
const HEADER_TIME: FieldShape = field(6, "timestamp", Signed);
const HEADER_BITS: FieldShape = field(7, "bits", Number);
const HEADER_NONCE: FieldShape = field(8, "nonce", Number);
const HEADER_DAA_SCORE: FieldShape = field(9, "daaScore", Number);
const HEADER_BLUE_DIFFICULTY: FieldShape = field(10, "blueWork", BlueWork);
const HEADER_PARENTS: FieldShape = field(12, "parentsByLevel", List(&Wrapped(&List(&Text))));
const HEADER_BLUE_SCORE: FieldShape = field(13, "blueScore", Number);
const HEADER_PRUNING_POINT: FieldShape = field(14, "pruningPoint", Text);

static BLOCK_VERBOSE: Shape = Shape(&[
    field(1, "hash", Text),
    field(11, "difficulty", Double),
    field(13, "selectedParentHash", Text),
    field(14, "transactionIds", List(&Text)),
    field(15, "isHeaderOnly", Flag),
    field(16, "blueScore", Number),
    field(17, "childrenHashes", List(&Text)),
    field(18, "mergeSetBluesHashes", List(&Text)),
    field(19, "mergeSetRedsHashes", List(&Text)),
    field(20, "isChainBlock", Flag),
]);

pub(super) static BLOCK: Shape = Shape(&[
    field(1, "header", Object(&HEADER)),
    field(2, "transactions", List(&Object(&TRANSACTION))),
    field(3, "verboseData", Object(&BLOCK_VERBOSE)),
]);

/// A block in a request. Its verbose data is not read.
pub(super) static RAW_BLOCK: Shape = Shape(&[
    field(1, "header", Object(&RAW_HEADER)),
    field(2, "transactions", List(&Object(&RAW_TRANSACTION))),
]);

pub(super) static MEMPOOL_ENTRY: Shape = Shape(&[
    field(1, "fee", Number),
    field(3, "transaction", Object(&TRANSACTION)),
    field(4, "is_orphan", Flag),
]);

pub(super) static MEMPOOL_ENTRIES_OF_ADDRESS: Shape = Shape(&[
    field(1, "address", Text),
    field(2, "sending", List(&Object(&MEMPOOL_ENTRY))),
    field(3, "receiving", List(&Object(&MEMPOOL_ENTRY))),
]);

pub(super) static ACCEPTED_IDS: Shape =
    Shape(&[field(1, "acceptingBlockHash", Text), field(2, "acceptedTransactionIds", List(&Text))]);

static FEE_BUCKET: Shape =
    Shape(&[field(1, "feerate", Double), field(2, "estimatedSeconds", Double)]);

pub(super) static FEE_ESTIMATE: Shape = Shape(&[
    field(1, "priorityBucket", Object(&FEE_BUCKET)),
    field(2, "normalBuckets", List(&Object(&FEE_BUCKET))),
    field(3, "lowBuckets", List(&Object(&FEE_BUCKET))),
]);

pub(super) static FEE_DETAILS: Shape = Shape(&[
    field(1, "mempoolReadyTransactionsCount", Number),
    field(2, "mempoolReadyTransactionsTotalMass", Number),
    field(3, "networkMassPerSecond", Number),
    field(11, "nextBlockTemplateFeerateMin", Double),
    field(12, "nextBlockTemplateFeerateMedian", Double),
    field(13, "nextBlockTemplateFeerateMax", Double),
]);

pub(super) static PROCESS_METRICS: Shape = Shape(&[
    field(1, "residentSetSize", Number),
    field(2, "virtualMemorySize", Number),
    field(3, "coreNum", Number),
    field(4, "cpuUsage", Float),
    field(5, "fdNum", Number),
    field(6, "diskIoReadBytes", Number),
    field(7, "diskIoWriteBytes", Number),
    field(8, "diskIoReadPerSec", Float),
    field(9, "diskIoWritePerSec", Float),
]);

pub(super) static CONNECTION_METRICS: Shape = Shape(&[
    field(31, "borshLiveConnections", Number),
    field(32, "borshConnectionAttempts", Number),
    field(33, "borshHandshakeFailures", Number),
    field(41, "jsonLiveConnections", Number),
    field(42, "jsonConnectionAttempts", Number),
    field(43, "jsonHandshakeFailures", Number),
    field(51, "activePeers", Number),
]);

pub(super) static BANDWIDTH_METRICS: Shape = Shape(&[
    field(61, "borshBytesTx", Number),
    field(62, "borshBytesRx", Number),
    field(63, "jsonBytesTx", Number),
    field(64, "jsonBytesRx", Number),
    field(65, "p2pBytesTx", Number),
    field(66, "p2pBytesRx", Number),
    field(67, "grpcBytesTx", Number),
    field(68, "grpcBytesRx", Number),
]);

pub(super) static CONSENSUS_METRICS: Shape = Shape(&[
    field(1, "nodeBlocksSubmittedCount", Number),
    field(2, "nodeHeadersProcessedCount", Number),
    field(3, "nodeDependenciesProcessedCount", Number),
    field(4, "nodeBodiesProcessedCount", Number),
    field(5, "nodeTransactionsProcessedCount", Number),
    field(6, "nodeChainBlocksProcessedCount", Number),
    field(7, "nodeMassProcessedCount", Number),
    field(11, "nodeDatabaseBlocksCount", Number),
    field(12, "nodeDatabaseHeadersCount", Number),
    field(13, "networkMempoolSize", Number),
    field(14, "networkTipHashesCount", Number),
    field(15, "networkDifficulty", Double),
    field(16, "networkPastMedianTime", Number),
    field(17, "networkVirtualParentHashesCount", Number),
    field(18, "networkVirtualDaaScore", Number),
]);

pub(super) static STORAGE_METRICS: Shape = Shape(&[field(1, "storageSizeBytes", Number)]);

pub(super) static PROFILE: Shape =
    Shape(&[field(1, "cpuUsage", Double), field(2, "memoryUsage", Number)]);

static CHAIN_HEADER: Shape = Shape(&[
    optional(2, "hash", Text),
    optional(3, "version", Number),
    field(4, "parentsByLevel", List(&LevelRun)),
    optional(5, "hashMerkleRoot", Text),
    optional(6, "acceptedIdMerkleRoot", Text),
    optional(7, "utxoCommitment", Text),
    optional(8, "timestamp", Signed),
    optional(9, "bits", Number),
    optional(10, "nonce", Number),
    optional(11, "daaScore", Number),
    optional(12, "blueWork", BlueWork),
    optional(13, "blueScore", Number),
    optional(14, "pruningPoint", Text),
]);

static CHAIN_OUTPOINT: Shape =
    Shape(&[optional(2, "transactionId", Text), optional(3, "index", Number)]);

static CHAIN_SCRIPT_VERBOSE: Shape = Shape(&[
    optional(2, "scriptPublicKeyType", Words(SCRIPT_CLASSES)),
    optional(3, "scriptPublicKeyAddress", Text),
]);

static CHAIN_UTXO: Shape = Shape(&[
    optional(2, "amount", Number),
    optional(3, "scriptPublicKey", Script),
    optional(4, "blockDaaScore", Number),
    optional(5, "isCoinbase", Flag),
    optional(6, "verboseData", Object(&CHAIN_SCRIPT_VERBOSE)),
    optional(7, "covenantId", Text),
]);

static CHAIN_INPUT_VERBOSE: Shape = Shape(&[optional(2, "utxoEntry", Object(&CHAIN_UTXO))]);

static CHAIN_INPUT: Shape = Shape(&[
    optional(2, "previousOutpoint", Object(&CHAIN_OUTPOINT)),
    optional(3, "signatureScript", Text),
    optional(4, "sequence", Number),
    optional(5, "sigOpCount", Number),
    optional(6, "verboseData", Object(&CHAIN_INPUT_VERBOSE)),
    optional(7, "computeBudget", Number),
]);

/// The covenant of an output in a chain: a message in a message.
static CHAIN_OUTPUT: Shape = Shape(&[
    optional(2, "value", Number),
    optional(3, "scriptPublicKey", Script),
    optional(4, "verboseData", Object(&CHAIN_SCRIPT_VERBOSE)),
    optional(5, "covenant", Wrapped(&Object(&COVENANT))),
]);

static CHAIN_TRANSACTION_VERBOSE: Shape = Shape(&[
    optional(2, "transactionId", Text),
    optional(3, "hash", Text),
    optional(4, "computeMass", Number),
    optional(5, "blockHash", Text),
    optional(6, "blockTime", Number),
]);

static CHAIN_TRANSACTION: Shape = Shape(&[
    optional(2, "version", Number),
    field(3, "inputs", List(&Object(&CHAIN_INPUT))),
    field(4, "outputs", List(&Object(&CHAIN_OUTPUT))),
    optional(5, "lockTime", Number),
    optional(6, "subnetworkId", Text),
    optional(7, "gas", Number),
    optional(8, "payload", Text),
    optional(9, "storageMass", Number),
    optional(10, "verboseData", Object(&CHAIN_TRANSACTION_VERBOSE)),
]);

pub(super) static CHAIN_BLOCK: Shape = Shape(&[
    field(2, "chainBlockHeader", Object(&CHAIN_HEADER)),
    field(3, "acceptedTransactions", List(&Object(&CHAIN_TRANSACTION))),
]);

pub(super) static PROVEN_TIP: Shape =
    Shape(&[optional(2, "tip", DigitsAsBytes), optional(3, "blueScore", Number)]);
