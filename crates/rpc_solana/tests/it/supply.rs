//! getSupply, getLargestAccounts.

use serde_json::{Value, json};

use crate::world::{CAPITALIZATION, FREE_STAKE, LOCKED_STAKE, OTHER_WALLET, SOL, WALLET, World};

#[test]
fn locked_stake_does_not_circulate() {
    let world = World::new();
    let mut client = world.client();
    let supply = client.result("getSupply", json!([]));
    assert_eq!(
        supply["value"],
        json!({
            "circulating": CAPITALIZATION - 7 * SOL,
            "nonCirculating": 7 * SOL,
            "nonCirculatingAccounts": [LOCKED_STAKE.to_string()],
            "total": CAPITALIZATION,
        })
    );
    let config = json!({ "excludeNonCirculatingAccountsList": true, "commitment": "processed" });
    let supply = client.result("getSupply", json!([config]));
    assert_eq!(supply["value"]["nonCirculatingAccounts"], json!([]));
    assert_eq!(supply["context"]["slot"], json!(102));
}

#[test]
fn the_richest_come_first() {
    let world = World::new();
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
