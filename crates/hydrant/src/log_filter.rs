//! The filter of the log, which can be changed while the node runs.

use std::sync::OnceLock;

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload::Handle;

const FILTER_CHARS_MAX: usize = 1_024;

/// The filter of the process's log, if it has one.
static FILTER: OnceLock<Filter> = OnceLock::new();

struct Filter {
    read: Box<dyn Fn() -> Option<String> + Send + Sync>,
    replace: Box<dyn Fn(EnvFilter) -> Result<()> + Send + Sync>,
}

/// Makes the filter of the log available. A process has one log: a second call has no effect.
pub(crate) fn install<S: 'static>(handle: Handle<EnvFilter, S>) {
    let reader = handle.clone();
    let _ = FILTER.set(Filter {
        read: Box::new(move || reader.with_current(ToString::to_string).ok()),
        replace: Box::new(move |filter| handle.reload(filter).context("change the filter")),
    });
}

/// The current filter. `None` without a log.
pub(crate) fn current() -> Option<String> {
    (FILTER.get()?.read)()
}

/// Replaces the filter, in the syntax of `RUST_LOG`.
pub(crate) fn replace(text: &str) -> Result<()> {
    let filter = FILTER.get().context("the node has no log: start it with --log")?;
    anyhow::ensure!(
        text.len() <= FILTER_CHARS_MAX,
        "the filter has {} characters, at most {FILTER_CHARS_MAX} are allowed",
        text.len()
    );
    let parsed = EnvFilter::builder().parse(text);
    let parsed = parsed.with_context(|| format!("{text:?} is not a filter of the log"))?;
    (filter.replace)(parsed)?;
    tracing::info!(filter = text, "the filter of the log was changed");
    Ok(())
}
