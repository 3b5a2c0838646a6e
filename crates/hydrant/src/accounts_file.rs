//! Accounts and programs of genesis, from files as the Solana CLI writes them.
//!
//! Bounds: a file of an account 16 MiB, its data 10 MiB (Solana's own bound), 8 KiB of base58 text,
//! whose decoding takes the square of its length. A program's file leaves room for its metadata within
//! 10 MiB. A directory is read one file at a time; what is kept of it meanwhile is the files' names.

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
use solana_account::AccountSharedData;
use solana_account_decoder_client_types::{UiAccount, UiAccountData, UiAccountEncoding};
use solana_pubkey::Pubkey;
use solana_signer::Signer;

use crate::input_file;

/// Bytes of an account's data: `MAX_PERMITTED_DATA_LENGTH` of Solana's system program.
const DATA_BYTES_MAX: usize = 10 << 20;
/// Bytes of an account's file: that data as base64 is 14 MB.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Characters of base58. Decoding these takes some ten milliseconds; a megabyte would take minutes.
const BASE58_CHARS_MAX: usize = 8 << 10;
/// Bytes of a program's ELF: the account that holds it has 45 bytes of metadata before it.
const ELF_BYTES_MAX: u64 = (10 << 20) - 45;
/// Bytes of a keypair's file: 64 numbers, however they are spaced.
const KEYPAIR_BYTES_MAX: u64 = 16 << 10;

/// What `solana account --output json` writes.
#[derive(Deserialize)]
struct AccountFile {
    pubkey: String,
    account: UiAccount,
}

/// An address, or the address of a keypair file.
pub(crate) fn address_or_keypair(text: &str) -> Result<Pubkey> {
    if let Ok(address) = Pubkey::from_str(text) {
        return Ok(address);
    }
    let path = Path::new(text);
    ensure!(path.exists(), "{text:?} is neither an address nor a keypair file");
    input_file::check(path, KEYPAIR_BYTES_MAX)?;
    Ok(read_keypair(path)?.pubkey())
}

/// One account; `given` is its address, or "-" for the one in the file.
pub(crate) fn account(given: &str, path: &Path) -> Result<GenesisAccount> {
    let text = input_file::read(path, FILE_BYTES_MAX)?;
    let file: AccountFile = serde_json::from_slice(&text).with_context(|| {
        format!("{}: not as `solana account --output json` writes it", path.display())
    })?;
    let address = match given {
        "-" => Pubkey::from_str(&file.pubkey)
            .with_context(|| format!("{}: pubkey {:?}", path.display(), file.pubkey))?,
        given => address_or_keypair(given)?,
    };
    let UiAccount { lamports, data, owner, executable, rent_epoch, space: _ } = file.account;
    let owner =
        Pubkey::from_str(&owner).with_context(|| format!("{}: owner {owner:?}", path.display()))?;
    let data = decode(&data).with_context(|| format!("{}: the account's data", path.display()))?;
    let account = AccountSharedData::from(solana_account::Account {
        lamports,
        data,
        owner,
        executable,
        rent_epoch,
    });
    let given = GenesisAccount { address, account };
    localnet::check_account(&given).with_context(|| path.display().to_string())?;
    Ok(given)
}

/// The data of an account, of which no more is unpacked than an account may have.
fn decode(data: &UiAccountData) -> Result<Vec<u8>> {
    let bytes = match data {
        UiAccountData::LegacyBinary(text) => base58(text)?,
        UiAccountData::Binary(text, encoding) => match encoding {
            UiAccountEncoding::Base58 | UiAccountEncoding::Binary => base58(text)?,
            UiAccountEncoding::Base64 => BASE64_STANDARD.decode(text)?,
            UiAccountEncoding::Base64Zstd => unpack(&BASE64_STANDARD.decode(text)?)?,
            UiAccountEncoding::JsonParsed => anyhow::bail!("is jsonParsed: write it as base64"),
        },
        UiAccountData::Json(_) => anyhow::bail!("is jsonParsed: write it as base64"),
    };
    ensure!(
        bytes.len() <= DATA_BYTES_MAX,
        "has {} bytes, an account at most {DATA_BYTES_MAX}",
        bytes.len()
    );
    Ok(bytes)
}

fn base58(text: &str) -> Result<Vec<u8>> {
    ensure!(
        text.len() <= BASE58_CHARS_MAX,
        "is base58 of {} characters, at most {BASE58_CHARS_MAX}: write it as base64",
        text.len()
    );
    Ok(bs58::decode(text).into_vec()?)
}

/// Unpacks zstd, one byte past the bound at most.
fn unpack(packed: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let unpacker = zstd::stream::read::Decoder::with_buffer(packed)?;
    unpacker.take(DATA_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() <= DATA_BYTES_MAX,
        "unpacks to more than {DATA_BYTES_MAX} bytes, the most that an account has"
    );
    Ok(bytes)
}

/// The accounts of directories, in the order of the files' names, each read when it is asked for.
pub(crate) fn account_dirs(dirs: &[PathBuf]) -> impl Iterator<Item = Result<GenesisAccount>> {
    dirs.iter().flat_map(|dir| match names(dir) {
        Ok(names) => {
            let read = move |name: OsString| account("-", &dir.join(name));
            Box::new(names.into_iter().map(read)) as Box<dyn Iterator<Item = _>>
        }
        Err(err) => Box::new(std::iter::once(Err(err))),
    })
}

