//! The messages that a kaspad 2.1.0 sent and received, which are recorded in the tests of `kaspa`.

/// The messages in Borsh, as digits.
pub const BORSH: &str = include_str!("../../kaspa/tests/golden/borsh.txt");
/// The messages in JSON, as text.
pub const JSON: &str = include_str!("../../kaspa/tests/golden/json.txt");
/// The messages in protobuf without the prefix of gRPC, as digits.
pub const PROTOBUF: &str = include_str!("../../kaspa/tests/golden/protobuf.txt");
/// The messages of a chain from its first block on, in Borsh, as digits.
pub const CHAIN: &str = include_str!("../../kaspa/tests/golden/chain.txt");

/// One recorded message.
#[derive(Clone, Copy, Debug)]
pub struct GoldenMessage {
    /// The name of the method, of the notification, or of the effect of the request.
    pub name: &'static str,
    /// `request`, `response` or `notification`.
    pub kind: &'static str,
    /// The message: digits or text.
    pub text: &'static str,
}

/// Returns the messages of a file.
pub fn messages(file: &'static str) -> impl Iterator<Item = GoldenMessage> {
    file.lines().map(|line| {
        let mut parts = line.splitn(3, ' ');
        let mut part = || parts.next().expect("three parts in a line");
        GoldenMessage { name: part(), kind: part(), text: part() }
    })
}

/// Returns the text of the message with this name and kind, if it was recorded.
pub fn find(file: &'static str, name: &str, kind: &str) -> Option<&'static str> {
    let is_it = |golden: &GoldenMessage| golden.name == name && golden.kind == kind;
    messages(file).find(is_it).map(|golden| golden.text)
}

/// Returns the text of the message with this name and kind, which was recorded.
pub fn expect(file: &'static str, name: &str, kind: &str) -> &'static str {
    find(file, name, kind).unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// Returns the bytes of the message with this name and kind, which was recorded as digits.
pub fn expect_bytes(file: &'static str, name: &str, kind: &str) -> Vec<u8> {
    decode_digits(expect(file, name, kind))
}

/// Returns the bytes of digits.
pub fn decode_digits(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("digits")).collect()
}
