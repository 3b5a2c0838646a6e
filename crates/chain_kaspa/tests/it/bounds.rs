//! Bounds: the depth of reorganizations, the memory of the history, the differences of the virtual state, a full ledger.

use chain_kaspa::{
    Chain, ChainConfig, ChainLoader, HistoryLimits, LoadError, StepError, TemplateCheck,
    VirtualLimits, VirtualMode, hash_utxos, script_totals,
};
use kaspa::{
    AddressPayload, AddressUtxo, Hash, Header, Network, Outpoint, ScriptPublicKey, UtxoChanges,
    UtxoEntry,
};
use ledger::Commitment;
use query::{LedgerConfig, LedgerError};
use testkit::kaspa_chain::{CheckedFollower, ModelNode, assert_same};

const DEPTH: usize = 8;

pub(crate) fn config() -> ChainConfig {
    ChainConfig { depth_max: DEPTH, ..ChainConfig::new(10_000) }
}

pub(crate) fn p2pk(key: u8) -> ScriptPublicKey {
    ScriptPublicKey::from_payload(&AddressPayload::PublicKey([key; 32]))
}

pub(crate) fn utxo(
    number: u32,
    script_public_key: &ScriptPublicKey,
    amount: u64,
) -> (Outpoint, UtxoEntry) {
    let mut transaction_id = Hash([5; 32]);
    transaction_id.0[..4].copy_from_slice(&number.to_le_bytes());
    let entry = UtxoEntry {
        amount,
        script_public_key: script_public_key.clone(),
        block_daa_score: 1_000,
        is_coinbase: false,
        covenant_id: None,
    };
    (Outpoint { transaction_id, index: number % 3 }, entry)
}

/// Starts a chain with a UTXO set.
pub(crate) fn load(
    config: ChainConfig,
    utxos: &[(Outpoint, UtxoEntry)],
) -> Result<Chain, LoadError> {
    let product = hash_utxos(utxos);
    let utxo_commitment = Hash(product.finalize());
    let header = Header { utxo_commitment, ..Network::Simnet.genesis() };
    let mut loader = ChainLoader::new(config, header);
    loader.add_product(&product);
    loader.insert_unhashed(utxos)?;
    loader.finish()
}

#[test]
fn a_deeper_reorganization_is_reported_and_changes_nothing() {
    let mut node = ModelNode::new(3, 4 * DEPTH);
    let mut follower = CheckedFollower::new(config(), node.sink().accepting.header.clone());
    for _ in 0..3 * DEPTH {
        node.mine();
    }
    follower.poll(&node).expect("an honest node");
    follower.publish();
    assert_eq!(follower.chain.usage().unrooted_blocks, DEPTH);
    let sink = follower.chain.sink();
    let before = follower.read(Commitment::Confirmed);
    node.reorganize(DEPTH + 1, DEPTH + 2);
    let too_deep = StepError::TooDeep { removed: DEPTH + 1, depth_max: DEPTH };
    assert_eq!(follower.poll(&node), Err(too_deep));
    assert_eq!(follower.chain.sink(), sink);
    assert!(follower.chain.refused_block().is_none(), "the source is honest");
    follower.publish();
    assert_same(&before, &follower.read(Commitment::Confirmed), "the chain before");
}

#[test]
fn a_deep_list_of_foreign_blocks_is_not_too_deep() {
    let mut node = ModelNode::new(3, DEPTH);
    let mut follower = CheckedFollower::new(config(), node.sink().accepting.header.clone());
    for _ in 0..3 {
        node.mine();
    }
    follower.poll(&node).expect("an honest node");
    let chain: Vec<Hash> = node.newest_blocks(4).map(|block| block.accepting.hash).collect();
    // The source has another block in place of our sink, so the request is repeated.
    let foreign = vec![Hash([1; 32]); DEPTH + 5];
    let not_on_chain = StepError::NotOnChain { removed: foreign[0], expected: chain[3] };
    assert_eq!(follower.apply(&foreign, Vec::new()), Err(not_on_chain));
    // Our own blocks, with the root.
    let own: Vec<Hash> = chain.iter().rev().copied().collect();
    let too_deep = StepError::TooDeep { removed: 4, depth_max: DEPTH };
    assert_eq!(follower.apply(&own, Vec::new()), Err(too_deep));
}

