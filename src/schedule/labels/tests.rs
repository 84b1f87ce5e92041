use proptest::prelude::*;
use serde_json::json;

use super::*;

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map("[ab]", "[xyz]", 0..3)
}

fn selector() -> impl Strategy<Value = LabelSelector> {
    let requirement = ("[abc]", prop::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist"]));
    let requirement = (requirement, prop::collection::vec("[xyz]", 0..3))
        .prop_map(|((key, operator), values)| json!({"key": key, "operator": operator, "values": values}));
    (prop::collection::btree_map("[abc]", "[xyz]", 0..2), prop::collection::vec(requirement, 0..3)).prop_map(
        |(equal, requirements)| {
            serde_json::from_value(json!({"matchLabels": equal, "matchExpressions": requirements})).unwrap()
        },
    )
}

proptest! {
    #[test]
    fn the_index_says_what_each_selector_says(
        first in prop::collection::vec(labels(), 1..80),
        second in prop::collection::vec((0..80_usize, labels()), 0..40),
        selector in selector(),
    ) {
        let mut plain = first.clone();
        let mut index = Labels::new(plain.len());
        for (slot, labels) in first.iter().enumerate() {
            index.set(slot, labels);
        }
        for (slot, labels) in second {
            let slot = slot % plain.len();
            index.set(slot, &labels);
            plain[slot] = labels;
        }
        let found = index.matching(&selector);
        for (slot, labels) in plain.iter().enumerate() {
            prop_assert_eq!(found.contains(slot), selector.matches(labels), "{:?} {:?}", selector, labels);
            prop_assert_eq!(index.get(slot), labels);
        }
        let mut valued = Vec::new();
        index.for_each_value("a", |value, slot| valued.push((slot, value.to_owned())));
        valued.sort();
        let expected: Vec<_> = plain.iter().enumerate().filter_map(|(n, l)| Some((n, l.get("a")?.clone()))).collect();
        prop_assert_eq!(valued, expected);
    }
}

#[test]
fn a_value_that_nobody_has_any_more_is_forgotten() {
    let mut index = Labels::new(2);
    index.set(0, &BTreeMap::from([("a".to_owned(), "x".to_owned())]));
    index.set(0, &BTreeMap::new());
    assert!(index.keys.is_empty());
}
