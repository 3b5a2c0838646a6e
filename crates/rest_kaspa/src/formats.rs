//! The formats of Kaspa's parameters.

use kaspa::{Hash, KaspaAddress};
use rest::TextFormat;

/// The maximum length of a page token: two numbers.
const PAGE_CHARS_MAX: usize = 32;

/// The maximum number of members that a request may name.
pub(crate) const FIELDS_MAX: usize = 32;

/// An address with its prefix and its checksum, of any network. The methods check the network.
pub(crate) const ADDRESS: TextFormat = TextFormat {
    expected: "an address: a prefix, a colon, and 61 or 63 characters with a valid checksum",
    plural: "addresses",
    pattern: "^kaspa(test|sim|dev)?:[a-z0-9]{61,63}$",
    placeholder: "kaspa:…",
    is_valid: |text| text.parse::<KaspaAddress>().is_ok(),
};

/// The hash of a block or the id of a transaction.
pub(crate) const HASH: TextFormat = TextFormat {
    expected: "a hash: 64 hexadecimal digits",
    plural: "hashes",
    pattern: "^[a-fA-F0-9]{64}$",
    placeholder: "64 hexadecimal digits",
    is_valid: |text| Hash::from_hex(text).is_ok(),
};

/// The name of a member of a transaction. The method checks it.
pub(crate) const FIELD: TextFormat = TextFormat {
    expected: "the name of a member of a transaction",
    plural: "names of members",
    pattern: "^[a-z_]*$",
    placeholder: "names, separated by commas",
    is_valid: |text| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
};

/// The token of the next page (`Hydrant-Next-Page`).
pub(crate) const PAGE: TextFormat = TextFormat {
    expected: "the Hydrant-Next-Page of a response",
    plural: "pages",
    pattern: "^[0-9a-f-]{1,32}$",
    placeholder: "Hydrant-Next-Page of a response",
    is_valid: |text| {
        let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        (1..=PAGE_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_part)
    },
};
