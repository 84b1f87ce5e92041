//! Which value a scalar has: the rules of kubectl's YAML reader.
//!
//! Source: kubectl 1.36 as measured (`kubectl create --dry-run=client -o json`), which follows YAML 1.1 with YAML 1.2's
//! octal spelling.

use std::borrow::Cow;

use serde_json::{Number, Value};
use serde_yaml::granit_parser::{ScalarStyle, Tag};

const YAML_TAGS: &str = "tag:yaml.org,2002:";

/// Exact spellings; any other capitalisation is text.
const TRUE: [&str; 11] = ["true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"];
const FALSE: [&str; 11] = ["false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"];
const NULL: [&str; 5] = ["", "~", "null", "Null", "NULL"];
const NOT_FINITE: [&str; 12] =
    [".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF", ".nan", ".NaN", ".NAN"];

/// Returns the value of a scalar, or what is wrong with it.
pub(super) fn value(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let kind = tag.map(|tag| tag.suffix_in_namespace(YAML_TAGS));
    match kind.as_ref().map(|suffix| suffix.as_deref()) {
        None if style == ScalarStyle::Plain => plain(text),
        Some(Some("binary")) => binary(&text),
        Some(Some("null")) => Ok(Value::Null),
        Some(Some(wanted @ ("int" | "float" | "bool"))) => {
            let value = plain(Cow::Borrowed(&text))?;
            let fits = if wanted == "bool" { value.is_boolean() } else { value.is_number() };
            if fits { Ok(value) } else { Err(format!("{text:?} is tagged !!{wanted} and is none")) }
        }
        // Quotes, foreign tags and the lone `!` mean text.
        None | Some(None | Some(_)) => Ok(Value::String(text.into_owned())),
    }
}

/// Tells whether a key merges another mapping.
pub(super) fn is_merge_key(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> bool {
    text == "<<" && style == ScalarStyle::Plain && tag.is_none_or(|t| t.suffix_in_namespace(YAML_TAGS).is_some())
}

/// Returns which truth value an unquoted word is; `None` for any other scalar, and where a tag says that it is meant.
pub(super) fn truth(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Option<bool> {
    if style != ScalarStyle::Plain || tag.is_some() || text.len() > 5 {
        return None;
    }
    if TRUE.contains(&text) { Some(true) } else { FALSE.contains(&text).then_some(false) }
}

/// Returns a key as text; `None` for what JSON cannot have as a key.
pub(super) fn key(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn plain(text: Cow<'_, str>) -> Result<Value, String> {
    let word: &str = &text;
    // The first byte and the length spare most texts the comparison with every word.
    match word.as_bytes().first() {
        None => return Ok(Value::Null),
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => {
            // kubectl refuses them too: JSON has no such numbers.
            if NOT_FINITE.contains(&word) {
                return Err(format!("{word} is not a number that JSON can hold"));
            }
            if let Some(number) = number(word) {
                return Ok(Value::Number(number));
            }
        }
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') if word.len() <= 5 => {
            if TRUE.contains(&word) {
                return Ok(Value::Bool(true));
            }
            if FALSE.contains(&word) {
                return Ok(Value::Bool(false));
            }
            if NULL.contains(&word) {
                return Ok(Value::Null);
            }
        }
        Some(_) => {}
    }
    Ok(Value::String(text.into_owned()))
}

fn number(word: &str) -> Option<Number> {
    // Underscores stay in: `._5` is text to kubectl's reader, and `1_0` is a number.
    if word.starts_with('.') {
        return if is_float(word) { float(word) } else { None };
    }
    let digits: Cow<'_, str> = if word.contains('_') { word.replace('_', "").into() } else { word.into() };
    integer(&digits).or_else(|| if is_float(&digits) { float(&digits) } else { None })
}

fn integer(word: &str) -> Option<Number> {
    let (negative, digits) = match word.as_bytes().first()? {
        b'-' => (true, &word[1..]),
        b'+' => (false, &word[1..]),
        _ => (false, word),
    };
    let bytes = digits.as_bytes();
    let (radix, digits) = match (bytes.first()?, bytes.get(1)) {
        (b'0', Some(b'x' | b'X')) => (16, &digits[2..]),
        (b'0', Some(b'o' | b'O')) => (8, &digits[2..]),
        (b'0', Some(b'b' | b'B')) => (2, &digits[2..]),
        // `0888` fails below as octal, and becomes 888 as a float, as kubectl has it.
        (b'0', Some(_)) => (8, &digits[1..]),
        _ => (10, digits),
    };
    // Rust accepts a second sign here.
    if !digits.as_bytes().first()?.is_ascii_hexdigit() {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative { 0i64.checked_sub_unsigned(magnitude).map(Number::from) } else { Some(Number::from(magnitude)) }
}

/// Tells whether a word is `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn is_float(word: &str) -> bool {
    let unsigned = word.strip_prefix(['-', '+']).unwrap_or(word);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = if whole.is_empty() { !fraction.is_empty() } else { true };
    has_digits
        && are_digits(whole)
        && are_digits(fraction)
        && exponent.is_none_or(|exponent| !exponent.is_empty() && are_digits(exponent))
}

fn are_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

/// Returns a float; an integral one within `i64` as an integer, as kubectl's JSON has it. Overflow is no number: unquoted
/// commit ids look like `123e4567`.
fn float(word: &str) -> Option<Number> {
    const I64_END: f64 = 9_223_372_036_854_775_808.0;
    let float: f64 = word.parse().ok()?;
    if float.fract() == 0.0 && (-I64_END..I64_END).contains(&float) {
        #[allow(clippy::cast_possible_truncation, reason = "integral and within i64, checked above")]
        return Some(Number::from(float as i64));
    }
    Number::from_f64(float)
}

fn binary(text: &str) -> Result<Value, String> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let bytes: k8s_openapi::ByteString =
        serde_json::from_value(Value::String(compact)).map_err(|_| "!!binary is not base64".to_owned())?;
    let text = String::from_utf8(bytes.0).map_err(|_| "!!binary does not hold UTF-8 text".to_owned())?;
    Ok(Value::String(text))
}
