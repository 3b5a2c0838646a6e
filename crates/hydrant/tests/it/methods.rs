//! Every method and every subscription through the real binary: `method_<name>`, `subscription_<name>`.
//!
//! Requests are written by hand and responses read as JSON, so the tests see the exact bytes. One node serves all
//! of these tests. `stage.rs` describes what happened on its ledger before the first one.
//! Not here: refusals (crates/rpc_solana has a table of malformed requests), and whole flows (`clients.rs`).
#![expect(non_snake_case, reason = "a test is named after its method as clients call it")]

mod accounts;
mod blocks;
mod bundles;
mod chain;
mod node_info;
pub(crate) mod stage;
mod subscriptions;
mod tokens;
mod transactions;

/// The methods of Agave 4.2, and the subscriptions, as research and docs/methods.md list them.
pub(crate) const METHODS: [&str; 53] = [
    "getAccountInfo",
    "getAgGenesisCert",
    "getBalance",
    "getBlock",
    "getBlockCommitment",
    "getBlockHeight",
    "getBlockProduction",
    "getBlockTime",
    "getBlocks",
    "getBlocksWithLimit",
    "getClusterNodes",
    "getEpochInfo",
    "getEpochSchedule",
    "getFeeForMessage",
    "getFirstAvailableBlock",
    "getGenesisHash",
    "getHealth",
    "getHighestSnapshotSlot",
    "getIdentity",
    "getInflationGovernor",
    "getInflationRate",
    "getInflationReward",
    "getLargestAccounts",
    "getLatestBlockhash",
    "getLeaderSchedule",
    "getMaxRetransmitSlot",
    "getMaxShredInsertSlot",
    "getMinimumBalanceForRentExemption",
    "getMultipleAccounts",
    "getProgramAccounts",
    "getRecentPerformanceSamples",
    "getRecentPrioritizationFees",
    "getSignatureStatuses",
    "getSignaturesForAddress",
    "getSlot",
    "getSlotLeader",
    "getSlotLeaders",
    "getStakeMinimumDelegation",
    "getSupply",
    "getTokenAccountBalance",
    "getTokenAccountsByDelegate",
    "getTokenAccountsByOwner",
    "getTokenLargestAccounts",
    "getTokenSupply",
    "getTransaction",
    "getTransactionCount",
    "getVersion",
    "getVoteAccounts",
    "isBlockhashValid",
    "minimumLedgerSlot",
    "requestAirdrop",
    "sendTransaction",
    "simulateTransaction",
];
/// The methods that Agave does not have.
pub(crate) const EXTENSIONS: [&str; 11] = [
    "getBundleStatuses",
    "getInflightBundleStatuses",
    "getPriorityFeeEstimate",
    "getProgramAccountsV2",
    "getTipAccounts",
    "getTokenAccountsByMint",
    "getTokenAccountsByOwnerV2",
    "getTransactionsForAddress",
    "hydrantGetVerification",
    "sendBundle",
    "simulateBundle",
];
const SUBSCRIPTIONS: [&str; 9] = [
    "accountSubscribe",
    "blockSubscribe",
    "logsSubscribe",
    "programSubscribe",
    "rootSubscribe",
    "signatureSubscribe",
    "slotSubscribe",
    "slotsUpdatesSubscribe",
    "voteSubscribe",
];

#[test]
fn every_method_and_subscription_has_its_test() {
    let sources = [
        include_str!("methods/accounts.rs"),
        include_str!("methods/blocks.rs"),
        include_str!("methods/bundles.rs"),
        include_str!("methods/chain.rs"),
        include_str!("methods/node_info.rs"),
        include_str!("methods/subscriptions.rs"),
        include_str!("methods/tokens.rs"),
        include_str!("methods/transactions.rs"),
    ]
    .concat();
    let expected = METHODS.iter().chain(&EXTENSIONS).map(|name| format!("fn method_{name}()"));
    let expected =
        expected.chain(SUBSCRIPTIONS.iter().map(|name| format!("fn subscription_{name}()")));
    let missing: Vec<_> =
        expected.filter(|test| sources.matches(test.as_str()).count() != 1).collect();
    assert!(missing.is_empty(), "not exactly one test for each of {missing:?}");
}

#[test]
fn every_method_is_in_the_documents() {
    let table = include_str!("../../../../docs/methods.md");
    let missing: Vec<_> = METHODS
        .iter()
        .chain(&EXTENSIONS)
        .chain(&SUBSCRIPTIONS)
        .filter(|name| !table.contains(&format!("| {name} |")))
        .collect();
    assert!(missing.is_empty(), "docs/methods.md has no row for {missing:?}");
}
