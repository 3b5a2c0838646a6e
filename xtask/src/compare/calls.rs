//! The calls: every method, with systematic variants of parameters, encodings and commitments, with bad parameters, and
//! in batches.

use serde_json::{Value, json};

use crate::compare::genesis::{
    ABSENT, DATA, EMPTY, FROZEN, MINT, MINT_2022, MULTISIG, PROGRAMS, TOKENS, TOKENS_2022,
};
use crate::compare::keys::{
    CLOCK, MEMO, RENT, STAKE, SYSTEM, TOKEN, TOKEN_2022, VOTE, address, plain_address,
};
use crate::compare::nodes::ComparedNodes;

/// A request's body, and a name that starts with the method.
pub(crate) struct Question {
    pub(crate) name: String,
    pub(crate) body: String,
}

const COMMITMENTS: [&str; 3] = ["processed", "confirmed", "finalized"];
const ENCODINGS: [&str; 4] = ["base58", "base64", "base64+zstd", "jsonParsed"];
const TX_ENCODINGS: [&str; 4] = ["json", "jsonParsed", "base58", "base64"];

/// Methods without parameters of their own.
const PLAIN_METHODS: [&str; 14] = [
    "getHealth",
    "getVersion",
    "getIdentity",
    "getGenesisHash",
    "getEpochSchedule",
    "getClusterNodes",
    "getFirstAvailableBlock",
    "minimumLedgerSlot",
    "getHighestSnapshotSlot",
    "getMaxRetransmitSlot",
    "getMaxShredInsertSlot",
    "getInflationRate",
    "getRecentPerformanceSamples",
    "getRecentPrioritizationFees",
];

/// Methods that take a commitment and a minimum slot, and no other parameter.
const STATE_METHODS: [&str; 13] = [
    "getSlot",
    "getBlockHeight",
    "getTransactionCount",
    "getLatestBlockhash",
    "getEpochInfo",
    "getSlotLeader",
    "getVoteAccounts",
    "getSupply",
    "getLargestAccounts",
    "getInflationGovernor",
    "getStakeMinimumDelegation",
    "getBlockProduction",
    "getRecentBlockhash",
];

/// Parameters that no method takes.
const BAD_PARAMS: [&str; 12] = [
    "null",
    "{}",
    "\"text\"",
    "[null]",
    "[1]",
    "[\"\"]",
    "[\"not base58 0OIl\"]",
    "[[]]",
    "[{}]",
    "[{\"commitment\":\"recent\"}]",
    "[{\"commitment\":5}]",
    "[\"11111111111111111111111111111111\",{\"encoding\":\"none\"},1,2,3]",
];

/// Methods with parameters of their own, for bad ones.
const METHODS: [&str; 31] = [
    "getAccountInfo",
    "getBalance",
    "getMultipleAccounts",
    "getProgramAccounts",
    "getTokenAccountBalance",
    "getTokenSupply",
    "getTokenLargestAccounts",
    "getTokenAccountsByOwner",
    "getTokenAccountsByDelegate",
    "getBlock",
    "getBlockTime",
    "getBlocks",
    "getBlocksWithLimit",
    "getBlockCommitment",
    "getTransaction",
    "getSignaturesForAddress",
    "getSignatureStatuses",
    "getFeeForMessage",
    "getMinimumBalanceForRentExemption",
    "getLeaderSchedule",
    "getSlotLeaders",
    "getInflationReward",
    "isBlockhashValid",
    "sendTransaction",
    "simulateTransaction",
    "requestAirdrop",
    "getSlot",
    "getEpochInfo",
    "getSupply",
    "getVersion",
    "getHealth",
];

/// Returns the questions about all methods, with those about landed transactions.
pub(crate) fn questions(nodes: &ComparedNodes) -> Vec<Question> {
    let mut all = Questions::default();
    all.add_node();
    all.add_accounts();
    all.add_programs();
    all.add_tokens();
    all.add_history(&nodes.validator.slots);
    all.add_transactions();
    all.add_bad();
    all.add_envelopes();
    all.0
}

#[derive(Default)]
struct Questions(Vec<Question>);

impl Questions {
    fn add(&mut self, method: &str, variant: &str, params: Value) {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.add_body(&format!("{method} {variant}"), &body.to_string());
    }

    fn add_body(&mut self, name: &str, body: &str) {
        self.0.push(Question { name: name.to_owned(), body: body.to_owned() });
    }

