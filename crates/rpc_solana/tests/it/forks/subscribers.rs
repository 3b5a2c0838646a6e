//! A client over PubSub that follows a forked chain: a set of all accounts at each commitment, the logs of confirmed
//! and of final blocks, blocks, and single signatures.
//!
//! Shape: the client applies updates and undoes them at rollbacks. After each publish its accounts must be those of the
//! model.

use std::collections::{BTreeMap, HashMap};

use chain_solana::LedgerEvent;
use fastrand::Rng;
use ledger::{BlockId, Commitment};
use serde_json::{Value, json};
use solana_account::ReadableAccount;
use testkit::forked_chain::{ForkedChain, keys, signature};

use super::ForkedNode;
use super::http::name;
use crate::pubsub::node::Client;

/// The slot of the event that marks that all events before it have been published.
const MARK: u64 = 999_999_999;

/// The accounts of one commitment as the client has them.
#[derive(Default)]
struct Mirror {
    /// The blocks that were applied and wrote accounts: hash, and lamports of each account that it wrote.
    applied: Vec<(String, BTreeMap<String, Option<u64>>)>,
    /// Transactions of the logs, in order.
    logs: Vec<(u64, String)>,
    expected_logs: Vec<(u64, String)>,
    /// The chain at the last publish.
    chain: Vec<BlockId>,
    rollbacks: usize,
}

pub(super) struct Subscriber {
    client: Client,
    mirrors: HashMap<Commitment, Mirror>,
    /// The commitment of each subscription, by its id.
    topics: HashMap<u64, Commitment>,
    /// The expected signatures at confirmed, by subscription. A slot is that of a transaction that was already
    /// confirmed.
    waiting: HashMap<u64, (u64, Option<u64>)>,
    /// Hashes of the final blocks.
    blocks: Vec<String>,
}

impl Subscriber {
    pub(super) fn start(node: &ForkedNode) -> Self {
        let mut client = node.connect();
        let mut mirrors = HashMap::new();
        let mut topics = HashMap::new();
        let all: Vec<String> = keys().map(|key| key.to_string()).collect();
        node.runtime.block_on(async {
            client.subscribe("slot", json!([])).await;
            for commitment in Commitment::ALL {
                let config = json!({ "commitment": name(commitment) });
                let params = json!([all, config]);
                let set = client.call("addressesSubscribe", params).await.expect("it is right");
                topics.insert(set["subscription"].as_u64().expect("an id"), commitment);
                mirrors.insert(commitment, Mirror::default());
                if commitment != Commitment::Processed {
                    topics
                        .insert(client.subscribe("logs", json!(["all", config])).await, commitment);
                }
            }
            let config = json!({ "commitment": "finalized", "transactionDetails": "none" });
            client.subscribe("block", json!(["all", config])).await;
        });
        Self { client, mirrors, topics, waiting: HashMap::new(), blocks: Vec::new() }
    }

    /// Returns the number of rollbacks of processed blocks so far.
    pub(super) fn rollbacks(&self) -> usize {
        self.mirrors[&Commitment::Processed].rollbacks
    }

    /// Receives everything of the last publish, and compares it with the model.
    pub(super) fn check(&mut self, node: &mut ForkedNode, rng: &mut Rng) {
        node.chain.send(&LedgerEvent::BankCreated {
            block: BlockId { slot: MARK, version: 0 },
            parent: BlockId { slot: 0, version: 0 },
            root: 0,
            timestamp_ms: 0,
        });
        loop {
            let notification = node.runtime.block_on(self.client.notification());
            if notification["method"] != "slotNotification" {
                self.receive(&node.chain, &notification);
            } else if notification["params"]["result"]["slot"] == MARK {
                break;
            }
        }
        for (commitment, mirror) in &mut self.mirrors {
            mirror.check(&node.chain, *commitment);
        }
        let rooted = node.chain.chain(Commitment::Finalized).into_iter();
        let rooted: Vec<String> = rooted.map(|block| block.blockhash.to_string()).collect();
        assert_eq!(self.blocks, rooted, "each final block once, in order");
        self.check_signatures(node, rng);
    }

