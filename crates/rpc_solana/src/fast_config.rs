//! Parses the usual parameters in one pass: keys, then a config object.
//!
//! Agave's types have the commitment as `#[serde(flatten)]`, for which serde first copies the whole object. Valid
//! parameters in plain JSON are parsed here into the same types. All others are parsed by serde, with the messages of
//! Agave.
//! Invariant: both parsers return the same for any parameters that are parsed here.

use std::borrow::Cow;

use jsonrpc::JsonScanner;
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use ledger::Slot;
use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, Error};
use solana_account_decoder_client_types::{UiAccountEncoding, UiDataSliceConfig};
use solana_commitment_config::{CommitmentConfig, CommitmentLevel};
use solana_rpc_client_types::config::{RpcAccountInfoConfig, RpcContextConfig};

/// Parses `[config]`, where the config is optional.
pub(crate) fn context(params: Params<'_>) -> Result<Option<RpcContextConfig>, RpcError> {
    if params.text().is_none_or(|text| text == "[]") {
        return Ok(None);
    }
    let read = || {
        let mut config = None;
        let mut scanner = JsonScanner::new(params.text()?);
        let mut count = 0;
        scanner.array(|scanner| {
            count += 1;
            config = Config::read(scanner)?;
            (count == 1).then_some(())
        })?;
        scanner.end()?;
        Some(config)
    };
    match read() {
        Some(config) => Ok(config.map(Into::into)),
        None => params.parse::<(Option<RpcContextConfig>,)>(0).map(|(config,)| config),
    }
}

/// Parses `[key, config]`, where the config is optional.
pub(crate) fn key_and_context(
    params: Params<'_>,
) -> Result<(Cow<'_, str>, Option<RpcContextConfig>), RpcError> {
    match key_and_config(params, read_key) {
        Some((key, config)) => Ok((key, config.map(Into::into))),
        None => params.parse(1),
    }
}

/// Parses `[key, config]`, where the config is optional.
pub(crate) fn key_and_account_config(
    params: Params<'_>,
) -> Result<(Cow<'_, str>, Option<RpcAccountInfoConfig>), RpcError> {
    match key_and_config(params, read_key) {
        Some((key, config)) => Ok((key, config.map(Into::into))),
        None => params.parse(1),
    }
}

/// Parses `[keys, config]`, where the config is optional.
pub(crate) fn keys_and_account_config<'a>(
    params: Params<'a>,
) -> Result<(Vec<Cow<'a, str>>, Option<RpcAccountInfoConfig>), RpcError> {
    let read_keys = |scanner: &mut JsonScanner<'a>| {
        let mut keys = Vec::new();
        scanner.array(|scanner| {
            keys.push(read_key(scanner)?);
            Some(())
        })?;
        Some(keys)
    };
    match key_and_config(params, read_keys) {
        Some((keys, config)) => Ok((keys, config.map(Into::into))),
        None => params.parse(1),
    }
}

fn read_key<'a>(scanner: &mut JsonScanner<'a>) -> Option<Cow<'a, str>> {
    scanner.string().map(Cow::Borrowed)
}

/// Parses the part that `read_key` reads, and the config after it.
fn key_and_config<'a, K>(
    params: Params<'a>,
    read_key: impl Fn(&mut JsonScanner<'a>) -> Option<K>,
) -> Option<(K, Option<Config>)> {
    let mut key = None;
    let mut config = None;
    let mut scanner = JsonScanner::new(params.text()?);
    let mut count = 0;
    scanner.array(|scanner| {
        count += 1;
        match count {
            1 => key = Some(read_key(scanner)?),
            2 => config = Config::read(scanner)?,
            _ => return None,
        }
        Some(())
    })?;
    scanner.end()?;
    Some((key?, config))
}

/// The members of [`RpcAccountInfoConfig`], which include those of [`RpcContextConfig`].
#[derive(Default)]
struct Config {
    encoding: Option<UiAccountEncoding>,
    data_slice: Option<UiDataSliceConfig>,
    commitment: Option<CommitmentLevel>,
    min_context_slot: Option<Slot>,
}

