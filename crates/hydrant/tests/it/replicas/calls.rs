//! Calls of every method, and requests of every route, about the accounts of a stage.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use solana_transaction::versioned::VersionedTransaction;

use crate::methods::stage::Stage;

const TOKEN: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";

/// The values that the calls are about.
pub(super) struct Facts<'a> {
    pub(super) stage: &'a Stage,
    /// The confirmed slot, which every replica has.
    pub(super) slot: u64,
    pub(super) blockhash: String,
    pub(super) alice: String,
    pub(super) bob: String,
    /// A transaction that is in no block.
    pub(super) unsent: VersionedTransaction,
}

impl Facts<'_> {
    fn encode_unsent(&self) -> String {
        STANDARD.encode(bincode::serialize(&self.unsent).expect("a transaction"))
    }

    /// Each method with its params; some with several.
    pub(super) fn calls(&self) -> Vec<(&'static str, Value)> {
        let Self { stage, slot, blockhash, alice, bob, .. } = self;
        let mint = stage.mint.to_string();
        let bobs = stage.bobs.to_string();
        let signature = stage.transfer.to_string();
        let landed = stage.slot;
        let transaction = self.encode_unsent();
        let message = STANDARD.encode(self.unsent.message.serialize());
        let at = json!({ "commitment": "confirmed", "minContextSlot": slot });
        let confirmed = json!({ "commitment": "confirmed" });
        let encoded =
            json!({ "encoding": "base64", "commitment": "confirmed", "minContextSlot": slot });
        let parsed = json!({ "encoding": "jsonParsed", "commitment": "processed" });
        let block = json!({ "commitment": "confirmed", "maxSupportedTransactionVersion": 0 });
        vec![
            ("getAccountInfo", json!([alice, encoded])),
            ("getAccountInfo", json!([bobs, parsed])),
            ("getAgGenesisCert", json!([])),
            ("getBalance", json!([alice, at])),
            ("getBlock", json!([landed, block])),
            ("getBlock", json!([slot, block])),
            ("getBlockCommitment", json!([landed])),
            ("getBlockHeight", json!([at])),
            ("getBlockProduction", json!([confirmed])),
            ("getBlockTime", json!([landed])),
            ("getBlocks", json!([0, slot, confirmed])),
            ("getBlocksWithLimit", json!([0, 50, confirmed])),
            ("getClusterNodes", json!([])),
            ("getEpochInfo", json!([at])),
            ("getEpochSchedule", json!([])),
            ("getFeeForMessage", json!([message, at])),
            ("getFirstAvailableBlock", json!([])),
            ("getGenesisHash", json!([])),
            ("getHealth", json!([])),
            ("getHighestSnapshotSlot", json!([])),
            ("getIdentity", json!([])),
            ("getInflationGovernor", json!([confirmed])),
            ("getInflationRate", json!([])),
            ("getInflationReward", json!([[alice], { "commitment": "confirmed", "epoch": 0 }])),
            ("getLargestAccounts", json!([confirmed])),
            ("getLatestBlockhash", json!([at])),
            ("getLeaderSchedule", json!([slot, confirmed])),
            ("getMaxRetransmitSlot", json!([])),
            ("getMaxShredInsertSlot", json!([])),
            ("getMinimumBalanceForRentExemption", json!([165])),
            ("getMultipleAccounts", json!([[alice, bobs, mint, TOKEN], encoded])),
            ("getProgramAccounts", json!([TOKEN, encoded])),
            ("getProgramAccounts", json!([TOKEN, { "withContext": true }])),
            ("getRecentPerformanceSamples", json!([5])),
            ("getRecentPrioritizationFees", json!([[alice]])),
            ("getSignatureStatuses", json!([[signature]])),
            ("getSignaturesForAddress", json!([alice, { "commitment": "confirmed", "limit": 5 }])),
            ("getSlot", json!([at])),
            ("getSlot", json!([{ "commitment": "processed" }])),
            ("getSlotLeader", json!([at])),
            ("getSlotLeaders", json!([slot, 10])),
            ("getStakeMinimumDelegation", json!([confirmed])),
            ("getSupply", json!([confirmed])),
            ("getTokenAccountBalance", json!([bobs, confirmed])),
            ("getTokenAccountsByDelegate", json!([bob, { "programId": TOKEN }, encoded])),
            ("getTokenAccountsByOwner", json!([bob, { "mint": mint }, encoded])),
            ("getTokenLargestAccounts", json!([mint, confirmed])),
            ("getTokenSupply", json!([mint, confirmed])),
            ("getTransaction", json!([signature, block])),
            ("getTransactionCount", json!([at])),
            ("getVersion", json!([])),
            ("getVoteAccounts", json!([confirmed])),
            ("isBlockhashValid", json!([blockhash, at])),
            ("minimumLedgerSlot", json!([])),
            ("requestAirdrop", json!([alice, 1])),
            ("sendTransaction", json!([transaction, { "encoding": "base64" }])),
            (
                "simulateTransaction",
                json!([transaction, { "encoding": "base64", "commitment": "confirmed" }]),
            ),
            ("getBundleStatuses", json!([["1".repeat(64)]])),
            ("getInflightBundleStatuses", json!([["1".repeat(64)]])),
            ("getPriorityFeeEstimate", json!([{ "accountKeys": [alice] }])),
            ("getProgramAccountsV2", json!([TOKEN, { "encoding": "base64" }])),
            ("getTipAccounts", json!([])),
            ("getTokenAccountsByMint", json!([mint, { "encoding": "base64" }])),
            (
                "getTokenAccountsByOwnerV2",
                json!([bob, { "programId": TOKEN }, { "encoding": "base64" }]),
            ),
            ("getTransactionsForAddress", json!([alice, { "commitment": "confirmed" }])),
            ("hydrantGetVerification", json!([])),
            ("sendBundle", json!([[transaction], { "encoding": "base64" }])),
            ("simulateBundle", json!([{ "encodedTransactions": [transaction] }])),
            // Methods of local ledgers get the same refusals.
            ("hydrant_mine", json!([1])),
            ("hydrant_reorg", json!([{ "depth": 1 }])),
            ("surfnet_setAccount", json!([alice, { "lamports": 1 }])),
            ("noSuchMethod", json!([])),
        ]
    }

    /// The paths of REST, each with the same parameters on all replicas.
    pub(super) fn paths(&self) -> Vec<String> {
        let Self { stage, slot, alice, bob, .. } = self;
        let Stage { mint, bobs, transfer, .. } = stage;
        vec![
            "/v1/node".to_owned(),
            "/v1/ledger".to_owned(),
            "/v1/supply".to_owned(),
            format!("/v1/accounts?addresses={alice},{mint}"),
            format!("/v1/accounts/{bobs}?encoding=jsonParsed"),
            format!("/v1/accounts/{alice}/transactions"),
            format!("/v1/owners/{bob}/tokens"),
            format!("/v1/mints/{mint}/holders"),
            format!("/v1/mints/{mint}/supply"),
            format!("/v1/programs/{TOKEN}/accounts"),
            format!("/v1/transactions/{transfer}"),
            format!("/v1/transactions/{transfer}/status"),
            format!("/v1/blocks/{}", stage.slot),
            format!("/v1/blocks/{slot}"),
            "/v1/blocks/999999".to_owned(),
        ]
    }

    /// The paths of REST with their bodies.
    pub(super) fn posts(&self) -> Vec<(String, Value)> {
        let transaction = json!({ "transaction": self.encode_unsent() });
        vec![
            ("/v1/accounts".to_owned(), json!({ "addresses": [self.alice, self.bob] })),
            (format!("/v1/programs/{TOKEN}/accounts"), json!({ "filters": [{ "dataSize": 165 }] })),
            ("/v1/transactions".to_owned(), transaction.clone()),
            ("/v1/transactions/simulate".to_owned(), transaction),
        ]
    }
}
