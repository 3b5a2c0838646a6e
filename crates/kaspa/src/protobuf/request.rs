//! A request of kaspad's gRPC, translated to the request of wRPC in JSON that has the same meaning.
//!
//! Cost: the length of the message, a few times. Only the types of fields are checked here: a value that kaspad would
//! refuse is refused as in JSON.

use super::methods::{METHODS, MethodShape, SCOPES, ScopeShape};
use super::to_json::{find_last, put_object};
use super::wire::{Fields, ProtobufError, Value, read_varint};
use crate::json::JsonBuffer;
use crate::operation::Operation;

/// The field of a message that has its id.
pub(super) const ID_FIELD: u32 = 101;
/// The field of a subscription that has its command: 0 starts, and 1 stops.
const COMMAND_FIELD: u32 = 101;
/// The wire type of a field with bytes.
const BYTES_TYPE: u64 = 2;

/// A request in JSON, and the parts that its reply repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtobufRequest {
    /// The id that the reply repeats.
    pub id: u64,
    /// The operation that the client requests.
    pub operation: Operation,
    /// The number of the reply in `KaspadResponse`.
    pub reply_field: u32,
    /// The whole request in JSON, with its id.
    pub json: String,
}

/// The description of a request: of a call, or of a subscription.
enum RequestShape {
    Method(&'static MethodShape),
    Scope(&'static ScopeShape),
}

impl RequestShape {
    /// Returns the request with a number in `KaspadRequest`.
    fn find(field: u32) -> Option<Self> {
        let method = METHODS.iter().find(|method| method.field == field).map(Self::Method);
        method.or_else(|| SCOPES.iter().find(|scope| scope.field == field).map(Self::Scope))
    }

    fn field(&self) -> u32 {
        match self {
            Self::Method(method) => method.field,
            Self::Scope(scope) => scope.field,
        }
    }

    /// Returns the operation of a request whose content is `params`.
    fn operation(&self, params: &[u8]) -> Result<Operation, ProtobufError> {
        match self {
            Self::Method(method) => Ok(Operation::Method(method.method)),
            Self::Scope(scope) if scope.is_stop => Ok(Operation::Unsubscribe),
            Self::Scope(_) => Ok(match find_last(params, COMMAND_FIELD)? {
                None | Some(Value::Varint(0)) => Operation::Subscribe,
                Some(_) => Operation::Unsubscribe,
            }),
        }
    }

    /// Appends the parameters in JSON.
    fn put_params(&self, out: &mut Vec<u8>, params: &[u8]) -> Result<(), ProtobufError> {
        match self {
            Self::Method(method) => put_object(out, method.params, params),
            Self::Scope(scope) => {
                out.put_json("{\"");
                out.put_json(scope.event.scope_name());
                out.put_json("\":");
                put_object(out, scope.params, params)?;
                out.push(b'}');
                Ok(())
            }
        }
    }
}

impl ProtobufRequest {
    /// Reads a message of a client, without the prefix of gRPC.
    ///
    /// Errors: the bytes are not protobuf, a field has another type, or there is no known request.
    pub fn parse(message: &[u8]) -> Result<Self, ProtobufError> {
        let mut id = 0;
        let mut request = None;
        for field in Fields::new(message) {
            let field = field?;
            match field.value {
                Value::Varint(value) if field.number == ID_FIELD => id = value,
                Value::Bytes(params) => {
                    // Of several requests the last one counts, and an unknown one is ignored.
                    if let Some(shape) = RequestShape::find(field.number) {
                        request = Some((shape, params));
                    }
                }
                Value::Varint(_) | Value::Fixed32(_) | Value::Fixed64(_) => {}
            }
        }
        let (shape, params) = request.ok_or(ProtobufError::NoRequest)?;
        let operation = shape.operation(params)?;
        let mut json = Vec::with_capacity(params.len() + 128);
        json.put_json(r#"{"id":"#);
        json.put_number(id);
        json.put_json(r#","method":""#);
        json.put_json(operation.name());
        json.put_json(r#"","params":"#);
        shape.put_params(&mut json, params)?;
        json.push(b'}');
        // Each text was checked.
        let json = String::from_utf8(json).unwrap_or_else(|_| unreachable!("JSON is UTF-8"));
        Ok(Self { id, operation, reply_field: shape.field() + 1, json })
    }
}

/// Returns the operation of a message from its first bytes: subscribe for unsubscribe as well. `None` if they do not
/// show the operation.
pub fn find_protobuf_operation(prefix: &[u8]) -> Option<Operation> {
    let mut rest = prefix;
    loop {
        let (tag, after_tag) = read_varint(rest).ok()?;
        let number = u32::try_from(tag >> 3).ok()?;
        if number != ID_FIELD {
            let shape = RequestShape::find(number).filter(|_| tag & 7 == BYTES_TYPE)?;
            return shape.operation(&[]).ok();
        }
        let (_, after_id) = read_varint(after_tag).ok()?;
        rest = after_id;
    }
}
