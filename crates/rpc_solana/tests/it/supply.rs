//! getSupply, getLargestAccounts.

use serde_json::{Value, json};

use testkit::sample_ledger::{CAPITALIZATION, FREE_STAKE, LOCKED_STAKE, OTHER_WALLET, SOL, WALLET};
use testkit::solana_node::SolanaNode;

#[test]
fn locked_stake_does_not_circulate() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let supply = client.result("getSupply", json!([]));
    let value = &supply["value"];
    let amounts = ["circulating", "nonCirculating", "total"].map(|name| value[name].as_u64());
    let expected = [CAPITALIZATION - 7 * SOL, 7 * SOL, CAPITALIZATION];
    assert_eq!(amounts, expected.map(Some));
    let listed = value["nonCirculatingAccounts"].as_array().expect("a list");
    assert!(listed.contains(&json!(LOCKED_STAKE.to_string())));
    let config = json!({ "excludeNonCirculatingAccountsList": true, "commitment": "processed" });
    let supply = client.result("getSupply", json!([config]));
    assert_eq!(supply["value"]["nonCirculatingAccounts"], json!([]));
    assert_eq!(supply["context"]["slot"], json!(102));
}

/// Agave lists the addresses of its source on every cluster, even without an account.
#[test]
fn the_supply_lists_the_addresses_in_agaves_source() {
    let world = SolanaNode::new();
    let supply = world.client().result("getSupply", json!([]));
    let listed = supply["value"]["nonCirculatingAccounts"].as_array().expect("a list");
    assert_eq!(listed.len(), 214 + 1);
    for address in [
        "9huDUZfxoJ7wGMTffUE7vh1xePqef7gyrLJu9NApncqA",
        "73Aa7yCd6AMPqsaLisfgrpjESVFtDrLnHEjfDsXBK3HV",
    ] {
        assert!(listed.contains(&json!(address)), "{address}");
    }
}

#[test]
fn the_richest_come_first() {
    let world = SolanaNode::new();
    let mut client = world.client();
    let mut richest = |config: Value| {
        let result = client.result("getLargestAccounts", json!([config]));
        let accounts = result["value"].as_array().expect("a list").clone();
        accounts
            .into_iter()
            .map(|it| {
                (it["address"].as_str().unwrap_or_default().to_owned(), it["lamports"].as_u64())
            })
            .collect::<Vec<_>>()
    };
    let all = richest(json!(null));
    let of = |pubkey: solana_pubkey::Pubkey, sol| (pubkey.to_string(), Some(sol * SOL));
    assert_eq!(
        all[..4],
        [of(FREE_STAKE, 8), of(LOCKED_STAKE, 7), of(OTHER_WALLET, 4), of(WALLET, 1)]
    );
    assert_eq!(all.len(), 13);
    assert_eq!(richest(json!({ "filter": "nonCirculating" })), [of(LOCKED_STAKE, 7)]);
    let circulating = richest(json!({ "filter": "circulating", "commitment": "processed" }));
    assert_eq!(circulating[..3], [of(FREE_STAKE, 8), of(OTHER_WALLET, 4), of(WALLET, 3)]);
}
