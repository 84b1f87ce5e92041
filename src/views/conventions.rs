//! How Kubernetes writes objects.

use jiff::Timestamp;
use serde_json::Value;

/// Fields that hold a time.
const TIME_FIELDS: [&str; 8] = [
    "creationTimestamp",
    "lastTransitionTime",
    "lastReceivedHeartbeat",
    "observationTime",
    "startTime",
    "endTime",
    "validUntil",
    "timeAdded",
];

/// Returns an object as Kubernetes writes it: times in whole seconds, and no generation in conditions of what has none.
///
/// Source: Kubernetes API, `metav1.Time`, and `omitempty` of `metav1.Condition`.
pub fn conventional(mut object: Value) -> Value {
    make_conventional(&mut object);
    object
}

fn make_conventional(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("observedGeneration").is_some_and(|generation| *generation == 0) {
                fields.remove("observedGeneration");
            }
            for (name, field) in fields.iter_mut() {
                let time = if TIME_FIELDS.contains(&name.as_str()) { field.as_str() } else { None };
                match time.and_then(|text| text.parse::<Timestamp>().ok()) {
                    // Written whole: the fraction is cut off, so that no time is later than it was.
                    Some(time) => *field = Timestamp::from_second(time.as_second()).unwrap_or(time).to_string().into(),
                    None => make_conventional(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_conventional),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_whole_seconds_and_no_generation_is_none() {
        let object = json!({
            "metadata": {"creationTimestamp": "2026-03-01T12:00:00.123456789Z", "name": "2026-03-01T12:00:00.5Z"},
            "status": {"conditions": [
                {"lastTransitionTime": "2026-03-01T12:00:01.999Z", "observedGeneration": 0},
                {"lastTransitionTime": "2026-03-01T12:00:02Z", "observedGeneration": 3},
            ]},
        });
        let expected = json!({
            "metadata": {"creationTimestamp": "2026-03-01T12:00:00Z", "name": "2026-03-01T12:00:00.5Z"},
            "status": {"conditions": [
                {"lastTransitionTime": "2026-03-01T12:00:01Z"},
                {"lastTransitionTime": "2026-03-01T12:00:02Z", "observedGeneration": 3},
            ]},
        });
        assert_eq!(conventional(object), expected);
    }
}
