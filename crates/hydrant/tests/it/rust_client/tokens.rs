//! The life of a token with each token program, with reads in between.

use anyhow::{Context, Result};
use solana_account_decoder_client_types::{UiAccount, UiAccountData, UiAccountEncoding};
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_program_pack::Pack;
use solana_pubkey::Pubkey;
use solana_rpc_client_api::config::{
    RpcAccountInfoConfig, RpcProgramAccountsConfig, RpcTransactionLogsConfig,
    RpcTransactionLogsFilter,
};
use solana_rpc_client_api::filter::{Memcmp, RpcFilterType};
use solana_rpc_client_api::request::TokenAccountsFilter;
use solana_rpc_client_api::response::{Response, RpcKeyedAccount, RpcLogsResponse};
use solana_signature::Signature;
use solana_signer::Signer;
use solana_system_interface::instruction::create_account;
use spl_associated_token_account_interface::address::get_associated_token_address_with_program_id;
use spl_associated_token_account_interface::instruction::create_associated_token_account;
use spl_token_2022_interface::instruction as token;
use spl_token_interface::state::{Account, Mint};

use super::step;
use crate::socket::{Inbox, Socket};
use crate::world::{CONFIRMED, World};

const DECIMALS: u8 = 2;

/// A token with a remaining supply of 350, which are Bob's, and the signatures of its transactions.
pub(super) struct Token {
    pub(super) program: Pubkey,
    pub(super) mint: Pubkey,
    pub(super) alice: Pubkey,
    pub(super) bob: Pubkey,
    pub(super) minted: Signature,
    pub(super) transferred: Signature,
    pub(super) approved: Signature,
    pub(super) burnt: Signature,
    pub(super) closed: Signature,
}

struct Inboxes {
    account: Inbox<Response<UiAccount>>,
    program: Inbox<Response<RpcKeyedAccount>>,
    logs: Inbox<Response<RpcLogsResponse>>,
}

pub(super) fn life(world: &World, socket: &Socket, name: &str, program: Pubkey) -> Result<Token> {
    let payer = world.payer.pubkey();
    let alice = world.alice.pubkey();
    let bob = world.bob.pubkey();
    let mint = step(&format!("{name}: create the mint"), || create_mint(world, program))?;
    let address =
        |owner: &Pubkey| get_associated_token_address_with_program_id(owner, &mint, &program);
    let from = address(&alice);
    let to = address(&bob);
    step(&format!("{name}: create two associated accounts"), || {
        let create = [&alice, &bob]
            .map(|owner| create_associated_token_account(&payer, owner, &mint, &program));
        world.send(&create, &[])?;
        assert_eq!(read(world, &from)?.amount, 0);
        Ok(())
    })?;
    let inboxes =
        step(&format!("{name}: subscribe to the account, the program and the logs"), || {
            subscribe(socket, program, &mint, &from, &bob)
        })?;
    let transfer = |authority: &Pubkey, amount| {
        token::transfer_checked(&program, &from, &mint, &to, authority, &[], amount, DECIMALS)
            .context("transfer")
    };
    let minted = step(&format!("{name}: mint"), || {
        let mint_to = token::mint_to_checked(&program, &mint, &from, &payer, &[], 1_000, DECIMALS)?;
        let signature = world.send(&[mint_to], &[])?;
        let supply = world.rpc.get_token_supply(&mint)?;
        assert_eq!((supply.amount.as_str(), supply.ui_amount_string.as_str()), ("1000", "10"));
        Ok(signature)
    })?;
    let transferred = step(&format!("{name}: transfer"), || {
        let signature = world.send(&[transfer(&alice, 300)?], &[&world.alice])?;
        assert_eq!(read(world, &from)?.amount, 700);
        assert_eq!(world.rpc.get_token_account_balance(&to)?.ui_amount_string, "3");
        Ok(signature)
    })?;
    let approved = step(&format!("{name}: delegate, and the delegate spends"), || {
        let approve =
            token::approve_checked(&program, &from, &mint, &bob, &alice, &[], 200, DECIMALS)?;
        let signature = world.send(&[approve], &[&world.alice])?;
        world.send(&[transfer(&bob, 50)?], &[&world.bob])?;
        let account = read(world, &from)?;
        assert_eq!((account.amount, account.delegated_amount), (650, 150));
        Ok(signature)
    })?;
    step(&format!("{name}: accounts by owner, by delegate and by program"), || {
        check_lists(world, program, &mint, &from, &to)
    })?;
    let burnt = step(&format!("{name}: burn"), || {
        let signature = world.send(
            &[token::burn_checked(&program, &from, &mint, &alice, &[], 650, DECIMALS)?],
            &[&world.alice],
        )?;
        assert_eq!(world.rpc.get_token_supply(&mint)?.amount, "350");
        Ok(signature)
    })?;
    let closed = step(&format!("{name}: close the account"), || {
        let signature = world.send(&[close(program, &from, &bob, &alice)?], &[&world.alice])?;
        assert!(world.rpc.get_account_with_commitment(&from, CONFIRMED)?.value.is_none());
        Ok(signature)
    })?;
    let life =
        Token { program, mint, alice: from, bob: to, minted, transferred, approved, burnt, closed };
    step(&format!("{name}: every change was notified"), || check_notified(socket, inboxes, &life))?;
    Ok(life)
}

