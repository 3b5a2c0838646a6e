//! The blocks between the one that a client resumes from and the newest, from the log of blocks.
//!
//! Shape: each step reads the log again, so a client that reads slowly retains none of it.
//! Bounds: `Limits::retained_steps` and `Limits::retained_bytes`. If the log no longer has the next block, the
//! connection is closed with a reason.

use chain_kaspa::LedgerBlock;
use ledger::Commitment;
use subscriptions::{Activation, BlockStep, CatchUp, Direction, ResumeFrom};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use websocket::SessionOutput;

use super::notification::encode_for_set;
use super::snapshot::STEP_BYTES;
use crate::call::Call;
use crate::kaspa_rpc::NoItems;

/// Limits of a step, in blocks and in changed UTXOs. It ends at the first that it reaches, after some milliseconds.
const STEP_BLOCKS: usize = 16;
const STEP_UTXOS: usize = 8_192;

/// A subscription, or an addition to an empty one, that is not live yet.
#[derive(Clone, Copy)]
pub(super) struct PendingStart {
    pub(super) activation: Activation,
    pub(super) from: ResumeFrom,
}

/// The output of a step, and the rest of the work.
pub(super) struct CatchUpStep {
    pub(super) output: Vec<SessionOutput<NoItems>>,
    /// `None`: the subscription is live, or its connection is closed.
    pub(super) rest: Option<PendingStart>,
}

impl CatchUpStep {
    fn last(output: Vec<SessionOutput<NoItems>>) -> Self {
        Self { output, rest: None }
    }
}

/// Encodes the next blocks. The subscription is live after the last of them.
pub(super) fn catch_up(call: &Call, start: PendingStart) -> CatchUpStep {
    let PendingStart { activation, from } = start;
    let steps = match call.session.catch_up(activation, Commitment::Confirmed, from) {
        CatchUp::Live => return CatchUpStep::last(Vec::new()),
        CatchUp::Steps(steps) => steps,
        CatchUp::Expired => {
            let reason = "the block to start from is too long ago (pubsub.resume_blocks, \
                          pubsub.resume_bytes)";
            let close = SessionOutput::Close(CloseCode::Policy, reason.to_owned());
            return CatchUpStep::last(vec![close]);
        }
    };
    if let Some(number) = find_last_return(&steps, from) {
        let rest = PendingStart { activation, from: ResumeFrom::Step(number) };
        return CatchUpStep { output: Vec::new(), rest: Some(rest) };
    }
    encode_blocks(call, activation, &steps)
}

/// Returns the number of the last step, among those that the log returns at once, that reverts the chain to the block
/// from which the client resumes. The steps before it are a branch that joined and left the chain.
fn find_last_return(steps: &[BlockStep<LedgerBlock>], from: ResumeFrom) -> Option<u64> {
    let ResumeFrom::Block(block) = from else { return None };
    let is_return = |step: &&BlockStep<LedgerBlock>| {
        step.direction == Direction::Reverted && step.body.parent == block
    };
    steps.iter().rfind(is_return).map(|step| step.number)
}

fn encode_blocks(
    call: &Call,
    activation: Activation,
    steps: &[BlockStep<LedgerBlock>],
) -> CatchUpStep {
    let id = activation.subscription;
    let Ok(set) = call.session.set(id) else { return CatchUpStep::last(Vec::new()) };
    let memory = call.server.subscriptions.queue_memory();
    let mut output = Vec::new();
    let mut bytes = 0;
    let mut utxos = 0;
    let mut rest = None;
    for step in steps.iter().take(STEP_BLOCKS) {
        if bytes >= STEP_BYTES || utxos >= STEP_UTXOS {
            break;
        }
        rest = Some(PendingStart { activation, from: ResumeFrom::Step(step.number) });
        let changes = &step.body.changes;
        utxos += changes.created_utxos().len() + changes.spent_utxos().len();
        if let Some(prefix) = encode_for_set(&call.server, memory, step, &set) {
            bytes += prefix.len();
            output.push(SessionOutput::Prefix(id, prefix));
        }
    }
    call.session.drop_set(set);
    CatchUpStep { output, rest }
}
