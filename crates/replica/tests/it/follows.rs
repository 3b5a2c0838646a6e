//! Replicas that start at different times are equal, and equal to the model.

use std::collections::BTreeSet;

use replica::BankWord;
use solana::VerificationLevel;

use crate::rig::start_new;
use crate::source_chain::{FIRST_SLOT, SourceChain};
use crate::source_log::SourceLog;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_replicas_of_a_forked_chain_are_equal_to_its_model() {
    for seed in 0..12 {
        let mut chain = SourceChain::new(seed);
        let mut log = SourceLog::new(&chain).await;
        let mut replicas = vec![start_new(&log).await];
        for at in 0..60 {
            let steps = chain.step();
            log.append_steps(&chain, &steps).await;
            if at == 30 {
                replicas.push(start_new(&log).await);
                log.append_term(2).await;
            }
        }
        replicas.push(start_new(&log).await);
        let mut events = Vec::new();
        for replica in replicas {
            replica.wait_for_end(&log).await;
            replica.wait_for(&chain).await;
            replica.check(&chain, 0);
            assert_eq!(replica.status.last_fault(), None, "seed {seed}");
            events.push(replica.stop().lines());
        }
        assert_eq!(events[0], events[1], "seed {seed}");
        assert_eq!(events[0], events[2], "seed {seed}");
        check_order(&events[0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bank_has_the_level_of_the_ingesters_that_logged_and_confirmed_it() {
    let sequence = Some(VerificationLevel::Sequence);
    let voted = Some(VerificationLevel::Voted);
    let mut chain = SourceChain::new(50);
    let mut log = SourceLog::new(&chain).await;
    let replica = start_new(&log).await;
    for _ in 0..6 {
        let steps = chain.extend(chain.tip);
        log.append_steps(&chain, &steps).await;
    }
    replica.wait_for(&chain).await;
    assert_eq!(replica.proof.level(), sequence);
    assert_eq!(replica.proof.word(FIRST_SLOT), Some(BankWord::Snapshot));
    let slot = |chain: &SourceChain, block: usize| chain.blocks[block].block.id.slot;
    let confirmed = slot(&chain, chain.confirmed);
    assert_eq!(replica.proof.word(confirmed), Some(BankWord::Ingester(sequence)));

    // Logged at one level, and confirmed at another one.
    let logged_before = slot(&chain, chain.tip);
    log.level = voted;
    log.append_term(2).await;
    for _ in 0..6 {
        let steps = chain.extend(chain.tip);
        log.append_steps(&chain, &steps).await;
    }
    replica.wait_for(&chain).await;
    assert_eq!(replica.proof.level(), voted);
    assert_eq!(replica.proof.word(logged_before), Some(BankWord::Ingester(sequence)));
    let confirmed = slot(&chain, chain.confirmed);
    assert_eq!(replica.proof.word(confirmed), Some(BankWord::Ingester(voted)));
    replica.stop();

    // Another replica starts after the record of the term.
    let root = chain.root;
    log.write_snapshot(&chain, root).await;
    let replica = start_new(&log).await;
    assert_eq!(replica.proof.level(), voted);
    assert_eq!(replica.proof.word(slot(&chain, root)), Some(BankWord::Snapshot));
    replica.wait_for(&chain).await;
    assert_eq!(replica.proof.word(confirmed), Some(BankWord::Ingester(voted)));
    replica.stop();
}

/// The order that docs/design/ledgers.md demands of a producer.
fn check_order(lines: &[String]) {
    let mut frozen = BTreeSet::new();
    let mut ended = BTreeSet::new();
    let mut created = BTreeSet::new();
    for line in lines {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let block = rest.split(" on ").next().unwrap_or_default();
        let block = block.split_inclusive('}').next().unwrap_or_default().to_owned();
        match kind {
            "created" => assert!(created.insert(block), "{line}"),
            "accounts" => assert!(created.contains(&block) && !frozen.contains(&block), "{line}"),
            "frozen" => assert!(created.contains(&block) && frozen.insert(block), "{line}"),
            "tip" | "confirmed" => {
                // The first block was frozen before the replica started.
                let is_first = block.contains("version: 0 ");
                assert!(is_first || frozen.contains(&block), "{line}");
                assert!(!ended.contains(&(block, "reverted")), "{line}");
            }
            "rooted" => {
                assert!(frozen.contains(&block), "{line}");
                assert!(ended.insert((block, "rooted")), "{line}");
            }
            "reverted" => {
                assert!(frozen.contains(&block), "{line}");
                assert!(!ended.contains(&(block.clone(), "rooted")), "{line}");
                assert!(ended.insert((block, "reverted")), "{line}");
            }
            "executed" => {}
            _ => panic!("{line}"),
        }
    }
}