impl Config {
    /// Parses a config object; `Some(None)` for `null`.
    fn read(scanner: &mut JsonScanner<'_>) -> Option<Option<Self>> {
        if scanner.peek()? == b'n' {
            return scanner.null().map(|()| None);
        }
        let mut config = Self::default();
        let mut seen = [false; 4];
        scanner.object(|scanner, name| {
            let number = match name {
                "encoding" => 0,
                "dataSlice" => 1,
                "commitment" => 2,
                "minContextSlot" => 3,
                _ => return scanner.value().map(drop),
            };
            // A member that occurs twice is an error.
            (!std::mem::replace(&mut seen[number], true)).then_some(())?;
            if scanner.peek()? == b'n' {
                return scanner.null();
            }
            match number {
                0 => config.encoding = Some(read_variant(scanner)?),
                1 => config.data_slice = Some(read_data_slice(scanner)?),
                2 => config.commitment = Some(read_variant(scanner)?),
                _ => config.min_context_slot = Some(scanner.number()?),
            }
            Some(())
        })?;
        Some(Some(config))
    }

    fn commitment(&self) -> Option<CommitmentConfig> {
        self.commitment.map(|commitment| CommitmentConfig { commitment })
    }
}

/// Parses a variant by its name.
fn read_variant<'a, T: Deserialize<'a>>(scanner: &mut JsonScanner<'a>) -> Option<T> {
    T::deserialize(BorrowedStrDeserializer::<Error>::new(scanner.string()?)).ok()
}

fn read_data_slice(scanner: &mut JsonScanner<'_>) -> Option<UiDataSliceConfig> {
    let mut offset = None;
    let mut length = None;
    scanner.object(|scanner, name| {
        let member = match name {
            "offset" => &mut offset,
            "length" => &mut length,
            _ => return scanner.value().map(drop),
        };
        let is_first = member.replace(usize::try_from(scanner.number()?).ok()?).is_none();
        is_first.then_some(())
    })?;
    Some(UiDataSliceConfig { offset: offset?, length: length? })
}

impl From<Config> for RpcContextConfig {
    fn from(config: Config) -> Self {
        Self { commitment: config.commitment(), min_context_slot: config.min_context_slot }
    }
}

impl From<Config> for RpcAccountInfoConfig {
    fn from(config: Config) -> Self {
        let commitment = config.commitment();
        let Config { encoding, data_slice, min_context_slot, .. } = config;
        Self { encoding, data_slice, commitment, min_context_slot }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that both parsers return the same. Returns whether the fast one parsed the config.
    fn check(config: &str) -> bool {
        let text = format!(r#"["key",{config}]"#);
        let params = Params::new(Some(&text));
        assert_eq!(key_and_context(params), params.parse(1), "{text}");
        assert_eq!(key_and_account_config(params), params.parse(1), "{text}");
        let list = format!(r#"[["key","another"],{config}]"#);
        let list = Params::new(Some(&list));
        assert_eq!(keys_and_account_config(list), list.parse(1), "{config}");
        let alone = format!("[{config}]");
        let alone = Params::new(Some(&alone));
        let parsed = alone.parse::<(Option<RpcContextConfig>,)>(0).map(|(config,)| config);
        assert_eq!(context(alone), parsed, "{config}");
        key_and_config(params, read_key).is_some()
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
            r#" { "encoding" : "jsonParsed" , "dataSlice" : { "length" : 0 , "offset" : 9 , "more":1 } } "#,
            r#"{"more":1,"more":2}"#,
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
            r#"{"dataSlice":{"offset":1,"length":2,"offset":1}}"#,
            r#"{"dataSlice":[1,2]}"#,
            r#"{"encoding":{"base64":null}}"#,
            r#"{"encoding":null,"encoding":null}"#,
            r#"{"encod\u0069ng":"base64"}"#,
            r#"{"minContextSlot":1.0}"#,
            r#"{"minContextSlot":18446744073709551615}"#,
            "{},null",
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