#[test]
fn a_reorganization_of_the_whole_depth_is_followed() {
    let mut node = ModelNode::new(4, DEPTH);
    let mut follower = CheckedFollower::new(config(), node.sink().accepting.header.clone());
    for _ in 0..3 * DEPTH {
        node.mine();
        follower.poll(&node).expect("an honest node");
        follower.publish();
    }
    let root = follower.chain.root();
    for round in 1..=5 {
        node.reorganize(DEPTH, DEPTH);
        follower.poll(&node).expect("an honest node");
        follower.publish();
        assert_same(&node.sink().utxos, &follower.read(Commitment::Confirmed), "the new branch");
        assert_eq!(follower.chain.root(), root);
        assert_eq!(follower.chain.usage().unrooted_blocks, DEPTH);
        let counters = follower.reader.status().counters;
        assert_eq!(counters.reorganizations, round);
        assert_eq!(counters.deepest_reorganization, DEPTH);
    }
}

#[test]
fn removed_blocks_that_are_not_the_newest_are_refused() {
    let mut node = ModelNode::new(5, DEPTH);
    let mut follower = CheckedFollower::new(config(), node.sink().accepting.header.clone());
    for _ in 0..DEPTH {
        node.mine();
    }
    follower.poll(&node).expect("an honest node");
    let hashes: Vec<Hash> = node.newest_blocks(2).map(|block| block.accepting.hash).collect();
    let not_on_chain = StepError::NotOnChain { removed: hashes[0], expected: hashes[1] };
    assert_eq!(follower.apply(&[hashes[0]], Vec::new()), Err(not_on_chain));
    assert!(follower.chain.refused_block().is_none());
}

#[test]
fn a_step_that_is_dropped_leaves_nothing() {
    let mut node = ModelNode::new(6, DEPTH);
    let mut follower = CheckedFollower::new(config(), node.sink().accepting.header.clone());
    for _ in 0..DEPTH {
        node.mine();
    }
    follower.poll(&node).expect("an honest node");
    follower.publish();
    let usage = follower.chain.usage();
    node.reorganize(3, 5);
    let (removed, added) = node.chain_from(follower.chain.sink().hash).expect("our sink");
    let mut step = follower.chain.start_step(&removed).expect("a step");
    for block in added {
        step.add_block(block).expect("an honest node");
    }
    drop(step);
    follower.publish();
    assert_eq!(follower.chain.usage(), usage);
    follower.poll(&node).expect("the same blocks again");
    follower.publish();
    assert_same(&node.sink().utxos, &follower.read(Commitment::Confirmed), "the new branch");
}

#[test]
fn the_history_stays_within_its_bytes() {
    let bytes_max = 40_000;
    let history = HistoryLimits { blocks_max: usize::MAX, bytes_max };
    let config = ChainConfig { history, ..config() };
    let mut node = ModelNode::new(8, DEPTH);
    let mut follower = CheckedFollower::new(config, node.sink().accepting.header.clone());
    let mut first_ids = Vec::new();
    for round in 0..200 {
        node.mine();
        if round % 9 == 8 {
            node.reorganize(DEPTH / 2, DEPTH / 2 + 1);
        }
        follower.poll(&node).expect("an honest node");
        follower.publish();
        let history = follower.reader.history();
        assert!(history.bytes() <= bytes_max, "{} bytes", history.bytes());
        assert!(history.blocks_len() > 0);
        if round == 1 {
            let sink = &node.sink().accepting;
            first_ids.extend(sink.transactions.iter().map(|accepted| accepted.id));
        }
    }
    let history = follower.reader.history();
    assert!(history.bytes() > bytes_max / 2, "{} bytes", history.bytes());
    assert!(!first_ids.is_empty());
    assert!(first_ids.iter().all(|id| history.transaction(id).is_none()));
    assert!(history.first_daa_score().is_some_and(|score| score > 100));
}

