//! A ledger that exists when the node starts: the genesis flags that it ignores, and `--reset`.

use std::path::Path;

use anyhow::{Context, Result};

use crate::banner::OutputStyle;
use crate::console::{print_line, print_stderr};
use crate::local::config::LocalConfig;

/// Prints a line for each flag that the existing ledger ignores.
pub(crate) fn report_ignored_flags(config: &LocalConfig) {
    for flag in &config.genesis_flags {
        let line = format!("{flag} argument ignored, ledger already exists");
        match config.style {
            OutputStyle::Hydrant => print_stderr(&format!("hydrant: {line}")),
            OutputStyle::TestValidator => print_line(&line),
        }
    }
}

/// Removes the settings of genesis: a ledger has the features with which it was made.
pub(crate) fn ignore_genesis(config: &mut LocalConfig) {
    config.clone = None;
    config.localnet.features = localnet::FeatureChoice::default();
}

/// Removes the ledger in a directory: under the name of `solana-test-validator` everything in it, as that program does.
pub(crate) fn reset(dir: &Path, style: OutputStyle) -> Result<()> {
    let context = || format!("--reset {}", dir.display());
    match style {
        OutputStyle::Hydrant => localnet::reset_directory(dir).with_context(context),
        OutputStyle::TestValidator => {
            for localnet::NotRemoved { name, err } in
                localnet::empty_directory(dir).with_context(context)?
            {
                let path = dir.join(name);
                print_stderr(&format!("hydrant: --reset leaves {}: {err}", path.display()));
            }
            Ok(())
        }
    }
}