    fn receive(&mut self, chain: &ForkedChain, notification: &Value) {
        let params = &notification["params"];
        let result = &params["result"];
        let id = params["subscription"].as_u64().expect("an id");
        match notification["method"].as_str().expect("a method") {
            "addressesNotification" => {
                let commitment = self.topics[&id];
                self.mirrors.get_mut(&commitment).expect("one each").receive(result);
            }
            "logsNotification" => {
                let mirror = self.mirrors.get_mut(&self.topics[&id]).expect("one each");
                let slot = result["context"]["slot"].as_u64().expect("a slot");
                let signature = result["value"]["signature"].as_str().expect("a signature");
                mirror.logs.push((slot, signature.to_owned()));
            }
            "blockNotification" => {
                let block = &result["value"]["block"];
                self.blocks.push(block["blockhash"].as_str().expect("a hash").to_owned());
            }
            "signatureNotification" => {
                let (n, before) = self.waiting.remove(&id).expect("one notification each");
                let slot = before.or_else(|| slot_at(chain, n, Commitment::Confirmed));
                assert_eq!(result["context"]["slot"].as_u64(), slot, "{n}: {result}");
            }
            other => panic!("{other} was not subscribed to"),
        }
    }

    /// Checks that the client was notified of each confirmed signature. It then subscribes to another one.
    fn check_signatures(&mut self, node: &ForkedNode, rng: &mut Rng) {
        for (n, before) in self.waiting.values() {
            let slot = before.or_else(|| slot_at(&node.chain, *n, Commitment::Confirmed));
            assert_eq!(slot, None, "{n}");
        }
        let newest = node.chain.signatures();
        let n = rng.u64(newest.saturating_sub(10)..newest + 3);
        let params = json!([signature(n).to_string(), { "commitment": "confirmed" }]);
        let id = node.runtime.block_on(async {
            let id = self.client.subscribe("signature", params).await;
            // The next reply comes after the notifications of earlier events.
            self.client.call("getVersion", json!([])).await.expect("it has a version");
            id
        });
        self.waiting.insert(id, (n, slot_at(&node.chain, n, Commitment::Confirmed)));
    }
}

impl Mirror {
    fn receive(&mut self, result: &Value) {
        let hash = result["block"].as_str().expect("a hash").to_owned();
        let items = result["value"].as_array().expect("a list").iter();
        // The transactions that name an address come in messages of their own.
        let written: BTreeMap<String, Option<u64>> = items
            .filter_map(|item| {
                let lamports = item["account"]["lamports"].as_u64();
                Some((item["pubkey"].as_str()?.to_owned(), lamports))
            })
            .collect();
        match result["kind"].as_str().expect("a kind") {
            "update" => self.applied.push((hash, written)),
            "rollback" => {
                let (newest, changed) = self.applied.pop().expect("only what was applied");
                assert_eq!(newest, hash, "the newest block first");
                assert!(written.keys().eq(changed.keys()), "{result}");
                self.rollbacks += 1;
            }
            other => panic!("{other}: the client was not slow"),
        }
    }

    fn check(&mut self, chain: &ForkedChain, commitment: Commitment) {
        let mut accounts: BTreeMap<String, u64> = BTreeMap::new();
        for (pubkey, lamports) in self.applied.iter().flat_map(|(_, written)| written) {
            match lamports {
                Some(lamports) => accounts.insert(pubkey.clone(), *lamports),
                None => accounts.remove(pubkey),
            };
        }
        let tip = chain.model.tip(commitment);
        let expected = chain.model.records(tip).into_iter().map(|(address, account)| {
            let pubkey = solana_pubkey::Pubkey::try_from(address.as_bytes()).expect("a pubkey");
            (pubkey.to_string(), account.0.lamports())
        });
        assert_eq!(accounts, expected.collect(), "{commitment:?}");
        if commitment == Commitment::Processed {
            return;
        }
        // The logs of the blocks that were applied since the last publish.
        let now = chain.chain(commitment);
        for block in now.iter().filter(|block| !self.chain.contains(&block.id)) {
            for one in &block.transactions {
                self.expected_logs.push((block.id.slot, one.signature().to_string()));
            }
        }
        self.chain = now.iter().map(|block| block.id).collect();
        assert_eq!(self.logs, self.expected_logs, "{commitment:?}");
    }
}

/// Returns the slot of a signature's transaction on the chain of a commitment.
fn slot_at(chain: &ForkedChain, n: u64, commitment: Commitment) -> Option<u64> {
    let blocks = chain.chain(commitment);
    let has = |block: &&std::sync::Arc<chain_solana::Block>| {
        block.transactions.iter().any(|one| one.signature() == signature(n))
    };
    blocks.iter().find(has).map(|block| block.id.slot)
}
