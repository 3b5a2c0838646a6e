//! The entry of a key in a file of keys.

use api_keys::KeyHash;

pub(super) fn entry(name: &str, key: &str, tier: &str) -> String {
    let hash = KeyHash::of_key(key.as_bytes());
    format!("[[keys]]\nname = \"{name}\"\nsha256 = \"{hash}\"\ntier = \"{tier}\"\n")
}
