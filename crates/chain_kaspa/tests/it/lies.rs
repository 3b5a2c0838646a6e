//! A source that lies in one bit: the block is refused with a named reason, and readers still see the proven state.

use chain_kaspa::{ChainConfig, ChainEvent, Refusal, StepError, UtxoError, VirtualMode};
use kaspa::{AcceptingBlock, Hash, Header, Parents};
use ledger::Commitment;
use testkit::kaspa_chain::{CheckedFollower, ModelNode, assert_same};

const DEPTH: usize = 10;

/// A node with some blocks, and a follower that has all but the newest one.
struct World {
    node: ModelNode,
    follower: CheckedFollower,
    block: AcceptingBlock,
}

fn config() -> ChainConfig {
    ChainConfig { depth_max: DEPTH, ..ChainConfig::new(10_000) }
}

impl World {
    /// The newest block spends outputs and creates some.
    fn new() -> Self {
        let mut node = ModelNode::new(7, DEPTH);
        let mut follower = CheckedFollower::new(config(), node.sink().accepting.header.clone());
        follower.chain.join_virtual();
        for _ in 0..30 {
            node.mine();
        }
        loop {
            follower.poll(&node).expect("an honest node");
            follower.publish();
            node.mine();
            let block = node.sink().accepting.clone();
            let spends = |accepted: &&kaspa::AcceptedTransaction| {
                let own = block.transactions.iter().map(|accepted| accepted.id);
                let own: Vec<Hash> = own.collect();
                let mut inputs = accepted.transaction.inputs.iter();
                inputs.any(|input| !own.contains(&input.previous_outpoint.transaction_id))
            };
            if block.transactions.iter().any(|accepted| spends(&accepted)) {
                return Self { node, follower, block };
            }
        }
    }

    /// Sends the newest block with a change. Returns why it is refused.
    fn refuse(mut self, lie: impl FnOnce(&mut AcceptingBlock)) -> Refusal {
        let before = self.follower.read(Commitment::Confirmed);
        let sink = self.follower.chain.sink();
        // Announced before the lie, and again after it.
        self.follower.chain.announce_virtual_daa_score(u64::MAX);
        self.follower.chain.release_virtual_daa_score();
        let mut block = self.block.clone();
        lie(&mut block);
        let claimed = block.hash;
        let result = self.follower.apply(&[], vec![block]);
        let Err(StepError::Refused { hash, reason }) = result else {
            panic!("accepted: {result:?}")
        };
        assert_eq!(hash, claimed);

        // Nothing of the source is applied, not even its honest blocks.
        let refused = StepError::AfterRefusal { hash: claimed };
        assert_eq!(self.follower.apply(&[], vec![self.block.clone()]), Err(refused));
        self.follower.chain.join_virtual();
        assert_eq!(self.follower.chain.virtual_mode(), VirtualMode::Off);
        self.follower.chain.apply_utxos_changed(&self.node.mine());
        self.follower.chain.announce_virtual_daa_score(u64::MAX);
        self.follower.chain.release_virtual_daa_score();
        self.follower.chain.handle_utxo_set_override();
        let publication = self.follower.chain.publish().expect("a publication");
        let is_refused = |event: &ChainEvent| matches!(event, ChainEvent::BlockRefused { .. });
        assert!(publication.events.iter().any(is_refused));
        let is_of_source = |event: &ChainEvent| match event {
            ChainEvent::UtxoSetReplaced => true,
            ChainEvent::VirtualDaaScoreChanged { daa_score } => *daa_score == u64::MAX,
            _ => false,
        };
        assert!(!publication.events.iter().any(is_of_source), "{:?}", publication.events);
        drop(publication);
        let status = self.follower.reader.status();
        assert_eq!(status.sink, sink);
        let known = status.refused.as_ref().expect("the refused block");
        assert_eq!((known.hash, &known.reason), (claimed, &reason));
        let view = self.follower.reader.utxos.view(Commitment::Processed);
        assert!(view.meta().is_proven(), "the virtual state of a liar is not shown");
        assert_eq!(view.meta().hash, sink.hash);
        assert_same(&before, &self.follower.read(Commitment::Confirmed), "what was proven");

        // Another source is believed.
        self.follower.chain.change_source();
        self.follower.poll(&self.node).expect("an honest node");
        let publication = self.follower.chain.publish().expect("a publication");
        drop(publication);
        assert!(self.follower.reader.status().refused.is_none());
        let sink = &self.node.sink().utxos;
        assert_same(sink, &self.follower.read(Commitment::Confirmed), "the honest chain");
        reason
    }
}

