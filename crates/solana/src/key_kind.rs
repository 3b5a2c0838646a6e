//! The kinds of index keys: the relation of a key's address to the account.

use ledger::KeyKind;

/// The program that owns the account.
pub const PROGRAM: KeyKind = KeyKind(0);
/// The mint of a token account, of either token program.
pub const MINT: KeyKind = KeyKind(1);
/// The wallet that owns a token account.
pub const OWNER: KeyKind = KeyKind(2);
/// The wallet that may spend from a token account on behalf of its owner.
pub const DELEGATE: KeyKind = KeyKind(3);
/// The stake program, for a stake account that may not circulate: its lockup is or was in force,
/// or Agave's source names its withdrawer. Few accounts are.
pub const LOCKUP: KeyKind = KeyKind(4);
