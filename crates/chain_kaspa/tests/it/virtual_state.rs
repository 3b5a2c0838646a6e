//! The virtual state at its start, after losses, and its scores.

use chain_kaspa::{
    ChainConfig, ChainEvent, HistoryLimits, TemplateCheck, VirtualLimits, VirtualMode,
};
use kaspa::UtxoChanges;
use ledger::Commitment;
use testkit::kaspa_chain::{CheckedFollower, ModelNode, assert_same};

const DEPTH: usize = 10;
const MESSAGES_MAX: u64 = 5;

fn world() -> (ModelNode, CheckedFollower) {
    world_with_history(HistoryLimits::default())
}

fn world_with_history(history: HistoryLimits) -> (ModelNode, CheckedFollower) {
    let node = ModelNode::new(11, DEPTH);
    let virtual_limits = VirtualLimits {
        contradiction_messages_max: MESSAGES_MAX,
        difference_steps_max: 10,
        ..VirtualLimits::default()
    };
    let config =
        ChainConfig { depth_max: DEPTH, history, virtual_limits, ..ChainConfig::new(10_000) };
    let follower = CheckedFollower::new(config, node.sink().accepting.header.clone());
    (node, follower)
}

/// A follower whose virtual state is exact.
fn exact_world() -> (ModelNode, CheckedFollower) {
    let (node, mut follower) = world();
    follower.chain.join_virtual();
    assert_eq!(follower.chain.check_template(&node.template()), TemplateCheck::Matched);
    (node, follower)
}

/// Mines a block, and follows it: first the chain, then its message about the virtual state, which is returned.
fn follow_block(node: &mut ModelNode, follower: &mut CheckedFollower) -> UtxoChanges {
    let message = node.mine();
    follower.poll(node).expect("an honest node");
    follower.chain.apply_utxos_changed(&message);
    message
}

#[test]
fn a_quiet_chain_is_seeded_by_the_sinks_own_transactions() {
    let (mut node, mut follower) = world();
    let mut spends = 0;
    for _ in 0..30 {
        node.mine();
        follower.poll(&node).expect("an honest node");
        follower.chain.join_virtual();
        let block = node.sink_with_body();
        spends += block.transactions.len() - 1;
        let unknown = follower.chain.seed_virtual(&[block], node.virtual_daa_score());
        assert_eq!(unknown, Some(0), "the history has all transactions");
        assert_eq!(follower.chain.check_template(&node.template()), TemplateCheck::Matched);
        follower.publish();
        let processed = follower.read(Commitment::Processed);
        assert_same(node.virtual_utxos(), &processed, "the virtual state");
    }
    assert!(spends > 10);
    let older = node.sink_with_body();
    node.mine();
    follower.poll(&node).expect("an honest node");
    follower.chain.join_virtual();
    assert_eq!(follower.chain.seed_virtual(&[older], 0), None, "it is not the sink");
}

#[test]
fn a_quiet_chain_is_seeded_by_all_merged_blocks() {
    let (mut node, mut follower) = world();
    let mut spends = 0;
    for _ in 0..30 {
        node.mine();
        node.merge();
        node.merge();
        follower.poll(&node).expect("an honest node");
        follower.chain.join_virtual();
        let mut merged = node.merged_blocks();
        let left_out = follower.chain.seed_virtual(&merged, node.virtual_daa_score());
        let left_out = left_out.expect("the sink comes first");
        let last = merged.last().expect("a merged block").clone();
        let copies = last.transactions.len() - 1;
        spends += copies;
        // Transactions that were accepted before are left out.
        merged.push(last);
        let again = follower.chain.seed_virtual(&merged, node.virtual_daa_score());
        assert_eq!(again, Some(left_out + copies));
        assert_eq!(follower.chain.check_template(&node.template()), TemplateCheck::Matched);
        follower.publish();
        let processed = follower.read(Commitment::Processed);
        assert_same(node.virtual_utxos(), &processed, "the virtual state");
    }
    assert!(spends > 10);
}

#[test]
fn a_quiet_chain_is_seeded_with_outputs_older_than_the_history() {
    let limits = HistoryLimits { blocks_max: 1, bytes_max: usize::MAX };
    let (mut node, mut follower) = world_with_history(limits);
    let mut older_spends = 0;
    for _ in 0..30 {
        node.mine();
        follower.poll(&node).expect("an honest node");
        follower.publish();
        follower.chain.join_virtual();
        let block = node.sink_with_body();
        let history = follower.reader.history();
        let inputs = block.transactions.iter().flat_map(|transaction| &transaction.inputs);
        let ids = inputs.map(|input| input.previous_outpoint.transaction_id);
        older_spends += ids.filter(|id| history.transaction(id).is_none()).count();
        let unknown = follower.chain.seed_virtual(&[block], node.virtual_daa_score());
        assert_eq!(unknown, Some(0), "the set has all outputs");
        assert_eq!(follower.chain.check_template(&node.template()), TemplateCheck::Matched);
    }
    assert!(older_spends > 10);
}

