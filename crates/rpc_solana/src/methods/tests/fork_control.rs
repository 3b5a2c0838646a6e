//! The methods that control forks, on a fake control that records its calls.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::{
    ForkCall, ForkControl, ForkControlError, ForkTransactions, ForkUsage, MINE_MAX,
    REORG_TRANSACTIONS_MAX, Reorganization,
};
use clients::ClientId;
use ledger::Slot;
use parking_lot::Mutex;
use serde_json::{Value, json};
use solana_signature::Signature;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;

use super::cheatcodes;
use super::world::{FINALIZED, World, keypair, sign_transaction};
use crate::cheatcodes::Cheatcodes;

#[derive(Default)]
struct FakeControl {
    calls: Mutex<Vec<String>>,
    refusal: Mutex<Option<ForkControlError>>,
}

impl FakeControl {
    fn reply<T>(&self, call: String, result: T) -> ForkCall<T> {
        self.calls.lock().push(call);
        let (call, reply) = ForkCall::new();
        reply.send(self.refusal.lock().clone().map_or(Ok(result), Err));
        call
    }
}

impl ForkControl for FakeControl {
    fn mine(&self, _: ClientId, blocks: u64) -> ForkCall<Slot> {
        self.reply(format!("mine {blocks}"), 100 + blocks)
    }

    fn snapshot(&self, _: ClientId) -> ForkCall<u64> {
        self.reply("snapshot".to_owned(), 7)
    }

    fn revert(&self, _: ClientId, snapshot: u64) -> ForkCall<()> {
        self.reply(format!("revert {snapshot}"), ())
    }

    fn reorg(
        &self,
        _: ClientId,
        depth: u64,
        transactions: ForkTransactions,
    ) -> ForkCall<Reorganization> {
        let what = match transactions {
            ForkTransactions::Reexecute => "keep".to_owned(),
            ForkTransactions::Drop => "drop".to_owned(),
            ForkTransactions::Replace(all) => format!("{} given", all.len()),
        };
        let reason = (Signature::from([1; 64]), TransactionError::BlockhashNotFound);
        let result = Reorganization {
            reverted: vec![4, 5],
            entered: vec![6, 7, 8],
            executed: 3,
            dropped: 1,
            reasons: vec![reason],
        };
        self.reply(format!("reorg {depth} {what}"), result)
    }

    fn usage(&self) -> ForkUsage {
        ForkUsage::default()
    }
}

fn world() -> (World, Arc<FakeControl>) {
    let mut world = World::new();
    let control = Arc::<FakeControl>::default();
    world.api.fork_control = Some(Arc::clone(&control) as Arc<dyn ForkControl>);
    let ledger = Arc::<cheatcodes::FakeControl>::default();
    world.api.cheatcodes = Arc::new(Cheatcodes::new(ledger, true));
    (world, control)
}

fn transaction() -> VersionedTransaction {
    let payer = keypair(10);
    sign_transaction(&[transfer(&payer.pubkey(), &keypair(11).pubkey(), 7)], &payer, FINALIZED)
}

fn base64(transaction: &VersionedTransaction) -> String {
    BASE64_STANDARD.encode(wincode::serialize(transaction).expect("a transaction has a size"))
}

fn payment() -> String {
    base64(&transaction())
}

#[test]
fn blocks_are_mined_through_the_ledgers_control() {
    let (world, control) = world();
    assert_eq!(world.ok("hydrant_mine", json!([])), 101);
    assert_eq!(world.ok("hydrant_mine", json!([null])), 101);
    assert_eq!(world.ok("hydrant_mine", json!([5])), 105);
    assert_eq!(*control.calls.lock(), ["mine 1", "mine 1", "mine 5"]);
    let what = "the number of blocks";
    let err = ForkControlError::OutOfRange { what, value: 1_000, max: MINE_MAX };
    *control.refusal.lock() = Some(err);
    let message = "the number of blocks is 1000: 1 to 256";
    world.check_refusal("hydrant_mine", json!([1_000]), -32602, message);
}

