//! The experiments of Agave PR 3242, which moved reads off the threads that poll sockets, with one more column:
//! `agave [--toy|--short] [--only PART] [--validator FILE] [--sample ARCHIVE] [--dir DIR] [--out DIR] [--keep]
//! [--fresh]`.
//!
//! Shape: `solana-test-validator` and `hydrant dev`, one after the other in each round, alone on the machine, with the
//! same files of accounts and a history of 2,000 blocks of 100 transfers each.
//! `suites`: the thirteen suites of `accounts-cluster-bench` over 100 connections, alone and with four scans at the
//! same time; and those that read the history once more on `hydrant dev` without its response cache.
//! `isolation`: getAccountInfo at 500 a second, alone and with 1, 4 and 8 scans at the same time.
//! `threads`: getBlock on `hydrant dev` with 1 to 8 IO and CPU threads, on idle cores and alongside 8 busy loops.
//! `priorities`: the same at the default numbers of threads, with other priorities of node and loops.
//! `multiple`: getMultipleAccounts of 100 accounts as one task, as a task for each account, and as all tasks at once.
//! Input: the validator is FILE, or `HYDRANT_VALIDATOR`, which `cargo xtask bench` sets to the one that `cargo xtask
//! tools --rivals` built. Without one its columns are left out. ARCHIVE is a snapshot whose token accounts are used;
//! otherwise as many are made.
//! Output: `docs/benchmarks/agave`: CSV, plots, and tables in README.md. A run that was stopped continues, and uses the
//! ledgers in DIR (default: `agave-ledgers` in the directory of the program) again.
//! Time: at most 138 minutes on two cores: the ledgers 16, `suites` 53, `isolation` 6, `threads` 50, `priorities` 3,
//! `multiple` 7. `--short` takes some minutes, `--toy` some seconds; their results mean nothing.

mod accounts;
mod busy_loops;
mod columns;
mod history;
mod isolation;
mod latencies;
mod measurement;
mod multiple;
mod nodes;
mod priorities;
mod suites;
mod threads;
mod validator;

use anyhow::Result;

use self::measurement::Measurement;
use crate::report::{Report, selected_part};

/// A part's name, the seconds that it takes at a size, and a function that measures what has no row yet, if the part
/// is selected, and returns the tables of all rows.
struct Part {
    name: &'static str,
    /// Whether it needs nodes with a history.
    needs_nodes: bool,
    seconds: fn(&Measurement<'_>) -> f64,
    run: fn(&mut Measurement<'_>, bool) -> Result<String>,
}

const PARTS: [Part; 5] = [
    Part { name: "suites", needs_nodes: true, seconds: suites::seconds, run: suites::run },
    Part { name: "isolation", needs_nodes: true, seconds: isolation::seconds, run: isolation::run },
    Part { name: "threads", needs_nodes: true, seconds: threads::seconds, run: threads::run },
    Part {
        name: "priorities",
        needs_nodes: true,
        seconds: priorities::seconds,
        run: priorities::run,
    },
    Part { name: "multiple", needs_nodes: false, seconds: multiple::seconds, run: multiple::run },
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let only = selected_part(args, &PARTS.map(|part| part.name))?;
    let is_trial = has("--toy") || has("--short");
    let report = Report::open("agave", args, is_trial)?;
    let mut measurement = Measurement::new(args, &report)?;
    let is_selected = |part: &Part| only.is_none_or(|only| only == part.name);
    let selected: Vec<&Part> = PARTS.iter().filter(|part| is_selected(part)).collect();
    let mut seconds: f64 = selected.iter().map(|part| (part.seconds)(&measurement)).sum();
    if selected.iter().any(|part| part.needs_nodes) {
        seconds += measurement.nodes.history_seconds();
    }
    measurement.expect_seconds(seconds);
    let mut tables = String::new();
    for part in &PARTS {
        let of_part = (part.run)(&mut measurement, is_selected(part))?;
        println!("{of_part}");
        tables.push_str(&of_part);
    }
    let text = format!(
        "# Benchmarks: Agave PR 3242\n\nWritten by `cargo xtask bench agave`. {}\n{tables}",
        report.sources()?
    );
    report.write("README.md", &text)
}
