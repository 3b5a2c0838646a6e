//! A program over the upgradeable loader: buffer, chunks, deploy, call, upgrade, call again.

use std::fs;

use anyhow::{Context, Result};
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_loader_v3_interface::get_program_data_address;
use solana_loader_v3_interface::instruction::{
    create_buffer, deploy_with_max_program_len, upgrade, write,
};
use solana_loader_v3_interface::state::UpgradeableLoaderState;
use solana_pubkey::Pubkey;
use solana_rpc_client_api::config::RpcSendTransactionConfig;
use solana_signer::Signer;
use solana_transaction_status_client_types::UiTransactionEncoding;
use spl_associated_token_account_interface::instruction::create_associated_token_account;

use super::step;
use super::tokens::Token;
use crate::clients::ProgramElves;
use crate::world::World;

const CHUNK: usize = 1_000;

pub(super) fn steps(world: &World, token: &Token) -> Result<()> {
    let elves = ProgramElves::find()?;
    let payer = world.payer.pubkey();
    let program = Keypair::new();
    step("program: write the ELF to a buffer and deploy it", || {
        let elf = fs::read(&elves.first).context("read the first build")?;
        let buffer = filled_buffer(world, &elf)?;
        let rent = world.rent(UpgradeableLoaderState::size_of_program())?;
        let deploy = deploy_with_max_program_len(
            &payer,
            &program.pubkey(),
            &buffer,
            &payer,
            rent,
            elf.len(),
            true,
        )?;
        let signature = world.send(&deploy, &[&program])?;
        assert!(world.rpc.get_account(&program.pubkey())?.executable);
        let data = world.rpc.get_account_data(&get_program_data_address(&program.pubkey()))?;
        let at = UpgradeableLoaderState::size_of_programdata_metadata();
        assert!(data[at..].starts_with(&elf), "the program data is the ELF");
        world.slot_after(world.transaction(&signature, UiTransactionEncoding::Base64)?.slot)
    })?;
    step("program: call it, and it calls others", || {
        let (create, account) = create_by(&program.pubkey(), world, token);
        let logs = call(world, create)?;
        assert_eq!(logs[0], format!("Program {} invoke [1]", program.pubkey()));
        assert!(logs.contains(&format!("Program {} invoke [2]", token.program)), "{logs:?}");
        assert_eq!(world.rpc.get_token_account_balance(&account)?.amount, "0");
        Ok(())
    })?;
    step("program: upgrade it, and the call answers as the new build", || {
        let elf = fs::read(&elves.upgrade).context("read the second build")?;
        let buffer = filled_buffer(world, &elf)?;
        let signature =
            world.send(&[upgrade(&program.pubkey(), &buffer, &payer, &payer, true)], &[])?;
        world.slot_after(world.transaction(&signature, UiTransactionEncoding::Base64)?.slot)?;
        let logs = call(world, Instruction::new_with_bytes(program.pubkey(), b"second", vec![]))?;
        assert!(logs.iter().any(|line| line == "Program log: Memo (len 6)"), "{logs:?}");
        Ok(())
    })
}

/// The deployed program is the associated token account program: it derives accounts from its own address.
fn create_by(program: &Pubkey, world: &World, token: &Token) -> (Instruction, Pubkey) {
    let owner = world.alice.pubkey();
    let seeds = [owner.as_ref(), token.program.as_ref(), token.mint.as_ref()];
    let (account, _) = Pubkey::find_program_address(&seeds, program);
    let mut create =
        create_associated_token_account(&world.payer.pubkey(), &owner, &token.mint, &token.program);
    create.program_id = *program;
    create.accounts[1].pubkey = account;
    (create, account)
}

/// The logs of a transaction of this one instruction.
fn call(world: &World, instruction: Instruction) -> Result<Vec<String>> {
    let signature = world.send(&[instruction], &[])?;
    let meta = world
        .transaction(&signature, UiTransactionEncoding::Base64)?
        .transaction
        .meta
        .context("no meta")?;
    Option::from(meta.log_messages).context("no logs")
}

fn filled_buffer(world: &World, elf: &[u8]) -> Result<Pubkey> {
    let payer = world.payer.pubkey();
    let buffer = Keypair::new();
    let rent = world.rent(UpgradeableLoaderState::size_of_buffer(elf.len()))?;
    world.send(&create_buffer(&payer, &buffer.pubkey(), &payer, rent, elf.len())?, &[&buffer])?;
    let blockhash = world.rpc.get_latest_blockhash()?;
    let config =
        RpcSendTransactionConfig { skip_preflight: true, ..RpcSendTransactionConfig::default() };
    let mut sent = Vec::new();
    for (chunk, at) in elf.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
        let transaction = world.sign(
            &[write(&buffer.pubkey(), &payer, at, chunk.to_vec())],
            &[],
            &[],
            blockhash,
        )?;
        sent.push(world.rpc.send_transaction_with_config(&transaction, config)?);
    }
    for signature in sent {
        world.wait_until_confirmed(&signature)?.with_context(|| format!("chunk {signature}"))?;
    }
    Ok(buffer.pubkey())
}
