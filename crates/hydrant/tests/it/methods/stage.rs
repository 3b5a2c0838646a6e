//! The node that the tests of methods share, the events on its ledger, and helpers for requests.
//!
//! Before the first test, and final by then: three people got SOL; a mint of 1,000 tokens with two
//! decimals was made, 300 of them were sent to Bob, and Bob may spend 200 of Alice's.
//! Bounds: a request has 30 s.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::LazyLock;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use solana_commitment_config::CommitmentConfig;
use solana_keypair::Keypair;
use solana_program_pack::Pack;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_system_interface::instruction::create_account;
use solana_transaction_status_client_types::UiTransactionEncoding;
use spl_associated_token_account_interface::address::get_associated_token_address;
use spl_associated_token_account_interface::instruction::create_associated_token_account;
use spl_token_interface::instruction as token;
use spl_token_interface::state::Mint;
use testkit::node::Node;

use crate::node::start_node;
use crate::world::{WAIT_TIMEOUT, World, wait_until};

pub(super) const SLOTS_PER_EPOCH: u64 = 64;
pub(super) const SYSTEM: &str = "11111111111111111111111111111111";
const DECIMALS: u8 = 2;

/// The accounts and transactions of the shared ledger.
pub(crate) struct Stage {
    pub(crate) node: Node,
    pub(crate) world: World,
    pub(crate) identity: String,
    pub(crate) mint: Pubkey,
    pub(crate) alices: Pubkey,
    pub(crate) bobs: Pubkey,
    /// The transaction that sent Bob its tokens, and its slot.
    pub(crate) transfer: Signature,
    pub(crate) slot: u64,
}

static STAGE: LazyLock<Stage> = LazyLock::new(|| Stage::set().expect("the stage of these tests"));

/// The shared node, its ledger prepared.
pub(super) fn stage() -> &'static Stage {
    &STAGE
}

/// The result of a call, which must have one.
pub(super) fn ok(method: &str, params: Value) -> Value {
    let reply = call(method, params.clone());
    assert!(reply["error"].is_null(), "{method} {params} gave {reply}");
    assert!(
        reply.as_object().is_some_and(|reply| reply.contains_key("result")),
        "{method} gave {reply}"
    );
    reply["result"].clone()
}

/// The `value` of a call's result, whose context must be as Agave's.
pub(super) fn value(method: &str, params: Value) -> Value {
    let result = ok(method, params);
    let context = &result["context"];
    assert!(
        context["slot"].is_u64() && context["apiVersion"].is_string(),
        "{method} gave {result}"
    );
    result["value"].clone()
}

/// The error of a call, which must have one.
pub(super) fn error(method: &str, params: Value) -> Value {
    let reply = call(method, params.clone());
    assert!(reply["error"].is_object(), "{method} {params} gave {reply}");
    reply["error"].clone()
}

/// Returns an integer of a result; panics if it is not one.
pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a whole number"))
}

fn call(method: &str, params: Value) -> Value {
    let request = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let reply = post(stage().node.rpc, &request).unwrap_or_else(|err| panic!("{method}: {err:#}"));
    assert_eq!(
        (&reply["jsonrpc"], &reply["id"]),
        (&json!("2.0"), &json!(7)),
        "{method} gave {reply}"
    );
    reply
}

/// HTTP/1.0, so that the reply is what there is until the connection ends.
fn post(address: SocketAddr, request: &Value) -> Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(WAIT_TIMEOUT))?;
    let body = request.to_string();
    write!(
        stream,
        "POST / HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let (head, body) = reply.split_once("\r\n\r\n").context("no end of the head")?;
    assert!(head.starts_with("HTTP/1.0 200 "), "{head}");
    serde_json::from_str(body).with_context(|| format!("not JSON: {body}"))
}

impl Stage {
    fn set() -> Result<Self> {
        let epoch = SLOTS_PER_EPOCH.to_string();
        let node = start_node(&["--slot-ms", "100", "--slots-per-epoch", &epoch])?;
        let stage = Self::act(node)?;
        let world = &stage.world;
        let last = world.rpc.get_slot()?;
        wait_until("the stage to be final", WAIT_TIMEOUT, || {
            let root = world.rpc.get_slot_with_commitment(CommitmentConfig::finalized())?;
            Ok((root >= last).then_some(()))
        })?;
        Ok(stage)
    }

    /// Lets all of it happen on a node. It is confirmed then, and not final yet.
    pub(crate) fn act(node: Node) -> Result<Self> {
        let world = World::new(&node);
        let payer = world.payer.pubkey();
        let alice = world.alice.pubkey();
        let bob = world.bob.pubkey();
        for owner in [&payer, &alice, &bob] {
            world.airdrop(owner, 10)?;
        }
        let mint = Keypair::new();
        let program = spl_token_interface::ID;
        let of = |owner: &Pubkey| get_associated_token_address(owner, &mint.pubkey());
        let alices = of(&alice);
        let bobs = of(&bob);
        let mint_key = mint.pubkey();
        world.send(
            &[
                create_account(
                    &payer,
                    &mint_key,
                    world.rent(Mint::LEN)?,
                    Mint::LEN as u64,
                    &program,
                ),
                token::initialize_mint2(&program, &mint_key, &payer, None, DECIMALS)?,
                create_associated_token_account(&payer, &alice, &mint_key, &program),
                create_associated_token_account(&payer, &bob, &mint_key, &program),
                token::mint_to_checked(&program, &mint_key, &alices, &payer, &[], 1_000, DECIMALS)?,
            ],
            &[&mint],
        )?;
        let send = token::transfer_checked(
            &program,
            &alices,
            &mint_key,
            &bobs,
            &alice,
            &[],
            300,
            DECIMALS,
        )?;
        let transfer = world.send(&[send], &[&world.alice])?;
        let slot = world.transaction(&transfer, UiTransactionEncoding::Base64)?.slot;
        let approve =
            token::approve_checked(&program, &alices, &mint_key, &bob, &alice, &[], 200, DECIMALS)?;
        world.send(&[approve], &[&world.alice])?;
        let identity = world.rpc.get_identity()?.to_string();
        Ok(Self { node, world, identity, mint: mint_key, alices, bobs, transfer, slot })
    }
}
