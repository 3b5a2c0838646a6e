//! The transactions that both nodes get: transfers, tokens, memos, calls of the genesis' programs, and broken ones.
//!
//! Shape: each is written once, without a blockhash; it is signed for each node with that node's blockhash. A
//! refused transaction is compared by its response. Those that are accepted are compared later, once they are
//! final (`calls`). The wire format is Solana's legacy message.

use std::time::Duration;

use anyhow::{Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::compare::genesis::{
    ABSENT, DATA, FROZEN, MINT, MINT_2022, PROGRAMS, TOKENS, TOKENS_2022,
};
use crate::compare::keys::{
    COMPUTE_BUDGET, Key, MEMO, PAYERS, SYSTEM, TOKEN, TOKEN_2022, base58, bytes, plain,
};
use crate::compare::nodes::{ComparedNode, ComparedNodes};
use crate::compare::outcomes::Outcomes;
use crate::rig::clock::{now, pause};

/// Time limit for a transaction to be processed. A validator on a busy machine takes some seconds.
const LAND_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The error of a node that is behind.
const NODE_UNHEALTHY: i64 = -32005;

/// An account of an instruction.
#[derive(Clone, Copy)]
struct Meta {
    key: [u8; 32],
    is_writable: bool,
}

#[derive(Clone)]
struct Instruction {
    program: [u8; 32],
    accounts: Vec<Meta>,
    data: Vec<u8>,
}

/// A transaction without a blockhash.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) name: String,
    /// The number of the key that pays.
    payer: u8,
    /// Numbers of the keys that sign as well.
    signers: Vec<u8>,
    instructions: Vec<Instruction>,
    /// Whether it lands although it fails: it skips the preflight.
    skips_preflight: bool,
    defect: Defect,
}

/// The defect of a broken transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    WrongSignature,
    UnknownBlockhash,
    Truncated,
}

fn writable(key: [u8; 32]) -> Meta {
    Meta { key, is_writable: true }
}

fn readonly(key: [u8; 32]) -> Meta {
    Meta { key, is_writable: false }
}

/// Returns the account of a key, which signs because the draft says so.
fn signer(number: u8) -> Meta {
    writable(Key::new(number).public())
}

fn transfer(from: u8, to: [u8; 32], lamports: u64) -> Instruction {
    let data = [&2_u32.to_le_bytes()[..], &lamports.to_le_bytes()].concat();
    Instruction { program: bytes(SYSTEM), accounts: vec![signer(from), writable(to)], data }
}

fn create(from: u8, new: u8, lamports: u64, space: u64) -> Instruction {
    let data =
        [&0_u32.to_le_bytes()[..], &lamports.to_le_bytes(), &space.to_le_bytes(), &bytes(SYSTEM)];
    let accounts = vec![signer(from), signer(new)];
    Instruction { program: bytes(SYSTEM), accounts, data: data.concat() }
}

fn memo(program: [u8; 32], signers: &[u8], text: &[u8]) -> Instruction {
    let accounts = signers.iter().map(|number| signer(*number)).collect();
    Instruction { program, accounts, data: text.to_vec() }
}

fn units(limit: u32) -> Instruction {
    let data = [&[2][..], &limit.to_le_bytes()].concat();
    Instruction { program: bytes(COMPUTE_BUDGET), accounts: Vec::new(), data }
}

fn price(micro_lamports: u64) -> Instruction {
    let data = [&[3][..], &micro_lamports.to_le_bytes()].concat();
    Instruction { program: bytes(COMPUTE_BUDGET), accounts: Vec::new(), data }
}

fn token_transfer(program: &str, [from, to]: [[u8; 32]; 2], owner: u8, amount: u64) -> Instruction {
    let data = [&[3][..], &amount.to_le_bytes()].concat();
    let accounts = vec![writable(from), writable(to), signer(owner)];
    Instruction { program: bytes(program), accounts, data }
}

fn token_transfer_checked(
    program: &str,
    mint: [u8; 32],
    [from, to]: [[u8; 32]; 2],
    owner: u8,
    amount: u64,
) -> Instruction {
    let data = [&[12][..], &amount.to_le_bytes(), &[6]].concat();
    let accounts = vec![writable(from), readonly(mint), writable(to), signer(owner)];
    Instruction { program: bytes(program), accounts, data }
}

impl Draft {
    fn new(name: impl Into<String>, payer: u8, instructions: Vec<Instruction>) -> Self {
        Self {
            name: name.into(),
            payer,
            signers: Vec::new(),
            instructions,
            skips_preflight: false,
            defect: Defect::None,
        }
    }

    fn signed_by(self, signers: &[u8]) -> Self {
        Self { signers: signers.to_vec(), ..self }
    }

    fn landing(self) -> Self {
        Self { name: format!("{} without preflight", self.name), skips_preflight: true, ..self }
    }

