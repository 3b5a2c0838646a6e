//! The text of a configuration file whose keys are the fields of several structs.
//!
//! In: a TOML text. Out: each struct from its own keys, and a refusal of the first key that is of none.
//! Serde's `flatten` excludes `deny_unknown_fields`, and its errors name neither the key nor the line. Here each struct
//! is read from the whole text, so errors have both.
//! Not here: the file (`config_file`), the structs (`node::flags`, `local::flags`, `follow::flags`).

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::Error as NoValue;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IgnoredAny, IntoDeserializer,
    MapAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::de::Error;

/// A text, and the keys of the structs that were read from it.
pub(crate) struct ConfigText<'a> {
    text: &'a str,
    keys: Vec<&'static str>,
}

impl<'a> ConfigText<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, keys: Vec::new() }
    }

    /// A struct from the keys that are its fields, which ignores all others. Each struct in it is a table that has only
    /// keys of its own.
    pub(crate) fn part<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        self.keys.extend(field_names::<T>());
        let deserializer = toml::Deserializer::parse(self.text)?;
        T::deserialize(Tables { deserializer, ignores_unknown_keys: true })
    }

    /// Refuses the first key that is a field of no struct.
    pub(crate) fn check_keys(&self) -> Result<(), Error> {
        toml::Deserializer::parse(self.text)?.deserialize_map(KnownKeys(&self.keys))
    }

    /// Refuses the first key of a table that is also a key of the file.
    pub(crate) fn check_repeated_keys(&self, table: &str) -> Result<(), Error> {
        let file: BTreeMap<String, IgnoredAny> =
            BTreeMap::deserialize(toml::Deserializer::parse(self.text)?)?;
        let other_keys = OtherKeys { file: &file, table };
        toml::Deserializer::parse(self.text)?.deserialize_map(TablesVisitor(other_keys))
    }
}

/// A deserializer whose structs are tables. A key that is not a field is refused, and so is an array, whose values
/// serde would assign to the fields by their positions.
struct Tables<D> {
    deserializer: D,
    /// Whether the struct may have keys that are not its fields.
    ignores_unknown_keys: bool,
}

/// Forwards the methods of a deserializer that have only a visitor.
macro_rules! forward_to_inner {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.deserializer.$method(visitor)
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Tables<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let keys = (!self.ignores_unknown_keys).then_some(fields);
        self.deserializer.deserialize_map(TableVisitor { visitor, keys })
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserializer.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserializer.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserializer.deserialize_tuple(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserializer.deserialize_tuple_struct(name, len, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserializer.deserialize_enum(name, variants, visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.deserializer.is_human_readable()
    }

    forward_to_inner! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string
        deserialize_bytes deserialize_byte_buf deserialize_option deserialize_unit deserialize_seq
        deserialize_map deserialize_identifier deserialize_ignored_any
    }
}

/// A visitor of the table of a struct.
struct TableVisitor<V> {
    visitor: V,
    /// The known keys. `None`: others are ignored.
    keys: Option<&'static [&'static str]>,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for TableVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Table { map, keys: self.keys })
    }
}

/// A table whose keys are checked as they are read.
struct Table<A> {
    map: A,
    keys: Option<&'static [&'static str]>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Table<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let Some(keys) = self.keys else { return self.map.next_key_seed(seed) };
        let Some(key) = self.map.next_key_seed(KnownKey(keys))? else { return Ok(None) };
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(TableSeed(seed))
    }
}

/// A seed that is deserialized with [`Tables`].
struct TableSeed<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for TableSeed<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Tables { deserializer, ignores_unknown_keys: false })
    }
}

/// The names of a struct's fields in a file.
fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // It fails when it has named them.
    T::deserialize(FieldNames(&mut names)).err();
    names
}

