//! Accounts and programs of genesis, from files in the formats of the Solana CLI.
//!
//! Bounds: an account's file 16 MiB, its data 10 MiB (Solana's own bound), base58 text 8 KiB, because its decoding
//! takes the square of its length. A program and its metadata fit into 10 MiB. A directory is read one file at a
//! time; only the files' names are held in memory.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use localnet::{GenesisAccount, GenesisLoader, GenesisProgram, read_keypair};
use serde::Deserialize;
use solana::JsonU64;
use solana_account::AccountSharedData;
use solana_account_decoder_client_types::{UiAccountData, UiAccountEncoding};
use solana_pubkey::Pubkey;
use solana_signer::Signer;

/// Bytes of an account's data: `MAX_PERMITTED_DATA_LENGTH` of Solana's system program.
const DATA_BYTES_MAX: usize = 10 << 20;
/// Bytes of an account's file: that data as base64 is 14 MB.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Characters of base58. Decoding these takes some ten milliseconds; a megabyte would take minutes.
const BASE58_CHARS_MAX: usize = 8 << 10;
/// Bytes of a program's ELF: the account that holds it has 45 bytes of metadata before it.
const ELF_BYTES_MAX: u64 = (10 << 20) - 45;
/// Bytes of a keypair's file: 64 numbers, with any spacing.
const KEYPAIR_BYTES_MAX: u64 = 16 << 10;

/// The directories that are searched for an account's file: those that these variables name, then this one.
const SEARCH_DIRS: ([&str; 2], &str) = (["BPF_OUT_DIR", "SBF_OUT_DIR"], "tests/fixtures");

/// An account in the format of `solana account --output json`.
#[derive(Deserialize)]
struct AccountFile {
    pubkey: String,
    account: JsonAccount,
}

/// An account as JSON-RPC encodes it, with numbers that may have been through JavaScript.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JsonAccount {
    lamports: JsonU64,
    data: UiAccountData,
    owner: String,
    executable: bool,
    rent_epoch: JsonU64,
}

/// An address, or the address of a keypair file.
pub(crate) fn address_or_keypair(text: &str) -> Result<Pubkey> {
    if let Ok(address) = Pubkey::from_str(text) {
        return Ok(address);
    }
    let path = Path::new(text);
    ensure!(path.exists(), "{text:?} is neither an address nor a keypair file");
    keypair_address(path)
}

/// The address of a keypair file.
pub(crate) fn keypair_address(path: &Path) -> Result<Pubkey> {
    input_file::check(path, KEYPAIR_BYTES_MAX)?;
    Ok(read_keypair(path)?.pubkey())
}

/// One account; `address` is an address, a keypair file, or "-" for the address in the file.
///
/// A relative path that does not exist is searched for in [`SEARCH_DIRS`], as `solana-test-validator` does.
pub(crate) fn account(address: &str, path: &Path) -> Result<GenesisAccount> {
    let found = find(path, path);
    let path = found.as_deref().unwrap_or(path);
    let text = input_file::read(path, FILE_BYTES_MAX)?;
    let file: AccountFile = serde_json::from_slice(&text).with_context(|| {
        format!("{}: not in the format of `solana account --output json`", path.display())
    })?;
    let address = match address {
        "-" => Pubkey::from_str(&file.pubkey)
            .with_context(|| format!("{}: pubkey {:?}", path.display(), file.pubkey))?,
        address => address_or_keypair(address)?,
    };
    let account = decode_account(file.account).with_context(|| path.display().to_string())?;
    let genesis_account = GenesisAccount { address, account };
    localnet::check_account(&genesis_account).with_context(|| path.display().to_string())?;
    Ok(genesis_account)
}

/// The path if it exists, or else the first one of this `name` that exists in a directory of [`SEARCH_DIRS`].
pub(crate) fn find(path: &Path, name: &Path) -> Option<PathBuf> {
    let (variables, fixtures) = SEARCH_DIRS;
    let dirs = variables.iter().filter_map(std::env::var_os).map(PathBuf::from);
    let candidates = dirs.chain([PathBuf::from(fixtures)]).map(|dir| dir.join(name));
    let mut candidates = std::iter::once(path.to_path_buf()).chain(candidates);
    candidates.find(|candidate| candidate.exists())
}

/// Decodes an account of a file in the format of `solana account --output json`.
pub(crate) fn decode_account(encoded: JsonAccount) -> Result<AccountSharedData> {
    let JsonAccount { lamports, data, owner, executable, rent_epoch } = encoded;
    let lamports = lamports.into();
    let rent_epoch = rent_epoch.into();
    let owner = Pubkey::from_str(&owner).with_context(|| format!("owner {owner:?}"))?;
    let data = decode(&data).context("the account's data")?;
    let account = solana_account::Account { lamports, data, owner, executable, rent_epoch };
    Ok(AccountSharedData::from(account))
}

