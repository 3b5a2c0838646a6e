//! The accounts of a ledger before it is measured, and signed transfers: created over JSON-RPC, as any client does
//! it.

use std::sync::mpsc::sync_channel;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use solana_hash::Hash;
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_message::Message;
use solana_program_pack::Pack;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_system_interface::instruction as system;
use solana_transaction::Transaction;
use spl_token_interface::instruction as token;
use spl_token_interface::state::{Account as TokenAccount, Mint};

use crate::json_rpc_client::JsonRpcClient;

/// Lamports of each payer: enough for its share of all fees and token accounts.
const PAYER_LAMPORTS: u64 = 100_000_000_000;

/// Token accounts that one transaction creates: as many as fit into its 1,232 bytes.
const TOKEN_ACCOUNTS_PER_TRANSACTION: usize = 2;

/// Transactions in one status request, as many as `getSignatureStatuses` allows.
const STATUSES_PER_CALL: usize = 256;

/// Transfers that are signed with one blockhash, and that wait to be sent.
const PORTION: usize = 2_000;

/// Accounts with lamports.
pub fn fund_payers(client: &mut JsonRpcClient, count: usize) -> Result<Vec<Keypair>> {
    let payers: Vec<Keypair> = (0..count).map(|_| Keypair::new()).collect();
    let mut signatures = Vec::new();
    for payer in &payers {
        let params = json!([payer.pubkey().to_string(), PAYER_LAMPORTS]);
        signatures.push(text(&client.call("requestAirdrop", params)?)?);
    }
    wait_for_all(client, &signatures)?;
    Ok(payers)
}

/// Token accounts of one mint, each with a balance.
pub fn make_token_accounts(
    client: &mut JsonRpcClient,
    payers: &[Keypair],
    count: usize,
) -> Result<Vec<Pubkey>> {
    let program = spl_token_interface::id();
    let payer = payers.first().context("no payers")?;
    let mint = Keypair::new();
    let authority = payer.pubkey();
    let rent = rent(client, Mint::LEN)?;
    let make_mint = [
        system::create_account(&authority, &mint.pubkey(), rent, Mint::LEN as u64, &program),
        token::initialize_mint2(&program, &mint.pubkey(), &authority, None, 6)?,
    ];
    let blockhash = client.latest_blockhash()?;
    let signature = send(client, &sign(&make_mint, &[payer, &mint], blockhash))?;
    wait_for_all(client, &[signature])?;

    let accounts: Vec<Keypair> = (0..count).map(|_| Keypair::new()).collect();
    let rent = self::rent(client, TokenAccount::LEN)?;
    let blockhash = client.latest_blockhash()?;
    let mut signatures = Vec::new();
    for some in accounts.chunks(TOKEN_ACCOUNTS_PER_TRANSACTION) {
        let mut instructions = Vec::new();
        for account in some {
            let account = account.pubkey();
            let space = TokenAccount::LEN as u64;
            instructions.push(system::create_account(&authority, &account, rent, space, &program));
            instructions.push(token::initialize_account3(
                &program,
                &account,
                &mint.pubkey(),
                &authority,
            )?);
            instructions.push(token::mint_to(
                &program,
                &mint.pubkey(),
                &account,
                &authority,
                &[],
                1_000_000,
            )?);
        }
        let signers: Vec<&Keypair> = [payer].into_iter().chain(some).collect();
        signatures.push(send(client, &sign(&instructions, &signers, blockhash))?);
    }
    wait_for_all(client, &signatures)?;
    Ok(accounts.iter().map(Signer::pubkey).collect())
}

/// Transfers that differ from each other and from those of earlier calls: each has its own amount and the newest
/// blockhash.
pub fn signed_transfers(
    client: &mut JsonRpcClient,
    payers: &[Keypair],
    count: usize,
) -> Result<Vec<Transaction>> {
    let blockhash = client.latest_blockhash()?;
    let to = Pubkey::new_unique();
    // Rent-exempt, so that its first transfer is as good as the others.
    let least = rent(client, 0)?;
    let transfers = (0..count).map(|number| {
        let payer = &payers[number % payers.len()];
        sign_transfer(payer, &to, least + number as u64, blockhash)
    });
    Ok(transfers.collect())
}

/// Signs a transfer. Two transfers with the same arguments are the same transaction.
pub fn sign_transfer(payer: &Keypair, to: &Pubkey, lamports: u64, blockhash: Hash) -> Transaction {
    sign(&[system::transfer(&payer.pubkey(), to, lamports)], &[payer], blockhash)
}

/// Calls that send transfers without preflight, without end, each with a recent blockhash. A thread signs them ahead.
///
/// They end if the node does not respond.
pub fn endless_transfers(
    mut client: JsonRpcClient,
    payers: Vec<Keypair>,
) -> impl Iterator<Item = String> + Send + 'static {
    let (sender, bodies) = sync_channel(PORTION);
    std::thread::spawn(move || -> Result<()> {
        loop {
            for transaction in signed_transfers(&mut client, &payers, PORTION)? {
                let params = send_params(&transaction, true)?;
                let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "sendTransaction", "params": params });
                if sender.send(call.to_string()).is_err() {
                    return Ok(());
                }
            }
        }
    });
    bodies.into_iter()
}

/// The parameters of `sendTransaction`.
pub fn send_params(transaction: &Transaction, skip_preflight: bool) -> Result<Value> {
    let wire = BASE64_STANDARD.encode(bincode::serialize(transaction)?);
    let preflight = "processed";
    Ok(json!([wire, {
        "encoding": "base64",
        "skipPreflight": skip_preflight,
        "preflightCommitment": preflight,
    }]))
}

/// Waits until all have been executed. Errors: one of them failed.
pub fn wait_for_all(client: &mut JsonRpcClient, signatures: &[String]) -> Result<()> {
    ensure!(!signatures.is_empty(), "nothing to wait for");
    signatures.chunks(STATUSES_PER_CALL).try_for_each(|some| client.wait_for(some))
}

fn send(client: &mut JsonRpcClient, transaction: &Transaction) -> Result<String> {
    text(&client.call("sendTransaction", send_params(transaction, false)?)?)
}

fn sign(instructions: &[Instruction], signers: &[&Keypair], blockhash: Hash) -> Transaction {
    let payer = signers.first().map(|signer| signer.pubkey());
    let message = Message::new_with_blockhash(instructions, payer.as_ref(), &blockhash);
    Transaction::new(signers, message, blockhash)
}

fn rent(client: &mut JsonRpcClient, space: usize) -> Result<u64> {
    let lamports = client.call("getMinimumBalanceForRentExemption", json!([space]))?;
    lamports.as_u64().context("no rent")
}

fn text(value: &Value) -> Result<String> {
    Ok(value.as_str().context("not a string")?.to_owned())
}
