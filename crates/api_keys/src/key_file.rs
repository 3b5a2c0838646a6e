//! The key file: TOML with tiers and keys, checked as a whole.
//!
//! In: its text. Out: [`KeyFile`], or the first error with the name of the tier or key.
//! Bounds: [`KEYS_MAX`] keys, [`TIERS_MAX`] tiers, [`TIER_METHODS_MAX`] limits of methods in a tier; lists and names
//! have bounds too.
//! Invariant: no error message has text of the file that may be a key.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use serde::Deserialize;

use crate::address_range::AddressRange;
use crate::atomic_bucket::Rate;
use crate::key_hash::KeyHash;
use crate::tier::Tier;

/// Keys of a file: about 26 MB.
pub const KEYS_MAX: usize = 100_000;
/// Maximum tiers of a file.
const TIERS_MAX: usize = 256;
/// Methods with a limit of their own in a tier: eight bytes of each key that calls one of them.
const TIER_METHODS_MAX: usize = 16;
/// Maximum entries of any other list.
const LIST_MAX: usize = 1_000;
/// Bytes of a name, which is a label in metrics.
const NAME_BYTES_MAX: usize = 64;
/// The highest rate and burst: with it, the time of one token is a nanosecond.
const RATE_MAX: u32 = 1_000_000_000;

/// A key file that was checked.
#[derive(Debug, Default)]
pub struct KeyFile {
    pub(crate) anonymous: Option<Arc<Tier>>,
    pub(crate) keys: Vec<KeyEntry>,
}

impl KeyFile {
    /// Returns the number of keys, for the log.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }
}

/// A key of the file, with its rules.
#[derive(Debug)]
pub(crate) struct KeyEntry {
    pub(crate) name: Box<str>,
    pub(crate) hash: KeyHash,
    pub(crate) tier: Arc<Tier>,
    pub(crate) rules: Option<Box<KeyRules>>,
}

/// Restrictions of the origins, addresses and identities of a key.
#[derive(Debug, Default)]
pub(crate) struct KeyRules {
    /// Origins of web pages; empty: a request needs none.
    pub(crate) origins: Box<[Box<str>]>,
    /// Addresses of clients; empty: any.
    pub(crate) addresses: Box<[AddressRange]>,
    /// Identities of QUIC clients that count as the key, as text.
    pub(crate) identities: Box<[Box<str>]>,
}

impl KeyRules {
    pub(crate) fn heap_bytes(&self) -> usize {
        let texts = self.origins.iter().chain(&*self.identities);
        let texts: usize = texts.map(|text| size_of::<Box<str>>() + text.len()).sum();
        size_of::<Self>() + texts + self.addresses.len() * size_of::<AddressRange>()
    }
}

