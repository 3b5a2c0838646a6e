//! Cheat codes, on a control that applies edits to accounts of its own.

mod values;

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::{
    ACCOUNT_BYTES_MAX, ControlCall, ControlCommand, ControlError, ControlOutcome, ControlStats,
    CurrentAccounts, LedgerControl, ResetScope, Simulation, TimeTarget, pending,
};
use clients::ClientId;
use jsonrpc::Api;
use ledger::Slot;
use parking_lot::Mutex;
use serde_json::{Value, json};
use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_loader_v3_interface::get_program_data_address;
use solana_loader_v3_interface::state::UpgradeableLoaderState;
use solana_program_pack::Pack;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;
use spl_token_2022_interface::extension::transfer_fee::TransferFeeConfig;
use spl_token_2022_interface::extension::{
    BaseStateWithExtensions, BaseStateWithExtensionsMut, ExtensionType, StateWithExtensions,
    StateWithExtensionsMut,
};
use spl_token_2022_interface::state::{Account as Token2022, Mint as Mint2022};
use spl_token_interface::state::{Account as Token, AccountState, Mint};

use super::world::{FINALIZED, PROCESSED, World, keypair, sign_transaction, simulation};
use crate::cheatcodes::{Cheatcodes, is_cheatcode};
use crate::solana_api::SolanaApi;

const SLOT: Slot = 700;

/// Accounts that edits change, and the other commands that arrived.
#[derive(Default)]
pub(super) struct FakeControl {
    accounts: Mutex<HashMap<Pubkey, AccountSharedData>>,
    commands: Mutex<Vec<String>>,
    refusal: Mutex<Option<ControlError>>,
}

struct Current<'a>(&'a HashMap<Pubkey, AccountSharedData>);

impl CurrentAccounts for Current<'_> {
    fn account(&self, key: &Pubkey) -> Option<Arc<Account>> {
        self.0.get(key).map(|account| Arc::new(Account(account.clone())))
    }

    fn slot(&self) -> Slot {
        SLOT
    }

    fn minimum_balance(&self, bytes: usize) -> u64 {
        1_000 + bytes as u64
    }
}

impl LedgerControl for FakeControl {
    fn control(&self, _: ClientId, command: ControlCommand) -> Result<ControlCall, ControlError> {
        if let Some(err) = self.refusal.lock().clone() {
            return Err(err);
        }
        let (call, reply) = pending();
        let done = ControlOutcome { slot: SLOT, block_height: 600, transaction_count: 5_000 };
        let text = match command {
            ControlCommand::Edit(edit) => {
                let mut accounts = self.accounts.lock();
                let edited = edit(&Current(&accounts));
                reply.send(edited.map(|edited| {
                    accounts.extend(edited);
                    done
                }));
                return Ok(call);
            }
            ControlCommand::Adopt(accounts) => format!("{} accounts", accounts.len()),
            ControlCommand::Travel(target) => format!("{target:?}"),
            ControlCommand::PauseClock => "pause".to_owned(),
            ControlCommand::ResumeClock => "resume".to_owned(),
            ControlCommand::Reset(scope) => format!("{scope:?}"),
        };
        self.commands.lock().push(text);
        reply.send(Ok(done));
        Ok(call)
    }

    fn stats(&self) -> ControlStats {
        ControlStats::default()
    }
}

struct CheatWorld {
    world: World,
    control: Arc<FakeControl>,
}

impl CheatWorld {
    fn new() -> Self {
        let control = Arc::<FakeControl>::default();
        let mut world = World::new();
        let on = Cheatcodes::new(Arc::clone(&control) as Arc<dyn LedgerControl>, true);
        world.api.cheatcodes = Arc::new(on);
        Self { world, control }
    }

    /// Sends an edit, whose result has only its context.
    fn edit(&self, method: &str, params: Value) {
        assert_eq!(self.world.value(SLOT, method, params), Value::Null, "{method}");
    }

    fn account(&self, key: &Pubkey) -> AccountSharedData {
        self.control.accounts.lock().get(key).cloned().expect("the account")
    }

    fn insert(&self, key: Pubkey, lamports: u64, owner: Pubkey, data: &[u8]) {
        let mut account = AccountSharedData::new(lamports, 0, &owner);
        account.set_data_from_slice(data);
        self.control.accounts.lock().insert(key, account);
    }

    /// Returns the message of a refused call.
    fn refusal(&self, method: &str, params: &Value) -> String {
        match self.world.call(method, params) {
            Ok(result) => panic!("{method} {params} gave {result}"),
            Err(err) => {
                assert_eq!(err.code, -32602, "{method}: {}", err.message);
                err.message
            }
        }
    }
}

fn text(key: &Pubkey) -> String {
    key.to_string()
}

