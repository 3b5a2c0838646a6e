//! getSupply and getLargestAccounts: stake that does not circulate because of its withdrawer.

use serde_json::{Value, json};
use solana_signer::Signer;

use super::world::{FINALIZED, World, keypair};

#[test]
fn stake_of_the_withdrawers_in_agaves_source_does_not_circulate() {
    let world = World::new();
    let named = keypair(53).pubkey().to_string();
    let supply = world.value(FINALIZED, "getSupply", json!([]));
    assert_eq!(supply["nonCirculating"], 1_000_000);
    let listed = supply["nonCirculatingAccounts"].as_array().expect("a list");
    assert!(listed.contains(&json!(named)), "{listed:?}");
    let largest = |filter: &str| -> Vec<Value> {
        let config = json!([{ "filter": filter }]);
        let all = world.value(FINALIZED, "getLargestAccounts", config);
        all.as_array().expect("a list").iter().map(|it| it["address"].clone()).collect()
    };
    assert_eq!(largest("nonCirculating"), [json!(named)]);
    assert!(!largest("circulating").contains(&json!(named)));
}