#[test]
fn positions_of_the_history_are_valid_after_a_restart() {
    let mut node = ModelNode::new(10, DEPTH);
    let mut follower = CheckedFollower::new(config(), node.sink().accepting.header.clone());
    for _ in 0..10 {
        node.mine();
    }
    let root = node.sink().clone();
    for _ in 0..20 {
        node.mine();
    }
    follower.poll(&node).expect("an honest node");
    follower.publish();
    // Another process starts at a later block.
    let mut loader = ChainLoader::new(config(), root.accepting.header);
    let utxos: Vec<_> = root.utxos.into_iter().collect();
    loader.insert(&utxos).expect("amounts that fit");
    let mut chain = loader.finish().expect("the set of the header");
    let (_, added) = node.chain_from(chain.sink().hash).expect("the node has the first block");
    let mut step = chain.start_step(&[]).expect("a step");
    for block in added {
        step.add_block(block).expect("an honest node");
    }
    step.commit();
    drop(chain.publish().expect("a publication"));
    let before = follower.reader.history();
    let after = chain.reader().history();
    for accepted in &node.sink().accepting.transactions {
        let position = before.transaction(&accepted.id).expect("a recent one").position;
        let found = after.transaction_at(position).expect("the same position");
        assert_eq!(found.accepted.id, accepted.id);
    }

    // Pages of no transaction have one, so that reading them ends.
    let script = p2pk(1).ledger_address();
    let all = after.script_transactions(&script, None, usize::MAX).transactions.len();
    assert!(all > 1);
    let mut pages = 0;
    let mut position = None;
    loop {
        let page = after.script_transactions(&script, position, 0);
        pages += page.transactions.len();
        position = page.next_before;
        if position.is_none() {
            break;
        }
    }
    assert_eq!(pages, all);
}

#[test]
fn differences_of_the_virtual_state_are_bounded() {
    let virtual_limits = VirtualLimits { differences_max: 100, ..VirtualLimits::default() };
    let config = ChainConfig { virtual_limits, ..config() };
    let mut follower = CheckedFollower::new(config, Network::Simnet.genesis());
    follower.chain.join_virtual();
    let script = p2pk(1);
    for number in 0..1_000 {
        let (outpoint, entry) = utxo(number, &script, u64::MAX / 4);
        let added = vec![AddressUtxo { address: None, outpoint, entry }];
        let changes = UtxoChanges { added, removed: Vec::new() };
        follower.chain.apply_utxos_changed(&changes);
        assert!(follower.chain.status().virtual_state.differences <= 100);
        if number % 50 == 0 {
            follower.publish();
        }
    }
    // Amounts that do not fit together are left out.
    let view = follower.reader.utxos.view(Commitment::Processed);
    assert!(script_totals(&view, &script.ledger_address()).count <= 4);
    assert_eq!(follower.chain.virtual_mode(), VirtualMode::Joining);
    assert!(follower.chain.status().virtual_state.losses > 0);
}