    fn with(self, defect: Defect) -> Self {
        Self { defect, ..self }
    }

    /// Signs the draft. Returns the bytes of the transaction, and its first signature.
    fn sign(&self, blockhash: &[u8; 32]) -> (Vec<u8>, String) {
        let message = self.message(blockhash);
        let mut signatures = Vec::new();
        for number in std::iter::once(&self.payer).chain(&self.signers) {
            signatures.push(Key::new(*number).sign(&message));
        }
        if self.defect == Defect::WrongSignature {
            signatures[0][5] ^= 1;
        }
        let mut wire = vec![signatures.len() as u8];
        signatures.iter().for_each(|signature| wire.extend_from_slice(signature));
        wire.extend_from_slice(&message);
        if self.defect == Defect::Truncated {
            wire.truncate(wire.len() - 3);
        }
        (wire, base58(&signatures[0]))
    }

    /// Encodes the legacy message. Keys: those that sign, then those that are written, then the others.
    fn message(&self, blockhash: &[u8; 32]) -> Vec<u8> {
        let mut keys: Vec<[u8; 32]> = Vec::new();
        let mut add = |key: [u8; 32]| {
            if !keys.contains(&key) {
                keys.push(key);
            }
        };
        for number in std::iter::once(&self.payer).chain(&self.signers) {
            add(Key::new(*number).public());
        }
        let metas = || self.instructions.iter().flat_map(|it| &it.accounts);
        metas().filter(|meta| meta.is_writable).for_each(|meta| add(meta.key));
        metas().for_each(|meta| add(meta.key));
        self.instructions.iter().for_each(|it| add(it.program));
        let is_written = |key: &[u8; 32]| metas().any(|it| it.is_writable && it.key == *key);
        let signers = 1 + self.signers.len();
        let unwritten = keys[signers..].iter().filter(|key| !is_written(key)).count();
        let mut message = vec![signers as u8, 0, unwritten as u8, keys.len() as u8];
        keys.iter().for_each(|key| message.extend_from_slice(key));
        message.extend_from_slice(blockhash);
        message.push(self.instructions.len() as u8);
        let at = |key: &[u8; 32]| keys.iter().position(|it| it == key).unwrap_or_default() as u8;
        for instruction in &self.instructions {
            message.push(at(&instruction.program));
            message.push(instruction.accounts.len() as u8);
            message.extend(instruction.accounts.iter().map(|meta| at(&meta.key)));
            compact_len(&mut message, instruction.data.len());
            message.extend_from_slice(&instruction.data);
        }
        message
    }
}

/// A signed transaction.
pub(crate) struct SignedTransaction {
    pub(crate) wire: Vec<u8>,
    pub(crate) signature: String,
}

/// Signs a transfer between two keys, named by their numbers.
pub(crate) fn sign_transfer(
    from: u8,
    to: u8,
    lamports: u64,
    blockhash: &[u8; 32],
) -> SignedTransaction {
    let instruction = transfer(from, Key::new(to).public(), lamports);
    let (wire, signature) = Draft::new("transfer", from, vec![instruction]).sign(blockhash);
    SignedTransaction { wire, signature }
}