fn create_mint(world: &World, program: Pubkey) -> Result<Pubkey> {
    let payer = world.payer.pubkey();
    let mint = Keypair::new();
    let create =
        create_account(&payer, &mint.pubkey(), world.rent(Mint::LEN)?, Mint::LEN as u64, &program);
    let initialize = token::initialize_mint2(&program, &mint.pubkey(), &payer, None, DECIMALS)?;
    world.send(&[create, initialize], &[&mint])?;
    let state = Mint::unpack(&world.rpc.get_account_data(&mint.pubkey())?)?;
    assert_eq!((state.decimals, state.supply), (DECIMALS, 0));
    Ok(mint.pubkey())
}

fn close(
    program: Pubkey,
    account: &Pubkey,
    destination: &Pubkey,
    owner: &Pubkey,
) -> Result<Instruction> {
    Ok(token::close_account(&program, account, destination, owner, &[])?)
}

/// The base layout, with which a Token-2022 account starts.
fn read(world: &World, account: &Pubkey) -> Result<Account> {
    unpack(&world.rpc.get_account_data(account)?)
}

fn unpack(data: &[u8]) -> Result<Account> {
    Ok(Account::unpack_from_slice(data.get(..Account::LEN).context("short of a token account")?)?)
}

fn base64() -> RpcAccountInfoConfig {
    RpcAccountInfoConfig {
        encoding: Some(UiAccountEncoding::Base64),
        commitment: Some(CONFIRMED),
        ..Default::default()
    }
}

fn holders(mint: &Pubkey) -> RpcFilterType {
    RpcFilterType::Memcmp(Memcmp::new_raw_bytes(0, mint.to_bytes().to_vec()))
}

fn subscribe(
    socket: &Socket,
    program: Pubkey,
    mint: &Pubkey,
    account: &Pubkey,
    bob: &Pubkey,
) -> Result<Inboxes> {
    let account = *account;
    let owned = RpcFilterType::Memcmp(Memcmp::new_base58_encoded(32, bob.as_ref()));
    let filtered = RpcProgramAccountsConfig {
        filters: Some(vec![holders(mint), owned]),
        account_config: base64(),
        ..RpcProgramAccountsConfig::default()
    };
    let mentions = RpcTransactionLogsFilter::Mentions(vec![account.to_string()]);
    Ok(Inboxes {
        account: socket
            .listen(async |client| client.account_subscribe(&account, Some(base64())).await)?,
        program: socket
            .listen(async |client| client.program_subscribe(&program, Some(filtered)).await)?,
        logs: socket.listen(async |client| {
            client
                .logs_subscribe(mentions, RpcTransactionLogsConfig { commitment: Some(CONFIRMED) })
                .await
        })?,
    })
}