    fn add_node(&mut self) {
        for method in PLAIN_METHODS {
            self.add(method, "", json!([]));
        }
        for method in STATE_METHODS {
            self.add(method, "default", json!([]));
            for commitment in COMMITMENTS {
                self.add(method, commitment, json!([{ "commitment": commitment }]));
            }
            self.add(method, "unreached", json!([{ "minContextSlot": 1_000_000_000_u64 }]));
        }
        for size in [0_u64, 1, 82, 165, 10_000_000] {
            self.add("getMinimumBalanceForRentExemption", "size", json!([size]));
        }
        for slot in [json!(null), json!(0), json!(1_000_000_000_u64)] {
            self.add("getLeaderSchedule", "slot", json!([slot]));
            let identity = json!({ "identity": address(0) });
            self.add("getLeaderSchedule", "identity", json!([slot, identity]));
        }
        for limit in [0_u64, 1, 10, 5_000, 5_001] {
            self.add("getSlotLeaders", "limit", json!([0, limit]));
        }
        let supply = json!({ "excludeNonCirculatingAccountsList": true });
        self.add("getSupply", "without the list", json!([supply]));
        for filter in ["circulating", "nonCirculating", "other"] {
            self.add("getLargestAccounts", filter, json!([{ "filter": filter }]));
        }
        for addresses in [json!([]), json!([address(0)]), json!([address(0), VOTE])] {
            self.add("getInflationReward", "", json!([addresses]));
            self.add("getInflationReward", "epoch", json!([addresses, { "epoch": 0 }]));
        }
        self.add("isBlockhashValid", "known", json!(["$BLOCKHASH"]));
        for commitment in COMMITMENTS {
            let config = json!({ "commitment": commitment });
            self.add("isBlockhashValid", commitment, json!(["$BLOCKHASH", config]));
            self.add("isBlockhashValid", "unknown", json!([plain_address(ABSENT), config]));
        }
        for count in [0_u64, 1, 720, 721] {
            self.add("getRecentPerformanceSamples", "limit", json!([count]));
        }
        for accounts in [json!([]), json!([address(0)]), json!([address(0), TOKEN])] {
            self.add("getRecentPrioritizationFees", "accounts", json!([accounts]));
        }
        self.add("getVoteAccounts", "one", json!([{ "votePubkey": plain_address(ABSENT) }]));
    }

    fn add_accounts(&mut self) {
        let addresses = [
            address(0),
            address(1),
            plain_address(MINT),
            plain_address(MINT_2022),
            plain_address(FROZEN),
            plain_address(MULTISIG),
            plain_address(DATA),
            plain_address(EMPTY),
            plain_address(TOKENS),
            plain_address(TOKENS_2022 + 1),
            plain_address(PROGRAMS[0]),
            plain_address(ABSENT),
            SYSTEM.to_owned(),
            TOKEN.to_owned(),
            CLOCK.to_owned(),
            RENT.to_owned(),
        ];
        for account in &addresses {
            self.add("getAccountInfo", &format!("{account} default"), json!([account]));
            self.add("getBalance", "default", json!([account]));
            for commitment in COMMITMENTS {
                let config = json!({ "commitment": commitment });
                self.add("getBalance", commitment, json!([account, config]));
                for encoding in ENCODINGS {
                    let config = json!({ "commitment": commitment, "encoding": encoding });
                    let variant = format!("{account} {encoding} {commitment}");
                    self.add("getAccountInfo", &variant, json!([account, config]));
                }
            }
            for (offset, length) in [(0, 8), (4, 0), (160, 100), (1_000_000, 5)] {
                let slice = json!({ "offset": offset, "length": length });
                let config = json!({ "encoding": "base64", "dataSlice": slice });
                self.add("getAccountInfo", &format!("{account} slice"), json!([account, config]));
            }
        }
        let lists = [&addresses[..0], &addresses[..1], &addresses[..8], &addresses[..]];
        for list in lists {
            for encoding in ENCODINGS {
                let config = json!({ "encoding": encoding });
                self.add("getMultipleAccounts", encoding, json!([list, config]));
            }
            for commitment in COMMITMENTS {
                let config = json!({ "commitment": commitment, "encoding": "base64" });
                self.add("getMultipleAccounts", commitment, json!([list, config]));
            }
        }
        let many: Vec<String> = (0..101).map(|_| address(0)).collect();
        self.add("getMultipleAccounts", "too many", json!([many]));
    }