/// The names of the files of a directory that end in `.json`, in order.
fn names(dir: &Path) -> Result<Vec<OsString>> {
    let flag = || format!("--account-dir {}", dir.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).with_context(flag)? {
        let name = entry.with_context(flag)?.file_name();
        if Path::new(&name).extension().is_some_and(|ending| ending == "json") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// A program; `authority` is given for one that can be upgraded.
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
        check(text, "-").expect("a good file").account.data().to_vec()
    }

    fn refusal(text: &str) -> String {
        format!("{:#}", check(text, "-").expect_err("a bad file"))
    }

    fn zstd(bytes: usize) -> String {
        let mut packer = zstd::Encoder::new(Vec::new(), 1).expect("a packer");
        let zeros = vec![0; 1 << 20];
        for at in (0..bytes).step_by(zeros.len()) {
            packer.write_all(&zeros[..zeros.len().min(bytes - at)]).expect("memory takes it");
        }
        BASE64_STANDARD.encode(packer.finish().expect("memory takes it"))
    }

    #[test]
    fn an_account_file_is_read_as_the_cli_writes_it() {
        let read = check(FILE, "-").expect("a good file");
        assert_eq!(read.address.to_string(), "Vote111111111111111111111111111111111111111");
        assert_eq!((read.account.data(), read.account.lamports()), (&[1, 2, 3][..], 7));
        let given = "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo";
        assert_eq!(check(FILE, given).expect("a good file").address.to_string(), given);
        assert_eq!(data(&with_data("Ldp", "base58")), [1, 2, 3]);
        assert_eq!(data(&FILE.replace(r#"["AQID","base64"]"#, r#""Ldp""#)), [1, 2, 3]);
        assert_eq!(data(&with_data(&zstd(5), "base64+zstd")), [0; 5]);
    }

    #[test]
    fn a_bad_account_file_is_refused_by_name() {
        assert!(refusal("{}").contains("account.json: not as `solana account --output json`"));
        assert!(refusal(&FILE.replace("AQID", "***")).contains("account.json: the account's data"));
        assert!(refusal(&FILE.replace("Vote111", "0OIl")).contains("account.json: pubkey"));
        assert!(refusal(&FILE.replace(":\"1111", ":\"0OIl")).contains("account.json: owner"));
        let parsed = FILE
            .replace(r#"["AQID","base64"]"#, r#"{"program":"spl-token","parsed":{},"space":165}"#);
        assert!(refusal(&parsed).contains("is jsonParsed: write it as base64"));
    }

    #[test]
    fn data_is_at_most_ten_mebibytes_however_it_is_written() {
        let bytes = DATA_BYTES_MAX;
        let plain = |bytes: usize| with_data(&BASE64_STANDARD.encode(vec![0; bytes]), "base64");
        assert_eq!(data(&plain(bytes)).len(), bytes);
        let said = refusal(&plain(bytes + 1));
        assert!(said.contains("has 10485761 bytes, an account at most 10485760"), "{said}");
        assert_eq!(data(&with_data(&zstd(bytes), "base64+zstd")).len(), bytes);
        // The rest of it is not unpacked.
        let said = refusal(&with_data(&zstd(64 << 20), "base64+zstd"));
        assert!(said.contains("unpacks to more than 10485760 bytes"), "{said}");
        let said = refusal(&plain(FILE_BYTES_MAX as usize));
        assert!(said.contains("at most 16777216"), "{said}");
    }

    #[test]
    fn base58_is_refused_by_its_length_and_not_decoded() {
        let text = |chars: usize| with_data(&"2".repeat(chars), "base58");
        assert!(!data(&text(BASE58_CHARS_MAX)).is_empty());
        // A million characters would take minutes.
        let said = refusal(&text(1_000_000));
        assert!(said.contains("base58 of 1000000 characters, at most 8192: write it as base64"));
    }

    #[test]
    fn a_directory_is_read_in_the_order_of_names_and_its_first_bad_file_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, lamports) in [("b.json", 2), ("a.json", 1), ("c.txt", 9), ("d.json", 3)] {
            let text = FILE.replace("\"lamports\":7", &format!("\"lamports\":{lamports}"));
            fs::write(dir.path().join(name), text).expect("it is written");
        }
        let dirs = [dir.path().to_path_buf()];
        let lamports = |read: Result<GenesisAccount>| read.map(|it| it.account.lamports());
        let all: Result<Vec<u64>> = account_dirs(&dirs).map(lamports).collect();
        assert_eq!(all.expect("good files"), [1, 2, 3]);
        fs::create_dir(dir.path().join("c.json")).expect("it is made");
        let mut read = account_dirs(&dirs).map(lamports);
        assert!(read.by_ref().take(2).all(|read| read.is_ok()));
        let bad = read.next().and_then(Result::err).expect("a directory is no file");
        assert!(bad.to_string().contains("c.json: a directory"), "{bad}");
        let none = [PathBuf::from("/nowhere")];
        let err = account_dirs(&none).next().and_then(Result::err).expect("no such directory");
        assert!(err.to_string().contains("--account-dir /nowhere"), "{err}");
    }

    #[test]
    fn a_program_leaves_room_for_its_metadata() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("program.so");
        let id = Pubkey::new_from_array([7; 32]).to_string();
        fs::write(&path, vec![0; ELF_BYTES_MAX as usize]).expect("it is written");
        assert!(program(&id, &path, None).is_ok());
        fs::write(&path, vec![0; ELF_BYTES_MAX as usize + 1]).expect("it is written");
        let err = format!("{:#}", program(&id, &path, None).expect_err("it is too long"));
        assert!(err.contains("10485716 bytes, at most 10485715"), "{err}");
    }
}