/// Why a key file is not valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The text is not the TOML of a key file.
    #[error("line {line}: {message}")]
    Toml {
        /// Number of the line, from 1.
        line: usize,
        /// Description of the TOML error.
        message: String,
    },
    /// A list has more items than its limit.
    #[error("{count} {what}: the maximum is {limit}")]
    TooMany {
        /// The items of the list, in words.
        what: String,
        /// Number of items in the list.
        count: usize,
        /// Maximum number of items.
        limit: usize,
    },
    /// A value of a tier or key is not valid.
    #[error("{owner}: {message}")]
    Value {
        /// The tier or key, by its name.
        owner: String,
        /// Description of the invalid value.
        message: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct FileToml {
    anonymous: Option<String>,
    tiers: BTreeMap<String, TierToml>,
    keys: Vec<KeyToml>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct TierToml {
    requests_per_s: Option<u32>,
    burst: Option<u32>,
    requests_per_day: Option<u64>,
    bytes_per_s: Option<u64>,
    websocket_connections: Option<u32>,
    subscriptions: Option<u32>,
    grpc_streams: Option<u32>,
    allow: Option<Vec<String>>,
    deny: Vec<String>,
    metrics: bool,
    light: Option<RateToml>,
    medium: Option<RateToml>,
    heavy: Option<RateToml>,
    methods: BTreeMap<String, RateToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RateToml {
    requests_per_s: u32,
    burst: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyToml {
    name: String,
    sha256: String,
    tier: String,
    #[serde(default)]
    origins: Vec<String>,
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default)]
    identities: Vec<String>,
}

impl KeyFile {
    /// Parses and checks the text of a file.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let file: FileToml = toml::from_str(text).map_err(|err| FileError::Toml {
            line: line_number(text, err.span().map_or(0, |span| span.start)),
            message: without_quotations(err.message()),
        })?;
        check_count("tiers", file.tiers.len(), TIERS_MAX)?;
        check_count("keys", file.keys.len(), KEYS_MAX)?;
        let mut tiers = BTreeMap::new();
        for (name, tier) in file.tiers {
            let checked = checked_tier(&name, tier)?;
            tiers.insert(name, Arc::new(checked));
        }
        let tier_of = |owner: &str, name: &str| match tiers.get(name) {
            Some(tier) => Ok(Arc::clone(tier)),
            None => Err(value_error(owner, format!("there is no tier {name:?}"))),
        };
        let anonymous = file.anonymous.as_deref();
        let anonymous = anonymous.map(|name| tier_of("anonymous", name)).transpose()?;
        let mut keys = Vec::with_capacity(file.keys.len());
        for key in file.keys {
            let tier = tier_of(&format!("key {:?}", key.name), &key.tier)?;
            keys.push(checked_key(key, tier)?);
        }
        check_unique(&keys)?;
        Ok(Self { anonymous, keys })
    }
}

fn line_number(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// Returns a message without the values that it quotes: one may be a key in clear, in a wrong field.
fn without_quotations(message: &str) -> String {
    let parts = message.split('"').enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { part } else { "\"…\"" }).collect()
}

fn check_count(what: &str, count: usize, limit: usize) -> Result<(), FileError> {
    if count > limit {
        return Err(FileError::TooMany { what: what.to_owned(), count, limit });
    }
    Ok(())
}

fn value_error(owner: &str, message: impl Into<String>) -> FileError {
    FileError::Value { owner: owner.to_owned(), message: message.into() }
}

fn check_name(owner: &str, name: &str) -> Result<(), FileError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(());
    }
    let message = format!("a name has 1 to {NAME_BYTES_MAX} letters, digits and -_.@");
    Err(value_error(owner, message))
}

fn checked_tier(name: &str, tier: TierToml) -> Result<Tier, FileError> {
    let owner = format!("tier {name:?}");
    check_name(&owner, name)?;
    let rate = |setting: &str, rate: RateToml| {
        let burst = rate.burst.unwrap_or(rate.requests_per_s);
        let is_valid = |value| (1..=RATE_MAX).contains(&value);
        if !is_valid(rate.requests_per_s) || !is_valid(burst) {
            let message = format!(
                "{setting}requests_per_s and burst must be from 1 to {RATE_MAX}; leave them out for no limit, and \
                 use deny for none"
            );
            return Err(value_error(&owner, message));
        }
        Ok(Rate { per_s: rate.requests_per_s, burst })
    };
    let of_class = |setting, it: Option<RateToml>| it.map(|it| rate(setting, it)).transpose();
    let requests = match (tier.requests_per_s, tier.burst) {
        (Some(requests_per_s), burst) => Some(rate("", RateToml { requests_per_s, burst })?),
        (None, Some(_)) => return Err(value_error(&owner, "burst needs requests_per_s")),
        (None, None) => None,
    };
    if tier.bytes_per_s == Some(0) {
        return Err(value_error(
            &owner,
            "bytes_per_s must be at least 1; leave it out for no limit",
        ));
    }
    check_count(&format!("methods of {owner}"), tier.methods.len(), TIER_METHODS_MAX)?;
    let methods = tier.methods.into_iter().map(|(method, limit)| {
        Ok((method.clone().into_boxed_str(), rate(&format!("methods.{method}."), limit)?))
    });
    Ok(Tier {
        name: name.into(),
        requests,
        classes: [
            of_class("light.", tier.light)?,
            of_class("medium.", tier.medium)?,
            of_class("heavy.", tier.heavy)?,
        ],
        methods: methods.collect::<Result<_, FileError>>()?,
        bytes_per_s: tier.bytes_per_s,
        requests_per_day: tier.requests_per_day,
        websocket_connections: tier.websocket_connections,
        subscriptions: tier.subscriptions,
        grpc_streams: tier.grpc_streams,
        allow: tier.allow.map(|list| sort_list(&owner, "allow", list)).transpose()?,
        deny: sort_list(&owner, "deny", tier.deny)?,
        may_read_metrics: tier.metrics,
    })
}

