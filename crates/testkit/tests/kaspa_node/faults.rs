//! Faults on request.

use kaspa::{Event, Method, Notification, VerbosityLevel};
use testkit::kaspa_node::{Disturbance, KaspaNode, Lie};

use crate::world::{BorshClient, assert_end, commitment, miner_address, whole_scope};

async fn daa_scores(client: &mut BorshClient, count: usize) -> Vec<u64> {
    let mut scores = Vec::new();
    for _ in 0..count {
        match client.read_notification().await {
            Notification::VirtualDaaScoreChanged { virtual_daa_score } => {
                scores.push(virtual_daa_score);
            }
            other => panic!("{other:?}"),
        }
    }
    scores
}

#[tokio::test]
async fn notifications_are_lost_doubled_and_late() {
    let node = KaspaNode::start().await;
    node.mine(1);
    let event = Event::VirtualDaaScoreChanged;
    let mut client = BorshClient::connect(&node).await;
    client.subscribe(whole_scope(event)).await;
    node.disturb(event, Disturbance::Lost);
    node.mine(2);
    node.disturb(event, Disturbance::Doubled);
    node.mine(2);
    node.disturb(event, Disturbance::Late);
    node.mine(3);
    assert_eq!(daa_scores(&mut client, 7).await, [3, 4, 4, 5, 7, 6, 8]);
}

#[tokio::test]
async fn the_order_within_a_change_is_set() {
    let node = KaspaNode::start().await;
    node.mine(1);
    let mut client = BorshClient::connect(&node).await;
    client.subscribe_all().await;
    let order = [Event::UtxosChanged, Event::VirtualChainChanged];
    node.set_notification_order(&order);
    node.mine(1);
    for event in [Event::BlockAdded, order[0], order[1]] {
        assert_eq!(client.read_notification().await.event(), event);
    }
}

#[tokio::test]
async fn one_bit_is_reported_wrongly() {
    let node = KaspaNode::start().await;
    node.mine(6);
    let chain = node.chain();
    let genesis = node.with_dag(|dag| dag.genesis());
    let mut client = BorshClient::connect(&node).await;
    let honest = client.chain(genesis).await.expect("the chain").blocks;

    node.add_lie(Lie::Header { block: chain[2], bit: 5 });
    node.add_lie(Lie::Commitment { block: chain[3], bit: 200 });
    let amount_of = honest[4].transactions[0].id;
    let outpoint = kaspa::Outpoint { transaction_id: amount_of, index: 0 };
    node.add_lie(Lie::Amount { outpoint, bit: 3 });
    let lied = client.chain(genesis).await.expect("the chain").blocks;
    assert_ne!(lied[2].header.hash(), chain[2]);
    assert_ne!(lied[3].header.utxo_commitment, honest[3].header.utxo_commitment);
    let amount =
        |blocks: &[kaspa::AcceptingBlock]| blocks[4].transactions[0].transaction.outputs[0].amount;
    assert_eq!(amount(&lied) ^ amount(&honest), 8);
    assert_eq!(lied[4].transactions[0].id, amount_of, "the id is not a lie");
    assert_eq!(lied[5], honest[5]);
    let reported = client.utxos(&[miner_address()]).await;
    let reported = reported.iter().find(|utxo| utxo.outpoint == outpoint).expect("it is unspent");
    assert_ne!(reported.entry, node.utxos()[&outpoint]);

    node.clear_lies();
    assert_eq!(client.chain(genesis).await.expect("the chain").blocks, honest);
}

#[tokio::test]
async fn a_false_commitment_has_a_right_hash_and_a_right_link() {
    let node = KaspaNode::start().await;
    let last = node.mine(4)[3];
    let hash = node.mine_with_false_commitment(9);
    assert_eq!(node.sink(), hash);
    let mut client = BorshClient::connect(&node).await;
    let block = client.chain(last).await.expect("the chain").blocks.remove(0);
    assert_eq!(block.header.hash(), hash);
    assert_eq!(block.header.parents.direct(), [last]);
    let state = node.with_dag(|dag| dag.sink().state.as_ref().map(|state| state.mu_hash.clone()));
    let right = kaspa::Hash(state.expect("it is on the chain").finalize());
    let flipped = |left: &kaspa::Hash, right: &kaspa::Hash| -> u32 {
        left.0.iter().zip(right.0).map(|(left, right)| (left ^ right).count_ones()).sum()
    };
    assert_eq!(flipped(&block.header.utxo_commitment, &right), 1);
    node.mine(2);
    assert_eq!(
        node.with_dag(|dag| dag.virtual_commitment()),
        commitment(&node.utxos()),
        "what follows is right again"
    );
}

#[tokio::test]
async fn connections_are_cut_after_a_message() {
    let node = KaspaNode::start().await;
    let mut client = BorshClient::connect(&node).await;
    client.subscribe(whole_scope(Event::VirtualDaaScoreChanged)).await;
    node.cut_after(2);
    node.mine(5);
    assert_eq!(daa_scores(&mut client, 2).await, [1, 2]);
    assert_end(&mut client.connection).await;

    let mut client = BorshClient::connect(&node).await;
    node.reset();
    assert_end(&mut client.connection).await;
    assert!(node.chain().is_empty());
}

#[tokio::test]
async fn a_reset_keeps_the_maturity_and_drops_late_notifications() {
    let node = KaspaNode::start_with_maturity(1_000).await;
    node.mine(4);
    node.disturb(Event::VirtualDaaScoreChanged, Disturbance::Late);
    node.mine(1);
    node.reset();
    let mut client = BorshClient::connect(&node).await;
    client.subscribe(whole_scope(Event::VirtualDaaScoreChanged)).await;
    node.mine(8);
    assert_eq!(daa_scores(&mut client, 8).await, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(node.utxos().len() > 4);
    let spendable = node.with_dag(|dag| {
        let utxos = dag.utxos();
        utxos.keys().filter(|outpoint| dag.is_spendable(outpoint)).count()
    });
    assert_eq!(spendable, 0, "no coinbase is mature");
}

#[tokio::test]
async fn notifications_pass_a_delayed_reply() {
    let node = KaspaNode::start().await;
    let mut client = BorshClient::connect(&node).await;
    client.subscribe(whole_scope(Event::VirtualDaaScoreChanged)).await;
    node.delay_replies(Method::GetVirtualChainFromBlockV2);
    let genesis = node.with_dag(|dag| dag.genesis());
    let request = Method::encode_borsh_get_chain(7, &genesis, VerbosityLevel::Full, None);
    client.connection.send_binary(request).await;
    node.mine(3);
    assert_eq!(daa_scores(&mut client, 3).await, [1, 2, 3]);
    node.release_replies();
    let reply = client.connection.read_binary().await;
    assert_eq!(reply[1..9], 7_u64.to_le_bytes());
}
