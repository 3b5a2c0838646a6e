//! An account as the ledger keeps it, and the keys by which it is found.

use std::sync::Arc;

use ledger::{Address, Facet, Record};
use solana_account::{AccountSharedData, ReadableAccount};
use spl_generic_token::token::GenericTokenAccount;
use spl_generic_token::{is_known_spl_token_id, token, token_2022};

/// What a key's address is to an account.
pub mod facet {
    use ledger::Facet;

    /// The program that owns the account.
    pub const PROGRAM: Facet = Facet(0);
    /// The mint of a token account, of either token program.
    pub const MINT: Facet = Facet(1);
    /// The wallet that owns a token account.
    pub const OWNER: Facet = Facet(2);
    /// The wallet that may spend from a token account in its owner's place.
    pub const DELEGATE: Facet = Facet(3);
}

/// An account. Its data is shared with the VM that wrote it, never copied.
#[derive(Clone, Debug, PartialEq)]
pub struct Account(pub AccountSharedData);

impl Account {
    /// The account as a change to the ledger: `None` once its lamports are gone, as on Solana.
    pub fn into_record(self) -> Option<Arc<Self>> {
        (self.0.lamports() > 0).then(|| Arc::new(self))
    }
}

impl Record for Account {
    fn keys(&self, key: &mut dyn FnMut(Facet, Address)) {
        key(facet::PROGRAM, Address::from(self.0.owner().to_bytes()));
        if !is_known_spl_token_id(self.0.owner()) {
            return;
        }
        let data = self.0.data();
        let (Some(mint), Some(owner)) = (
            token_2022::Account::unpack_account_mint(data),
            token_2022::Account::unpack_account_owner(data),
        ) else {
            return;
        };
        key(facet::MINT, Address::from(mint.to_bytes()));
        key(facet::OWNER, Address::from(owner.to_bytes()));
        if let Some(delegate) = delegate(data) {
            key(facet::DELEGATE, delegate);
        }
    }
}

/// The delegate of a valid token account: a 4-byte tag at 72, then the key.
fn delegate(data: &[u8]) -> Option<Address> {
    debug_assert!(data.len() >= token::Account::get_packed_len());
    let tagged: &[u8; 36] = data.get(72..108)?.try_into().ok()?;
    let (tag, key) = tagged.split_at(4);
    (tag == [1, 0, 0, 0]).then(|| Address::try_from(key).ok()).flatten()
}