fn sort_list(owner: &str, setting: &str, list: Vec<String>) -> Result<Box<[Box<str>]>, FileError> {
    check_count(&format!("entries in {setting} of {owner}"), list.len(), LIST_MAX)?;
    let sorted: BTreeSet<Box<str>> = list.into_iter().map(String::into_boxed_str).collect();
    Ok(sorted.into_iter().collect())
}

fn checked_key(key: KeyToml, tier: Arc<Tier>) -> Result<KeyEntry, FileError> {
    let owner = format!("key {:?}", key.name);
    check_name(&owner, &key.name)?;
    let hash = key
        .sha256
        .parse::<KeyHash>()
        .map_err(|err| value_error(&owner, format!("sha256: {err}")))?;
    for (setting, list) in
        [("origins", &key.origins), ("addresses", &key.addresses), ("identities", &key.identities)]
    {
        check_count(&format!("entries in {setting} of {owner}"), list.len(), LIST_MAX)?;
    }
    let range = |text: &String| {
        text.parse::<AddressRange>()
            .map_err(|err| value_error(&owner, format!("addresses: {text:?}: {err}")))
    };
    let has_rules = [&key.origins, &key.addresses, &key.identities].iter().any(|it| !it.is_empty());
    let boxed = |list: Vec<String>| list.into_iter().map(String::into_boxed_str).collect();
    let rules = KeyRules {
        addresses: key.addresses.iter().map(range).collect::<Result<_, _>>()?,
        origins: boxed(key.origins),
        identities: boxed(key.identities),
    };
    let rules = has_rules.then(|| Box::new(rules));
    Ok(KeyEntry { name: key.name.into(), hash, tier, rules })
}

