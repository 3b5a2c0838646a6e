//! A writer that is killed: every block for which `append` returned is stored.

use std::env;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

/// The child's environment variable with the ledger's directory.
const CHILD: &str = "HYDRANT_TEST_STORE_CHILD";
/// The child is this test, too.
const THIS_TEST: &str = "tests::crash::nothing_appended_is_lost_when_the_writer_is_killed";
const SEED: u64 = 77;
const KILLS: usize = 20;

/// Returns the contents of a ledger of [`SEED`] with the newest block in `slot`.
fn replay(slot: u64) -> (RandomLedger, Model) {
    let mut random = RandomLedger::new(SEED);
    let accounts = random.genesis_accounts();
    let mut model = Model::new(accounts, random.block());
    while model.blocks.last().is_some_and(|block| block.id.slot < slot) {
        model.append(random.block());
    }
    (random, model)
}

/// Runs as the child process of the test: appends blocks until it is killed.
fn append_until_killed(dir: &Path) -> ! {
    let (mut store, _) = open(dir);
    let (mut random, _) = replay(store.newest_slot());
    loop {
        store.append(&random.block()).expect("append");
        println!("stored {}", store.newest_slot());
    }
}

#[test]
fn nothing_appended_is_lost_when_the_writer_is_killed() {
    if let Some(dir) = env::var_os(CHILD) {
        append_until_killed(Path::new(&dir));
    }
    let dir = tempfile::tempdir().expect("a directory");
    drop(create(dir.path(), &mut RandomLedger::new(SEED)));
    let mut random = StdRng::seed_from_u64(SEED);
    for kill in 0..KILLS {
        let mut child = Command::new(env::current_exe().expect("this test"))
            .args(["--exact", THIS_TEST, "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        // The pipe stays open until the child is killed, so the child does not end on its own.
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let lines = lines.map_while(Result::ok);
        let mut slots = lines.filter_map(|line| line.split_once("stored ")?.1.parse::<u64>().ok());
        let stored =
            slots.by_ref().take(random.random_range(1..40)).last().expect("it stores blocks");
        // By now it is within the next append or after it.
        for _ in 0..random.random_range(0..1_000_000) {
            std::hint::spin_loop();
        }
        child.kill().expect("kill");
        let ended = child.wait().expect("wait");
        assert_eq!(ended.signal(), Some(9), "it ended by itself: {ended}");
        // Slots that it reported after the last one read and before its end count as well.
        let stored = slots.last().unwrap_or(stored);
        let (store, restored) = open(dir.path());
        println!("kill {kill}: stored {stored}, found {}", store.newest_slot());
        assert!(store.newest_slot() >= stored);
        replay(store.newest_slot()).1.check(&restored);
    }
}
