//! The account writes of a followed bank, as a server of gRPC gets them.

use std::sync::Arc;

use chain_solana::{EventSink, LedgerEvent};
use parking_lot::Mutex;
use solana_account::ReadableAccount;
use testkit::geyser_source::Source;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{SlotStatus, SubscribeUpdate};

use crate::follows::{Rig, config, source_config};
use crate::script::{Bank, account, signature, status};
use crate::snapshot::WALLET;

/// A write: slot, first byte of the address, lamports, version, whether a transaction is named.
type Write = (u64, u8, u64, u64, bool);

/// A sink that stores each write of accounts.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<Vec<Write>>>);

impl EventSink for Writes {
    fn send(&mut self, event: &LedgerEvent) {
        let LedgerEvent::AccountsWritten { block, updates } = event else { return };
        self.0.lock().extend(updates.iter().map(|update| {
            let is_signed = update.signature == Some(signature(block.slot, 0).into());
            let lamports = update.account.0.lamports();
            (block.slot, update.pubkey.to_bytes()[0], lamports, update.write_version, is_signed)
        }));
    }

    fn needs_account_updates(&self) -> bool {
        true
    }
}

/// A write of an account with a version of the source, by a transaction.
fn write(slot: u64, n: u8, lamports: u64, write_version: u64) -> SubscribeUpdate {
    let mut update = account(slot, [n; 32], lamports, Vec::new());
    if let Some(UpdateOneof::Account(account)) = &mut update.update_oneof {
        let info = account.account.as_mut().expect("an account");
        info.write_version = write_version;
        info.txn_signature = Some(signature(slot, 0).to_vec());
    }
    update
}

/// A bank that writes the wallet and accounts 1 and 2.
fn bank(slot: u64, version: u64) -> Vec<SubscribeUpdate> {
    let mut updates = Bank::new(slot, slot - 1, slot).frozen();
    let writes = [
        write(slot, 2, 20, version + 3),
        write(slot, 1, 5, version + 1),
        write(slot, 1, 10, version + 2),
        // Closed.
        write(slot, WALLET[0], 0, version + 4),
    ];
    updates.splice(1..1, writes);
    updates.push(status(slot, SlotStatus::SlotConfirmed));
    updates
}

#[tokio::test(flavor = "multi_thread")]
async fn last_writes_are_sent_in_their_order_with_rising_versions_and_signatures() {
    let source = Source::new(None);
    let writes = Writes::default();
    let config = config(vec![source_config(&source).await]);
    let rig = Rig::start_with(config, vec![Box::new(writes.clone())]);
    source.send(bank(101, 1_000));
    rig.wait_for_slots([101, 101, 100]).await;
    // The source has restarted: its versions are lower.
    source.cut();
    rig.wait("a second session", |rig| rig.status.sessions() == 2).await;
    source.send(bank(102, 200));
    rig.wait_for_slots([102, 102, 100]).await;
    let all = writes.0.lock().clone();
    assert!(all.is_sorted_by_key(|write| write.3), "{all:?}");
    let sent: Vec<_> = all.into_iter().filter(|write| write.4).collect();
    let of_slot = |slot: u64| {
        let of_slot = sent.iter().filter(|write| write.0 == slot);
        of_slot.map(|write| (write.1, write.2)).collect::<Vec<_>>()
    };
    for slot in [101, 102] {
        assert_eq!(of_slot(slot), [(1, 10), (2, 20), (WALLET[0], 0)], "slot {slot}");
    }
    rig.stop().await;
}
