//! Block footers, which a followed chain of Alpenglow has: their order, their filters and their certificates.

use chain_solana::{BlockFooter, LedgerEvent};
use grpc::Config;
use prost::Message;
use tonic::Code;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    BlockFooterFinalCert, CommitmentLevel, SubscribeRequest, SubscribeRequestFilterBlockFooter,
    SubscribeUpdateBlockFooter,
};

use crate::client::{Subscription, connect};
use crate::commitments::everything;
use crate::ledger::{FIRST, ScriptedLedger, block_id};

fn filter(include_certificates: Option<bool>) -> SubscribeRequestFilterBlockFooter {
    SubscribeRequestFilterBlockFooter { include_certificates }
}

fn with_footers(filters: &[(&str, Option<bool>)], request: SubscribeRequest) -> SubscribeRequest {
    let filters = filters.iter().map(|(name, with)| ((*name).to_owned(), filter(*with)));
    SubscribeRequest { block_footer: filters.collect(), ..request }
}

fn certificate() -> Option<BlockFooterFinalCert> {
    Some(BlockFooterFinalCert { slot: 99, ..BlockFooterFinalCert::default() })
}

/// A bank with a footer, from its start to confirmed.
fn bank_with_footer(ledger: &mut ScriptedLedger) {
    ledger.open(FIRST);
    ledger.write(FIRST, 1, 9, b"one", None);
    let certificates = SubscribeUpdateBlockFooter {
        block_final_cert: certificate(),
        ..SubscribeUpdateBlockFooter::default()
    };
    let footer = BlockFooter {
        bank_hash: vec![3; 32],
        producer_time_nanos: 5,
        user_agent: b"agave".to_vec(),
        certificates: certificates.encode_to_vec(),
    };
    let block = block_id(FIRST);
    ledger.send(&LedgerEvent::BlockFooter { block, footer: footer.into() });
    ledger.freeze(FIRST);
    ledger.confirm(block);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_footer_comes_before_the_metadata_of_its_bank_once_for_all_filters() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let request = |level| with_footers(&[("f", None), ("g", Some(true))], everything(level));
    let mut processed = Subscription::start(&mut client, request(CommitmentLevel::Processed)).await;
    let mut confirmed = Subscription::start(&mut client, request(CommitmentLevel::Confirmed)).await;
    bank_with_footer(&mut ledger);
    let expected = [
        "s: created_bank 101",
        "a: account 101 1 one",
        "s: completed 101",
        "f,g: footer 101 true",
        "m: meta 101 0",
        "s: processed 101",
        "s: confirmed 101",
    ];
    assert_eq!(processed.take(expected.len()).await, expected);
    let expected = [
        "s: created_bank 101",
        "s: completed 101",
        "s: processed 101",
        "a: account 101 1 one",
        "f,g: footer 101 true",
        "m: meta 101 0",
        "s: confirmed 101",
    ];
    assert_eq!(confirmed.take(expected.len()).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_sent_only_to_clients_that_request_them() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let mut subscriptions = Vec::new();
    for with in [None, Some(false), Some(true)] {
        let request = with_footers(&[("f", with)], SubscribeRequest::default());
        subscriptions.push(Subscription::start(&mut client, request).await);
    }
    bank_with_footer(&mut ledger);
    let mut footers = Vec::new();
    for subscription in &mut subscriptions {
        let update = subscription.next().await.expect("an update").update_oneof;
        let Some(UpdateOneof::BlockFooter(footer)) = update else { panic!("{update:?}") };
        footers.push(footer);
    }
    let whole = SubscribeUpdateBlockFooter {
        slot: FIRST,
        bank_id: 1,
        bank_hash: vec![3; 32],
        block_producer_time_nanos: 5,
        block_user_agent: b"agave".to_vec(),
        block_final_cert: certificate(),
        ..SubscribeUpdateBlockFooter::default()
    };
    let without = SubscribeUpdateBlockFooter { block_final_cert: None, ..whole.clone() };
    assert_eq!(footers, [without.clone(), without, whole]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_without_footers_sends_none_and_the_filters_are_limited() {
    let mut ledger = ScriptedLedger::start(Config { filters_max: 2, ..Config::default() });
    let mut client = connect(ledger.address()).await;
    let request = everything(CommitmentLevel::Processed);
    let request = with_footers(&[("f", None), ("g", Some(true))], request);
    let mut subscription = Subscription::start(&mut client, request).await;
    ledger.bank_with_write(FIRST, 1);
    let expected = [
        "s: created_bank 101",
        "a: account 101 1 data",
        "s: completed 101",
        "m: meta 101 0",
        "s: processed 101",
        "s: confirmed 101",
    ];
    assert_eq!(subscription.take(expected.len()).await, expected);
    let three = with_footers(&[("f", None), ("g", None), ("h", None)], Default::default());
    let mut refused = Subscription::start_unchecked(&mut client).await;
    refused.send(three).await;
    let status = refused.end().await;
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("block_footer"), "{status}");
}
