//! A message of wRPC as a tree, from which both encodings are written.
//!
//! Shape: a structure has a version and fields in the order of Borsh. JSON has the same fields, sorted by name, and no
//! versions. In Borsh a structure within another message comes after its length.
//! It shares no code with the encoders of `kaspa`, so that a test that reads one with the other compares two works.

use kaspa::{BlueWork, Hash, KaspaAddress, Network, ScriptPublicKey};

/// One field of a message.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    F64(f64),
    Flag(bool),
    Hash(Hash),
    /// A number in JSON, most significant digit first, without a prefix.
    BlueWork(BlueWork),
    Text(String),
    /// Bytes after their length; digits in JSON.
    Bytes(Vec<u8>),
    /// Bytes without a length; digits in JSON.
    FixedBytes(Vec<u8>),
    Script(ScriptPublicKey),
    Address(KaspaAddress),
    Network(Network),
    /// A variant without fields.
    Choice {
        code: u8,
        name: &'static str,
    },
    Option(Option<Box<Self>>),
    List(Vec<Self>),
    /// Values without names; a list in JSON.
    Tuple(Vec<Self>),
    Structure(Structure),
    /// Fields without a version and without a length.
    Object(Vec<(&'static str, Self)>),
    /// A value after a version of one byte, which JSON does not have.
    Versioned8(u8, Box<Self>),
    /// A value after its length in Borsh.
    Framed(Box<Self>),
    /// A value that is written as it was recorded.
    Recorded {
        borsh: Vec<u8>,
        json: &'static str,
    },
}

/// A structure of a message.
#[derive(Clone, Debug)]
pub(crate) struct Structure {
    version: Version,
    fields: Vec<Field>,
}

#[derive(Clone, Copy, Debug)]
enum Version {
    None,
    U8(u8),
    U16(u16),
}

#[derive(Clone, Debug)]
struct Field {
    name: &'static str,
    value: Value,
    is_json_only: bool,
}

impl Value {
    /// An optional value.
    pub(crate) fn optional(value: Option<Self>) -> Self {
        Self::Option(value.map(Box::new))
    }

    /// An optional value that is present.
    pub(crate) fn some(value: Self) -> Self {
        Self::Option(Some(Box::new(value)))
    }

    /// An optional structure after its length.
    pub(crate) fn optional_structure(value: Option<Structure>) -> Self {
        Self::Framed(Box::new(Self::optional(value.map(Self::Structure))))
    }

    /// A list of structures, after its length.
    pub(crate) fn structures(list: Vec<Structure>) -> Self {
        Self::Framed(Box::new(Self::List(list.into_iter().map(Self::Structure).collect())))
    }

    /// A list of hashes.
    pub(crate) fn hashes<'a>(hashes: impl IntoIterator<Item = &'a Hash>) -> Self {
        Self::List(hashes.into_iter().map(|hash| Self::Hash(*hash)).collect())
    }

    /// Appends the value in Borsh.
    pub(crate) fn put_borsh(&self, out: &mut Vec<u8>) {
        match self {
            Self::U8(number) => out.push(*number),
            Self::U16(number) => out.extend(number.to_le_bytes()),
            Self::U32(number) => out.extend(number.to_le_bytes()),
            Self::U64(number) => out.extend(number.to_le_bytes()),
            Self::F64(number) => out.extend(number.to_le_bytes()),
            Self::Flag(flag) => out.push(u8::from(*flag)),
            Self::Hash(hash) => out.extend(hash.0),
            Self::BlueWork(work) => out.extend(work.0.iter().rev()),
            Self::Text(text) => put_bytes(out, text.as_bytes()),
            Self::Bytes(bytes) => put_bytes(out, bytes),
            Self::FixedBytes(bytes) => out.extend(bytes),
            Self::Script(script) => {
                out.extend(script.version.to_le_bytes());
                put_bytes(out, &script.script);
            }
            Self::Address(address) => {
                out.push(address.prefix as u8);
                out.push(address.payload.version());
                put_bytes(out, address.payload.as_bytes());
            }
            Self::Network(network) => put_network(out, *network),
            Self::Choice { code, .. } => out.push(*code),
            Self::Option(value) => {
                out.push(u8::from(value.is_some()));
                if let Some(value) = value {
                    value.put_borsh(out);
                }
            }
            Self::List(values) => {
                out.extend((values.len() as u32).to_le_bytes());
                values.iter().for_each(|value| value.put_borsh(out));
            }
            Self::Tuple(values) => values.iter().for_each(|value| value.put_borsh(out)),
            Self::Structure(structure) => put_framed(out, |out| structure.put_borsh(out)),
            Self::Object(fields) => fields.iter().for_each(|(_, value)| value.put_borsh(out)),
            Self::Versioned8(version, value) => {
                out.push(*version);
                value.put_borsh(out);
            }
            Self::Framed(value) => put_framed(out, |out| value.put_borsh(out)),
            Self::Recorded { borsh, .. } => out.extend(borsh),
        }
    }

    /// Appends the value in JSON.
    pub(crate) fn put_json(&self, out: &mut String) {
        match self {
            Self::U8(number) => out.push_str(&number.to_string()),
            Self::U16(number) => out.push_str(&number.to_string()),
            Self::U32(number) => out.push_str(&number.to_string()),
            Self::U64(number) => out.push_str(&number.to_string()),
            Self::F64(number) => out.push_str(&serde_json::json!(number).to_string()),
            Self::Flag(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Self::Hash(hash) => put_digits(out, &hash.0),
            Self::BlueWork(work) => put_digits(out, &work.0),
            Self::Text(text) => out.push_str(&serde_json::json!(text).to_string()),
            Self::Bytes(bytes) | Self::FixedBytes(bytes) => put_digits(out, bytes),
            Self::Script(script) => {
                put_digits(out, &[&script.version.to_be_bytes(), &*script.script].concat());
            }
            Self::Address(address) => out.push_str(&format!("\"{address}\"")),
            Self::Network(network) => out.push_str(&format!("\"{network}\"")),
            Self::Choice { name, .. } => out.push_str(&format!("\"{name}\"")),
            Self::Option(None) => out.push_str("null"),
            Self::Option(Some(value)) | Self::Framed(value) | Self::Versioned8(_, value) => {
                value.put_json(out);
            }
            Self::List(values) | Self::Tuple(values) => {
                out.push('[');
                for (at, value) in values.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    value.put_json(out);
                }
                out.push(']');
            }
            Self::Structure(structure) => structure.put_json(out),
            Self::Object(fields) => {
                put_object(out, fields.iter().map(|(name, value)| (*name, value)).collect());
            }
            Self::Recorded { json, .. } => out.push_str(json),
        }
    }
}