fn key(number: u8) -> Pubkey {
    Pubkey::new_from_array([number; 32])
}

fn base64(transaction: &VersionedTransaction) -> String {
    BASE64_STANDARD.encode(wincode::serialize(transaction).expect("a transaction has a size"))
}

#[test]
fn cheat_codes_are_refused_where_there_are_none() {
    let cheatcodes: Vec<_> =
        SolanaApi::sorted_methods().into_iter().filter(|spec| is_cheatcode(spec.name)).collect();
    assert!(cheatcodes.len() >= 30, "{}", cheatcodes.len());
    let followed = World::new();
    let mut switched_off = World::new();
    let control = Arc::<FakeControl>::default();
    switched_off.api.cheatcodes = Arc::new(Cheatcodes::new(control, false));
    for spec in cheatcodes {
        let name = spec.name;
        let message = format!("{name} is for a local ledger (hydrant dev)");
        followed.check_refusal(name, json!([]), -32601, &message);
        let message = format!("{name} is switched off (--no-cheatcodes)");
        switched_off.check_refusal(name, json!([]), -32601, &message);
    }
}

#[test]
fn every_cheat_code_is_closed_to_other_sites() {
    for spec in SolanaApi::sorted_methods() {
        let is_dangerous = is_cheatcode(spec.name) || spec.name == "requestAirdrop";
        assert_eq!(spec.is_dangerous, is_dangerous, "{}", spec.name);
    }
}

#[test]
fn cheat_codes_are_disabled_and_enabled_by_name() {
    let cheats = CheatWorld::new();
    let world = &cheats.world;
    let set = || json!([text(&key(1)), { "lamports": 5 }]);
    world.value(PROCESSED, "surfnet_disableCheatcode", json!([["surfnet_setAccount"]]));
    let disabled = "surfnet_setAccount is disabled (surfnet_enableCheatcode)";
    world.check_refusal("surfnet_setAccount", set(), -32601, disabled);
    world.ok("surfnet_pauseClock", json!([]));
    world.value(PROCESSED, "surfnet_enableCheatcode", json!([["surfnet_setAccount"]]));
    cheats.edit("surfnet_setAccount", set());

    for (params, expected) in [
        (json!([["getBalance"]]), "\"getBalance\" is no cheat code of this node"),
        (json!(["none"]), "\"none\": expected \"all\" or a list of cheat codes"),
        (
            json!([["surfnet_enableCheatcode"]]),
            "surfnet_enableCheatcode is disabled only with {\"lockout\": true}",
        ),
    ] {
        assert_eq!(cheats.refusal("surfnet_disableCheatcode", &params), expected);
    }
    world.value(PROCESSED, "surfnet_disableCheatcode", json!(["all"]));
    world.check_refusal("surfnet_setAccount", set(), -32601, disabled);
    world.value(PROCESSED, "surfnet_enableCheatcode", json!(["all"]));
    cheats.edit("surfnet_setAccount", set());
}

#[test]
fn a_lockout_is_final() {
    let cheats = CheatWorld::new();
    let world = &cheats.world;
    let lock = json!([["surfnet_setAccount"], { "lockout": true }]);
    world.value(PROCESSED, "surfnet_disableCheatcode", lock);
    let final_ = "surfnet_setAccount is disabled until the node restarts (lockout)";
    let set = || json!([text(&key(1)), { "lamports": 5 }]);
    world.check_refusal("surfnet_setAccount", set(), -32601, final_);
    assert_eq!(cheats.refusal("surfnet_enableCheatcode", &json!([["surfnet_setAccount"]])), final_);
    // All methods that are not locked are enabled.
    world.value(PROCESSED, "surfnet_enableCheatcode", json!(["all"]));
    world.check_refusal("surfnet_setAccount", set(), -32601, final_);
    world.value(PROCESSED, "surfnet_disableCheatcode", json!(["all", { "lockout": true }]));
    for name in ["surfnet_enableCheatcode", "surfnet_disableCheatcode", "surfnet_timeTravel"] {
        let message = format!("{name} is disabled until the node restarts (lockout)");
        world.check_refusal(name, json!(["all"]), -32601, &message);
    }
}

#[test]
fn an_account_gets_the_fields_that_are_set() {
    let cheats = CheatWorld::new();
    let owner = key(9);
    cheats.edit(
        "surfnet_setAccount",
        json!([text(&key(1)), {
            "lamports": 7, "data": "00ff10", "owner": text(&owner), "executable": true, "rentEpoch": 3,
        }]),
    );
    let all = cheats.account(&key(1));
    assert_eq!((all.lamports(), all.data(), all.owner()), (7, &[0, 255, 16][..], &owner));
    assert!(all.executable() && all.rent_epoch() == 3);
    // The other fields do not change.
    cheats.edit("surfnet_setAccount", json!([text(&key(1)), { "data": "" }]));
    let cleared = cheats.account(&key(1));
    assert!(cleared.data().is_empty() && cleared.lamports() == 7 && cleared.owner() == &owner);
    // A new account is exempt from rent.
    cheats.edit("surfnet_setAccount", json!([text(&key(2)), { "data": "00".repeat(10) }]));
    let new = cheats.account(&key(2));
    assert_eq!((new.lamports(), new.rent_epoch()), (1_010, u64::MAX));
    assert_eq!(new.owner(), &solana_sdk_ids::system_program::ID);
}

