//! Descriptions of messages: how the fields of an object in JSON are numbered and typed in protobuf.

/// The fields of an object, by their numbers in ascending order.
#[derive(Debug)]
pub(super) struct Shape(pub(super) &'static [FieldShape]);

/// A field of an object.
#[derive(Debug)]
pub(super) struct FieldShape {
    /// The number in protobuf.
    pub(super) number: u32,
    /// The key in JSON.
    pub(super) key: &'static str,
    pub(super) kind: Kind,
    /// Whether a default value differs from a missing one. In JSON a missing one is null.
    pub(super) is_optional: bool,
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Flag,
    /// An unsigned number.
    Number,
    /// A signed number, in two's complement.
    Signed,
    Double,
    Float,
    /// A text that is the same in both encodings. It may be hexadecimal digits.
    Text,
    /// A text that is null in JSON if it is empty.
    NullableText,
    /// An object.
    Object(&'static Shape),
    /// An object whose fields are those of the message around it.
    Inline(&'static Shape),
    List(&'static Self),
    /// A list of unsigned numbers, packed.
    Numbers,
    /// A script: its version and its program, which are one text in JSON.
    Script,
    /// A text in JSON that has another form in protobuf.
    Words(&'static [(&'static str, &'static str)]),
    /// A word in JSON, and a number in protobuf.
    Enumeration(&'static [(&'static str, u64)]),
    /// The name of a network, with a prefix in protobuf.
    NetworkName,
    /// Hexadecimal digits, without leading zeros in protobuf.
    BlueWork,
    /// A list of bytes in JSON, and hexadecimal digits in protobuf.
    BytesAsDigits,
    /// A list of bytes in JSON.
    Bytes,
    /// A list of bytes in JSON, and a text in protobuf.
    BytesAsText,
    /// Hexadecimal digits in JSON, and bytes in protobuf.
    DigitsAsBytes,
    /// A value that is the field 1 of a message in protobuf.
    Wrapped(&'static Self),
    /// A pair in JSON of a number (field 2) and a list of texts (field 1).
    LevelRun,
    /// An address of a node: an object in JSON with an IP address and a port, and a text in protobuf.
    PeerAddress,
    /// Like [`Kind::PeerAddress`], or an IP address alone, as the field 1 of a message.
    KnownAddress,
    /// The outcome of submitBlock: a reason (field 1) and an error (field 1000).
    BlockReport,
}

/// Describes a field.
pub(super) const fn field(number: u32, key: &'static str, kind: Kind) -> FieldShape {
    FieldShape { number, key, kind, is_optional: false }
}

/// Describes a field that may be missing.
pub(super) const fn optional(number: u32, key: &'static str, kind: Kind) -> FieldShape {
    FieldShape { number, key, kind, is_optional: true }
}
