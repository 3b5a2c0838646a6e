//! The kinds of keys of notifications, in addition to those of accounts (`solana::key_kind`).

use ledger::KeyKind;

/// The account itself.
pub(super) const ITSELF: KeyKind = KeyKind(128);
/// The account's program.
pub(super) const PROGRAM: KeyKind = solana::key_kind::PROGRAM;
/// Any account that a transaction names.
pub(super) const MENTIONED: KeyKind = KeyKind(129);

/// The kinds that a set can have.
pub(super) const ALL: [KeyKind; 6] = [
    ITSELF,
    PROGRAM,
    solana::key_kind::OWNER,
    solana::key_kind::MINT,
    solana::key_kind::DELEGATE,
    MENTIONED,
];