#[test]
fn a_snapshot_is_made_and_reverted_by_its_id() {
    let (world, control) = world();
    assert_eq!(world.ok("hydrant_snapshot", json!([])), 7);
    assert_eq!(world.ok("hydrant_revert", json!([7])), true);
    assert_eq!(*control.calls.lock(), ["snapshot", "revert 7"]);
    *control.refusal.lock() = Some(ForkControlError::TooMany { limit: 64 });
    let message = "64 calls wait for the ledger already";
    world.check_refusal("hydrant_snapshot", json!([]), -32005, message);
    *control.refusal.lock() = Some(ForkControlError::Closed);
    world.check_refusal("hydrant_revert", json!([1]), -32603, "the ledger is shutting down");
}

#[test]
fn a_reorganization_takes_depth_and_transactions() {
    let (world, control) = world();
    let expected = json!({
        "left": [4, 5],
        "entered": [6, 7, 8],
        "executed": 3,
        "dropped": 1,
        "errors": [{ "signature": Signature::from([1; 64]).to_string(), "err": "BlockhashNotFound" }],
    });
    let reorg = |params: Value| assert_eq!(world.ok("hydrant_reorg", json!([params])), expected);
    reorg(json!({ "depth": 2 }));
    reorg(json!({ "depth": 2, "transactions": "keep" }));
    reorg(json!({ "depth": 3, "transactions": "drop" }));
    reorg(json!({ "depth": 1, "transactions": [] }));
    reorg(json!({ "depth": 1, "transactions": [payment(), payment()] }));
    assert_eq!(
        *control.calls.lock(),
        ["reorg 2 keep", "reorg 2 keep", "reorg 3 drop", "reorg 1 0 given", "reorg 1 2 given"]
    );
}

#[test]
fn bad_fork_parameters_are_refused() {
    let (world, control) = world();
    for (method, params) in [
        ("hydrant_mine", json!([-1])),
        ("hydrant_mine", json!(["three"])),
        ("hydrant_mine", json!([1.5])),
        ("hydrant_mine", json!([1e30])),
        ("hydrant_mine", json!([1, 2])),
        ("hydrant_snapshot", json!([1])),
        ("hydrant_revert", json!([])),
        ("hydrant_revert", json!([null])),
        ("hydrant_revert", json!(["0x1"])),
        ("hydrant_reorg", json!([])),
        ("hydrant_reorg", json!([3])),
        ("hydrant_reorg", json!([{}])),
        ("hydrant_reorg", json!([{ "depth": -1 }])),
        ("hydrant_reorg", json!([{ "depth": 1, "transactions": "some" }])),
        ("hydrant_reorg", json!([{ "depth": 1, "transactions": ["!"] }])),
        ("hydrant_reorg", json!([{ "depth": 1, "blocks": 2 }])),
        ("hydrant_reorg", json!([{ "depth": 1, "transactions": ["A".repeat(10_000)] }])),
    ] {
        let refused = world.call(method, &params).expect_err("it is invalid");
        assert_eq!(refused.code, -32602, "{method} {params}: {refused}");
    }
    let many = vec![payment(); REORG_TRANSACTIONS_MAX + 1];
    let params = json!([{ "depth": 1, "transactions": many }]);
    let message = "transactions has 257 entries: at most 256";
    world.check_refusal("hydrant_reorg", params, -32602, message);
    let mut forged = transaction();
    forged.signatures[0] = Signature::from([5; 64]);
    let params = json!([{ "depth": 1, "transactions": [base64(&forged)] }]);
    let message = "Transaction signature verification failure";
    world.check_refusal("hydrant_reorg", params, -32003, message);
    assert!(control.calls.lock().is_empty());
}

#[test]
fn a_ledger_without_control_has_no_such_methods() {
    let world = World::new();
    for method in ["hydrant_mine", "hydrant_snapshot", "hydrant_revert", "hydrant_reorg"] {
        let message = format!("{method} is for a local ledger (hydrant dev)");
        world.check_refusal(method, json!([]), -32601, &message);
    }
}