fn check_lists(
    world: &World,
    program: Pubkey,
    mint: &Pubkey,
    from: &Pubkey,
    to: &Pubkey,
) -> Result<()> {
    let parsed = |account: &UiAccount| match &account.data {
        UiAccountData::Json(json) => {
            json.parsed["info"]["tokenAmount"]["amount"].as_str().map(str::to_owned)
        }
        _ => None,
    };
    let owned = world
        .rpc
        .get_token_accounts_by_owner(&world.alice.pubkey(), TokenAccountsFilter::Mint(*mint))?;
    assert_eq!(
        owned.iter().map(|entry| entry.pubkey.as_str()).collect::<Vec<_>>(),
        [from.to_string()]
    );
    assert_eq!(parsed(&owned[0].account).as_deref(), Some("650"));
    let delegated = world.rpc.get_token_accounts_by_delegate(
        &world.bob.pubkey(),
        TokenAccountsFilter::ProgramId(program),
    )?;
    assert_eq!(
        delegated.iter().map(|entry| entry.pubkey.as_str()).collect::<Vec<_>>(),
        [from.to_string()]
    );
    let config = RpcProgramAccountsConfig {
        filters: Some(vec![holders(mint)]),
        account_config: base64(),
        ..RpcProgramAccountsConfig::default()
    };
    let mut amounts = Vec::new();
    for (_, account) in world.rpc.get_program_ui_accounts_with_config(&program, config)? {
        amounts.push(unpack(&account.data.decode().context("base64")?)?.amount);
    }
    amounts.sort_unstable();
    assert_eq!(amounts, [350, 650]);
    let largest = world.rpc.get_token_largest_accounts(mint)?;
    let largest: Vec<_> =
        largest.into_iter().map(|entry| (entry.address, entry.amount.amount)).collect();
    assert_eq!(largest, [(from.to_string(), "650".to_owned()), (to.to_string(), "350".to_owned())]);
    let token = world.rpc.get_token_account(from)?.context("no token account")?;
    assert_eq!(token.delegate, Some(world.bob.pubkey().to_string()));
    Ok(())
}

fn check_notified(socket: &Socket, inboxes: Inboxes, life: &Token) -> Result<()> {
    let changes = inboxes.account.through(|change| change.value.lamports == 0)?;
    let mut amounts = Vec::new();
    for change in &changes {
        let data = change.value.data.decode().context("base64")?;
        amounts.push(if data.is_empty() { None } else { Some(unpack(&data)?.amount) });
    }
    amounts.dedup();
    assert_eq!(amounts, [Some(1_000), Some(700), Some(650), Some(0), None]);
    assert!(changes.is_sorted_by_key(|change| change.context.slot), "in slot order");

    let amount = |entry: &Response<RpcKeyedAccount>| {
        entry
            .value
            .account
            .data
            .decode()
            .and_then(|data| unpack(&data).ok())
            .map(|account| account.amount)
    };
    let bobs = inboxes.program.find(|entry| amount(entry) == Some(350))?;
    assert_eq!(bobs.value.pubkey, life.bob.to_string());

    let success = format!("Program {} success", life.program);
    for signature in [life.minted, life.transferred, life.approved, life.burnt, life.closed] {
        let entry = inboxes.logs.find(|entry| entry.value.signature == signature.to_string())?;
        assert_eq!(entry.value.err, None);
        assert!(entry.value.logs.contains(&success), "{:?}", entry.value.logs);
    }
    socket.close(inboxes.account);
    socket.close(inboxes.program);
    socket.close(inboxes.logs);
    Ok(())
}