/// A deserializer that records the names of a struct's fields, and then fails.
struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = NoValue;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NoValue> {
        Err(NoValue::custom("it is not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, NoValue> {
        *self.0 = fields;
        Err(NoValue::custom("only the names are of interest"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// A visitor of a table with known keys.
struct KnownKeys<'a>(&'a [&'static str]);

impl<'de> Visitor<'de> for KnownKeys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(KnownKey(self.0))?.is_some() {
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// A visitor of one key of a table.
struct KnownKey<'a>(&'a [&'static str]);

impl Visitor<'_> for KnownKey<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a setting")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<String, E> {
        if self.0.contains(&key) {
            return Ok(key.to_owned());
        }
        let known: Vec<_> = self.0.iter().map(|known| format!("`{known}`")).collect();
        Err(E::custom(format!("unknown field `{key}`, expected one of {}", known.join(", "))))
    }
}

impl<'de> DeserializeSeed<'de> for KnownKey<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<String, D::Error> {
        key.deserialize_str(self)
    }
}

/// The keys of a file, which a table of it must not have.
#[derive(Clone, Copy)]
struct OtherKeys<'a> {
    file: &'a BTreeMap<String, IgnoredAny>,
    table: &'a str,
}

/// A visitor of a file that finds its table.
struct TablesVisitor<'a>(OtherKeys<'a>);

impl<'de> Visitor<'de> for TablesVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == self.0.table {
                map.next_value_seed(self.0)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for OtherKeys<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, table: D) -> Result<(), D::Error> {
        table.deserialize_map(OtherKeysVisitor(self))
    }
}

/// A visitor of the table.
struct OtherKeysVisitor<'a>(OtherKeys<'a>);

impl<'de> Visitor<'de> for OtherKeysVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(OtherKey(self.0))?.is_some() {
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// A visitor of one key of the table. Its error has the line.
struct OtherKey<'a>(OtherKeys<'a>);

impl Visitor<'_> for OtherKey<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a setting")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<(), E> {
        let OtherKeys { file, table } = self.0;
        if file.contains_key(key) {
            return Err(E::custom(format!(
                "`{key}` is set in [{table}] and at the top of the file: remove one of the two"
            )));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for OtherKey<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<(), D::Error> {
        key.deserialize_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default, rename_all = "kebab-case")]
    struct Ports {
        rpc_port: u16,
        names: Vec<String>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default, rename_all = "kebab-case")]
    struct Limits {
        queue_max: u64,
        #[serde(skip)]
        hidden: bool,
    }

    fn read(text: &str) -> Result<(Ports, Limits), Error> {
        let mut file = ConfigText::new(text);
        let parts = (file.part()?, file.part()?);
        file.check_keys()?;
        Ok(parts)
    }

    fn refusal(text: &str) -> String {
        read(text).expect_err("a refusal").to_string()
    }

    #[test]
    fn each_struct_is_read_from_its_own_keys() {
        let read = read("queue-max = 7\nrpc-port = 80\nnames = [\"a\"]").expect("valid");
        let ports = Ports { rpc_port: 80, names: vec!["a".to_owned()] };
        assert_eq!(read, (ports, Limits { queue_max: 7, hidden: false }));
    }

    #[test]
    fn a_key_of_no_struct_is_refused_with_its_line_and_the_names_that_exist() {
        let unknown = refusal("rpc-port = 80\nqueue-maximum = 7");
        assert!(unknown.contains("line 2"), "{unknown}");
        let names = "`rpc-port`, `names`, `queue-max`";
        let expected = format!("unknown field `queue-maximum`, expected one of {names}");
        assert!(unknown.contains(&expected), "{unknown}");
        let table = refusal("[queue]\nmax = 7");
        assert!(table.contains("unknown field `queue`"), "{table}");
        // A skipped field is not a key.
        assert!(refusal("hidden = true").contains("unknown field `hidden`"));
    }

    #[test]
    fn a_value_of_another_type_is_refused_with_its_line() {
        let text = refusal("queue-max = 7\nrpc-port = \"eighty\"");
        assert!(text.contains("line 2") && text.contains("rpc-port = \"eighty\""), "{text}");
        let twice = refusal("rpc-port = 80\nrpc-port = 81");
        assert!(twice.contains("duplicate key"), "{twice}");
    }
}