/// The data of an account. At most one byte more than an account may have is decompressed.
fn decode(data: &UiAccountData) -> Result<Vec<u8>> {
    let bytes = match data {
        UiAccountData::LegacyBinary(text) => base58(text)?,
        UiAccountData::Binary(text, encoding) => match encoding {
            UiAccountEncoding::Base58 | UiAccountEncoding::Binary => base58(text)?,
            UiAccountEncoding::Base64 => BASE64_STANDARD.decode(text)?,
            UiAccountEncoding::Base64Zstd => decompress(&BASE64_STANDARD.decode(text)?)?,
            UiAccountEncoding::JsonParsed => anyhow::bail!("is jsonParsed: use base64"),
        },
        UiAccountData::Json(_) => anyhow::bail!("is jsonParsed: use base64"),
    };
    ensure!(
        bytes.len() <= DATA_BYTES_MAX,
        "has {} bytes, the maximum is {DATA_BYTES_MAX}",
        bytes.len()
    );
    Ok(bytes)
}

fn base58(text: &str) -> Result<Vec<u8>> {
    ensure!(
        text.len() <= BASE58_CHARS_MAX,
        "has {} characters of base58, the maximum is {BASE58_CHARS_MAX}: use base64",
        text.len()
    );
    Ok(bs58::decode(text).into_vec()?)
}

/// Decompresses zstd, at most one byte more than the bound.
fn decompress(compressed: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_buffer(compressed)?;
    decoder.take(DATA_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() <= DATA_BYTES_MAX,
        "decompresses to more than {DATA_BYTES_MAX} bytes, the maximum of an account"
    );
    Ok(bytes)
}

/// The accounts of directories, in the order of the files' names. Each file is read when the iterator reaches it.
pub(crate) fn account_dirs(dirs: &[PathBuf]) -> impl Iterator<Item = Result<GenesisAccount>> {
    dirs.iter().flat_map(|dir| match names(dir) {
        Ok(names) => {
            let read = move |name: OsString| account("-", &dir.join(name));
            Box::new(names.into_iter().map(read)) as Box<dyn Iterator<Item = _>>
        }
        Err(err) => Box::new(std::iter::once(Err(err))),
    })
}