fn compact_len(out: &mut Vec<u8>, len: usize) {
    let mut rest = len;
    while rest > 0x7f {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Returns the transactions that both nodes execute with success.
fn good() -> Vec<Draft> {
    let mut all = Vec::new();
    let token = |number: u8| plain(TOKENS + number);
    let token_2022 = |number: u8| plain(TOKENS_2022 + number);
    for n in 0..10_u8 {
        let payer = n % PAYERS;
        let amount = 1_000_000 + u64::from(n);
        let next = (payer + 1) % PAYERS;
        let to_key = Key::new(next).public();
        let own_memo = plain(PROGRAMS[0]);
        let text = format!("memo {n}");
        let drafts = [
            Draft::new("transfer", payer, vec![transfer(payer, to_key, amount)]),
            Draft::new(
                "transfer to a new account",
                payer,
                vec![transfer(payer, plain(100 + n), amount)],
            ),
            Draft::new(
                "two transfers",
                payer,
                vec![transfer(payer, plain(110), amount), transfer(payer, plain(DATA), amount)],
            ),
            Draft::new(
                "transfer of another signer",
                payer,
                vec![transfer(next, plain(111), amount)],
            )
            .signed_by(&[next]),
            Draft::new("memo", payer, vec![memo(bytes(MEMO), &[], text.as_bytes())]),
            Draft::new(
                "signed memo",
                payer,
                vec![memo(bytes(MEMO), &[payer, next], text.as_bytes())],
            )
            .signed_by(&[next]),
            Draft::new(
                "memo of a genesis program",
                payer,
                vec![memo(own_memo, &[], text.as_bytes())],
            ),
            Draft::new(
                "limit of units",
                payer,
                vec![units(2_000 + u32::from(n)), transfer(payer, to_key, 1)],
            ),
            Draft::new(
                "price of units",
                payer,
                vec![units(1_000), price(1_000_000 * u64::from(n)), transfer(payer, to_key, 1)],
            ),
            Draft::new(
                "creation",
                payer,
                vec![create(payer, 20 + n, 2_000_000, u64::from(n) * 10)],
            )
            .signed_by(&[20 + n]),
            Draft::new(
                "token transfer",
                payer,
                vec![token_transfer(TOKEN, [token(payer), token(next)], payer, 10 + u64::from(n))],
            ),
            Draft::new(
                "checked token transfer",
                payer,
                vec![token_transfer_checked(
                    TOKEN,
                    plain(MINT),
                    [token(payer), token(next)],
                    payer,
                    5,
                )],
            ),
            Draft::new(
                "Token-2022 transfer",
                payer,
                vec![token_transfer_checked(
                    TOKEN_2022,
                    plain(MINT_2022),
                    [token_2022(payer), token_2022(next)],
                    payer,
                    7,
                )],
            ),
            Draft::new(
                "lamports to a token account",
                payer,
                vec![transfer(payer, token(next), 1 + u64::from(n))],
            ),
            Draft::new("a limit of units alone", payer, vec![units(3_000 + u32::from(n))]),
        ];
        all.extend(drafts);
    }
    all
}

/// Transactions that fail, or are refused.
fn bad() -> Vec<Draft> {
    let token = |number: u8| plain(TOKENS + number);
    let raw = |program: [u8; 32], data: &[u8]| Instruction {
        program,
        accounts: vec![signer(1)],
        data: data.to_vec(),
    };
    let failing = vec![
        Draft::new("too little lamports", 1, vec![transfer(1, plain(112), u64::MAX / 2)]),
        Draft::new("rest below rent", 1, vec![transfer(1, plain(113), 5)]),
        Draft::new(
            "too few tokens",
            1,
            vec![token_transfer(TOKEN, [token(1), token(2)], 1, u64::MAX)],
        ),
        Draft::new(
            "tokens of another owner",
            1,
            vec![token_transfer(TOKEN, [token(2), token(1)], 1, 1)],
        ),
        Draft::new(
            "frozen tokens",
            0,
            vec![token_transfer(TOKEN, [plain(FROZEN), token(1)], 0, 1)],
        ),
        Draft::new(
            "tokens to another mint",
            1,
            vec![token_transfer(TOKEN, [token(1), plain(TOKENS_2022)], 1, 1)],
        ),
        Draft::new("no instruction of the program", 1, vec![raw(bytes(SYSTEM), &[99, 0, 0, 0])]),
        Draft::new("no data", 1, vec![raw(bytes(SYSTEM), &[])]),
        Draft::new("unknown token instruction", 1, vec![raw(bytes(TOKEN), &[250])]),
        Draft::new("no program", 1, vec![raw(plain(ABSENT), &[1])]),
        Draft::new("an account as a program", 1, vec![raw(plain(DATA), &[1])]),
        Draft::new("an invalid memo", 1, vec![memo(bytes(MEMO), &[], &[0xff, 0xfe])]),
        Draft::new(
            "too few units",
            1,
            vec![units(100), memo(bytes(MEMO), &[], b"more than these")],
        ),
        Draft::new("an invalid budget", 1, vec![raw(bytes(COMPUTE_BUDGET), &[9])]),
        Draft::new("two limits of units", 1, vec![units(5), units(6)]),
        Draft::new("an existing account is created", 1, vec![create(1, 2, 1_000_000, 0)])
            .signed_by(&[2]),
        Draft::new(
            "the second instruction fails",
            1,
            vec![transfer(1, plain(114), 1_000_000), raw(bytes(SYSTEM), &[98, 0, 0, 0])],
        ),
        Draft::new(
            "a program of the genesis without accounts",
            1,
            vec![raw(plain(PROGRAMS[1]), &[])],
        ),
    ];
    let mut all: Vec<Draft> = failing.iter().cloned().map(Draft::landing).collect();
    all.extend(failing);
    let ordinary = || vec![transfer(3, plain(115), 1_000_000)];
    all.extend([
        Draft::new("a payer without an account", 50, vec![transfer(50, plain(116), 1)]),
        Draft::new("a wrong signature", 3, ordinary()).with(Defect::WrongSignature),
        Draft::new("a wrong signature", 3, ordinary()).with(Defect::WrongSignature).landing(),
        Draft::new("an unknown blockhash", 3, ordinary()).with(Defect::UnknownBlockhash),
        Draft::new("a truncated transaction", 3, ordinary()).with(Defect::Truncated),
    ]);
    all
}

/// Returns all drafts, in the order in which they are sent.
pub(crate) fn drafts() -> Vec<Draft> {
    let mut all = good();
    all.extend(bad());
    all
}

/// Sends all to both nodes, one after the other: each once the one before has a status on both, so that both nodes
/// execute them in the same order. Answers are compared. Returns how many were sent.
pub(crate) fn send(nodes: &mut ComparedNodes, outcomes: &mut Outcomes) -> Result<usize> {
    let drafts = drafts();
    for draft in &drafts {
        let mut responses = Vec::new();
        for node in nodes.both() {
            responses.push(send_to(node, draft)?);
        }
        for (node, response) in nodes.both().into_iter().zip(&responses) {
            if response["result"].is_string() && draft.defect == Defect::None {
                wait_for_status(node)?;
            }
        }
        let ours = responses.pop();
        let theirs = responses.pop();
        let name = format!("sendTransaction {}", draft.name);
        outcomes.add(&name, &draft.name, theirs.unwrap_or_default(), ours.unwrap_or_default());
    }
    Ok(drafts.len())
}

/// Waits until the last transaction of a node has a status. One that never lands is waited for in vain.
fn wait_for_status(node: &ComparedNode) -> Result<()> {
    let started = now();
    let last = node.signatures.last();
    while started.elapsed() < LAND_TIMEOUT {
        let response = node.call("getSignatureStatuses", &json!([[last]]))?;
        if !response["result"]["value"][0].is_null() {
            break;
        }
        pause(POLL_INTERVAL);
    }
    Ok(())
}

/// Number of the address that the compared notifications are about.
pub(crate) const NOTIFIED: u8 = 130;

/// Sends the transfer that subscribers are notified of, and waits until it is confirmed.
pub(crate) fn send_notified(node: &ComparedNode) -> Result<()> {
    let draft = Draft::new("notified", 7, vec![transfer(7, plain(NOTIFIED), 5_000_000)]);
    let (wire, _) = draft.sign(&bytes(&node.latest_blockhash()?));
    let config = json!({ "encoding": "base64", "skipPreflight": true });
    let response = node.call("sendTransaction", &json!([BASE64_STANDARD.encode(wire), config]))?;
    ensure!(response["result"].is_string(), "the transfer was refused: {response}");
    let started = now();
    while started.elapsed() < LAND_TIMEOUT {
        let statuses = node.call("getSignatureStatuses", &json!([[response["result"]]]))?;
        let status = &statuses["result"]["value"][0]["confirmationStatus"];
        if matches!(status.as_str(), Some("confirmed" | "finalized")) {
            break;
        }
        pause(POLL_INTERVAL);
    }
    Ok(())
}

/// Sends a transaction, again if the node says that it is behind: a busy machine delays either of them.
fn send_to(node: &mut ComparedNode, draft: &Draft) -> Result<Value> {
    let started = now();
    loop {
        let response = send_once(node, draft)?;
        let is_behind = response["error"]["code"] == NODE_UNHEALTHY;
        if !is_behind || started.elapsed() > LAND_TIMEOUT {
            return Ok(response);
        }
        node.signatures.pop();
        pause(POLL_INTERVAL);
    }
}

fn send_once(node: &mut ComparedNode, draft: &Draft) -> Result<Value> {
    let blockhash = node.latest_blockhash()?;
    let hash = match draft.defect {
        Defect::UnknownBlockhash => [7; 32],
        Defect::None | Defect::WrongSignature | Defect::Truncated => bytes(&blockhash),
    };
    let (wire, signature) = draft.sign(&hash);
    node.signatures.push(signature);
    let config = json!({
        "encoding": "base64", "preflightCommitment": "confirmed",
        "skipPreflight": draft.skips_preflight,
    });
    node.call("sendTransaction", &json!([BASE64_STANDARD.encode(wire), config]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_lists_signers_then_written_accounts_then_others() {
        let draft = Draft::new("transfer", 1, vec![transfer(2, plain(9), 5)]).signed_by(&[2]);
        let message = draft.message(&[8; 32]);
        assert_eq!(message[..4], [2, 0, 1, 4]);
        let keys = [Key::new(1).public(), Key::new(2).public(), plain(9), [0; 32]];
        assert_eq!(message[4..132], keys.concat());
        assert_eq!(message[132..164], [8; 32]);
        assert_eq!(message[164..169], [1, 3, 2, 1, 2]);
        let (wire, _) = draft.sign(&[8; 32]);
        assert_eq!((wire[0], wire.len()), (2, 1 + 128 + message.len()));
    }

    #[test]
    fn there_are_some_two_hundred_and_each_fits_into_a_packet() {
        let drafts = drafts();
        assert!((180..250).contains(&drafts.len()), "{}", drafts.len());
        assert!(drafts.iter().all(|draft| draft.sign(&[1; 32]).0.len() <= 1_232));
    }
}
