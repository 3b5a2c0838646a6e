//! Loads a snapshot archive and shows the progress: a bar on a terminal, otherwise lines.
//!
//! Both go to standard error, so that standard output has only the command's output.
//! Bounds: ten redraws a second, a line every five seconds.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use query::LedgerConfig;
use snapshot_ledger::LoadedSnapshot;
use snapshot_solana::Progress;

use crate::console::{now, print_stderr};

const REDRAW_INTERVAL: Duration = Duration::from_millis(100);
const LINE_INTERVAL: Duration = Duration::from_secs(5);
const BAR: &str = "{msg} [{bar:30}] {bytes}/{total_bytes} at {bytes_per_sec}, {eta} left";

/// The archives to load, and the number of threads.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotFile {
    pub(crate) full: PathBuf,
    pub(crate) incremental: Option<PathBuf>,
    pub(crate) threads: usize,
}

impl SnapshotFile {
    /// Loads the archives into a ledger with `config`, and shows the progress unless `quiet`.
    pub(crate) fn load(&self, config: &LedgerConfig, quiet: bool) -> Result<LoadedSnapshot> {
        let progress = Progress::default();
        let started = now();
        let incremental = self.incremental.as_deref();
        let load = || {
            snapshot_ledger::load_snapshot(config, &self.full, incremental, self.threads, &progress)
        };
        let loaded = if quiet { load() } else { with_progress(load, &progress, started)? };
        let loaded = loaded.with_context(|| self.description())?;
        if !quiet {
            print_stderr(&format!(
                "{}: {}",
                self.description(),
                counts(&progress, now() - started)
            ));
        }
        Ok(loaded)
    }

    /// Checks that each archive starts as one does. The rest is not read, because that may take minutes.
    pub(crate) fn check(&self) -> Result<()> {
        for path in std::iter::once(&self.full).chain(&self.incremental) {
            let checked = snapshot_solana::check_start(path);
            checked.with_context(|| format!("check {}", path.display()))?;
        }
        Ok(())
    }

    fn description(&self) -> String {
        let name = |path: &Path| path.display().to_string();
        match &self.incremental {
            Some(incremental) => format!("load {} and {}", name(&self.full), name(incremental)),
            None => format!("load {}", name(&self.full)),
        }
    }
}

/// Runs `load` on a separate thread and shows its progress until it finishes.
fn with_progress<T: Send>(
    load: impl FnOnce() -> T + Send,
    progress: &Progress,
    started: Instant,
) -> Result<T> {
    // Nothing is ever sent. The loading thread owns the sender, and drops it when it finishes.
    let (sender, done) = sync_channel::<()>(0);
    thread::scope(|scope| {
        let loader = scope.spawn(move || {
            let _sender = sender;
            load()
        });
        if std::io::stderr().is_terminal() {
            draw(&done, progress);
        } else {
            print_lines(&done, progress, started);
        }
        loader.join().map_err(|_| anyhow!("the loading thread panicked"))
    })
}

fn draw(done: &Receiver<()>, progress: &Progress) {
    let bar = ProgressBar::new(0);
    // The template is ours. If it were invalid, the default style would be used.
    bar.set_style(
        ProgressStyle::with_template(BAR).unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    while done.recv_timeout(REDRAW_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        bar.set_length(progress.archive_bytes_total());
        bar.set_position(progress.archive_bytes());
        bar.set_message(format!("{} accounts", HumanCount(progress.accounts())));
    }
    bar.finish_and_clear();
}

fn print_lines(done: &Receiver<()>, progress: &Progress, started: Instant) {
    while done.recv_timeout(LINE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let read = progress.archive_bytes();
        let total = progress.archive_bytes_total();
        let elapsed = now() - started;
        let left = elapsed.as_secs_f64() * (total as f64 / read.max(1) as f64 - 1.0).max(0.0);
        print_stderr(&format!(
            "{} of {} of the archive, {}, {left:.0} s left",
            HumanBytes(read),
            HumanBytes(total),
            counts(progress, elapsed)
        ));
    }
}

fn counts(progress: &Progress, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(f64::EPSILON);
    let rate = |count: u64| (count as f64 / seconds) as u64;
    format!(
        "{} accounts ({}/s), {} unpacked ({}/s) in {seconds:.1} s",
        HumanCount(progress.accounts()),
        HumanCount(rate(progress.accounts())),
        HumanBytes(progress.unpacked_bytes()),
        HumanBytes(rate(progress.unpacked_bytes())),
    )
}