#[test]
fn an_account_that_cannot_be_is_refused_with_a_reason() {
    let cheats = CheatWorld::new();
    let set = |update: Value| cheats.refusal("surfnet_setAccount", &json!([text(&key(1)), update]));
    assert_eq!(set(json!({ "data": "abc" })), "data has 3 hexadecimal digits, an odd number");
    assert_eq!(set(json!({ "data": "zz" })), "data has no hexadecimal digit at 0");
    assert!(set(json!({ "owner": "me" })).starts_with("Invalid param: "));
    assert!(set(json!({ "lamports": -1 })).contains("invalid value"));
    assert!(set(json!({ "lamports": 1e30 })).contains("invalid"));
    assert!(set(json!({ "lamport": 1 })).contains("unknown field `lamport`"));
    let large = set(json!({ "data": "00".repeat(ACCOUNT_BYTES_MAX + 1) }));
    assert_eq!(large, "data has 10485761 bytes, an account at most 10485760");
    let bad = cheats.refusal("surfnet_setAccount", &json!(["x", {}]));
    assert!(bad.starts_with("Invalid param: "), "{bad}");
    let few = cheats.refusal("surfnet_setAccount", &json!([text(&key(1))]));
    assert!(few.contains("invalid length 1"), "{few}");
    assert!(cheats.control.accounts.lock().is_empty());
}

#[test]
fn a_ledger_that_refuses_a_command_says_why() {
    let cheats = CheatWorld::new();
    let set = json!([text(&key(1)), { "lamports": 5 }]);
    for (err, code) in [
        (ControlError::Invalid("why".into()), -32602),
        (ControlError::LedgerFull, -32600),
        (ControlError::AccountBytesFull { limit: 1 }, -32600),
        (ControlError::NoBaseline { bytes_max: 7 }, -32600),
        (ControlError::QueueFull { limit: 32 }, -32005),
        (ControlError::Closed, -32603),
    ] {
        *cheats.control.refusal.lock() = Some(err.clone());
        cheats.world.check_refusal("surfnet_setAccount", set.clone(), code, &err.to_string());
    }
}

/// Returns the data of a mint of the older program.
fn mint() -> Vec<u8> {
    let mut data = vec![0; Mint::LEN];
    let mint = Mint { decimals: 6, is_initialized: true, supply: 5, ..Mint::default() };
    Mint::pack(mint, &mut data).expect("a mint fits");
    data
}

fn associated_address(owner: &Pubkey, mint: &Pubkey, program: &Pubkey) -> Pubkey {
    let seeds = [owner.as_ref(), program.as_ref(), mint.as_ref()];
    Pubkey::find_program_address(&seeds, &spl_generic_token::associated_token_account::id()).0
}

#[test]
fn a_token_account_is_made_and_changed() {
    let cheats = CheatWorld::new();
    let program = spl_token_interface::id();
    let owner = key(1);
    let mint_key = key(2);
    cheats.insert(mint_key, 9, program, &mint());
    let set = |update: Value| {
        cheats.edit("surfnet_setTokenAccount", json!([text(&owner), text(&mint_key), update]));
        let account = cheats.account(&associated_address(&owner, &mint_key, &program));
        assert_eq!((account.owner(), account.lamports()), (&program, 1_165));
        Token::unpack(account.data()).expect("a token account")
    };
    let made = set(json!({ "amount": 12 }));
    assert_eq!((made.mint, made.owner, made.amount), (mint_key, owner, 12));
    assert_eq!(made.state, AccountState::Initialized);
    let delegated = set(json!({
        "delegate": text(&key(3)), "delegatedAmount": 4, "state": "frozen",
        "closeAuthority": text(&key(4)),
    }));
    assert_eq!((delegated.amount, delegated.delegated_amount), (12, 4));
    assert_eq!(delegated.delegate, Some(key(3)).into());
    assert_eq!(delegated.close_authority, Some(key(4)).into());
    assert_eq!(delegated.state, AccountState::Frozen);
    let none = set(json!({ "delegate": "null", "closeAuthority": "null", "amount": u64::MAX }));
    assert!(none.delegate.is_none() && none.close_authority.is_none() && none.amount == u64::MAX);
}

