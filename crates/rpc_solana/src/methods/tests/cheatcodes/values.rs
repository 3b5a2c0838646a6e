//! Values that cheat codes set: numbers that went through JavaScript, and the state of a new token account.

use spl_token_2022_interface::extension::default_account_state::DefaultAccountState;

use super::*;

/// `u64::MAX` as JavaScript prints it, and its exact text.
const LARGEST: [&str; 3] =
    ["18446744073709552000", "1.8446744073709552e19", "\"18446744073709551615\""];

#[test]
fn numbers_that_went_through_javascript_are_those_before_it() {
    let cheats = CheatWorld::new();
    for number in LARGEST {
        let largest: Value = serde_json::from_str(number).expect("JSON");
        let set = json!([text(&key(1)), { "lamports": "9007199254740993", "rentEpoch": largest }]);
        cheats.edit("surfnet_setAccount", set);
        let account = cheats.account(&key(1));
        assert_eq!((account.rent_epoch(), account.lamports()), (u64::MAX, 9_007_199_254_740_993));

        let program = spl_token_interface::id();
        let owner = key(3);
        let mint_key = key(2);
        cheats.insert(mint_key, 9, program, &mint());
        let update = json!({ "amount": largest, "delegatedAmount": "7" });
        cheats.edit("surfnet_setTokenAccount", json!([text(&owner), text(&mint_key), update]));
        let account = cheats.account(&associated_address(&owner, &mint_key, &program));
        let token = Token::unpack(account.data()).expect("a token account");
        assert_eq!((token.amount, token.delegated_amount), (u64::MAX, 7));
    }
    for number in [json!(-1), json!(0.5), json!("NaN"), json!("1e3"), json!(1e30)] {
        let set = json!([text(&key(1)), { "rentEpoch": number }]);
        let refusal = cheats.refusal("surfnet_setAccount", &set);
        assert!(refusal.contains("a whole number from 0 to 18446744073709551615"), "{refusal}");
    }
}

#[test]
fn a_new_account_is_frozen_if_its_mint_says_so() {
    let cheats = CheatWorld::new();
    let program = spl_token_2022_interface::id();
    let owner = key(1);
    let mint_key = key(2);
    let types = [ExtensionType::DefaultAccountState];
    let bytes = ExtensionType::try_calculate_account_len::<Mint2022>(&types).expect("a length");
    let mut data = vec![0; bytes];
    let mut mint =
        StateWithExtensionsMut::<Mint2022>::unpack_uninitialized(&mut data).expect("it is empty");
    let default = mint.init_extension::<DefaultAccountState>(true).expect("it fits");
    default.state = AccountState::Frozen as u8;
    mint.base = Mint2022 { is_initialized: true, ..Mint2022::default() };
    mint.pack_base();
    mint.init_account_type().expect("it fits");
    cheats.insert(mint_key, 9, program, &data);
    let state = |owner: &Pubkey, update: Value| {
        cheats.edit("surfnet_setTokenAccount", json!([text(owner), text(&mint_key), update]));
        let account = cheats.account(&associated_address(owner, &mint_key, &program));
        let token = StateWithExtensions::<Token2022>::unpack(account.data()).expect("an account");
        token.base.state as u8
    };
    assert_eq!(state(&owner, json!({ "amount": 3 })), AccountState::Frozen as u8);
    // The state in the request has precedence, and the account retains it.
    let thawed = AccountState::Initialized as u8;
    assert_eq!(state(&owner, json!({ "state": "initialized" })), thawed);
    assert_eq!(state(&owner, json!({ "amount": 4 })), thawed);
    assert_eq!(state(&key(3), json!({ "state": "initialized" })), thawed);
}