/// Makes the header fit its hash again, as any source can: work is not checked.
fn sign(block: &mut AcceptingBlock) {
    block.hash = block.header.hash();
}

fn spending(block: &mut AcceptingBlock) -> &mut kaspa::AcceptedTransaction {
    let own: Vec<Hash> = block.transactions.iter().map(|accepted| accepted.id).collect();
    let spends = |accepted: &&mut kaspa::AcceptedTransaction| {
        let first = accepted.transaction.inputs.first();
        first.is_some_and(|input| !own.contains(&input.previous_outpoint.transaction_id))
    };
    block.transactions.iter_mut().find(spends).expect("a spending transaction")
}

#[test]
fn one_bit_of_any_field_of_a_header_is_refused() {
    let flips: [fn(&mut Header); 12] = [
        |header| header.version ^= 1,
        |header| header.parents = Parents::default(),
        |header| header.hash_merkle_root.0[0] ^= 1,
        |header| header.accepted_id_merkle_root.0[31] ^= 0x80,
        |header| header.utxo_commitment.0[7] ^= 2,
        |header| header.timestamp_ms ^= 1,
        |header| header.bits ^= 1,
        |header| header.nonce ^= 1 << 63,
        |header| header.daa_score ^= 1,
        |header| header.blue_work.0[23] ^= 1,
        |header| header.blue_score ^= 1,
        |header| header.pruning_point.0[3] ^= 1,
    ];
    for flip in flips {
        let refusal = World::new().refuse(|block| flip(&mut block.header));
        assert!(matches!(refusal, Refusal::WrongHash { .. }), "{refusal}");
    }
    let refusal = World::new().refuse(|block| block.hash.0[0] ^= 1);
    assert!(matches!(refusal, Refusal::WrongHash { .. }), "{refusal}");
}

#[test]
fn a_commitment_that_fits_its_header_only_is_refused() {
    let refusal = World::new().refuse(|block| {
        block.header.utxo_commitment.0[31] ^= 1;
        sign(block);
    });
    assert!(matches!(refusal, Refusal::WrongCommitment { .. }), "{refusal}");
}

#[test]
fn a_header_that_does_not_continue_the_chain_is_refused() {
    let refusal = World::new().refuse(|block| {
        block.header.parents = Parents::default();
        sign(block);
    });
    assert!(matches!(refusal, Refusal::WrongParent { parent: None, .. }), "{refusal}");
    let refusal = World::new().refuse(|block| {
        block.header.daa_score = 3;
        sign(block);
    });
    assert!(matches!(refusal, Refusal::DaaScoreNotIncreasing { daa_score: 3, .. }), "{refusal}");
    let refusal = World::new().refuse(|block| {
        block.header.blue_score = 0;
        sign(block);
    });
    assert!(matches!(refusal, Refusal::BlueScoreNotIncreasing { .. }), "{refusal}");
}

#[test]
fn a_score_that_leaves_none_for_later_blocks_is_refused() {
    for score in [1_000_000, u64::MAX - 1, u64::MAX] {
        let refusal = World::new().refuse(|block| {
            block.header.daa_score = score;
            sign(block);
        });
        assert!(matches!(refusal, Refusal::ScoreTooHigh { name: "DAA", .. }), "{refusal}");
        let refusal = World::new().refuse(|block| {
            block.header.blue_score = score;
            sign(block);
        });
        assert!(matches!(refusal, Refusal::ScoreTooHigh { name: "blue", .. }), "{refusal}");
    }
}

#[test]
fn one_bit_of_an_amount_is_refused() {
    // An output, with the id that the honest transaction has.
    let refusal = World::new().refuse(|block| {
        block.transactions[0].transaction.outputs[0].amount ^= 1;
    });
    assert!(matches!(refusal, Refusal::WrongTransactionId { .. }), "{refusal}");
    // An output, with an id that fits.
    let refusal = World::new().refuse(|block| {
        let accepted = &mut block.transactions[0];
        accepted.transaction.outputs[0].amount ^= 1;
        accepted.id = accepted.transaction.id();
    });
    let is_named = matches!(
        refusal,
        Refusal::WrongCommitment { .. } | Refusal::Utxo(UtxoError::Missing { .. })
    );
    assert!(is_named, "{refusal}");
    // A spent output.
    let refusal = World::new().refuse(|block| spending(block).spent[0].amount ^= 1);
    assert!(matches!(refusal, Refusal::Utxo(UtxoError::Different { .. })), "{refusal}");
    // A covenant, an origin and a score.
    let refusal = World::new().refuse(|block| spending(block).spent[0].is_coinbase ^= true);
    assert!(matches!(refusal, Refusal::Utxo(UtxoError::Different { .. })), "{refusal}");
    let refusal = World::new().refuse(|block| {
        let covenant_id = &mut spending(block).spent[0].covenant_id;
        *covenant_id = if covenant_id.is_some() { None } else { Some(Hash([1; 32])) };
    });
    assert!(matches!(refusal, Refusal::Utxo(UtxoError::Different { .. })), "{refusal}");
    let refusal = World::new().refuse(|block| spending(block).spent[0].block_daa_score ^= 1);
    assert!(matches!(refusal, Refusal::Utxo(UtxoError::Different { .. })), "{refusal}");
}

