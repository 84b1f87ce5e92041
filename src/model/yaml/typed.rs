//! Values to types, strictly, with the path of every field that does not fit.

use std::cell::RefCell;
use std::fmt::Write as _;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

use crate::text::suggest;

/// Unknown fields reported for one value; the first is enough to stop, the rest save the writer a round.
const UNKNOWN_FIELDS_MAX: usize = 20;

/// One complaint about a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldError {
    /// JSON path such as `spec.policy.clusterNames[0]`; empty for the object as a whole.
    pub field: String,
    /// What is wrong, and with which value.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl FieldError {
    /// Names a field and what is wrong with it.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), hint: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Reads a value as a type. Every unknown field is reported, and the first other misfit, each with its path.
///
/// # Errors
/// At least one field that the type does not know or cannot hold.
pub fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut reduced: Option<Value> = None;
    loop {
        let path = RefCell::new(Vec::new());
        let current = reduced.as_ref().unwrap_or(value);
        let error = match T::deserialize(Tracked { value: current, path: &path }) {
            Ok(parsed) if errors.is_empty() => return Ok(parsed),
            Ok(_) => return Err(errors),
            Err(error) => error,
        };
        let path = path.into_inner();
        let text = error.to_string();
        let Some(rest) = text.strip_prefix("unknown field `") else {
            errors.push(misfit(&path, &text));
            return Err(errors);
        };
        errors.push(unknown_field(&path, rest));
        // serde stops at the first unknown field: it is taken out of a copy, and the copy is read again.
        let mut copy = reduced.take().unwrap_or_else(|| value.clone());
        // A field that cannot be taken out would be met again for ever.
        if errors.len() >= UNKNOWN_FIELDS_MAX || !remove(&mut copy, &path) {
            return Err(errors);
        }
        reduced = Some(copy);
    }
}

/// One step of a path.
#[derive(Clone, Debug)]
enum PathStep {
    Key(String),
    Index(usize),
}

fn written(path: &[PathStep]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            PathStep::Key(key) if text.is_empty() => text.push_str(key),
            PathStep::Key(key) => write!(text, ".{key}").expect("writing to a string cannot fail"),
            PathStep::Index(index) => write!(text, "[{index}]").expect("writing to a string cannot fail"),
        }
    }
    text
}

/// `rest` is what follows the words "unknown field" and a backtick in serde's sentence.
fn unknown_field(path: &[PathStep], rest: &str) -> FieldError {
    let mut names = rest.split('`').step_by(2);
    let name = names.next().unwrap_or_default();
    let known: Vec<&str> = rest.split('`').skip(2).step_by(2).filter(|k| !k.is_empty()).collect();
    let mut path = path.to_vec();
    if !matches!(path.last(), Some(PathStep::Key(last)) if last == name) {
        path.push(PathStep::Key(name.to_owned()));
    }
    let hint = match suggest(name, known.iter().copied()) {
        Some(close) => format!("did you mean `{close}`?"),
        None if known.is_empty() => "remove it".to_owned(),
        None => format!("known here: {}", known.join(", ")),
    };
    FieldError::new(written(&path), "unknown field").hint(hint)
}

fn misfit(path: &[PathStep], text: &str) -> FieldError {
    let mut path = path.to_vec();
    if let Some(name) = text.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        path.push(PathStep::Key(name.to_owned()));
        return FieldError::new(written(&path), "required and missing");
    }
    if let Some(rest) = text.strip_prefix("unknown variant `") {
        let found = rest.split('`').next().unwrap_or_default();
        let known: Vec<&str> = rest.split('`').skip(2).step_by(2).filter(|k| !k.is_empty()).collect();
        let message = format!("{found:?} is not one of {}", known.join(", "));
        let error = FieldError::new(written(&path), message);
        return match suggest(found, known.iter().copied()) {
            Some(close) => error.hint(format!("did you mean `{close}`?")),
            None => error,
        };
    }
    let error = FieldError::new(written(&path), text);
    let is_scalar = ["boolean", "integer", "floating point"].iter().any(|t| text.contains(&format!("type: {t}")));
    if is_scalar && text.ends_with("a string") { error.hint("put it in quotes") } else { error }
}

fn remove(value: &mut Value, path: &[PathStep]) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    let mut at = value;
    for step in parents {
        let next = match step {
            PathStep::Key(key) => at.get_mut(key),
            PathStep::Index(index) => at.get_mut(*index),
        };
        let Some(next) = next else { return false };
        at = next;
    }
    match (at, last) {
        (Value::Object(map), PathStep::Key(key)) => map.remove(key).is_some(),
        _ => false,
    }
}

/// A value that remembers how serde came to it; after a failure the path is that of the misfit.
#[derive(Clone, Copy)]
struct Tracked<'v, 'p> {
    value: &'v Value,
    path: &'p RefCell<Vec<PathStep>>,
}

impl<'v> Tracked<'v, '_> {
    fn child<S: DeserializeSeed<'v>>(self, value: &'v Value, seed: S) -> Result<S::Value, Error> {
        // After a failure the step stays: the path then leads to the misfit.
        let parsed = seed.deserialize(Tracked { value, path: self.path })?;
        self.path.borrow_mut().pop();
        Ok(parsed)
    }
}

impl<'v> Deserializer<'v> for Tracked<'v, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Array(items) => visitor.visit_seq(Items { parent: self, values: items, next: 0 }),
            Value::Object(map) => visitor.visit_map(Entries { parent: self, rest: map.iter(), value: None }),
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'v>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'v>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.value.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        <V: Visitor<'v>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Items<'v, 'p> {
    parent: Tracked<'v, 'p>,
    values: &'v [Value],
    next: usize,
}

impl<'v> SeqAccess<'v> for Items<'v, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'v>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(item) = self.values.get(self.next) else { return Ok(None) };
        self.parent.path.borrow_mut().push(PathStep::Index(self.next));
        self.next += 1;
        self.parent.child(item, seed).map(Some)
    }
}

struct Entries<'v, 'p> {
    parent: Tracked<'v, 'p>,
    rest: serde_json::map::Iter<'v>,
    value: Option<&'v Value>,
}

impl<'v> MapAccess<'v> for Entries<'v, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'v>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        self.parent.path.borrow_mut().push(PathStep::Key(key.clone()));
        let key: StrDeserializer<'_, Error> = key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'v>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let value = self.value.take().expect("serde asks for a key before its value");
        self.parent.child(value, seed)
    }
}
