//! Makes each node's own values in two responses equal: slots, heights, times, hashes, keys and signatures.
//!
//! Shape: where both responses have a value of the same form, such as two blockhashes, both get the same word for it.
//! All others are compared as they are. The keys of the run's genesis are the same on both and therefore never differ.
//! Invariant: a value that is missing on one side, or of another form, stays different.

use serde_json::{Map, Value};

/// Members with numbers about the time or the chain of a node.
const OWN_NUMBERS: [&str; 29] = [
    "absoluteSlot",
    "activatedStake",
    "blockHeight",
    "blockTime",
    "confirmations",
    "contextSlot",
    "currentSlot",
    "epochCredits",
    "firstSlot",
    "fullSnapshotSlot",
    "highestSnapshotSlot",
    "lastSlot",
    "lastValidBlockHeight",
    "lastVote",
    "numNonVoteTransactions",
    "numSlots",
    "numTransactions",
    "parent",
    "parentSlot",
    "root",
    "rootSlot",
    "samplePeriodSecs",
    "slot",
    "slotIndex",
    "subscription",
    "timestamp",
    "totalStake",
    "transactionCount",
    "transactionIndex",
];

/// Makes the own values of two responses equal. `key` is the name of their member.
pub(crate) fn align(key: &str, theirs: &mut Value, ours: &mut Value) {
    match (theirs, ours) {
        (Value::Object(one), Value::Object(two)) => {
            rename_own_keys(one, two);
            for (key, one) in one.iter_mut() {
                if let Some(two) = two.get_mut(key) {
                    align(key, one, two);
                }
            }
        }
        (Value::Array(one), Value::Array(two)) if one.len() == two.len() => {
            one.iter_mut().zip(two).for_each(|(one, two)| align(key, one, two));
        }
        (one @ Value::Number(_), two @ Value::Number(_))
            if OWN_NUMBERS.contains(&key) || key == OWN_KEY =>
        {
            (*one, *two) = ("<own number>".into(), "<own number>".into());
        }
        (Value::String(one), Value::String(two)) if one != two => {
            let words = (own_words(one), own_words(two));
            if words.0 == words.1 {
                (*one, *two) = words;
            }
        }
        _ => {}
    }
}

/// The word for a member that is named by a node's own key.
const OWN_KEY: &str = "<own key>";

/// Renames the member that is named by a node's own key, such as its identity, to the same name in both.
fn rename_own_keys(one: &mut Map<String, Value>, two: &mut Map<String, Value>) {
    let find = |members: &Map<String, Value>, others: &Map<String, Value>| {
        let is_own = |key: &&String| own_word(key) == Some("<key>") && !others.contains_key(*key);
        members.keys().find(is_own).cloned()
    };
    if let (Some(first), Some(second)) = (find(one, two), find(two, one)) {
        let values = one.remove(&first).zip(two.remove(&second));
        if let Some((first, second)) = values {
            one.insert(OWN_KEY.to_owned(), first);
            two.insert(OWN_KEY.to_owned(), second);
        }
    }
}

/// Replaces keys, signatures, and numbers of at least two digits by words.
fn own_words(text: &str) -> String {
    let is_inside = |letter: char| letter.is_ascii_alphanumeric();
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|letter| !is_inside(letter)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        words.push_str(own_word(word).unwrap_or(word));
        let between = after.find(is_inside).unwrap_or(after.len());
        words.push_str(&after[..between]);
        rest = &after[between..];
    }
    words
}

fn own_word(word: &str) -> Option<&'static str> {
    if word.len() >= 2 && word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some("<number>");
    }
    let bytes = || bs58::decode(word).into_vec().map_or(0, |bytes| bytes.len());
    match word.len() {
        32..=44 if bytes() == 32 => Some("<key>"),
        64..=88 if bytes() == 64 => Some("<signature>"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_aligned(mut theirs: Value, mut ours: Value) -> bool {
        align("", &mut theirs, &mut ours);
        theirs == ours
    }

    #[test]
    fn own_values_with_equal_form_are_equal() {
        let one = bs58::encode([1; 32]).into_string();
        let two = bs58::encode([2; 32]).into_string();
        let response = |slot: u64, hash: &str, message: &str| json!({ "context": { "slot": slot }, "value": [{ "blockhash": hash }], "message": message });
        let first = response(7, &one, "Slot 123 was skipped");
        assert!(is_aligned(first.clone(), response(8, &two, "Slot 4567 was skipped")));
        assert!(!is_aligned(first.clone(), response(8, "x", "Slot 4567 was skipped")));
        assert!(!is_aligned(first, response(8, &two, "Slot 4567 is missing")));
        assert!(!is_aligned(json!({ "slot": 1 }), json!({ "slot": null })));
        assert!(!is_aligned(json!({ "lamports": 1 }), json!({ "lamports": 2 })));
        assert!(!is_aligned(json!({ "slot": 1 }), json!({})));
    }
}
