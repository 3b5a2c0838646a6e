//! The memory at rest of a process that serves a chain with one UTXO for each script.
//!
//! The whole process is divided by the UTXOs: the program, the pool and the server count, too.

use std::sync::Arc;

use anyhow::Result;
use chain_kaspa::ChainConfig;
use process_usage::Process;
use rpc_kaspa::Publisher;
use testkit::kaspa_chain::dust_utxo;

use crate::loaded_chain::{SPARE_ADDRESSES, load_unhashed};
use crate::metric::print_metric;
use crate::served_chain::serve_chain;
use crate::size::Size;

pub(crate) fn run(size: &Size, outputs: u32) -> Result<()> {
    let utxos = size.utxos;
    let config = ChainConfig::new(utxos + SPARE_ADDRESSES);
    let chain = load_unhashed(config, utxos, |number| dust_utxo(number, outputs))?;
    let server = serve_chain(chain.reader())?;
    let _publisher = Publisher::new(Arc::clone(&server));
    let process = Process::current();
    let resident = process.resident_bytes()? as f64;
    let most = process.peak_resident_bytes()? as f64;
    let counted = chain.reader().utxos.bytes();
    let each = |bytes: f64| bytes / f64::from(utxos);
    println!(
        "{utxos} UTXOs, {outputs} of a transaction, each of another script: {:.1} B each, {:.1} MB, {:.1} MB at most",
        each(resident),
        resident / 1e6,
        most / 1e6
    );
    println!(
        "  of these addresses {:.1}, packed {:.1}, indices {:.1}",
        each(counted.addresses as f64),
        each(counted.packed as f64),
        each(counted.indices as f64)
    );
    print_metric("utxo_bytes", each(resident));
    Ok(())
}