#[test]
fn left_out_doubled_and_invented_transactions_are_refused() {
    let refusal = World::new().refuse(|block| drop(block.transactions.remove(0)));
    let is_named = matches!(
        refusal,
        Refusal::WrongCommitment { .. } | Refusal::Utxo(UtxoError::Missing { .. })
    );
    assert!(is_named, "{refusal}");
    let refusal = World::new().refuse(|block| {
        let doubled = spending(block).clone();
        block.transactions.push(doubled);
    });
    assert!(matches!(refusal, Refusal::Utxo(UtxoError::Missing { .. })), "{refusal}");
    let refusal = World::new().refuse(|block| {
        let is_reward = |accepted: &&kaspa::AcceptedTransaction| accepted.spent.is_empty();
        let doubled = block.transactions.iter().find(is_reward).expect("a reward").clone();
        block.transactions.insert(0, doubled);
    });
    assert!(matches!(refusal, Refusal::Utxo(UtxoError::Doubled { .. })), "{refusal}");
    let refusal = World::new().refuse(|block| {
        spending(block).spent.pop();
    });
    assert!(matches!(refusal, Refusal::WrongEntryCount { .. }), "{refusal}");
    let refusal = World::new().refuse(|block| {
        let accepted = spending(block);
        accepted.transaction.inputs[0].previous_outpoint.index ^= 0x100;
        accepted.id = accepted.transaction.id();
    });
    assert!(matches!(refusal, Refusal::Utxo(UtxoError::Missing { .. })), "{refusal}");
}

#[test]
fn a_step_with_a_refused_block_is_not_committed() {
    for depth in [0, 4] {
        let World { mut node, mut follower, .. } = World::new();
        let before = follower.read(Commitment::Confirmed);
        node.mine();
        if depth > 0 {
            node.reorganize(depth, depth + 2);
        }
        let sink = follower.chain.sink();
        let (removed, mut added) = node.chain_from(sink.hash).expect("the node has our sink");
        assert!(added.len() > 1);
        let last = added.last_mut().expect("blocks");
        last.header.utxo_commitment.0[0] ^= 1;
        sign(last);
        let last = added.pop().expect("blocks");
        let mut step = follower.chain.start_step(&removed).expect("a step");
        for block in added {
            step.add_block(block).expect("an honest block");
        }
        assert!(step.add_block(last).is_err());
        step.commit();
        assert_eq!(follower.chain.sink(), sink);
        follower.chain.change_source();
        follower.publish();
        assert_same(&before, &follower.read(Commitment::Confirmed), "what was proven");
        assert_eq!(follower.reader.status().counters.reorganizations, 0);
        assert_eq!(follower.chain.usage().unrooted_blocks, DEPTH, "no block of the step is left");
    }
}

#[test]
fn a_lie_at_the_end_of_a_reorganization_removes_nothing() {
    let World { mut node, mut follower, .. } = World::new();
    let before = follower.read(Commitment::Confirmed);
    node.reorganize(4, 6);
    let sink = follower.chain.sink();
    let (removed, mut added) = node.chain_from(sink.hash).expect("the node has our sink");
    assert!(!removed.is_empty());
    let last = added.last_mut().expect("blocks");
    last.header.utxo_commitment.0[0] ^= 1;
    sign(last);
    let result = follower.apply(&removed, added);
    assert!(matches!(result, Err(StepError::Refused { .. })), "{result:?}");
    assert_eq!(follower.chain.sink(), sink);
    follower.publish();
    assert_same(&before, &follower.read(Commitment::Confirmed), "what was proven");
    assert_eq!(follower.chain.usage().unrooted_blocks, DEPTH, "the new branch is gone");
    follower.chain.change_source();
    follower.poll(&node).expect("an honest node");
    follower.publish();
    assert_same(&node.sink().utxos, &follower.read(Commitment::Confirmed), "the new branch");
}
