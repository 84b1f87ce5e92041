//! JSON as values of expressions.

use std::fmt;
use std::sync::OnceLock;

use cel::ExecutionError;
use cel::common::traits::{Container, Indexer, Iterable, Sizer};
use cel::common::types::{CelBool, CelDouble, CelInt, CelNull, CelString, MAP_TYPE, Type};
use cel::common::value::{CowVal, Val};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Returns JSON as a value that is converted lazily.
pub(super) fn lazy(json: &Value) -> Box<dyn Val + '_> {
    match json {
        Value::Object(map) => Box::new(Object { map, whole: OnceLock::new() }),
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Bool(value) => Box::new(CelBool::from(*value)),
        Value::Null => Box::new(CelNull),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Box::new(CelInt::from(number)),
            None => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::Array(_) => whole(json),
    }
}

/// Returns JSON as a value of its own.
pub(super) fn whole(json: &Value) -> Box<dyn Val> {
    let value = cel::to_value(SignedNumbers(json)).expect("JSON has keys of text only");
    Box::<dyn Val>::try_from(value).unwrap_or_else(|_| Box::new(CelNull))
}

/// Serializes whole numbers as signed ones, as Go reads them; the library distinguishes the two kinds.
struct SignedNumbers<'a>(&'a Value);

impl Serialize for SignedNumbers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Number(number) => match number.as_i64() {
                Some(number) => serializer.serialize_i64(number),
                None => serializer.serialize_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::Array(items) => serializer.collect_seq(items.iter().map(SignedNumbers)),
            Value::Object(map) => serializer.collect_map(map.iter().map(|(key, value)| (key, SignedNumbers(value)))),
            scalar => scalar.serialize(serializer),
        }
    }
}

/// A JSON object that is copied only when an expression iterates over it.
struct Object<'v> {
    map: &'v Map<String, Value>,
    whole: OnceLock<Box<dyn Val>>,
}

impl Object<'_> {
    fn whole(&self) -> &(dyn Val + 'static) {
        self.whole.get_or_init(|| whole(&Value::Object(self.map.clone()))).as_ref()
    }
}

impl fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map.fmt(f)
    }
}

impl Val for Object<'_> {
    fn get_type(&self) -> &Type {
        &MAP_TYPE
    }

    fn cel_type() -> &'static Type {
        &MAP_TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        self.whole().as_iterable()
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        self.whole().equals(other)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(Object { map: self.map, whole: OnceLock::new() })
    }
}

impl Container for Object<'_> {
    fn contains(&self, key: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(key.downcast_ref::<CelString>().is_some_and(|key| self.map.contains_key(key.inner())))
    }
}

impl Sizer for Object<'_> {
    fn size(&self) -> CelInt {
        CelInt::from(i64::try_from(self.map.len()).unwrap_or(i64::MAX))
    }
}

impl Indexer for Object<'_> {
    fn get<'b, 'v>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        // Keys of JSON are strings: another key, for example a number, finds nothing.
        let Some(key) = key.downcast_ref::<CelString>().map(CelString::inner) else {
            return Err(ExecutionError::no_such_key("a key that is not text"));
        };
        self.map.get(key).map(|value| CowVal::Owned(lazy(value))).ok_or_else(|| ExecutionError::no_such_key(key))
    }

    fn steal<'v>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.get(key).map(CowVal::into_owned)
    }
}
