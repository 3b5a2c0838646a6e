//! The import of a UTXO set: the CPU time of the importing process for each UTXO.
//!
//! Shape: the whole path of `follow-kaspa --import-peer`. A source names the pruning point, a peer sends the set in
//! chunks over gRPC on the loopback, the chunks are decoded, checked, hashed on all threads and written to a file, the
//! commitment is compared, and the file is loaded into the ledger. Source and peer are another process
//! (`import_peer`), whose time does not count. The time of the kernel for sockets and files counts.
//! Bounds: 100 bytes on disk and some 300 in memory for each UTXO.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use chain_kaspa::ChainConfig;
use cpu_time::ProcessTime;
use follow_kaspa::{ImportConfig, ImportProgress, PeerConfig, SourceConfig, import_chain};
use kaspa::Network;
use testkit::child_process::Child;
use testkit::clock::now;
use tokio::runtime::Builder;

use crate::import_peer::{MODE, PEER_LINE, SOURCE_LINE};
use crate::loaded_chain::SPARE_ADDRESSES;
use crate::metric::print_metric;
use crate::size::Size;

pub(crate) fn run(size: &Size) -> Result<()> {
    let utxos = size.imported_utxos;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(MODE);
    if size.is_toy {
        command.arg("--toy");
    }
    let mut other = Child::start(&mut command)?;
    let source = SourceConfig::new(format!("ws://{}", read_address(&mut other, SOURCE_LINE)?));
    let address = read_address(&mut other, PEER_LINE)?;
    let peer = PeerConfig::parse(&address, Network::Simnet).context("the address of a peer")?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("kaspa.snapshot");
    let config = ImportConfig::new(Network::Simnet, vec![source], vec![peer], path);
    let chain_config = ChainConfig::new(utxos + SPARE_ADDRESSES);
    let progress = ImportProgress::default();

    let started = now();
    let cpu = ProcessTime::now();
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let chain = import_chain(runtime.handle(), &config, &chain_config, &progress)?;
    let cpu_s = cpu.elapsed().as_secs_f64();
    let seconds = started.elapsed().as_secs_f64();

    let imported = chain.status().supply.utxos;
    ensure!(imported == u64::from(utxos), "{imported} of {utxos} UTXOs were imported");
    ensure!(progress.transfers() == 1, "{} transfers", progress.transfers());
    let utxo_us = cpu_s * 1e6 / f64::from(utxos);
    println!(
        "{utxos} UTXOs imported in {seconds:.1} s and {cpu_s:.2} s of CPU: {utxo_us:.2} us of CPU each"
    );
    print_metric("utxo_us", utxo_us);
    Ok(())
}

/// Returns the address in the next line of the other process.
fn read_address(process: &mut Child, prefix: &str) -> Result<String> {
    let line = process.line()?.context("the process with the UTXO set has ended")?;
    let address = line.strip_prefix(prefix);
    Ok(address.with_context(|| format!("`{line}` instead of `{prefix}`"))?.to_owned())
}
