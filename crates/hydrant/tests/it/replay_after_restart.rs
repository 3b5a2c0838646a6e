//! A subscriber of gRPC at finalized resumes at a `dev --ledger` that was killed and started again: the replay has no
//! hole, and every transaction that was confirmed before.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use solana_pubkey::Pubkey;
use testkit::node::{Node, NodeCommand};
use tonic::Streaming;
use yellowstone_grpc_proto::geyser::geyser_client::GeyserClient;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    CommitmentLevel, SubscribeRequest, SubscribeRequestFilterBlocksMeta,
    SubscribeRequestFilterTransactions, SubscribeUpdate, SubscribeUpdateBlockMeta,
};

use crate::node::HYDRANT;
use crate::world::World;

const UPDATE_TIMEOUT: Duration = Duration::from_secs(60);
/// More slots than pass in the test, however slow the machine is.
const CONFIG: &str = "[grpc]\nreplay_slots_max = 5000\nreplay_bytes_max = 1073741824\n";

fn start(dir: &Path) -> Result<Node> {
    let config = dir.join("config.toml");
    std::fs::write(&config, CONFIG)?;
    NodeCommand::dev(Command::new(HYDRANT))
        .args(["--slot-ms", "100", "--finalize-after", "8"])
        .args(["--config".as_ref(), config.as_os_str()])
        .args(["--ledger".as_ref(), dir.join("ledger").as_os_str()])
        .logged()
        .start()
}

/// The transactions and blocks at finalized. Blocks of an earlier run have nothing else.
async fn subscribe(node: &Node, from_slot: Option<u64>) -> Result<Streaming<SubscribeUpdate>> {
    let address = node.grpc.context("it serves gRPC")?;
    let mut client = GeyserClient::connect(format!("http://{address}")).await?;
    let request = SubscribeRequest {
        transactions: [("t".to_owned(), SubscribeRequestFilterTransactions::default())].into(),
        blocks_meta: [("m".to_owned(), SubscribeRequestFilterBlocksMeta {})].into(),
        commitment: Some(CommitmentLevel::Finalized.into()),
        from_slot,
        ..SubscribeRequest::default()
    };
    Ok(client.subscribe(futures_util::stream::iter([request])).await?.into_inner())
}

/// The final blocks that a subscriber has got, and the addresses that their transactions name.
#[derive(Default)]
struct FinalBlocks {
    blocks: Vec<SubscribeUpdateBlockMeta>,
    addresses: HashSet<Vec<u8>>,
}

impl FinalBlocks {
    /// Reads updates until a block ends after which the addresses are complete.
    async fn read_until(
        &mut self,
        updates: &mut Streaming<SubscribeUpdate>,
        is_complete: impl Fn(&HashSet<Vec<u8>>) -> bool,
    ) -> Result<()> {
        loop {
            let update = tokio::time::timeout(UPDATE_TIMEOUT, updates.message()).await??;
            match update.context("the stream ended")?.update_oneof {
                Some(UpdateOneof::Transaction(update)) => {
                    let content = update.transaction.and_then(|it| it.transaction);
                    let message = content.and_then(|it| it.message).context("a message")?;
                    self.addresses.extend(message.account_keys);
                }
                Some(UpdateOneof::BlockMeta(meta)) => {
                    if let Some(last) = self.blocks.last() {
                        let is_next = meta.parent_slot == last.slot
                            && meta.parent_blockhash == last.blockhash;
                        ensure!(is_next, "{} after {}", meta.slot, last.slot);
                    }
                    self.blocks.push(meta);
                    if is_complete(&self.addresses) {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
    }

    fn last(&self) -> Result<&SubscribeUpdateBlockMeta> {
        self.blocks.last().context("a block")
    }
}

#[test]
fn a_subscriber_at_finalized_resumes_after_a_kill_of_the_node() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut node = start(dir.path())?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut before = FinalBlocks::default();
    let mut updates = runtime.block_on(subscribe(&node, None))?;
    let world = World::new(&node);
    let first = Pubkey::new_unique();
    world.airdrop(&first, 1)?;
    let has = |key: Pubkey| move |all: &HashSet<Vec<u8>>| all.contains(&key.to_bytes()[..]);
    runtime.block_on(before.read_until(&mut updates, has(first)))?;
    // They are confirmed, and not final yet.
    let later: Vec<Pubkey> = (0..3).map(|_| Pubkey::new_unique()).collect();
    for key in &later {
        world.airdrop(key, 1)?;
    }
    node.process().kill()?;
    node.process().wait()?;
    drop(updates);

    let node = start(dir.path())?;
    let last = before.last()?;
    let mut after = FinalBlocks::default();
    let mut updates = runtime.block_on(subscribe(&node, Some(last.slot)))?;
    let has_all =
        |all: &HashSet<Vec<u8>>| later.iter().all(|key| all.contains(&key.to_bytes()[..]));
    runtime.block_on(after.read_until(&mut updates, has_all))?;
    let resumed = after.blocks.first().context("a block")?;
    ensure!((resumed.slot, &resumed.blockhash) == (last.slot, &last.blockhash), "{resumed:?}");
    // Blocks of the new run follow those of the old one.
    World::new(&node).airdrop(&first, 1)?;
    let restarted = after.last()?.slot;
    after.addresses.clear();
    runtime.block_on(after.read_until(&mut updates, has(first)))?;
    ensure!(after.last()?.slot > restarted);
    Ok(())
}
