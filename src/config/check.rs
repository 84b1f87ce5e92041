//! Checks a value against the JSON schema of the file, so that every complaint names its field and all come at once.
//!
//! Knows what the schema of `Document` uses, no more: references, alternatives with null, constants, types, required and
//! unknown fields, lower bounds and the two text formats of ours.

use serde_json::Value;

use super::complaint;
use super::values::{DURATION_FORMAT, SOCKET_ADDRESS_FORMAT, parse_duration};
use model::manifest::InputError;
use model::text::suggest;

/// Returns everything in a value that its schema does not allow.
pub(super) fn against(root: &Value, value: &Value) -> Vec<InputError> {
    let mut check = Check { root, errors: Vec::new() };
    check.value("", root, value);
    check.errors
}

struct Check<'a> {
    root: &'a Value,
    errors: Vec<InputError>,
}

impl<'a> Check<'a> {
    fn value(&mut self, field: &str, schema: &'a Value, value: &Value) {
        let schema = self.followed(schema);
        if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
            // Only optional fields have `anyOf`: something, or null.
            if !value.is_null()
                && let Some(choice) = choices.iter().find(|choice| choice.get("type") != Some(&"null".into()))
            {
                self.value(field, choice, value);
            }
            return;
        }
        if let Some(allowed) = constants(schema) {
            self.constant(field, &allowed, value);
            return;
        }
        if !self.has_type(field, schema, value) {
            return;
        }
        match value {
            Value::Object(_) => self.object(field, schema, value),
            Value::Array(items) => {
                let Some(schema) = schema.get("items") else { return };
                for (position, item) in items.iter().enumerate() {
                    self.value(&format!("{field}[{position}]"), schema, item);
                }
            }
            Value::String(text) => self.text(field, schema, text),
            Value::Number(number) => {
                let min = schema.get("minimum").and_then(Value::as_f64).unwrap_or(f64::NEG_INFINITY);
                if number.as_f64().is_some_and(|n| n < min) {
                    self.errors.push(complaint(field, format!("is {number}, must be at least {min}")));
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn followed(&self, schema: &'a Value) -> &'a Value {
        let root = self.root;
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
        reference.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
    }

    fn object(&mut self, field: &str, schema: &'a Value, value: &Value) {
        let (Some(fields), Some(known)) = (value.as_object(), schema.get("properties").and_then(Value::as_object))
        else {
            return;
        };
        for (name, inner) in fields {
            match known.get(name) {
                Some(schema) => self.value(&joined(field, name), schema, inner),
                None => self.errors.push(InputError {
                    hint: suggest(name, known.keys().map(String::as_str))
                        .map(|known| format!("did you mean `{known}`?")),
                    ..complaint(&joined(field, name), "is unknown")
                }),
            }
        }
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !fields.contains_key(*name)) {
            self.errors.push(complaint(&joined(field, name), "is missing"));
        }
    }

    fn constant(&mut self, field: &str, allowed: &[&str], value: &Value) {
        if value.as_str().is_some_and(|text| allowed.contains(&text)) {
            return;
        }
        let message = format!("is {value}, must be {}", allowed.join(" or "));
        self.errors.push(complaint(field, message));
    }

    fn has_type(&mut self, field: &str, schema: &Value, value: &Value) -> bool {
        let wanted: Vec<&str> = match schema.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(some)) => some.iter().filter_map(Value::as_str).collect(),
            _ => return true,
        };
        let (is, name) = match value {
            Value::Null => ("null", "nothing"),
            Value::Bool(_) => ("boolean", "true or false"),
            Value::Number(n) if n.is_f64() => ("number", "a number"),
            Value::Number(_) => ("integer", "a whole number"),
            Value::String(_) => ("string", "a text"),
            Value::Array(_) => ("array", "a list"),
            Value::Object(_) => ("object", "a map"),
        };
        let fits = wanted.contains(&is) || (is == "integer" && wanted.contains(&"number"));
        if !fits {
            let should = match wanted.first().copied() {
                Some("boolean") => "true or false",
                Some("integer") => "a whole number",
                Some("string") => "a text",
                Some("array") => "a list",
                Some("object") => "a map of fields",
                _ => "something else",
            };
            // YAML makes numbers and truth values of texts without quotes.
            let quote = wanted.contains(&"string") && matches!(value, Value::Bool(_) | Value::Number(_));
            let hint = quote.then(|| format!("put it in quotes: \"{value}\""));
            self.errors.push(InputError { hint, ..complaint(field, format!("is {name}, must be {should}")) });
        }
        fits
    }

    fn text(&mut self, field: &str, schema: &Value, text: &str) {
        let message = match schema.get("format").and_then(Value::as_str) {
            Some(DURATION_FORMAT) => parse_duration(text).err(),
            Some(SOCKET_ADDRESS_FORMAT) if text.parse::<std::net::SocketAddr>().is_err() => {
                Some(format!("{text:?} is no address and port; write one like \"127.0.0.1:8080\""))
            }
            _ => None,
        };
        self.errors.extend(message.map(|message| complaint(field, message)));
    }
}

/// Returns the texts of an enum, in whichever of its spellings the schema has it.
fn constants(schema: &Value) -> Option<Vec<&str>> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.iter().map(Value::as_str).collect();
    }
    if let Some(choices) = schema.get("oneOf").and_then(Value::as_array) {
        return choices.iter().map(|choice| choice.get("const")?.as_str()).collect();
    }
    Some(vec![schema.get("const")?.as_str()?])
}

/// Returns the path of a field in another; the empty path is the file as a whole.
fn joined(field: &str, name: &str) -> String {
    if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") }
}
