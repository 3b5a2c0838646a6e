//! The block footers of a followed chain are passed on with their banks, if the source sends them.

use std::sync::Arc;

use chain_solana::{BlockFooter, EventSink, LedgerEvent};
use parking_lot::Mutex;
use prost::Message;
use testkit::geyser_source::Source;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    BlockFooterFinalCert, SlotStatus, SubscribeUpdate, SubscribeUpdateBlockFooter,
};

use crate::follows::{Rig, config, source_config};
use crate::script::{Bank, message, status};

/// A footer with its slot, or the slot of a frozen block.
type FooterOrBlock = (u64, Option<BlockFooter>);

/// A sink that stores footers and frozen blocks in their order.
#[derive(Clone, Default)]
struct Footers(Arc<Mutex<Vec<FooterOrBlock>>>);

impl EventSink for Footers {
    fn send(&mut self, event: &LedgerEvent) {
        let mut all = self.0.lock();
        match event {
            LedgerEvent::BlockFooter { block, footer } => {
                all.push((block.slot, Some((**footer).clone())));
            }
            LedgerEvent::Frozen { block, .. } => all.push((block.id.slot, None)),
            _ => {}
        }
    }

    fn needs_entries(&self) -> bool {
        true
    }
}

/// The bank of a slot has its slot as its id.
fn footer(slot: u64) -> SubscribeUpdateBlockFooter {
    SubscribeUpdateBlockFooter {
        slot,
        bank_id: slot,
        bank_hash: vec![3; 32],
        block_producer_time_nanos: slot * 10,
        block_user_agent: b"agave/4.3".to_vec(),
        block_final_cert: Some(BlockFooterFinalCert { slot: slot - 2, ..Default::default() }),
        ..SubscribeUpdateBlockFooter::default()
    }
}

/// A confirmed bank that has an id, as banks of a source with footers have.
fn bank(slot: u64) -> Vec<SubscribeUpdate> {
    let mut updates = Bank::new(slot, slot - 1, slot).frozen();
    updates.push(status(slot, SlotStatus::SlotConfirmed));
    for update in &mut updates {
        match &mut update.update_oneof {
            Some(UpdateOneof::Account(it)) => it.bank_id = Some(slot),
            Some(UpdateOneof::Transaction(it)) => it.bank_id = slot,
            Some(UpdateOneof::BlockMeta(it)) => it.bank_id = slot,
            Some(UpdateOneof::Slot(it)) => it.bank_id = Some(slot),
            _ => {}
        }
    }
    updates
}

#[tokio::test(flavor = "multi_thread")]
async fn a_footer_is_passed_on_before_its_bank_is_frozen() {
    let source = Source::new(None);
    let footers = Footers::default();
    let config = config(vec![source_config(&source).await]);
    let rig = Rig::start_with(config, vec![Box::new(footers.clone())]);
    let mut with_footer = bank(101);
    with_footer.insert(3, message(UpdateOneof::BlockFooter(footer(101))));
    source.send(with_footer);
    // Of another bank of the slot, and after the metadata: the bank is whole without it.
    let other = SubscribeUpdateBlockFooter { bank_id: 7, ..footer(102) };
    source.send([message(UpdateOneof::BlockFooter(other))]);
    source.send(bank(102));
    source.send([message(UpdateOneof::BlockFooter(footer(102)))]);
    source.send(bank(103));
    rig.wait_for_slots([103, 103, 100]).await;
    let SubscribeUpdateBlockFooter { bank_hash, block_final_cert, .. } = footer(101);
    let certificates = SubscribeUpdateBlockFooter { block_final_cert, ..Default::default() };
    let expected = BlockFooter {
        bank_hash,
        producer_time_nanos: 1_010,
        user_agent: b"agave/4.3".to_vec(),
        certificates: certificates.encode_to_vec(),
    };
    let all = footers.0.lock().clone();
    assert_eq!(all, [(101, Some(expected)), (101, None), (102, None), (103, None)]);
    let request = &source.requests()[0].block_footer["follow"];
    assert_eq!(request.include_certificates, Some(true));
    assert_eq!((rig.status.gaps(), rig.status.sessions()), (0, 1));
    rig.stop().await;
}
