//! Every method of the table, called on a ledger and on a follower of it at the same slot: the results are equal, but for
//! the differences that are listed here with their reasons, as in docs/methods.md.
//!
//! A transaction that a client sends to the follower reaches the ledger, its only leader, over QUIC.

use std::sync::Arc;

use chain_solana::{Cluster, Faucet, TransactionSender, Verification};
use follow::{FollowSimulator, LeaderSender, SenderChain, UpstreamFacts, VerifyMode, cluster_info};
use ledger::Commitment;
use serde_json::{Value, json};
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;
use testkit::json_rpc_client::JsonRpcClient;
use testkit::solana_node::{SolanaNode, SolanaNodeBuilder};

use crate::followed_ledger::{Following, SLOTS_PER_EPOCH, Source, wait, write_snapshot};

/// Methods whose results differ, and why.
const DIFFERENCES: [(&str, &str); 13] = [
    ("getBlockCommitment", "votes for a block count when they are in the state, one slot later"),
    ("getBlocks", "history begins at the snapshot"),
    ("getBlocksWithLimit", "history begins at the snapshot"),
    ("getClusterNodes", "a follower is no member; versions come from gossip"),
    ("getFirstAvailableBlock", "history begins at the snapshot"),
    ("getIdentity", "a follower has its own identity"),
    ("getMaxRetransmitSlot", "the newest slot that the source reported"),
    ("getMaxShredInsertSlot", "the newest slot that the source reported"),
    ("getRecentPerformanceSamples", "history begins at the snapshot"),
    ("getRecentPrioritizationFees", "history begins at the snapshot"),
    ("getSignatureStatuses", "a ledger of one node reports confirmations of its open block"),
    ("minimumLedgerSlot", "history begins at the snapshot"),
    ("requestAirdrop", "a followed chain has no faucet here"),
];

/// A served node and a client of it.
pub(super) struct Served {
    pub(super) client: JsonRpcClient,
    _node: SolanaNode,
}

impl Served {
    fn start(node: SolanaNodeBuilder) -> Self {
        let pool = cpu_pool::Config { threads: 1, ..cpu_pool::Config::default() };
        let node = node.pool(pool).serve();
        let client = JsonRpcClient::open(node.rpc).expect("it listens");
        Self { client, _node: node }
    }

    fn from_source(source: &Source) -> Self {
        let cluster = Arc::clone(&source.cluster);
        let transaction_sender = Arc::clone(&source.transaction_sender);
        let simulator = Arc::clone(&source.simulator);
        let faucet = Arc::clone(&source.faucet);
        let node = SolanaNode::builder(source.reader.clone())
            .history(Arc::clone(&source.history))
            .cluster_info(Arc::clone(&source.info))
            .with_api(|api| {
                api.cluster(cluster)
                    .transaction_sender(transaction_sender)
                    .simulator(simulator)
                    .faucet(Some(faucet))
            });
        Self::start(node)
    }

    pub(super) fn from_follower(
        following: &Following,
        genesis_hash: Hash,
    ) -> (Self, Arc<LeaderSender>) {
        let reader = following.reader.clone();
        let history = Arc::clone(&following.history);
        let facts = UpstreamFacts { genesis_hash };
        let identity = Keypair::new();
        let info = cluster_info(&following.fields, &reader, &facts, identity.pubkey());
        let info = Arc::new(info.expect("the snapshot has all of it"));
        let chain = SenderChain {
            reader: reader.clone(),
            history: Arc::clone(&history),
            cluster: Arc::clone(&following.cluster) as Arc<dyn Cluster>,
            epochs: info.epoch_schedule.clone(),
        };
        let tls = tpu::TlsIdentity::new(*identity.secret_bytes(), identity.pubkey());
        let sender = LeaderSender::start(chain, &tls, 100, None).expect("a socket and a thread");
        let cluster = Arc::clone(&following.cluster);
        let simulator = FollowSimulator::new(&reader, Arc::clone(&history), cluster, 1);
        let transaction_sender = Arc::clone(&sender) as Arc<dyn TransactionSender>;
        let cluster = Arc::clone(&following.cluster) as Arc<dyn Cluster>;
        let verification = Arc::clone(following.status.proof()) as Arc<dyn Verification>;
        let node =
            SolanaNode::builder(reader).history(history).cluster_info(info).with_api(|api| {
                api.cluster(cluster)
                    .verification(verification)
                    .transaction_sender(transaction_sender)
                    .simulator(Arc::new(simulator))
                    .faucet(None)
            });
        (Self::start(node), sender)
    }

    /// The result, or the error in words.
    fn call(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.client.call(method, params.clone()).map_err(|err| format!("{err:#}"))
    }
}

/// A ledger in its fourth epoch, and a follower since its first.
struct Pair {
    source: Source,
    following: Following,
    _dir: tempfile::TempDir,
}

