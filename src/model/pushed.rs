//! What machines push about a cluster: scores and properties that nobody could see on it, each until its end.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::id::ClusterName;
use crate::api::check;
use crate::api::ocm::{ADDON_SCORE_MAX, AddOnScore, AddOnScoreStatus};

/// Scores that one token may push of one cluster.
pub const PUSHED_SCORES_MAX: usize = 256;
/// Properties that one token may push of one cluster.
pub const PUSHED_PROPERTIES_MAX: usize = 256;
/// Bytes of a name or of a value that is pushed.
pub const PUSHED_NAME_BYTES_MAX: usize = 316;

/// Something that is pushed about a cluster. It takes the place of what the same token pushed before.
#[derive(Clone, Debug, PartialEq)]
pub struct Push {
    /// The cluster.
    pub cluster: ClusterName,
    /// What is said of it.
    pub what: Pushing,
}

/// What is said of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Pushing {
    /// Scores of AddOns.
    Scores(ScorePush),
    /// Properties.
    Properties(PropertyPush),
}

/// Scores of AddOns, as they are sent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScorePush {
    /// Until when they hold; absent: until others are pushed.
    #[serde(default)]
    pub valid_until: Option<Timestamp>,
    /// The scores. None at all takes back those that are there.
    pub scores: Vec<PushedScore>,
}

/// One score of an AddOn, by the names that a Placement asks for it with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PushedScore {
    /// As the name of an AddOnPlacementScore.
    pub resource_name: String,
    /// The name of the score in it.
    pub score_name: String,
    /// From -100 to 100.
    pub value: i32,
}

/// Properties, as they are sent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PropertyPush {
    /// Until when they hold; absent: until others are pushed.
    #[serde(default)]
    pub valid_until: Option<Timestamp>,
    /// Quantities by name, as text or number. None at all takes back those that are there.
    #[serde(deserialize_with = "quantities")]
    pub properties: BTreeMap<String, String>,
}

fn quantities<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let properties = BTreeMap::<String, Value>::deserialize(deserializer)?;
    let written = properties.into_iter().map(|(name, value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Number(number) => Ok((name, number.to_string())),
        _ => Err(serde::de::Error::custom(format!("property {name:?} is neither text nor a number"))),
    });
    written.collect()
}

impl Pushing {
    /// Checks what is sent.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn check(&self, now: Timestamp) -> Result<(), String> {
        let (end, count, most, what) = match self {
            Self::Scores(push) => (push.valid_until, push.scores.len(), PUSHED_SCORES_MAX, "scores"),
            Self::Properties(push) => (push.valid_until, push.properties.len(), PUSHED_PROPERTIES_MAX, "properties"),
        };
        if let Some(end) = end.filter(|end| *end <= now) {
            return Err(format!("validUntil {end} is over"));
        }
        if count > most {
            return Err(format!("{count} {what} are too many; a token has at most {most} of a cluster"));
        }
        match self {
            Self::Scores(push) => check_scores(&push.scores),
            Self::Properties(push) => push.properties.iter().try_for_each(|(name, value)| check_property(name, value)),
        }
    }
}

fn check_scores(scores: &[PushedScore]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for PushedScore { resource_name, score_name, value } in scores {
        if !check::is_dns_subdomain(resource_name) {
            return Err(format!("resourceName {resource_name:?} is no name of an object"));
        }
        if score_name.is_empty() || score_name.len() > PUSHED_NAME_BYTES_MAX {
            return Err(format!("scoreName {score_name:?} has not between 1 and {PUSHED_NAME_BYTES_MAX} bytes"));
        }
        if !(-ADDON_SCORE_MAX..=ADDON_SCORE_MAX).contains(value) {
            return Err(format!("score {resource_name}/{score_name} is {value}, not from -100 to 100"));
        }
        if !seen.insert((resource_name, score_name)) {
            return Err(format!("score {resource_name}/{score_name} is given twice"));
        }
    }
    Ok(())
}

fn check_property(name: &str, value: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > PUSHED_NAME_BYTES_MAX {
        return Err(format!("property {name:?} has not between 1 and {PUSHED_NAME_BYTES_MAX} bytes"));
    }
    if value.len() > PUSHED_NAME_BYTES_MAX || check::quantity_nanos(value).is_none() {
        return Err(format!("property {name} is {value:?}, which is no quantity"));
    }
    Ok(())
}

/// What one token says of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimedValues<T> {
    /// When it was pushed.
    pub at: Timestamp,
    /// Until when it holds; absent: until something else is pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Timestamp>,
    /// What is said.
    pub values: T,
}

impl<T> TimedValues<T> {
    /// Tells whether it still holds.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.valid_until.is_none_or(|end| now < end)
    }
}

/// What is known of a cluster by pushes, by the name of the token. Where two say the same name, the later token's word counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pushed {
    /// Scores of AddOns.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, TimedValues<Vec<PushedScore>>>,
    /// Properties.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, TimedValues<BTreeMap<String, String>>>,
}

