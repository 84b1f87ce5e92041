//! Small rules that many kinds share: names, labels, quantities, durations.

use std::collections::BTreeMap;
use std::time::Duration;

pub use crate::yaml::FieldError;

/// Characters a label value, a label name and a DNS label may have.
pub const LABEL_LENGTH_MAX: usize = 63;

/// Characters an object name may have.
pub const NAME_LENGTH_MAX: usize = 253;

/// Tells whether a text is a DNS label: lowercase letters, digits and inner dashes, at most 63.
pub fn is_dns_label(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= LABEL_LENGTH_MAX
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Tells whether a text is a DNS subdomain, as most object names must be.
///
/// Source: RFC 1123 as Kubernetes reads it.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= NAME_LENGTH_MAX
        && text.split('.').all(|part| {
            !part.is_empty()
                && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && !part.starts_with('-')
                && !part.ends_with('-')
        })
}

/// Tells whether a text can be a label value.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name_part(text)
}

/// Tells whether a text can be a label key: a name, with an optional DNS prefix before a slash.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name_part(name),
        None => is_name_part(text),
    }
}

fn is_name_part(text: &str) -> bool {
    text.len() <= LABEL_LENGTH_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Returns the percentage of a text such as `25%`, 0 to 100 without leading zeros beyond two digits.
pub fn percent(text: &str) -> Option<u8> {
    let digits = text.strip_suffix('%')?;
    // Parsing alone would take a sign.
    if digits.is_empty() || digits.len() > 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|&n: &u8| n <= 100 && (digits.len() < 3 || n == 100))
}

/// Reads a duration as Go writes it, such as `1h30m` or `1.5s`; `None` where it is none or negative.
///
/// Source: Go's `time.ParseDuration`.
pub fn duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 8] =
        [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("μs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    // The only duration that Go takes without a unit.
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut seconds = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        // Neither a number without a unit nor a unit without a number is a duration.
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).filter(|&end| end > 0)?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let factor = UNITS.iter().find(|(unit, _)| *unit == &rest[..unit_end])?.1;
        seconds += number * factor;
        rest = &rest[unit_end..];
    }
    Duration::try_from_secs_f64(seconds).ok()
}

/// Reads a Kubernetes quantity in billionths; `None` where it is none, or beyond what 128 bits hold.
///
/// Digits finer than a billionth round up, as Kubernetes does.
///
/// Source: Kubernetes apimachinery, `resource.ParseQuantity`.
pub fn quantity_nanos(text: &str) -> Option<i128> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (binary, exponent) = suffix_scale(suffix)?;
    let value = digits.checked_mul(binary)?;
    // value x 10^(exponent + 9 - fraction digits)
    let shift = exponent + 9 - i32::try_from(fraction.len()).ok()?;
    let power = 10i128.checked_pow(shift.unsigned_abs());
    let nanos = match (shift >= 0, power) {
        (true, Some(power)) => value.checked_mul(power)?,
        (false, Some(power)) => value / power + i128::from(value % power != 0),
        // The power alone is beyond 128 bits: only zero times it is not.
        (true, None) if value != 0 => return None,
        // Divided by so much, whatever is not zero is less than a billionth, and rounds up.
        (_, None) => i128::from(value != 0),
    };
    Some(if negative { -nanos } else { nanos })
}

/// Returns the binary factor and the decimal exponent of a suffix.
fn suffix_scale(suffix: &str) -> Option<(i128, i32)> {
    const DECIMAL: [(&str, i32); 10] =
        [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    // `E` is a suffix, `E3` an exponent: whole suffixes come first.
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((1, *exponent));
    }
    if let Some(power) = BINARY.iter().position(|name| *name == suffix) {
        return Some((1i128 << (10 * (power + 1)), 0));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    // 128 bits hold 39 digits. The limit also keeps the sums with this exponent small.
    (-40..=40).contains(&exponent).then_some((1, exponent))
}

/// Checks keys and values of labels.
pub fn labels(errors: &mut Vec<FieldError>, path: &str, labels: &BTreeMap<String, String>) {
    for (key, value) in labels {
        if !is_qualified_name(key) {
            errors.push(FieldError::new(format!("{path}.{key}"), format!("{key:?} is not a label key")));
        }
        if !is_label_value(value) {
            errors.push(FieldError::new(format!("{path}.{key}"), format!("{value:?} is not a label value")));
        }
    }
}

/// Complains when a list has fewer or more elements than its limits.
pub fn count(errors: &mut Vec<FieldError>, path: &str, found: usize, min: usize, max: usize) {
    if found < min {
        errors.push(FieldError::new(path, format!("needs at least {min}, has {found}")));
    } else if found > max {
        errors.push(FieldError::new(path, format!("takes at most {max}, has {found}")));
    }
}

/// Complains when a number is outside its limits.
pub fn range(errors: &mut Vec<FieldError>, path: &str, found: i32, min: i32, max: i32) {
    if !(min..=max).contains(&found) {
        let message = match max {
            i32::MAX => format!("{found} is below {min}"),
            _ => format!("{found} is not between {min} and {max}"),
        };
        errors.push(FieldError::new(path, message));
    }
}

/// Complains about every element that stands in a list a second time.
pub fn unique<'a>(errors: &mut Vec<FieldError>, path: &str, items: impl IntoIterator<Item = &'a str>) {
    let mut seen = std::collections::BTreeSet::new();
    for (index, item) in items.into_iter().enumerate() {
        if !seen.insert(item) {
            errors.push(FieldError::new(format!("{path}[{index}]"), format!("{item:?} is listed twice")));
        }
    }
}

#[cfg(test)]
mod tests;
