//! Agave's `solana-rpc-client` and `solana-pubsub-client` against a running node: the main flow.
//!
//! Each step prints its name before it starts, so the last line of a failure is the step that failed.

mod history;
mod programs;
mod subscriptions;
mod tokens;
mod transactions;

use anyhow::{Context, Result};
use solana_signer::Signer;

use crate::clients::NODE_FLAGS;
use crate::node::start_node;
use crate::socket::Socket;
use crate::world::{LAMPORTS_PER_SOL, World};

#[test]
fn rust_client_flow() -> Result<()> {
    let node = start_node(NODE_FLAGS)?;
    let world = World::new(&node);
    let socket = Socket::open(&node.ws_url())?;
    flow(&world, &socket).with_context(|| format!("the node's log ends\n{}", node.log_end()))
}

fn flow(world: &World, socket: &Socket) -> Result<()> {
    step("airdrop", || {
        for owner in [&world.payer, &world.alice, &world.bob] {
            world.airdrop(&owner.pubkey(), 10)?;
        }
        assert_eq!(world.rpc.get_balance(&world.payer.pubkey())?, 10 * LAMPORTS_PER_SOL);
        Ok(())
    })?;
    let token = tokens::life(world, socket, "token", spl_token_interface::ID)?;
    let token_2022 = tokens::life(world, socket, "token-2022", spl_token_2022_interface::ID)?;
    subscriptions::steps(world, socket)?;
    transactions::failing(world, &token)?;
    transactions::send_versioned(world)?;
    transactions::simulate(world)?;
    transactions::on_a_nonce(world)?;
    programs::steps(world, &token)?;
    for life in [&token, &token_2022] {
        history::steps(world, life)?;
    }
    history::wait_until_final(world, &token)
}

/// Runs one step of the flow, and prints its name first.
#[expect(clippy::print_stdout, reason = "the flow's progress is the test's output")]
fn step<T>(name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("step {name}");
    body().with_context(|| format!("step {name}"))
}