/// The names of the files of a directory that end in `.json`, in order. A directory or a dangling link of such a name
/// is skipped.
fn names(dir: &Path) -> Result<Vec<OsString>> {
    let flag = || format!("--account-dir {}", dir.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).with_context(flag)? {
        let name = entry.with_context(flag)?.file_name();
        let is_json = Path::new(&name).extension().is_some_and(|ending| ending == "json");
        if is_json && dir.join(&name).is_file() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// A program. It can be upgraded if it has an `authority` other than "none".
pub(crate) fn program(id: &str, path: &Path, authority: Option<&str>) -> Result<GenesisProgram> {
    let elf = input_file::read(path, ELF_BYTES_MAX).context("program")?;
    let loader = match authority {
        None | Some("none") => GenesisLoader::Final,
        Some(authority) => GenesisLoader::Upgradeable(address_or_keypair(authority)?),
    };
    Ok(GenesisProgram { program_id: address_or_keypair(id)?, elf, loader })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use solana_account::ReadableAccount;

    use super::*;

    #[test]
    fn only_files_of_a_directory_are_accounts() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path();
        fs::create_dir(path.join("x.json")).expect("a directory");
        std::os::unix::fs::symlink("/nowhere", path.join("y.json")).expect("a link");
        fs::write(path.join("a.txt"), "text").expect("it is written");
        fs::write(path.join("one.json"), FILE).expect("it is written");
        std::os::unix::fs::symlink("one.json", path.join("z.json")).expect("a link");
        assert_eq!(names(path).expect("a directory"), ["one.json", "z.json"]);
    }

    const FILE: &str = r#"{"pubkey":"Vote111111111111111111111111111111111111111","account":
        {"lamports":7,"data":["AQID","base64"],"owner":"11111111111111111111111111111111",
         "executable":false,"rentEpoch":18446744073709551615,"space":3}}"#;

    fn check(text: &str, address: &str) -> Result<GenesisAccount> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("account.json");
        fs::write(&path, text)?;
        account(address, &path)
    }

    fn with_data(text: &str, encoding: &str) -> String {
        FILE.replace(r#"["AQID","base64"]"#, &format!(r#"["{text}","{encoding}"]"#))
    }

    fn data(text: &str) -> Vec<u8> {
        check(text, "-").expect("a valid file").account.data().to_vec()
    }

    fn refusal(text: &str) -> String {
        format!("{:#}", check(text, "-").expect_err("an invalid file"))
    }

    fn zstd(bytes: usize) -> String {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
        let zeros = vec![0; 1 << 20];
        for at in (0..bytes).step_by(zeros.len()) {
            encoder.write_all(&zeros[..zeros.len().min(bytes - at)]).expect("it is written");
        }
        BASE64_STANDARD.encode(encoder.finish().expect("it is written"))
    }

    #[test]
    fn an_account_file_of_the_cli_is_read() {
        let read = check(FILE, "-").expect("a valid file");
        assert_eq!(read.address.to_string(), "Vote111111111111111111111111111111111111111");
        assert_eq!((read.account.data(), read.account.lamports()), (&[1, 2, 3][..], 7));
        let address = "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo";
        assert_eq!(check(FILE, address).expect("a valid file").address.to_string(), address);
        assert_eq!(data(&with_data("Ldp", "base58")), [1, 2, 3]);
        assert_eq!(data(&FILE.replace(r#"["AQID","base64"]"#, r#""Ldp""#)), [1, 2, 3]);
        assert_eq!(data(&with_data(&zstd(5), "base64+zstd")), [0; 5]);
    }

    #[test]
    fn a_file_that_went_through_javascript_is_the_one_before_it() {
        for number in ["18446744073709552000", "18446744073709551616", "\"18446744073709551615\""] {
            let text = FILE.replace("18446744073709551615", number);
            let read = check(&text, "-").expect("a valid file").account;
            assert_eq!((read.rent_epoch(), read.lamports()), (u64::MAX, 7), "{number}");
        }
        let text = FILE.replace("\"lamports\":7", "\"lamports\":\"9007199254740993\"");
        assert_eq!(check(&text, "-").expect("valid").account.lamports(), 9_007_199_254_740_993);
        for number in ["-1", "0.5", "1e30", "\"NaN\"", "null"] {
            let refused = refusal(&FILE.replace("18446744073709551615", number));
            assert!(refused.contains("a whole number from 0 to"), "{number}: {refused}");
        }
    }

    #[test]
    fn an_invalid_account_file_is_refused_by_name() {
        assert!(refusal("{}").contains("account.json: not in the format of `solana account"));
        assert!(refusal(&FILE.replace("AQID", "***")).contains("account.json: the account's data"));
        assert!(refusal(&FILE.replace("Vote111", "0OIl")).contains("account.json: pubkey"));
        assert!(refusal(&FILE.replace(":\"1111", ":\"0OIl")).contains("account.json: owner"));
        let parsed = FILE
            .replace(r#"["AQID","base64"]"#, r#"{"program":"spl-token","parsed":{},"space":165}"#);
        assert!(refusal(&parsed).contains("is jsonParsed: use base64"));
    }

    #[test]
    fn data_is_at_most_ten_mebibytes_in_any_encoding() {
        let bytes = DATA_BYTES_MAX;
        let plain = |bytes: usize| with_data(&BASE64_STANDARD.encode(vec![0; bytes]), "base64");
        assert_eq!(data(&plain(bytes)).len(), bytes);
        let message = refusal(&plain(bytes + 1));
        assert!(message.contains("has 10485761 bytes, the maximum is 10485760"), "{message}");
        assert_eq!(data(&with_data(&zstd(bytes), "base64+zstd")).len(), bytes);
        // The rest is not decompressed.
        let message = refusal(&with_data(&zstd(64 << 20), "base64+zstd"));
        assert!(message.contains("decompresses to more than 10485760 bytes"), "{message}");
        let message = refusal(&plain(FILE_BYTES_MAX as usize));
        assert!(message.contains("the maximum is 16777216"), "{message}");
    }

    #[test]
    fn base58_is_refused_by_its_length_and_not_decoded() {
        let text = |chars: usize| with_data(&"2".repeat(chars), "base58");
        assert!(!data(&text(BASE58_CHARS_MAX)).is_empty());
        // A million characters would take minutes.
        let message = refusal(&text(1_000_000));
        assert!(message.contains("1000000 characters of base58, the maximum is 8192: use base64"));
    }

    #[test]
    fn a_directory_is_read_in_the_order_of_names_and_its_first_invalid_file_is_reported() {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, lamports) in [("b.json", 2), ("a.json", 1), ("c.txt", 9), ("d.json", 3)] {
            let text = FILE.replace("\"lamports\":7", &format!("\"lamports\":{lamports}"));
            fs::write(dir.path().join(name), text).expect("it is written");
        }
        let dirs = [dir.path().to_path_buf()];
        let lamports = |read: Result<GenesisAccount>| read.map(|it| it.account.lamports());
        let all: Result<Vec<u64>> = account_dirs(&dirs).map(lamports).collect();
        assert_eq!(all.expect("valid files"), [1, 2, 3]);
        fs::write(dir.path().join("c.json"), "{}").expect("it is written");
        let mut read = account_dirs(&dirs).map(lamports);
        assert!(read.by_ref().take(2).all(|read| read.is_ok()));
        let err = read.next().and_then(Result::err).expect("it is not an account");
        assert!(err.to_string().contains("c.json: not in the format"), "{err}");
        let none = [PathBuf::from("/nowhere")];
        let err = account_dirs(&none).next().and_then(Result::err).expect("no such directory");
        assert!(err.to_string().contains("--account-dir /nowhere"), "{err}");
    }

    #[test]
    fn a_program_and_its_metadata_fit_into_an_account() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("program.so");
        let id = Pubkey::new_from_array([7; 32]).to_string();
        fs::write(&path, vec![0; ELF_BYTES_MAX as usize]).expect("it is written");
        assert!(program(&id, &path, None).is_ok());
        fs::write(&path, vec![0; ELF_BYTES_MAX as usize + 1]).expect("it is written");
        let err = format!("{:#}", program(&id, &path, None).expect_err("it is too long"));
        assert!(err.contains("10485716 bytes, the maximum is 10485715"), "{err}");
    }
}
