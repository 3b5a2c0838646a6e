//! Parses the usual config objects in one pass.
//!
//! Agave's types have the commitment as `#[serde(flatten)]`, for which serde first copies the whole object. A
//! valid config is parsed here into the same types. Any other is parsed as usual, with the messages of Agave.
//! Invariant: both parsers return the same for any config that is parsed here.

use std::fmt;
use std::marker::PhantomData;

use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use ledger::Slot;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use solana_account_decoder_client_types::{UiAccountEncoding, UiDataSliceConfig};
use solana_commitment_config::{CommitmentConfig, CommitmentLevel};
use solana_rpc_client_types::config::{RpcAccountInfoConfig, RpcContextConfig};

/// `[config]`, which is optional.
pub(crate) fn context(params: Params<'_>) -> Result<Option<RpcContextConfig>, RpcError> {
    if params.text().is_none_or(|text| text == "[]") {
        return Ok(None);
    }
    match params.parse_fast::<(Option<ObjectOnly<Context>>,)>(0) {
        Some((config,)) => Ok(config.map(Into::into)),
        None => params.parse::<(Option<RpcContextConfig>,)>(0).map(|(config,)| config),
    }
}

/// `[key, config]`, of which the config is optional.
pub(crate) fn key_and_context(
    params: Params<'_>,
) -> Result<(String, Option<RpcContextConfig>), RpcError> {
    match params.parse_fast::<(String, Option<ObjectOnly<Context>>)>(1) {
        Some((key, config)) => Ok((key, config.map(Into::into))),
        None => params.parse(1),
    }
}

/// `[key or keys, config]`, of which the config is optional.
pub(crate) fn keys_and_account_config<K: DeserializeOwned>(
    params: Params<'_>,
) -> Result<(K, Option<RpcAccountInfoConfig>), RpcError> {
    match params.parse_fast::<(K, Option<ObjectOnly<Account>>)>(1) {
        Some((keys, config)) => Ok((keys, config.map(Into::into))),
        None => params.parse(1),
    }
}

/// The members of [`RpcContextConfig`].
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    commitment: Option<CommitmentLevel>,
    min_context_slot: Option<Slot>,
}

/// The members of [`RpcAccountInfoConfig`].
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Account {
    encoding: Option<UiAccountEncoding>,
    data_slice: Option<UiDataSliceConfig>,
    commitment: Option<CommitmentLevel>,
    min_context_slot: Option<Slot>,
}

/// Accepts only an object: a struct alone would accept an array, too.
struct ObjectOnly<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ObjectOnly<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_map(Object(PhantomData)).map(Self)
    }
}

fn commitment(level: Option<CommitmentLevel>) -> Option<CommitmentConfig> {
    level.map(|commitment| CommitmentConfig { commitment })
}

impl From<ObjectOnly<Context>> for RpcContextConfig {
    fn from(ObjectOnly(config): ObjectOnly<Context>) -> Self {
        let Context { commitment: level, min_context_slot } = config;
        Self { commitment: commitment(level), min_context_slot }
    }
}

impl From<ObjectOnly<Account>> for RpcAccountInfoConfig {
    fn from(ObjectOnly(config): ObjectOnly<Account>) -> Self {
        let Account { encoding, data_slice, commitment: level, min_context_slot } = config;
        Self { encoding, data_slice, commitment: commitment(level), min_context_slot }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both parsers must return the same; returns whether the fast one parsed the config.
    fn check(config: &str) -> bool {
        let text = format!(r#"["key",{config}]"#);
        let params = Params::new(Some(&text));
        assert_eq!(
            key_and_context(params),
            params.parse::<(String, Option<RpcContextConfig>)>(1),
            "{text}"
        );
        assert_eq!(
            keys_and_account_config::<String>(params),
            params.parse::<(String, Option<RpcAccountInfoConfig>)>(1),
            "{text}"
        );
        let alone = format!("[{config}]");
        let alone = Params::new(Some(&alone));
        let parsed = alone.parse::<(Option<RpcContextConfig>,)>(0).map(|(config,)| config);
        assert_eq!(context(alone), parsed, "{config}");
        params.parse_fast::<(String, Option<ObjectOnly<Account>>)>(1).is_some()
    }

    #[test]
    fn both_parsers_agree_on_configs() {
        for config in [
            "null",
            "{}",
            r#"{"encoding":"base64"}"#,
            r#"{"encoding":"base64+zstd","commitment":"processed","minContextSlot":7}"#,
            r#"{"dataSlice":{"offset":1,"length":2},"commitment":null,"more":[{}]}"#,
            r#"{"commitment":"confirmed","minContextSlot":null}"#,
        ] {
            assert!(check(config), "{config}");
        }
        for config in [
            "[]",
            "7",
            r#"["base64"]"#,
            r#"{"commitment":"bogus"}"#,
            r#"{"commitment":7}"#,
            r#"{"commitment":"processed","commitment":"confirmed"}"#,
            r#"{"encoding":"base65"}"#,
            r#"{"minContextSlot":-1}"#,
            r#"{"dataSlice":{"offset":1}}"#,
        ] {
            assert!(!check(config), "{config}");
        }
        for text in ["[]", "null", "{}", "[1,2,3]", r#"["a",null,1]"#] {
            let params = Params::new(Some(text));
            let parsed = params.parse::<(Option<RpcContextConfig>,)>(0).map(|(config,)| config);
            assert_eq!(context(params), parsed);
            assert_eq!(key_and_context(params), params.parse(1));
        }
        assert_eq!(context(Params::default()), Ok(None));
    }
}