#[test]
fn a_wrapped_account_holds_its_amount_in_lamports() {
    let cheats = CheatWorld::new();
    let program = spl_token_interface::id();
    let owner = key(1);
    let native = spl_token_interface::native_mint::id();
    cheats.insert(native, 9, program, &mint());
    let params = |amount: u64| json!([text(&owner), text(&native), { "amount": amount }]);
    cheats.edit("surfnet_setTokenAccount", params(500));
    let account = cheats.account(&associated_address(&owner, &native, &program));
    let token = Token::unpack(account.data()).expect("a token account");
    assert_eq!((account.lamports(), token.amount), (1_665, 500));
    assert_eq!(token.is_native, Some(1_165).into());
    let refusal = cheats.refusal("surfnet_setTokenAccount", &params(u64::MAX));
    assert!(refusal.ends_with("more lamports than a u64"), "{refusal}");
}

#[test]
fn a_token_2022_account_has_its_mints_extensions() {
    let cheats = CheatWorld::new();
    let program = spl_token_2022_interface::id();
    let owner = key(1);
    let mint_key = key(2);
    let types = [ExtensionType::TransferFeeConfig];
    let bytes = ExtensionType::try_calculate_account_len::<Mint2022>(&types).expect("a length");
    let mut data = vec![0; bytes];
    let mut mint =
        StateWithExtensionsMut::<Mint2022>::unpack_uninitialized(&mut data).expect("it is empty");
    mint.init_extension::<TransferFeeConfig>(true).expect("it fits");
    mint.base = Mint2022 { decimals: 2, is_initialized: true, ..Mint2022::default() };
    mint.pack_base();
    mint.init_account_type().expect("it fits");
    cheats.insert(mint_key, 9, program, &data);
    for amount in [3, 4] {
        let params = json!([text(&owner), text(&mint_key), { "amount": amount }, text(&program)]);
        cheats.edit("surfnet_setTokenAccount", params);
        let account = cheats.account(&associated_address(&owner, &mint_key, &program));
        let token = StateWithExtensions::<Token2022>::unpack(account.data()).expect("an account");
        assert_eq!(
            (token.base.amount, token.base.mint, token.base.owner),
            (amount, mint_key, owner)
        );
        let extensions = token.get_extension_types().expect("extensions");
        assert_eq!(extensions, [ExtensionType::TransferFeeAmount, ExtensionType::ImmutableOwner]);
    }
}

#[test]
fn a_token_account_that_cannot_be_is_refused_with_a_reason() {
    let cheats = CheatWorld::new();
    let program = spl_token_interface::id();
    cheats.insert(key(2), 9, program, &mint());
    cheats.insert(key(3), 9, key(9), &mint());
    cheats.insert(key(4), 9, program, &[1; 40]);
    let taken = associated_address(&key(5), &key(2), &program);
    cheats.insert(taken, 9, key(9), &[1]);
    let set = |owner: &Pubkey, mint: &Pubkey, update: Value, program: Value| {
        let params = json!([text(owner), text(mint), update, program]);
        cheats.refusal("surfnet_setTokenAccount", &params)
    };
    let none = Value::Null;
    assert!(set(&key(1), &key(8), json!({}), none.clone()).ends_with("does not exist"));
    assert!(set(&key(1), &key(3), json!({}), none.clone()).ends_with("is no token program"));
    assert!(set(&key(1), &key(4), json!({}), none.clone()).ends_with("is no mint"));
    let other = json!(text(&spl_token_2022_interface::id()));
    assert!(set(&key(1), &key(2), json!({}), other).contains("belongs to"));
    assert!(set(&key(5), &key(2), json!({}), none.clone()).ends_with("is no token account"));
    assert!(set(&key(1), &key(2), json!({ "state": "odd" }), none.clone()).contains("odd"));
    let confidential = set(&key(1), &key(2), json!({ "confidential": {} }), none);
    assert!(confidential.contains("unknown field `confidential`"), "{confidential}");
}

/// Returns the code and the authority of a program.
fn program(cheats: &CheatWorld, id: &Pubkey) -> (Vec<u8>, Option<Pubkey>) {
    let data_key = get_program_data_address(id);
    let account = cheats.account(id);
    assert!(account.executable());
    let state: UpgradeableLoaderState = bincode::deserialize(account.data()).expect("a program");
    assert_eq!(state, UpgradeableLoaderState::Program { programdata_address: data_key });
    let data = cheats.account(&data_key);
    assert_eq!(data.lamports(), 1_000 + data.data().len() as u64);
    match bincode::deserialize(data.data()).expect("program data") {
        UpgradeableLoaderState::ProgramData { slot, upgrade_authority_address } => {
            assert_eq!(slot, SLOT - 1);
            (data.data()[45..].to_vec(), upgrade_authority_address)
        }
        state => panic!("{state:?}"),
    }
}