    fn add_programs(&mut self) {
        let filters = [
            json!([]),
            json!([{ "dataSize": 165 }]),
            json!([{ "dataSize": 82 }]),
            json!([{ "memcmp": { "offset": 32, "bytes": address(1) } }]),
            json!([{ "memcmp": { "offset": 0, "bytes": plain_address(MINT) } }, { "dataSize": 165 }]),
            json!([{ "memcmp": { "offset": 108, "bytes": "Ag==", "encoding": "base64" } }]),
            json!([{ "memcmp": { "offset": 0, "bytes": "0OIl" } }]),
            json!([{ "dataSize": 1 }, { "dataSize": 2 }, { "dataSize": 3 }, { "dataSize": 4 }, { "dataSize": 5 }]),
            json!([{ "tokenAccountState": null }]),
            json!([{ "other": 1 }]),
        ];
        for program in [TOKEN, TOKEN_2022, STAKE, MEMO] {
            for filter in &filters {
                for encoding in ["base64", "jsonParsed"] {
                    let config =
                        json!({ "encoding": encoding, "filters": filter, "withContext": true });
                    let variant = format!("{program} {encoding}");
                    self.add("getProgramAccounts", &variant, json!([program, config]));
                }
            }
            let sorted = json!({ "encoding": "base64", "sortResults": true });
            self.add("getProgramAccounts", &format!("{program} sorted"), json!([program, sorted]));
            let slice = json!({ "offset": 0, "length": 4 });
            let config = json!({ "encoding": "base64", "dataSlice": slice });
            self.add("getProgramAccounts", &format!("{program} slice"), json!([program, config]));
        }
    }

    fn add_tokens(&mut self) {
        for number in [MINT, MINT_2022, TOKENS, TOKENS_2022, FROZEN, DATA, ABSENT] {
            let account = plain_address(number);
            for method in ["getTokenAccountBalance", "getTokenSupply", "getTokenLargestAccounts"] {
                self.add(method, "default", json!([account]));
                for commitment in COMMITMENTS {
                    let config = json!({ "commitment": commitment });
                    self.add(method, commitment, json!([account, config]));
                }
            }
        }
        let filters = [
            json!({ "programId": TOKEN }),
            json!({ "programId": TOKEN_2022 }),
            json!({ "programId": SYSTEM }),
            json!({ "mint": plain_address(MINT) }),
            json!({ "mint": plain_address(MINT_2022) }),
            json!({ "mint": plain_address(ABSENT) }),
            json!({}),
        ];
        for owner in [address(0), address(1), plain_address(ABSENT)] {
            for filter in &filters {
                for method in ["getTokenAccountsByOwner", "getTokenAccountsByDelegate"] {
                    for encoding in ["base64", "jsonParsed"] {
                        let config = json!({ "encoding": encoding });
                        self.add(method, encoding, json!([owner, filter, config]));
                    }
                }
            }
        }
    }

    /// Adds questions about transactions that landed: their blocks, and their status by signature.
    fn add_history(&mut self, slots: &[Option<u64>]) {
        let landed = |number: &usize| slots.get(*number).is_some_and(Option::is_some);
        let numbers: Vec<usize> = (0..slots.len()).collect();
        for number in numbers.iter().filter(|number| landed(number) && **number % 3 == 0) {
            let signature = format!("$SIGNATURE{number}");
            for encoding in TX_ENCODINGS {
                let config = json!({ "encoding": encoding, "maxSupportedTransactionVersion": 0 });
                self.add("getTransaction", encoding, json!([signature, config]));
            }
        }
        for number in &numbers {
            let search = json!({ "searchTransactionHistory": true });
            let signatures = json!([format!("$SIGNATURE{number}")]);
            self.add("getSignatureStatuses", "one", json!([signatures, search]));
        }
        for number in numbers.iter().filter(|number| landed(number)).step_by(40) {
            let slot = format!("$SLOT{number}");
            self.add("getBlockTime", "landed", json!([slot]));
            self.add("getBlockCommitment", "landed", json!([slot]));
            self.add("getBlocksWithLimit", "landed", json!([slot, 1]));
            let config = json!({ "transactionDetails": "none", "rewards": true });
            self.add("getBlock", "none", json!([slot, config]));
        }
        for slot in [json!(1_000_000_000_u64), json!(-1), json!("1"), json!(null), json!(1.5)] {
            for method in ["getBlock", "getBlockTime", "getBlockCommitment"] {
                self.add(method, "odd slot", json!([slot]));
            }
            self.add("getBlocks", "odd slot", json!([slot, 5]));
            self.add("getBlocksWithLimit", "odd slot", json!([slot, 5]));
        }
        let recent = json!({ "commitment": "processed" });
        self.add("getBlock", "processed", json!([0, recent]));
        self.add("getBlocks", "too many", json!([0, 500_001]));
        self.add("getBlocksWithLimit", "too many", json!([0, 500_001]));
        for account in [address(0), address(3), plain_address(MINT), plain_address(ABSENT)] {
            for limit in [1, 5, 1_000] {
                let config = json!({ "limit": limit });
                self.add("getSignaturesForAddress", "limit", json!([account, config]));
            }
            for limit in [0, 1_001] {
                let config = json!({ "limit": limit });
                self.add("getSignaturesForAddress", "bad limit", json!([account, config]));
            }
            let before = json!({ "before": "$SIGNATURE30", "limit": 10 });
            self.add("getSignaturesForAddress", "before", json!([account, before]));
            let until = json!({ "until": "$SIGNATURE100", "limit": 10 });
            self.add("getSignaturesForAddress", "until", json!([account, until]));
        }
    }