impl Structure {
    /// A structure without a version.
    pub(crate) fn without_version() -> Self {
        Self { version: Version::None, fields: Vec::new() }
    }

    /// A structure with a version of one byte.
    pub(crate) fn with_version8(version: u8) -> Self {
        Self { version: Version::U8(version), fields: Vec::new() }
    }

    /// A structure with a version of two bytes, which requests, replies and notifications have.
    pub(crate) fn with_version16(version: u16) -> Self {
        Self { version: Version::U16(version), fields: Vec::new() }
    }

    /// Adds a field.
    pub(crate) fn field(mut self, name: &'static str, value: Value) -> Self {
        self.fields.push(Field { name, value, is_json_only: false });
        self
    }

    /// Adds a field that Borsh does not have.
    pub(crate) fn json_field(mut self, name: &'static str, value: Value) -> Self {
        self.fields.push(Field { name, value, is_json_only: true });
        self
    }

    /// Appends version and fields, without the length.
    pub(crate) fn put_borsh(&self, out: &mut Vec<u8>) {
        match self.version {
            Version::None => {}
            Version::U8(version) => out.push(version),
            Version::U16(version) => out.extend(version.to_le_bytes()),
        }
        let fields = self.fields.iter().filter(|field| !field.is_json_only);
        fields.for_each(|field| field.value.put_borsh(out));
    }

    /// Appends an object.
    pub(crate) fn put_json(&self, out: &mut String) {
        put_object(out, self.fields.iter().map(|field| (field.name, &field.value)).collect());
    }
}

/// Appends fields in the order of their names.
fn put_object(out: &mut String, mut fields: Vec<(&str, &Value)>) {
    fields.sort_by_key(|(name, _)| *name);
    out.push('{');
    for (at, (name, value)) in fields.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&format!("\"{name}\":"));
        value.put_json(out);
    }
    out.push('}');
}

/// Appends bytes after their length.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

/// Appends what `put` appends, after its length.
pub(super) fn put_framed(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    put(&mut inner);
    put_bytes(out, &inner);
}

fn put_network(out: &mut Vec<u8>, network: Network) {
    let code = match network {
        Network::Mainnet => 0,
        Network::Testnet(_) => 1,
        Network::Devnet => 2,
        Network::Simnet => 3,
    };
    out.push(code);
    match network {
        Network::Testnet(number) => {
            out.push(1);
            out.extend(number.to_le_bytes());
        }
        _ => out.push(0),
    }
}

fn put_digits(out: &mut String, bytes: &[u8]) {
    out.push('"');
    bytes.iter().for_each(|byte| out.push_str(&format!("{byte:02x}")));
    out.push('"');
}