impl Pushed {
    /// Tells whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty() && self.properties.is_empty()
    }

    /// Takes what a token says, in the place of what it said before.
    pub fn take(&mut self, by: &str, what: Pushing, now: Timestamp) {
        match what {
            Pushing::Scores(ScorePush { valid_until, scores }) => {
                put(&mut self.scores, by, TimedValues { at: now, valid_until, values: scores }, Vec::is_empty);
            }
            Pushing::Properties(PropertyPush { valid_until, properties }) => {
                put(
                    &mut self.properties,
                    by,
                    TimedValues { at: now, valid_until, values: properties },
                    BTreeMap::is_empty,
                );
            }
        }
    }

    /// Returns the properties that hold.
    pub fn properties(&self, now: Timestamp) -> BTreeMap<String, String> {
        let held = self.properties.values().filter(|said| said.holds(now));
        held.flat_map(|said| said.values.clone()).collect()
    }

    /// Returns when the next property ceases to hold.
    pub fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        self.properties.values().filter_map(|said| said.valid_until).filter(|end| *end > now).min()
    }

    /// Returns the scores as the status of AddOnPlacementScores, by name. Those that have expired are there: OCM says of a
    /// decision that they have.
    pub fn score_objects(&self) -> BTreeMap<String, AddOnScoreStatus> {
        let mut objects = BTreeMap::new();
        for said in self.scores.values() {
            let mut own: BTreeMap<String, AddOnScoreStatus> = BTreeMap::new();
            for PushedScore { resource_name, score_name, value } in &said.values {
                let status = own.entry(resource_name.clone()).or_default();
                status.valid_until = said.valid_until;
                status.scores.push(AddOnScore { name: score_name.clone(), value: *value });
            }
            objects.extend(own);
        }
        objects
    }
}

/// Puts what a token says into its place; nothing at all takes it back.
fn put<T>(all: &mut BTreeMap<String, TimedValues<T>>, by: &str, said: TimedValues<T>, is_empty: fn(&T) -> bool) {
    if is_empty(&said.values) {
        all.remove(by);
    } else {
        all.insert(by.to_owned(), said);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("an instant")
    }

    fn properties(end: i64, values: &Value) -> Pushing {
        let push = json!({"validUntil": at(end), "properties": values});
        Pushing::Properties(serde_json::from_value(push).expect("a push"))
    }

    fn scores(values: &Value) -> Pushing {
        Pushing::Scores(serde_json::from_value(json!({"scores": values})).expect("a push"))
    }

    #[test]
    fn a_push_takes_the_place_of_what_its_token_said_and_ends() {
        let mut pushed = Pushed::default();
        pushed.take("a", properties(10, &json!({"cost": 1, "power": "20m"})), at(0));
        pushed.take("b", properties(5, &json!({"cost": 2.5})), at(0));
        let of = |pushed: &Pushed, second| {
            let found = pushed.properties(at(second)).into_iter();
            found.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!((of(&pushed, 0).as_str(), pushed.next_end(at(0))), ("cost=2.5 power=20m", Some(at(5))));
        assert_eq!((of(&pushed, 5).as_str(), pushed.next_end(at(5))), ("cost=1 power=20m", Some(at(10))));
        assert_eq!((of(&pushed, 10).as_str(), pushed.next_end(at(10))), ("", None));
        pushed.take("a", properties(20, &json!({"cost": 3})), at(1));
        pushed.take("b", properties(20, &json!({})), at(1));
        assert_eq!(of(&pushed, 10), "cost=3", "what is not named is gone, and what is empty is taken back");
        let score = |name: &str, value: i32| json!({"resourceName": name, "scoreName": "x", "value": value});
        pushed.take("a", scores(&json!([score("r", 1), score("s", 2)])), at(0));
        pushed.take("b", scores(&json!([score("r", 3)])), at(0));
        let found: Vec<(String, i32)> =
            pushed.score_objects().into_iter().map(|(name, status)| (name, status.scores[0].value)).collect();
        assert_eq!(found, [("r".to_owned(), 3), ("s".to_owned(), 2)]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let score = |name: &str, value: i32| json!({"resourceName": name, "scoreName": "x", "value": value});
        let many: BTreeMap<String, u32> = (0..300).map(|n| (format!("p{n}"), n)).collect();
        for (push, message) in [
            (properties(9, &json!({"a": 1})), "validUntil 1970-01-01T00:00:09Z is over"),
            (properties(11, &json!({"a": "much"})), "property a is \"much\", which is no quantity"),
            (properties(11, &json!({"": 1})), "property \"\" has not between 1 and 316 bytes"),
            (properties(11, &json!(many)), "300 properties are too many; a token has at most 256 of a cluster"),
            (scores(&json!([score("A b", 1)])), "resourceName \"A b\" is no name of an object"),
            (scores(&json!([score("a", 101)])), "score a/x is 101, not from -100 to 100"),
            (scores(&json!([score("a", 1), score("a", 2)])), "score a/x is given twice"),
        ] {
            assert_eq!(push.check(at(10)), Err(message.to_owned()));
        }
        assert_eq!(properties(11, &json!({"a": "1Gi", "b": 0.25})).check(at(10)), Ok(()));
    }
}