#[test]
fn the_virtual_state_joins_a_running_chain() {
    let (mut node, mut follower) = world();
    for _ in 0..20 {
        node.mine();
    }
    node.merge();
    follower.poll(&node).expect("an honest node");
    follower.chain.join_virtual();
    let mut checks = 0;
    while follower.chain.check_template(&node.template()) != TemplateCheck::Matched {
        assert_eq!(follower.chain.virtual_mode(), VirtualMode::Joining);
        checks += 1;
        assert!(checks < 20, "it does not become exact");
        let message = node.mine();
        follower.chain.apply_utxos_changed(&message);
        follower.poll(&node).expect("an honest node");
    }
    assert!(checks > 0);
    assert_eq!(follower.chain.virtual_mode(), VirtualMode::Exact);
    let state = follower.chain.status().virtual_state;
    assert_eq!((state.losses, state.mismatches), (0, 0), "a joining state is not complete");
}

#[test]
fn a_template_that_comes_before_its_message_is_not_a_mismatch() {
    let (mut node, mut follower) = exact_world();
    follow_block(&mut node, &mut follower);
    let message = node.mine();
    // The chain comes first. The virtual block above it has the score of the template without any message.
    follower.poll(&node).expect("an honest node");
    assert_eq!(follower.chain.check_template(&node.template()), TemplateCheck::Incomplete);
    follower.chain.apply_utxos_changed(&message);
    assert_eq!(follower.chain.check_template(&node.template()), TemplateCheck::Matched);
    let state = follower.chain.status().virtual_state;
    assert_eq!((state.incomplete, state.mismatches, state.losses), (1, 0, 0));
}

#[test]
fn a_lost_message_is_found_on_a_quiet_chain() {
    let (mut node, mut follower) = exact_world();
    follow_block(&mut node, &mut follower);
    node.mine();
    follower.poll(&node).expect("an honest node");
    assert_eq!(follower.chain.check_template(&node.template()), TemplateCheck::Incomplete);
    for _ in 0..3 {
        assert_eq!(follower.chain.virtual_mode(), VirtualMode::Exact);
        assert_eq!(follower.chain.check_template(&node.template()), TemplateCheck::Mismatched);
    }
    let state = follower.chain.status().virtual_state;
    assert_eq!((state.mode, state.losses), (VirtualMode::Joining, 1));
}

#[test]
fn a_joining_state_has_a_new_branch_as_the_chain_has_it() {
    let (mut node, mut follower) = world();
    for _ in 0..20 {
        node.mine();
    }
    follower.poll(&node).expect("an honest node");
    follower.publish();
    follower.chain.join_virtual();
    // No message names an outpoint of the two branches: they were sent before the subscription.
    node.reorganize(4, 5);
    follower.poll(&node).expect("an honest node");
    assert_eq!(follower.chain.status().counters.removed_blocks, 4);
    let state = follower.chain.status().virtual_state;
    assert_eq!((state.mode, state.losses), (VirtualMode::Joining, 0));
    assert_eq!((state.differences, state.contradictions), (0, 0));
    follower.publish();
    let processed = follower.read(Commitment::Processed);
    assert_same(&node.sink().utxos, &processed, "the sink's set");
}

#[test]
fn empty_replies_do_not_age_the_differences() {
    let (mut node, mut follower) = exact_world();
    follow_block(&mut node, &mut follower);
    let before = follower.chain.status().virtual_state;
    assert!(before.differences > 0, "the virtual block accepts the sink's reward");
    for _ in 0..300 {
        follower.poll(&node).expect("an honest node");
    }
    let status = follower.chain.status().virtual_state;
    assert_eq!((status.mode, status.losses), (VirtualMode::Exact, 0));
    assert_eq!(status, before);
    assert_eq!(follower.chain.check_template(&node.template()), TemplateCheck::Matched);
}

