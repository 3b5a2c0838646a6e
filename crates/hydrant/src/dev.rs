//! The command `hydrant dev`, also under the names of `solana-test-validator` and surfpool.

use anyhow::Result;

use crate::banner::OutputStyle;
use crate::console::{now, print_line};
use crate::local::config::{self, DevConfig};
use crate::local::flags::DevFlags;
use crate::local::{LocalPreset, LocalProducer};
use crate::node::{Node, NodeProcess, prepare_process};
use crate::process_setup::avoid_huge_pages;
use crate::signals::Ignorable;
use crate::start_signals::StartSignals;

/// Runs the node until a signal ends it.
pub(crate) fn run(flags: DevFlags, preset: LocalPreset, signals: StartSignals) -> Result<()> {
    let started = now();
    let check = flags.config.check;
    let style = preset.style;
    let DevConfig { node, local } =
        DevConfig::from_flags(config::with_file(flags, style)?, preset)?;
    let producer = LocalProducer::new(local);
    if check {
        producer.check(&node)?;
        print_line("settings are valid");
        return Ok(());
    }
    prepare_process(&node)?;
    if !producer.is_loaded(&node)? {
        avoid_huge_pages();
    }
    let ignorable = match style {
        OutputStyle::Hydrant => Ignorable::Hangup,
        OutputStyle::TestValidator => Ignorable::Terminal,
    };
    let process = NodeProcess { signals, ignorable, started };
    Ok(Node::builder(producer).with_process(process).serve(node)?.wait()?)
}
