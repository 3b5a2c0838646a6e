//! Reads the golden messages.

/// The messages in Borsh.
pub(crate) const BORSH: &str = include_str!("../golden/borsh.txt");
/// The messages in JSON.
pub(crate) const JSON: &str = include_str!("../golden/json.txt");
/// The messages in protobuf.
pub(crate) const PROTOBUF: &str = include_str!("../golden/protobuf.txt");
/// The messages of a chain from its first block on.
pub(crate) const CHAIN: &str = include_str!("../golden/chain.txt");

/// One message.
pub(crate) struct Golden<'a> {
    /// The method, the notification, or what the request does.
    pub(crate) name: &'a str,
    /// `request`, `response` or `notification`.
    pub(crate) kind: &'a str,
    /// The message: digits or text.
    pub(crate) text: &'a str,
}

/// The messages of a file.
pub(crate) fn messages(file: &'static str) -> impl Iterator<Item = Golden<'static>> {
    file.lines().map(|line| {
        let mut parts = line.splitn(3, ' ');
        let mut part = || parts.next().expect("three parts in a line");
        Golden { name: part(), kind: part(), text: part() }
    })
}

/// The message of this name and kind.
pub(crate) fn find(file: &'static str, name: &str, kind: &str) -> &'static str {
    let is_it = |golden: &Golden<'_>| golden.name == name && golden.kind == kind;
    messages(file).find(is_it).unwrap_or_else(|| panic!("no {kind} {name}")).text
}

/// The bytes of hexadecimal digits.
pub(crate) fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("digits")).collect()
}

/// The bytes of this message in Borsh.
pub(crate) fn borsh(name: &str, kind: &str) -> Vec<u8> {
    bytes(find(BORSH, name, kind))
}