#[test]
fn a_doubled_message_is_found_by_its_contradiction() {
    let (mut node, mut follower) = exact_world();
    let message = follow_block(&mut node, &mut follower);
    assert_eq!(follower.chain.status().virtual_state.contradictions, 0);
    follower.chain.apply_utxos_changed(&message);
    let contradictions = follower.chain.status().virtual_state.contradictions;
    assert_eq!(contradictions, message.added.len() + message.removed.len());
    assert_eq!(follower.chain.check_template(&node.template()), TemplateCheck::NotComparable);
    for _ in 0..=MESSAGES_MAX {
        assert_eq!(follower.chain.virtual_mode(), VirtualMode::Exact);
        follower.chain.apply_utxos_changed(&UtxoChanges::default());
    }
    let status = follower.chain.status().virtual_state;
    assert_eq!((status.mode, status.losses), (VirtualMode::Joining, 1));
    assert_eq!(status.contradictions, 0);
}

#[test]
fn changes_with_contradictions_wait_for_the_missing_message() {
    let (mut node, mut follower) = exact_world();
    let (first, second) = loop {
        let first = node.mine();
        let second = node.mine();
        let added: Vec<_> = first.added.iter().map(|utxo| utxo.outpoint).collect();
        if second.removed.iter().any(|utxo| added.contains(&utxo.outpoint)) {
            break (first, second);
        }
        follower.chain.apply_utxos_changed(&first);
        follower.chain.apply_utxos_changed(&second);
    };
    follower.publish();
    let before = follower.read(Commitment::Processed);
    follower.chain.apply_utxos_changed(&second);
    assert!(
        follower.chain.status().virtual_state.contradictions > 0,
        "it removes what is not there"
    );
    follower.publish();
    assert_same(&before, &follower.read(Commitment::Processed), "the state before");
    follower.chain.apply_utxos_changed(&first);
    assert_eq!(follower.chain.status().virtual_state.contradictions, 0);
    follower.publish();
    let processed = follower.read(Commitment::Processed);
    assert_same(node.virtual_utxos(), &processed, "the virtual state, before the chain");
    follower.poll(&node).expect("an honest node");
    follower.publish();
    let processed = follower.read(Commitment::Processed);
    assert_same(node.virtual_utxos(), &processed, "the virtual state, on the chain");
}

#[test]
fn an_announced_score_is_sent_after_its_message() {
    let (mut node, mut follower) = world();
    follower.chain.join_virtual();
    let scores = |follower: &mut CheckedFollower| -> Vec<u64> {
        let publication = follower.chain.publish().expect("a publication");
        let events = publication.events.iter();
        let scores = events.filter_map(|event| match event {
            ChainEvent::VirtualDaaScoreChanged { daa_score } => Some(*daa_score),
            _ => None,
        });
        scores.collect()
    };
    let message = node.mine();
    follower.chain.apply_utxos_changed(&message);
    assert_eq!(scores(&mut follower), [node.virtual_daa_score()]);
    let message = node.mine();
    follower.chain.announce_virtual_daa_score(node.virtual_daa_score());
    assert_eq!(scores(&mut follower), [0; 0]);
    follower.chain.apply_utxos_changed(&message);
    assert_eq!(scores(&mut follower), [node.virtual_daa_score()]);
    follower.chain.announce_virtual_daa_score(node.virtual_daa_score() + 1);
    assert_eq!(scores(&mut follower), [0; 0]);
    follower.chain.release_virtual_daa_score();
    assert_eq!(scores(&mut follower), [node.virtual_daa_score() + 1]);
}

#[test]
fn a_released_score_does_not_go_back() {
    let (mut node, mut follower) = world();
    follower.chain.join_virtual();
    node.mine();
    let announced = node.virtual_daa_score();
    let message = loop {
        let message = node.mine();
        if node.virtual_daa_score() > announced && !message.added.is_empty() {
            break message;
        }
    };
    follower.chain.announce_virtual_daa_score(announced);
    follower.chain.apply_utxos_changed(&message);
    follower.publish();
    assert_eq!(follower.reader.status().virtual_daa_score, node.virtual_daa_score());
    follower.chain.release_virtual_daa_score();
    follower.publish();
    assert_eq!(follower.reader.status().virtual_daa_score, node.virtual_daa_score());
}

#[test]
fn a_replaced_utxo_set_is_reported_and_joined_again() {
    let (mut node, mut follower) = exact_world();
    follower.chain.apply_utxos_changed(&node.mine());
    follower.chain.handle_utxo_set_override();
    let publication = follower.chain.publish().expect("a publication");
    let is_replaced = |event: &ChainEvent| matches!(event, ChainEvent::UtxoSetReplaced);
    assert!(publication.events.iter().any(is_replaced));
    assert_eq!(follower.chain.virtual_mode(), VirtualMode::Joining);
}
