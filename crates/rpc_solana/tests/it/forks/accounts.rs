//! A client that subscribes to accounts one by one: after each publish the last notification of each account is its
//! state, whichever forks were reverted.

use std::collections::HashMap;

use chain_solana::LedgerEvent;
use ledger::{Address, BlockId, Commitment};
use serde_json::json;
use solana_account::ReadableAccount;
use testkit::forked_chain::{OWNER, keys};
use testkit::{ForkEvent, ForkInjector};

use super::http::name;
use super::{ForkedNode, UNROOTED_MAX};

/// The slot of the event that marks that all events before it have been published.
const MARK: u64 = 999_999_999;

/// The state of the client: lamports by commitment and address.
#[derive(Default)]
struct Mirror {
    /// By subscription id: its commitment, and the address of an account.
    topics: HashMap<u64, (Commitment, Option<String>)>,
    lamports: HashMap<(Commitment, String), u64>,
    /// By subscription to the program: the lamports of each account.
    of_program: HashMap<(Commitment, String), u64>,
}

impl ForkedNode {
    /// Returns the lamports of each account at a commitment.
    fn lamports(&self, commitment: Commitment) -> HashMap<String, u64> {
        let records = self.chain.model.records(self.chain.model.tip(commitment));
        let of_key = |key: solana_pubkey::Pubkey| {
            let record = records.get(&Address::from(key.to_bytes()));
            (key.to_string(), record.map_or(0, |account| account.0.lamports()))
        };
        keys().map(of_key).collect()
    }
}

#[test]
fn account_subscribers_follow_their_chain_under_random_forks() {
    let mut restored = 0;
    for seed in 0..4 {
        let mut node = ForkedNode::start();
        let mut client = node.connect();
        let mut mirror = Mirror::default();
        node.runtime.block_on(async {
            client.subscribe("slot", json!([])).await;
            for commitment in Commitment::ALL {
                let config = json!({ "commitment": name(commitment), "encoding": "base64" });
                for key in keys() {
                    let key = key.to_string();
                    let id = client.subscribe("account", json!([key, config])).await;
                    mirror.topics.insert(id, (commitment, Some(key)));
                }
                let id = client.subscribe("program", json!([OWNER.to_string(), config])).await;
                mirror.topics.insert(id, (commitment, None));
            }
        });
        let mut injector = ForkInjector::new(seed, UNROOTED_MAX);
        for _ in 0..300 {
            let event = injector.next_event(&node.chain.model);
            node.chain.apply(event, injector.rng());
            if event != ForkEvent::Publish {
                continue;
            }
            node.chain.send(&LedgerEvent::BankCreated {
                block: BlockId { slot: MARK, version: 0 },
                parent: BlockId { slot: 0, version: 0 },
                root: 0,
                timestamp_ms: 0,
            });
            let before = mirror.lamports.clone();
            loop {
                let notification = node.runtime.block_on(client.notification());
                let params = &notification["params"];
                let value = &params["result"]["value"];
                if notification["method"] == "slotNotification" {
                    if params["result"]["slot"] == MARK {
                        break;
                    }
                    continue;
                }
                let id = params["subscription"].as_u64().expect("an id");
                match &mirror.topics[&id] {
                    (commitment, Some(key)) => {
                        let lamports = value["lamports"].as_u64().expect("an account");
                        mirror.lamports.insert((*commitment, key.clone()), lamports);
                    }
                    (commitment, None) => {
                        let key = value["pubkey"].as_str().expect("a key").to_owned();
                        let lamports = value["account"]["lamports"].as_u64().expect("an account");
                        mirror.of_program.insert((*commitment, key), lamports);
                    }
                }
            }
            for commitment in Commitment::ALL {
                for (key, expected) in node.lamports(commitment) {
                    let at = (commitment, key);
                    let known = mirror.lamports.get(&at).copied().unwrap_or(0);
                    assert_eq!(known, expected, "seed {seed}: {at:?}");
                    // A program's closed account is not sent, as in Agave.
                    if expected > 0 {
                        assert_eq!(mirror.of_program.get(&at), Some(&expected), "{at:?}");
                    }
                    restored += u32::from(before.get(&at).is_some_and(|it| *it != known));
                }
            }
        }
    }
    assert!(restored > 50, "{restored} changes");
}
