//! Replicas that start at different times are equal, and equal to the model.

use std::collections::BTreeSet;

use crate::rig::start_new;
use crate::source_chain::SourceChain;
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