#[test]
fn versions_of_one_outpoint_are_bounded() {
    let virtual_limits =
        VirtualLimits { contradiction_messages_max: 5, ..VirtualLimits::default() };
    let config = ChainConfig { virtual_limits, ..config() };
    let mut node = ModelNode::new(9, DEPTH);
    let mut follower = CheckedFollower::new(config, node.sink().accepting.header.clone());
    follower.chain.join_virtual();
    assert_eq!(follower.chain.check_template(&node.template()), TemplateCheck::Matched);
    let (outpoint, entry) = utxo(1, &p2pk(1), 5);
    let to_utxo = |block_daa_score| AddressUtxo {
        address: None,
        outpoint,
        entry: UtxoEntry { block_daa_score, ..entry.clone() },
    };
    let added = (0..1_000).map(to_utxo).collect();
    follower.chain.apply_utxos_changed(&UtxoChanges { added, removed: Vec::new() });
    let state = follower.chain.status().virtual_state;
    assert_eq!((state.differences, state.contradictions), (16, 1));
    // Removing the same versions does not end the contradiction, because some were not counted.
    let removed = (0..16).map(to_utxo).collect();
    follower.chain.apply_utxos_changed(&UtxoChanges { added: Vec::new(), removed });
    assert_eq!(follower.chain.status().virtual_state.contradictions, 1);
    for _ in 0..10 {
        follower.chain.apply_utxos_changed(&UtxoChanges::default());
    }
    let state = follower.chain.status().virtual_state;
    assert_eq!((state.mode, state.losses), (VirtualMode::Joining, 1));
    assert_eq!((state.differences, state.contradictions), (0, 0));
    // It becomes exact as after any loss.
    node.mine();
    follower.poll(&node).expect("an honest node");
    follower.publish();
    assert_same(&node.sink().utxos, &follower.read(Commitment::Processed), "the sink's set");
}

#[test]
fn a_full_ledger_shows_the_sink_and_recovers() {
    let config = ChainConfig { ledger: LedgerConfig::new(40), ..config() };
    let mut follower = CheckedFollower::new(config, Network::Simnet.genesis());
    follower.chain.join_virtual();
    let message = |numbers: std::ops::Range<u32>| {
        let utxos = numbers.map(|number| utxo(number, &p2pk(number as u8), 1));
        utxos.map(|(outpoint, entry)| AddressUtxo { address: None, outpoint, entry }).collect()
    };
    let added: Vec<AddressUtxo> = message(0..60);
    let changes = UtxoChanges { added: added.clone(), removed: Vec::new() };
    follower.chain.apply_utxos_changed(&changes);
    follower.publish();
    let status = follower.reader.status();
    assert!(matches!(status.virtual_error, Some(LedgerError::TableFull(_))));
    assert!(follower.read(Commitment::Processed).is_empty());
    let removed = added[20..].to_vec();
    follower.chain.apply_utxos_changed(&UtxoChanges { added: Vec::new(), removed });
    // The addresses of the refused block are free after some publications.
    for _ in 0..4 {
        follower.publish();
    }
    assert_eq!(follower.reader.status().virtual_error, None);
    assert_eq!(follower.read(Commitment::Processed).len(), 20);

    // The error is that of a virtual state, and ends with it.
    follower.chain.apply_utxos_changed(&changes);
    follower.publish();
    assert!(follower.reader.status().virtual_error.is_some());
    follower.chain.change_source();
    follower.publish();
    assert_eq!(follower.reader.status().virtual_error, None);
}

#[test]
fn a_set_that_its_block_does_not_commit_to_is_refused() {
    let script = p2pk(1);
    let utxos: Vec<_> = (0..100).map(|number| utxo(number, &script, 5)).collect();
    let header = Header {
        utxo_commitment: Hash(hash_utxos(&utxos).finalize()),
        ..Network::Simnet.genesis()
    };
    let load = |utxos: &[(Outpoint, UtxoEntry)]| {
        let mut loader = ChainLoader::new(config(), header.clone());
        loader.insert(utxos)?;
        loader.finish()
    };
    assert!(load(&utxos).is_ok());
    let wrong = load(&utxos[1..]).map(|_| ());
    assert!(matches!(wrong, Err(LoadError::WrongCommitment { .. })), "{wrong:?}");
    let mut changed = utxos.clone();
    changed[50].1.amount ^= 1;
    let wrong = load(&changed).map(|_| ());
    assert!(matches!(wrong, Err(LoadError::WrongCommitment { .. })), "{wrong:?}");
    let doubled = [&utxos[..], &utxos[..1]].concat();
    let wrong = load(&doubled).map(|_| ());
    assert!(matches!(wrong, Err(LoadError::Utxo(_))), "{wrong:?}");
}