#[test]
fn a_program_is_written_in_parts() {
    let cheats = CheatWorld::new();
    let id = key(6);
    let system = solana_sdk_ids::system_program::ID;
    let write = |data: &str, offset: u64, authority: Value| {
        cheats.edit("surfnet_writeProgram", json!([text(&id), data, offset, authority]));
        program(&cheats, &id)
    };
    assert_eq!(write("0102", 0, Value::Null), (vec![1, 2], Some(system)));
    assert_eq!(write("0a0b", 4, Value::Null), (vec![1, 2, 0, 0, 10, 11], Some(system)));
    let owned = write("ff", 1, json!(text(&key(7))));
    assert_eq!(owned, (vec![1, 255, 0, 0, 10, 11], Some(key(7))));
    assert_eq!(write("", 0, Value::Null).1, Some(key(7)));

    cheats.insert(key(8), 9, key(9), &[1]);
    let refusal = |id: &Pubkey, data: &str, offset: u64| {
        cheats.refusal("surfnet_writeProgram", &json!([text(id), data, offset]))
    };
    assert!(refusal(&key(8), "00", 0).ends_with("is no program of the upgradeable loader"));
    let far = refusal(&id, "00", u64::MAX);
    assert_eq!(far, "the code would have 18446744073709551615 bytes, at most 10485715");
    assert!(refusal(&id, "0", 0).contains("odd number"));
}

#[test]
fn a_program_gets_another_authority_or_none() {
    let cheats = CheatWorld::new();
    let id = key(6);
    cheats.edit("surfnet_writeProgram", json!([text(&id), "0102", 0]));
    cheats.edit("surfnet_setProgramAuthority", json!([text(&id), text(&key(7))]));
    assert_eq!(program(&cheats, &id), (vec![1, 2], Some(key(7))));
    cheats.edit("surfnet_setProgramAuthority", json!([text(&id)]));
    assert_eq!(program(&cheats, &id), (vec![1, 2], None));
    let absent = cheats.refusal("surfnet_setProgramAuthority", &json!([text(&key(5))]));
    assert!(absent.ends_with("does not exist"), "{absent}");
}

#[test]
fn a_program_is_cloned_with_its_code() {
    let cheats = CheatWorld::new();
    let id = key(6);
    let copy = key(7);
    cheats.edit("surfnet_writeProgram", json!([text(&id), "0102", 0, text(&key(1))]));
    cheats.edit("surfnet_cloneProgramAccount", json!([text(&id), text(&copy)]));
    assert_eq!(program(&cheats, &copy), (vec![1, 2], Some(key(1))));
    cheats.insert(key(8), 9, key(9), &[1]);
    let refusal = |from: &Pubkey, to: &Pubkey| {
        cheats.refusal("surfnet_cloneProgramAccount", &json!([text(from), text(to)]))
    };
    assert!(refusal(&id, &id).contains("the same program"));
    assert!(refusal(&key(5), &copy).ends_with("does not exist"));
    assert!(refusal(&id, &key(8)).ends_with("is no program of the upgradeable loader"));
}

#[test]
fn accounts_are_reset_by_the_ledger() {
    let cheats = CheatWorld::new();
    cheats.edit("surfnet_resetAccount", json!([text(&key(1))]));
    let owned = json!([text(&key(1)), { "includeOwnedAccounts": true }]);
    cheats.edit("surfnet_resetAccount", owned);
    cheats.world.value(PROCESSED, "surfnet_setSupply", json!([{ "total": 1 }]));
    cheats.edit("surfnet_resetNetwork", json!([]));
    let scope = |with_owned| format!("{:?}", ResetScope::Account { pubkey: key(1), with_owned });
    let expected = [scope(false), scope(true), "All".to_owned()];
    assert_eq!(*cheats.control.commands.lock(), expected);
    let supply = cheats.world.value(FINALIZED, "getSupply", json!([]));
    assert_eq!(supply["total"], 1_000_000);
}

#[test]
fn the_supply_is_what_it_is_set_to() {
    let cheats = CheatWorld::new();
    let update =
        json!([{ "total": 9, "non_circulating": 2, "nonCirculatingAccounts": [text(&key(1))] }]);
    cheats.world.value(PROCESSED, "surfnet_setSupply", update);
    cheats.world.value(PROCESSED, "surfnet_setSupply", json!([{ "circulating": 7 }]));
    let supply = cheats.world.value(FINALIZED, "getSupply", json!([]));
    let expected = json!({
        "total": 9, "circulating": 7, "nonCirculating": 2, "nonCirculatingAccounts": [text(&key(1))],
    });
    assert_eq!(supply, expected);
    let without = json!([{ "excludeNonCirculatingAccountsList": true }]);
    let supply = cheats.world.value(FINALIZED, "getSupply", without);
    assert_eq!(supply["nonCirculatingAccounts"], json!([]));
    let bad = json!([{ "nonCirculatingAccounts": ["x"] }]);
    assert!(cheats.refusal("surfnet_setSupply", &bad).starts_with("Invalid param: "));
}