    fn add_transactions(&mut self) {
        let signature = |bytes: &str| json!([bytes]);
        for text in ["", "1", "not base58 0OIl", &"1".repeat(64), &"2".repeat(88)] {
            self.add("getTransaction", "odd signature", signature(text));
            self.add("getSignatureStatuses", "odd signature", json!([[text]]));
            self.add("sendTransaction", "odd text", json!([text]));
            self.add("sendTransaction", "odd base64", json!([text, { "encoding": "base64" }]));
            self.add("simulateTransaction", "odd text", json!([text]));
            let base64 = json!({ "encoding": "base64" });
            self.add("simulateTransaction", "odd base64", json!([text, base64]));
            self.add("getFeeForMessage", "odd message", json!([text]));
        }
        let many: Vec<String> = (0..257).map(|_| "1".repeat(64)).collect();
        self.add("getSignatureStatuses", "too many", json!([many]));
        for lamports in [json!(0), json!(1), json!(-1), json!("1")] {
            self.add("requestAirdrop", "amount", json!([plain_address(120), lamports]));
        }
    }

    fn add_bad(&mut self) {
        for method in METHODS {
            for params in BAD_PARAMS {
                let body =
                    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
                self.add_body(&format!("{method} bad {params}"), &body);
            }
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
            self.add_body(&format!("{method} without params"), &body);
        }
    }

    fn add_envelopes(&mut self) {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"getVersion"}"#;
        let bodies = [
            "",
            "{",
            "[]",
            "{}",
            "1",
            "null",
            "\"text\"",
            "[1]",
            "[[]]",
            r#"{"jsonrpc":"1.0","id":1,"method":"getVersion"}"#,
            r#"{"id":1,"method":"getVersion"}"#,
            r#"{"jsonrpc":"2.0","method":"getVersion"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"getVersion"}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":"getVersion"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"getVersion"}"#,
            r#"{"jsonrpc":"2.0","id":[],"method":"getVersion"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"noSuchMethod"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"getVersion","params":[]} x"#,
        ];
        for body in bodies {
            self.add_body(&format!("envelope {body}"), body);
        }
        for body in [
            format!("[{call}]"),
            format!("[{call},{call}]"),
            format!("[{call},1,{{}}]"),
            format!("[{call},{{\"jsonrpc\":\"2.0\",\"method\":\"getVersion\"}}]"),
            format!("[{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no\"}},{call}]"),
        ] {
            self.add_body("batch", &body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_a_thousand_calls_and_each_names_its_method() {
        let mut all = Questions::default();
        all.add_node();
        all.add_accounts();
        all.add_programs();
        all.add_tokens();
        all.add_history(&[Some(5); 200]);
        all.add_transactions();
        all.add_bad();
        all.add_envelopes();
        assert!(all.0.len() > 1_000, "{}", all.0.len());
        let is_named = |it: &&Question| {
            let method = it.name.split(' ').next().unwrap_or_default();
            it.body.contains(method) || matches!(method, "envelope" | "batch")
        };
        assert!(all.0.iter().all(|it| is_named(&it)));
    }
}