fn check_unique(keys: &[KeyEntry]) -> Result<(), FileError> {
    let mut names = HashSet::new();
    let mut hashes = HashSet::new();
    let mut identities = HashSet::new();
    for key in keys {
        let owner = || format!("key {:?}", key.name);
        if !names.insert(&key.name) {
            return Err(value_error(&owner(), "this name is there twice"));
        }
        if !hashes.insert(key.hash.prefix()) {
            return Err(value_error(&owner(), "another key has the same sha256"));
        }
        for identity in key.rules.iter().flat_map(|rules| &*rules.identities) {
            if !identities.insert(identity) {
                return Err(value_error(&owner(), "another key has one of its identities"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[track_caller]
    fn refusal(text: &str) -> String {
        KeyFile::parse(text).expect_err("it is not valid").to_string()
    }

    #[test]
    fn a_whole_file_is_read() {
        let text = format!(
            "anonymous = \"free\"\n[tiers.free]\nrequests_per_s = 10\nburst = 20\nrequests_per_day = 1000\n\
             deny = [\"getProgramAccounts\", \"a\"]\n[tiers.free.heavy]\nrequests_per_s = 1\n\
             [tiers.free.methods.getBlock]\nrequests_per_s = 2\nburst = 4\n[tiers.open]\nmetrics = true\n\
             allow = [\"getSlot\"]\n\
             [[keys]]\nname = \"alice\"\nsha256 = \"{HASH}\"\ntier = \"open\"\norigins = [\"https://a.example\"]\n\
             addresses = [\"10.0.0.0/8\"]\n"
        );
        let file = KeyFile::parse(&text).expect("it is valid");
        let free = file.anonymous.as_deref().expect("a tier");
        assert_eq!(free.requests, Some(Rate { per_s: 10, burst: 20 }));
        assert_eq!(free.classes, [None, None, Some(Rate { per_s: 1, burst: 1 })]);
        assert_eq!(free.method_rate("getBlock"), Some((0, Rate { per_s: 2, burst: 4 })));
        assert!(free.denies("getProgramAccounts") && free.denies("a") && !free.denies("getSlot"));
        let [alice] = &file.keys[..] else { panic!("one key: {:?}", file.keys) };
        assert!(alice.tier.may_read_metrics && alice.tier.denies("a"));
        assert!(!alice.tier.denies("getSlot"));
        assert_eq!(KeyFile::parse("").expect("no key is valid").keys(), 0);
    }

    #[test]
    fn an_invalid_file_is_refused_with_the_wrong_tier_or_key() {
        let key = |more: &str| format!("[tiers.t]\n[[keys]]\nname = \"a\"\n{more}\n");
        let good = format!("sha256 = \"{HASH}\"\ntier = \"t\"");
        assert!(KeyFile::parse(&key(&good)).is_ok());
        for (text, expected) in [
            ("anonymous = 3".to_owned(), "line 1: "),
            ("\nnonsense".to_owned(), "line 2: "),
            ("anonymous = \"x\"".to_owned(), "anonymous: there is no tier \"x\""),
            ("[tiers.t]\nrequests = 1".to_owned(), "unknown field `requests`"),
            (
                "[tiers.t]\nrequests_per_s = 0".to_owned(),
                "tier \"t\": requests_per_s and burst must",
            ),
            ("[tiers.t]\nburst = 1".to_owned(), "tier \"t\": burst needs requests_per_s"),
            ("[tiers.t]\nbytes_per_s = 0".to_owned(), "tier \"t\": bytes_per_s must"),
            ("[tiers.t.light]\nburst = 1".to_owned(), "missing field `requests_per_s`"),
            ("[tiers.\"a b\"]".to_owned(), "tier \"a b\": a name has 1 to 64"),
            (key("tier = \"t\"\nsha256 = \"secret\""), "key \"a\": sha256: 64 hexadecimal digits"),
            (key(&format!("tier = \"u\"\nsha256 = \"{HASH}\"")), "key \"a\": there is no tier"),
            (key(&format!("{good}\naddresses = [\"x\"]")), "key \"a\": addresses: \"x\": an IP"),
            (key(&format!("{good}\n[[keys]]\nname = \"b\"\n{good}")), "key \"b\": another key"),
            (key(&format!("{good}\n[[keys]]\nname = \"a\"\n{good}")), "key \"a\": this name"),
        ] {
            let refusal = refusal(&text);
            assert!(refusal.contains(expected), "{text}: {refusal}");
            assert!(!refusal.contains("secret"), "{refusal}");
        }
        let many: String =
            (0..17).map(|at| format!("[tiers.t.methods.m{at}]\nrequests_per_s = 1\n")).collect();
        assert_eq!(refusal(&many), "17 methods of tier \"t\": the maximum is 16");
    }

    #[test]
    fn an_error_does_not_repeat_a_line_that_may_have_a_key() {
        for text in ["\nkeys = \"hyd_secret\"", "[[keys]]\nkey = \"hyd_secret\"\n"] {
            let refusal = refusal(text);
            assert!(refusal.contains("line 2: ") && !refusal.contains("hyd_"), "{refusal}");
        }
    }
}