impl Pair {
    /// Without verification the follower's confirmed slot is the source's.
    fn start() -> Self {
        let source = Source::start();
        source.run_to(20);
        let dir = tempfile::tempdir().expect("a directory");
        let archive = write_snapshot(&source.reader.view(Commitment::Finalized), dir.path());
        let following = Following::start(&source, &archive, VerifyMode::Off);
        source.run_to(3 * SLOTS_PER_EPOCH + 5);
        let pair = Self { source, following, _dir: dir };
        pair.wait_until_equal();
        pair
    }

    fn wait_until_equal(&self) {
        for commitment in [Commitment::Confirmed, Commitment::Finalized] {
            wait("the follower is at the slot of the source", || {
                let slot = self.source.slot(commitment);
                self.following.reader.view(commitment).block().slot == slot
            });
        }
        wait("the nodes", || self.following.cluster.nodes().is_some());
    }

    fn stop(self) {
        self.following.handle.stop().expect("the follower ends well");
        self.source.stop();
    }
}

/// A transfer that the faucet's funds pay for.
fn transfer(payer: &Keypair, to: &Pubkey, blockhash: Hash) -> VersionedTransaction {
    let instruction =
        solana_system_interface::instruction::transfer(&payer.pubkey(), to, 1_000_000);
    let message = solana_message::Message::new_with_blockhash(
        &[instruction],
        Some(&payer.pubkey()),
        &blockhash,
    );
    let message = solana_message::VersionedMessage::Legacy(message);
    VersionedTransaction::try_new(message, &[payer]).expect("a signature")
}

