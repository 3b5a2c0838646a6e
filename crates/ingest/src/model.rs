//! Random schedules of one to three ingesters over a log in memory with faults: lost, late and repeated appends,
//! damaged reads, restarts, a clock that jumps, stored messages that are damaged, reports of replicas, outages. All
//! ingesters believe that they lead as soon as the log is quiet.
//!
//! Checked for each seed: every block of the chain is in the log once, after its parent; marks come once and in order;
//! terms rise by one; in the end the log has everything that the ledgers have.
//! `HYDRANT_INGEST_SEEDS` sets the number of seeds.

mod check;
pub(crate) mod report;
pub(crate) mod source;
mod world;

use replicated_log::memory::{AppendFaults, Faults, ReadFaults};

use self::world::{World, WorldConfig};

/// Seeds of a normal run.
const SEEDS: u64 = 300;

fn seeds() -> u64 {
    let text = std::env::var("HYDRANT_INGEST_SEEDS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

fn run(ingesters: usize, faults: impl Fn(u64) -> Faults, restarts: bool) {
    for seed in 0..seeds() {
        run_world(WorldConfig {
            seed,
            ingesters,
            faults: faults(seed),
            has_restarts: restarts,
            has_reports: false,
            has_damages: false,
        });
    }
}

fn run_world(config: WorldConfig) -> World {
    let mut world = World::new(config);
    world.run();
    world.settle();
    check::check_world(&world);
    world
}

fn append_faults(seed: u64) -> Faults {
    let append =
        AppendFaults { unconfirmed: 80, lost: 80, late: 80, repeated: 40, fenced: 40, full: 40 };
    Faults { seed, append, failed_tail: 50, ..Faults::default() }
}

fn all_faults(seed: u64) -> Faults {
    let read = ReadFaults { flipped_bit: 5, missing: 5, doubled: 20, swapped: 5, failed: 10 };
    Faults { read, ..append_faults(seed) }
}

#[test]
fn one_ingester_logs_a_chain() {
    run(1, |seed| Faults { seed, ..Faults::default() }, false);
}

#[test]
fn one_ingester_survives_faults_and_restarts() {
    run(1, append_faults, true);
}

#[test]
fn two_ingesters_that_both_believe_to_lead_log_a_chain_once() {
    run(2, append_faults, false);
}

#[test]
fn three_ingesters_survive_faults_restarts_and_damaged_reads() {
    run(3, all_faults, true);
}

#[test]
fn a_deleted_log_gets_a_new_generation() {
    run(2, |seed| Faults { recreation: 2, ..append_faults(seed) }, false);
}

#[test]
fn a_deleted_log_gets_a_new_generation_despite_restarts_and_damaged_reads() {
    run(3, |seed| Faults { recreation: 2, ..all_faults(seed) }, true);
}

#[test]
fn reports_of_an_intact_log_open_no_generation() {
    for seed in 0..seeds() {
        let world = run_world(WorldConfig {
            seed,
            ingesters: 1,
            faults: Faults { seed, ..Faults::default() },
            has_restarts: false,
            has_reports: true,
            has_damages: false,
        });
        assert_eq!(world.newest_generation(), Some(0), "seed {seed}");
    }
}

#[test]
fn damages_and_reports_in_outages_and_takeovers_leave_the_whole_chain() {
    for seed in 0..seeds() {
        run_world(WorldConfig {
            seed,
            ingesters: 2,
            faults: append_faults(seed),
            has_restarts: seed % 2 == 0,
            has_reports: true,
            has_damages: true,
        });
    }
}