#[test]
fn time_travel_takes_one_destination() {
    let cheats = CheatWorld::new();
    let at = TimeTarget::SlotAt { slot: 8, unix_ms: 9 };
    for (params, expected) in [
        (json!({ "absoluteEpoch": 5 }), TimeTarget::Epoch(5)),
        (json!({ "absoluteSlot": 6 }), TimeTarget::Slot(6)),
        (json!({ "absoluteTimestamp": 7_000 }), TimeTarget::UnixMs(7_000)),
        (json!({ "absoluteSlotAt": { "slot": 8, "timestamp": 9 } }), at),
    ] {
        let info = cheats.world.ok("surfnet_timeTravel", json!([params]));
        // An epoch has 32 slots.
        let epoch = json!({
            "epoch": 21, "slotIndex": 28, "slotsInEpoch": 32, "absoluteSlot": SLOT,
            "blockHeight": 600, "transactionCount": 5_000,
        });
        assert_eq!(info, epoch);
        assert_eq!(cheats.control.commands.lock().pop(), Some(format!("{expected:?}")));
    }
    for params in [json!([]), json!([{}]), json!([{ "absoluteSlot": -1 }]), json!([{ "to": 5 }])] {
        cheats.refusal("surfnet_timeTravel", &params);
    }
}

#[test]
fn the_clock_is_paused_and_resumed() {
    let cheats = CheatWorld::new();
    assert_eq!(cheats.world.ok("surfnet_pauseClock", json!([]))["absoluteSlot"], SLOT);
    assert_eq!(cheats.world.ok("surfnet_resumeClock", json!([]))["epoch"], 21);
    assert_eq!(*cheats.control.commands.lock(), ["pause", "resume"]);
}

#[test]
fn impersonated_addresses_sign_nothing() {
    let cheats = CheatWorld::new();
    let world = &cheats.world;
    let payer = keypair(10);
    let to = keypair(11).pubkey();
    let mut unsigned = sign_transaction(&[transfer(&payer.pubkey(), &to, 7)], &payer, FINALIZED);
    unsigned.signatures[0] = Signature::default();
    let send = |config: Value| {
        let mut config = config;
        config["encoding"] = "base64".into();
        config["skipPreflight"] = true.into();
        world.call("sendTransaction", &json!([base64(&unsigned), config]))
    };
    let code = |result: Result<Value, jsonrpc::error::RpcError>| result.map_err(|err| err.code);
    assert_eq!(code(send(json!({}))), Err(-32003));
    let skipped = send(json!({ "skipSigVerify": true })).expect("it is not verified");
    assert_ne!(skipped, Signature::default().to_string());
    assert_eq!(code(send(json!({ "skipSigVerify": false }))), Err(-32003));

    assert_eq!(world.ok("hydrant_impersonateAccount", json!([text(&payer.pubkey())])), true);
    assert_eq!(send(json!({})).expect("the payer is exempt"), skipped);
    let all = world.ok("hydrant_getImpersonatedAccounts", json!([]));
    assert_eq!(all, json!([text(&payer.pubkey())]));
    let stop = json!([text(&payer.pubkey())]);
    assert_eq!(world.ok("hydrant_stopImpersonatingAccount", stop.clone()), true);
    assert_eq!(world.ok("hydrant_stopImpersonatingAccount", stop), false);
    assert_eq!(code(send(json!({}))), Err(-32003));

    // The gate closes both methods.
    world.ok("hydrant_impersonateAccount", json!([text(&payer.pubkey())]));
    let disable = json!([["hydrant_impersonateAccount"]]);
    world.value(PROCESSED, "surfnet_disableCheatcode", disable);
    assert_eq!(code(send(json!({}))), Err(-32003));
    assert_eq!(code(send(json!({ "skipSigVerify": true }))), Err(-32601));
    assert_eq!(world.transaction_service.sent.lock().len(), 2);
}

#[test]
fn another_transactions_signature_is_refused() {
    let cheats = CheatWorld::new();
    let payer = keypair(10);
    let mut copied = sign_transaction(&[transfer(&payer.pubkey(), &key(1), 7)], &payer, FINALIZED);
    copied.signatures[0] = cheats.world.tx("confirmed").signature();
    let config = json!({ "encoding": "base64", "skipPreflight": true, "skipSigVerify": true });
    let refusal = cheats.refusal("sendTransaction", &json!([base64(&copied), config]));
    assert!(refusal.starts_with("another transaction has the signature"), "{refusal}");
}