fn encode_base64(transaction: &VersionedTransaction) -> String {
    use base64::Engine as _;
    let bytes = bincode::serialize(transaction).expect("a transaction");
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Each method with its params; some with several.
fn calls(pair: &Pair, wallet: &str, signature: &str) -> Vec<(&'static str, Value)> {
    let confirmed = json!({ "commitment": "confirmed" });
    let view = pair.source.reader.view(Commitment::Confirmed);
    let slot = view.block().slot;
    let blockhash = view.meta().last_blockhash();
    let first = slot - 8;
    let epoch = slot / SLOTS_PER_EPOCH;
    let token = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
    let simulated = transfer(&Keypair::new(), &Pubkey::new_unique(), blockhash);
    let message = {
        use base64::Engine as _;
        let bytes = simulated.message.serialize();
        base64::engine::general_purpose::STANDARD.encode(bytes)
    };
    let base64 = json!({ "encoding": "base64", "commitment": "confirmed" });
    let vote_program = "Vote111111111111111111111111111111111111111";
    vec![
        ("getAccountInfo", json!([wallet, base64])),
        ("getAgGenesisCert", json!([])),
        ("getBalance", json!([wallet, confirmed])),
        (
            "getBlock",
            json!([first, { "commitment": "confirmed", "maxSupportedTransactionVersion": 0 }]),
        ),
        ("getBlock", json!([3 * SLOTS_PER_EPOCH, { "commitment": "confirmed", "rewards": true }])),
        ("getBlockCommitment", json!([first])),
        ("getBlockHeight", json!([confirmed])),
        ("getBlockProduction", json!([confirmed])),
        (
            "getBlockProduction",
            json!([{
                "commitment": "confirmed", "range": { "firstSlot": SLOTS_PER_EPOCH, "lastSlot": slot },
            }]),
        ),
        ("getBlockTime", json!([first])),
        ("getBlocks", json!([0, slot, confirmed])),
        ("getBlocks", json!([first, slot, confirmed])),
        ("getBlocksWithLimit", json!([0, 5, confirmed])),
        ("getClusterNodes", json!([])),
        ("getEpochInfo", json!([confirmed])),
        ("getEpochSchedule", json!([])),
        ("getFeeForMessage", json!([message, confirmed])),
        ("getFirstAvailableBlock", json!([])),
        ("getGenesisHash", json!([])),
        ("getHealth", json!([])),
        ("getHighestSnapshotSlot", json!([])),
        ("getIdentity", json!([])),
        ("getInflationGovernor", json!([confirmed])),
        ("getInflationRate", json!([])),
        (
            "getInflationReward",
            json!([[wallet], { "commitment": "confirmed", "epoch": epoch - 1 }]),
        ),
        ("getLargestAccounts", json!([confirmed])),
        ("getLatestBlockhash", json!([confirmed])),
        ("getLeaderSchedule", json!([slot, confirmed])),
        ("getLeaderSchedule", json!([slot + SLOTS_PER_EPOCH, confirmed])),
        ("getLeaderSchedule", json!([slot + 2 * SLOTS_PER_EPOCH, confirmed])),
        ("getMaxRetransmitSlot", json!([])),
        ("getMaxShredInsertSlot", json!([])),
        ("getMinimumBalanceForRentExemption", json!([165])),
        ("getMultipleAccounts", json!([[wallet, token], base64])),
        ("getProgramAccounts", json!([vote_program, base64])),
        ("getRecentPerformanceSamples", json!([5])),
        ("getRecentPrioritizationFees", json!([])),
        ("getSignatureStatuses", json!([[signature]])),
        ("getSignaturesForAddress", json!([wallet, { "commitment": "confirmed", "limit": 2 }])),
        ("getSlot", json!([confirmed])),
        ("getSlotLeader", json!([confirmed])),
        ("getSlotLeaders", json!([slot, 2 * SLOTS_PER_EPOCH - slot % SLOTS_PER_EPOCH])),
        ("getSlotLeaders", json!([slot, 3 * SLOTS_PER_EPOCH])),
        ("getStakeMinimumDelegation", json!([confirmed])),
        ("getSupply", json!([confirmed])),
        ("getTokenAccountBalance", json!([wallet, confirmed])),
        ("getTokenAccountsByDelegate", json!([wallet, { "programId": token }, base64])),
        ("getTokenAccountsByOwner", json!([wallet, { "programId": token }, base64])),
        ("getTokenLargestAccounts", json!([wallet, confirmed])),
        ("getTokenSupply", json!([wallet, confirmed])),
        (
            "getTransaction",
            json!([signature, {
                "commitment": "confirmed", "encoding": "json", "maxSupportedTransactionVersion": 0,
            }]),
        ),
        ("getTransactionCount", json!([confirmed])),
        ("getVersion", json!([])),
        ("getVoteAccounts", json!([confirmed])),
        ("isBlockhashValid", json!([blockhash.to_string(), confirmed])),
        ("minimumLedgerSlot", json!([])),
        ("requestAirdrop", json!([wallet, 1])),
        (
            "sendTransaction",
            json!([encode_base64(&simulated), { "encoding": "base64", "preflightCommitment": "confirmed" }]),
        ),
        (
            "simulateTransaction",
            json!([encode_base64(&simulated), { "encoding": "base64", "commitment": "confirmed" }]),
        ),
    ]
}

#[test]
fn every_method_of_a_follower_has_the_result_of_its_ledger() {
    let pair = Pair::start();
    let mut of_source = Served::from_source(&pair.source);
    let mut of_follower = Served::from_follower(&pair.following, pair.source.info.genesis_hash).0;
    let view = pair.source.reader.view(Commitment::Confirmed);
    let block = pair.source.history.snapshot();
    let block = block.block(view.block().slot, Commitment::Confirmed).expect("the newest block");
    let airdrop = block.transactions.iter().find(|it| !it.is_vote).expect("an airdrop");
    let signature = airdrop.transaction.signatures[0].to_string();
    let wallet = airdrop.transaction.message.static_account_keys()[1].to_string();
    let calls = calls(&pair, &wallet, &signature);
    let mut failures = Vec::new();
    let mut differing = std::collections::BTreeSet::new();
    // A call that adds a block comes last.
    let adds_block = |call: &&(&str, Value)| call.0 == "requestAirdrop";
    let (last, first): (Vec<_>, Vec<_>) = calls.iter().partition(adds_block);
    for (method, params) in first.into_iter().chain(last) {
        let expected = of_source.call(method, params);
        let found = of_follower.call(method, params);
        if expected == found {
            continue;
        }
        differing.insert(*method);
        if !DIFFERENCES.iter().any(|(name, _)| name == method) {
            failures
                .push(format!("{method} {params}\n  ledger   {expected:?}\n  follower {found:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let names: std::collections::BTreeSet<_> = calls.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), 53, "every method is called");
    drop((of_source, of_follower));
    pair.stop();
}

#[test]
fn leaders_and_stakes_of_later_epochs_are_computed_and_not_invented() {
    let pair = Pair::start();
    let view = pair.following.reader.view(Commitment::Confirmed);
    let epoch = view.block().slot / SLOTS_PER_EPOCH;
    // The snapshot had those of epochs 0 and 1.
    for epoch in [0, 1, 2, epoch, epoch + 1] {
        let leaders = pair.following.cluster.leaders(epoch).expect("known leaders");
        assert_eq!(leaders.leaders(), [pair.source.info.identity], "epoch {epoch}");
        assert_eq!(
            leaders.find_window(SLOTS_PER_EPOCH - 1).map(|(_, window)| window.end),
            Some(32)
        );
    }
    assert!(pair.following.cluster.leaders(epoch + 2).is_none());
    let at_source = pair.source.reader.view(Commitment::Confirmed);
    assert_eq!(at_source.block().slot, view.block().slot);
    let expected = pair.source.cluster.stakes(&at_source);
    let found = pair.following.cluster.stakes(&view);
    assert!(expected.as_ref().is_some_and(|stakes| stakes.total() > 0));
    assert_eq!(expected, found);
    pair.stop();
}

#[test]
fn a_transaction_to_a_follower_is_executed_by_the_leader() {
    let pair = Pair::start();
    let payer = Keypair::new();
    let blockhash = pair.source.reader.view(Commitment::Processed).meta().last_blockhash();
    let client = clients::ClientId(9);
    let faucet: &Arc<dyn Faucet> = &pair.source.faucet;
    faucet.airdrop(client.into(), payer.pubkey(), 10_000_000_000, blockhash).expect("queued");
    let balance = |reader: &chain_solana::Reader, key: &Pubkey| {
        let view = reader.view(Commitment::Confirmed);
        let account = view.record(&ledger::Address::from(key.to_bytes()));
        account.map_or(0, |it| solana_account::ReadableAccount::lamports(&it.0))
    };
    wait("the airdrop", || balance(&pair.following.reader, &payer.pubkey()) > 0);
    let genesis_hash = pair.source.info.genesis_hash;
    let (mut node, sender) = Served::from_follower(&pair.following, genesis_hash);
    let to = Pubkey::new_unique();
    let blockhash = pair.following.reader.view(Commitment::Confirmed).meta().last_blockhash();
    let transaction = transfer(&payer, &to, blockhash);
    let options = json!({ "encoding": "base64", "preflightCommitment": "confirmed" });
    let sent = node.call("sendTransaction", &json!([encode_base64(&transaction), options]));
    assert_eq!(sent, Ok(json!(transaction.signatures[0].to_string())));
    wait("it is in a block of the follower", || balance(&pair.following.reader, &to) == 1_000_000);
    assert_eq!(balance(&pair.source.reader, &to), 1_000_000);
    wait("it is not sent any more", || metric(&sender, "landed") == 1);
    assert_eq!(metrics::Collector::memory(&*sender)[0], ("follow_send_queue", 0));
    drop((node, sender));
    pair.stop();
}

/// As on Agave, a status appears with its block, failed or not. Only a ledger that shows its open block hides some.
#[test]
fn a_failed_transaction_has_its_status_with_its_block() {
    let pair = Pair::start();
    let payer = Keypair::new();
    let blockhash = pair.source.reader.view(Commitment::Processed).meta().last_blockhash();
    let client = clients::ClientId(9);
    let faucet: &Arc<dyn Faucet> = &pair.source.faucet;
    // Enough for the fee, and less than the transfer.
    faucet.airdrop(client.into(), payer.pubkey(), 950_000, blockhash).expect("queued");
    let account = || {
        let view = pair.source.reader.view(Commitment::Confirmed);
        view.record(&ledger::Address::from(payer.pubkey().to_bytes()))
    };
    wait("the airdrop", || account().is_some());
    let transaction = transfer(&payer, &Pubkey::new_unique(), blockhash);
    let signature = transaction.signatures[0];
    let options = json!({ "encoding": "base64", "skipPreflight": true });
    let mut of_source = Served::from_source(&pair.source);
    let sent = of_source.call("sendTransaction", &json!([encode_base64(&transaction), options]));
    assert_eq!(sent, Ok(json!(signature.to_string())));
    let genesis_hash = pair.source.info.genesis_hash;
    let (mut of_follower, _sender) = Served::from_follower(&pair.following, genesis_hash);
    for (commitment, lower) in [
        (Commitment::Processed, &[][..]),
        (Commitment::Confirmed, &["processed"][..]),
        (Commitment::Finalized, &["processed", "confirmed"][..]),
    ] {
        if commitment == Commitment::Finalized {
            pair.source.run_to(pair.source.slot(Commitment::Confirmed) + 6);
        }
        wait("the block", || {
            let history = pair.following.history.snapshot();
            history.transaction(&signature, commitment).is_some()
        });
        let statuses = of_follower
            .call("getSignatureStatuses", &json!([[signature.to_string()]]))
            .expect("statuses");
        let status = &statuses["value"][0];
        assert_eq!(status["err"], json!({"InstructionError": [0, {"Custom": 1}]}), "{status}");
        let reached = status["confirmationStatus"].as_str().expect("a level");
        assert!(!lower.contains(&reached), "{commitment:?}: {status}");
    }
    drop((of_source, of_follower));
    pair.stop();
}

/// A count of `hydrant_send_events_total`.
fn metric(sender: &LeaderSender, event: &str) -> u64 {
    let mut out = metrics::Exposition::default();
    metrics::Collector::write(sender, &mut out);
    let text = out.into_string();
    let line = format!("hydrant_send_events_total{{event=\"{event}\"}} ");
    let value = text.lines().find_map(|it| it.strip_prefix(&line));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{event}: {text}"))
}
