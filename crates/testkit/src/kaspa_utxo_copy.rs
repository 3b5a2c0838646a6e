//! The copy that a client of `addressesSubscribe` makes of its UTXOs, from notifications only.
//!
//! Invariant: each notification must fit: an added UTXO is not in the copy, a removed one is, as it was added.
//! Not here: connections, and the UTXO set that the copy is compared with.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// UTXOs by outpoint. Both are as they are in JSON.
pub type Utxos = BTreeMap<String, Value>;

/// The part of a client's state that outlives its connection.
#[derive(Clone, Debug, Default)]
pub struct UtxoCopy {
    /// The UTXOs of all addresses.
    pub utxos: Utxos,
    /// The position of the last notification that ended a change, or of the last reply.
    pub position: Value,
    /// The kinds of the notifications so far.
    pub kinds: Vec<String>,
    /// The number of complete snapshots.
    pub snapshots: usize,
}

/// Returns the key of a UTXO in [`Utxos`].
pub fn outpoint_key(utxo: &Value) -> String {
    utxo["outpoint"].to_string()
}

impl UtxoCopy {
    /// Returns the parameters of `addressesSubscribe`: with a snapshot at first, then from the position of the copy.
    pub fn subscribe_params(&self, addresses: Value) -> Value {
        if self.position.is_null() {
            json!({ "addresses": addresses, "snapshot": true })
        } else {
            json!({ "addresses": addresses, "resume": self.position })
        }
    }

    /// Applies the parameters of a notification.
    ///
    /// Errors: it does not fit, or it is malformed.
    pub fn apply(&mut self, params: &Value) -> Result<(), String> {
        for utxo in read_list(params, "removed")? {
            if self.utxos.remove(&outpoint_key(utxo)).as_ref() != Some(utxo) {
                return Err(format!("it is removed and not in the copy: {utxo}"));
            }
        }
        for utxo in read_list(params, "added")? {
            if self.utxos.insert(outpoint_key(utxo), utxo.clone()).is_some() {
                return Err(format!("it is added twice: {utxo}"));
            }
        }
        let kind = params["kind"].as_str().ok_or("a notification without a kind")?;
        self.kinds.push(kind.to_owned());
        if params["more"] == json!(false) {
            self.position = params["position"].clone();
            self.snapshots += usize::from(kind == "snapshot");
        }
        Ok(())
    }
}

fn read_list<'a>(params: &'a Value, name: &str) -> Result<&'a [Value], String> {
    let list = params[name].as_array().ok_or_else(|| format!("no list {name}: {params}"))?;
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification(kind: &str, added: &[u32], removed: &[u32], more: bool) -> Value {
        let utxo = |index: &u32| json!({ "outpoint": { "index": index }, "utxoEntry": {} });
        let [added, removed] =
            [added, removed].map(|indices| indices.iter().map(utxo).collect::<Vec<Value>>());
        json!({ "kind": kind, "added": added, "removed": removed, "more": more, "position": kind })
    }

    #[test]
    fn a_notification_that_does_not_fit_is_refused() {
        let mut copy = UtxoCopy::default();
        assert_eq!(copy.subscribe_params(json!([]))["snapshot"], json!(true));
        assert_eq!(copy.apply(&notification("snapshot", &[1], &[], true)), Ok(()));
        assert_eq!((copy.snapshots, &copy.position), (0, &Value::Null));
        assert_eq!(copy.apply(&notification("snapshot", &[2], &[], false)), Ok(()));
        assert_eq!(copy.apply(&notification("update", &[3], &[1], false)), Ok(()));
        assert_eq!((copy.snapshots, copy.utxos.len()), (1, 2));
        assert_eq!(copy.subscribe_params(json!([]))["resume"], json!("update"));
        assert!(copy.clone().apply(&notification("update", &[], &[1], false)).is_err());
        assert!(copy.apply(&notification("update", &[2], &[], false)).is_err());
    }
}