/// Returns a simulation that sends `lamports` from the payer to another wallet.
fn paying(lamports: u64, units: u64) -> Simulation {
    let wallet = |lamports| AccountSharedData::new(lamports, 0, &Pubkey::default());
    Simulation {
        units_consumed: units,
        logs: (0..units / 150).map(|line| format!("line {line}")).collect(),
        post_accounts: vec![
            (keypair(10).pubkey(), wallet(1_000 - lamports)),
            (key(1), wallet(lamports)),
            (solana_sdk_ids::system_program::ID, wallet(1)),
        ],
        ..simulation()
    }
}

#[test]
fn a_profile_has_the_transactions_units_and_accounts() {
    let cheats = CheatWorld::new();
    let world = &cheats.world;
    let payer = keypair(10);
    let pay = transfer(&payer.pubkey(), &key(1), 7);
    let transaction = sign_transaction(&[pay.clone(), pay], &payer, FINALIZED);
    *world.transaction_service.simulation.lock() = Ok(paying(14, 300));
    let profile = world.value(
        PROCESSED,
        "surfnet_profileTransaction",
        json!([base64(&transaction), "a tag"]),
    );
    // One run for each instruction, with the newest blockhash.
    let runs = std::mem::take(&mut *world.transaction_service.simulated.lock());
    let lens: Vec<_> =
        runs.iter().map(|(_, run)| run.transaction.message.instructions().len()).collect();
    assert_eq!(lens, [1, 2]);
    assert!(runs.iter().all(|(_, run)| run.replace_recent_blockhash));
    let total = &profile["transactionProfile"];
    assert_eq!(
        (&total["computeUnitsConsumed"], &total["errorMessage"]),
        (&json!(300), &Value::Null)
    );
    assert_eq!(total["logMessages"], json!(["line 0", "line 1"]));
    let states = &total["accountStates"];
    assert_eq!(states[text(&key(1))]["type"], "writable");
    assert_eq!(states[text(&key(1))]["accountChange"]["type"], "create");
    assert_eq!(states[text(&key(1))]["accountChange"]["data"]["lamports"], 14);
    let system = solana_sdk_ids::system_program::ID.to_string();
    assert_eq!(states[system.as_str()], json!({ "type": "readonly" }));
    // Both runs had the same result, so the second instruction had no effect.
    let instructions = profile["instructionProfiles"].as_array().expect("a list");
    let units: Vec<_> = instructions.iter().map(|it| &it["computeUnitsConsumed"]).collect();
    assert_eq!(units, [300, 0]);
    let second = &instructions[1]["accountStates"][text(&key(1))]["accountChange"];
    assert_eq!(second["type"], "unchanged");

    let uuid = profile["key"].as_str().expect("a key").to_owned();
    assert_eq!(world.value(PROCESSED, "surfnet_getTransactionProfile", json!([uuid])), profile);
    let shallow = json!([uuid, { "depth": "transaction", "encoding": "base64" }]);
    let shallow = world.value(PROCESSED, "surfnet_getTransactionProfile", shallow);
    assert!(shallow.get("instructionProfiles").is_none(), "{shallow}");
    let tagged = world.value(PROCESSED, "surfnet_getProfileResultsByTag", json!(["a tag"]));
    assert_eq!(tagged, json!([profile]));
    let none = world.value(PROCESSED, "surfnet_getProfileResultsByTag", json!(["another"]));
    assert_eq!(none, Value::Null);
}

#[test]
fn thousands_of_profiles_are_bounded() {
    let cheats = CheatWorld::new();
    let payer = keypair(10);
    let transaction =
        base64(&sign_transaction(&[transfer(&payer.pubkey(), &key(1), 7)], &payer, FINALIZED));
    let params = json!([transaction, "t", { "depth": "transaction" }]);
    for _ in 0..2_000 {
        cheats.world.ok("surfnet_profileTransaction", params.clone());
    }
    let tagged = cheats.world.value(PROCESSED, "surfnet_getProfileResultsByTag", json!(["t"]));
    assert_eq!(tagged.as_array().map(Vec::len), Some(200));
    let long = json!([transaction, "t".repeat(257)]);
    let refusal = cheats.refusal("surfnet_profileTransaction", &long);
    assert_eq!(refusal, "tag has 257 bytes, at most 256");
    let refusal = cheats.refusal("surfnet_profileTransaction", &json!(["AA"]));
    assert!(!refusal.is_empty());
    let absent = json!(["00000000-0000-4000-8000-000000000000"]);
    assert_eq!(cheats.world.value(PROCESSED, "surfnet_getTransactionProfile", absent), Value::Null);
    let odd = cheats.refusal("surfnet_getTransactionProfile", &json!(["odd"]));
    assert!(odd.starts_with("Invalid param: "), "{odd}");
}

#[test]
fn an_executed_transaction_has_a_profile() {
    let cheats = CheatWorld::new();
    let signature = cheats.world.signature("confirmed");
    let profile =
        cheats.world.value(PROCESSED, "surfnet_getTransactionProfile", json!([signature]));
    assert_eq!((&profile["key"], &profile["slot"]), (&json!(signature), &json!(60)));
    let meta = &cheats.world.tx("confirmed").meta;
    let units = meta.compute_units_consumed.unwrap_or_default();
    assert_eq!(profile["transactionProfile"]["computeUnitsConsumed"], units);
    let unknown = json!([Signature::from([5; 64]).to_string()]);
    let unknown = cheats.world.value(PROCESSED, "surfnet_getTransactionProfile", unknown);
    assert_eq!(unknown, Value::Null);
}

#[test]
fn local_signatures_come_newest_first_without_votes() {
    let cheats = CheatWorld::new();
    let world = &cheats.world;
    let all = world.value(PROCESSED, "surfnet_getLocalSignatures", json!([]));
    let all: Vec<&str> = all
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry["signature"].as_str().expect("a signature"))
        .collect();
    let position = |name: &str| {
        let signature = world.signature(name);
        all.iter().position(|found| *found == signature).expect("it is listed")
    };
    assert!(position("processed") < position("confirmed"));
    assert!(position("confirmed") < position("memo"));
    let two = world.value(PROCESSED, "surfnet_getLocalSignatures", json!([2]));
    assert_eq!(two.as_array().map(Vec::len), Some(2));
    assert_eq!(two[0]["signature"], all[0]);
    let refusal = cheats.refusal("surfnet_getLocalSignatures", &json!([1_001]));
    assert_eq!(refusal, "limit 1001: at most 1000");
}

#[test]
fn there_are_no_runbooks() {
    let cheats = CheatWorld::new();
    let info = cheats.world.value(PROCESSED, "surfnet_getSurfnetInfo", json!([]));
    assert_eq!(info, json!({ "runbookExecutions": [] }));
}

#[test]
fn a_snapshot_has_the_accounts_that_are_selected() {
    let cheats = CheatWorld::new();
    let world = &cheats.world;
    let export = |config: Value| -> serde_json::Map<String, Value> {
        match world.value(PROCESSED, "surfnet_exportSnapshot", json!([config])) {
            Value::Object(accounts) => accounts,
            other => panic!("{other}"),
        }
    };
    let all = export(json!({ "filter": { "includeProgramAccounts": true } }));
    let view = world.api.reader.view(ledger::Commitment::Processed);
    assert_eq!(all.len(), view.len());
    let (name, one) = all.iter().next().expect("there are accounts");
    let fields: Vec<&str> =
        one.as_object().expect("an object").keys().map(String::as_str).collect();
    let expected = ["data", "executable", "lamports", "owner", "parsedData", "rentEpoch"];
    let mut sorted = fields.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    let only = export(json!({ "filter": { "includeAccounts": [name] } }));
    assert_eq!(only.keys().collect::<Vec<_>>(), [name]);
    let both = json!({ "filter": { "includeAccounts": [name], "excludeAccounts": [name] } });
    assert!(export(both).is_empty());
    let without = export(json!({ "filter": { "excludeSysvars": true }, "scope": "network" }));
    let sysvar = solana_sdk_ids::sysvar::ID.to_string();
    assert!(without.values().all(|account| account["owner"] != sysvar.as_str()));
    let named = json!({ "scope": { "preTransaction": world.signature("confirmed") } });
    assert!(export(named).len() <= world.tx("confirmed").account_keys.len());
    let unknown = json!([{ "scope": { "preTransaction": Signature::from([5; 64]).to_string() } }]);
    assert!(cheats.refusal("surfnet_exportSnapshot", &unknown).ends_with("is not in the history"));
}

#[test]
fn what_is_not_served_says_so() {
    let cheats = CheatWorld::new();
    for name in [
        "surfnet_offlineAccount",
        "surfnet_streamAccount",
        "surfnet_streamAccounts",
        "surfnet_getStreamedAccounts",
        "surfnet_registerIdl",
        "surfnet_getActiveIdl",
        "surfnet_registerScenario",
        "surfnet_getConfidentialBalance",
        "surfnet_deriveConfidentialKeys",
    ] {
        let Err(err) = cheats.world.call(name, &json!([])) else { panic!("{name} is served") };
        assert_eq!(err.code, -32601);
        assert!(err.message.starts_with("Hydrant does not serve this cheat code: "), "{name}");
    }
}
