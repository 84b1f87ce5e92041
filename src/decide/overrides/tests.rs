use super::*;
use testkit::trees::tree;

fn override_of(name: &str, value: &str) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourceOverride\nmetadata: {{name: {name}}}\nspec:\n  \
             clusterResourceSelectors: [{{group: '', version: v1, kind: Namespace, name: {name}}}]\n  policy: {{overrideRules: \
             [{{clusterSelector: {{}}, jsonPatchOverrides: [{{op: add, path: /x, value: '{value}'}}]}}]}}\n"
    )
}

fn follow(overrides: &mut Overrides, texts: &[String], named: &BTreeSet<OverrideRef>) {
    let paths: Vec<String> = (0..texts.len()).map(|n| format!("{n}.yaml")).collect();
    let files: Vec<_> = paths.iter().zip(texts).map(|(path, text)| (path.as_str(), text.as_str())).collect();
    overrides.follow(&tree(&files), named, Timestamp::UNIX_EPOCH);
}

fn indexes(overrides: &Overrides, name: &str) -> Vec<u64> {
    let key = OverrideKey { namespace: None, name: name.to_owned() };
    overrides.snapshots.get(&key).map(|known| known.keys().copied().collect()).unwrap_or_default()
}

fn named_of(name: &str, index: u64) -> OverrideRef {
    OverrideRef { key: OverrideKey { namespace: None, name: name.to_owned() }, index }
}

#[test]
fn a_snapshot_for_each_change() {
    let mut overrides = Overrides::default();
    let none = BTreeSet::new();
    follow(&mut overrides, &[override_of("o", "1"), override_of("other", "1")], &none);
    follow(&mut overrides, &[override_of("o", "1"), override_of("other", "1")], &none);
    follow(&mut overrides, &[override_of("o", "2"), override_of("other", "1")], &none);
    assert_eq!((indexes(&overrides, "o"), indexes(&overrides, "other")), (vec![0, 1], vec![0]));
    let newest: Vec<String> = overrides.newest().map(|snapshot| snapshot.id.name()).collect();
    assert_eq!(newest, ["o-1", "other-0"]);
    let unwritten = overrides.take_unwritten();
    assert_eq!((unwritten.len(), overrides.take_unwritten().len()), (3, 0));
    overrides.refused(unwritten);
    assert_eq!(overrides.take_unwritten().len(), 3);
    let restored = Overrides::restore(overrides.snapshots.values().flat_map(|s| s.values()).map(|s| (**s).clone()));
    assert_eq!((restored.snapshots, restored.present.len()), (overrides.snapshots, 0));
}

#[test]
fn an_override_for_another_placement_may_do_the_same() {
    let mut overrides = Overrides::default();
    let named = BTreeSet::from([named_of("o", 0), named_of("o", 1)]);
    let of = |placement: &str, value: &str| {
        override_of("o", value).replace("spec:\n", &format!("spec:\n  placement: {{name: {placement}}}\n"))
    };
    let rows = [("p", "1", 0, None), ("q", "1", 0, Some(1)), ("q", "2", 1, None), ("r", "1", 1, Some(3))];
    for (placement, value, old, wanted) in rows {
        follow(&mut overrides, &[of(placement, value)], &named);
        let renamed = overrides.renamed(&named_of("o", old)).map(|id| id.index);
        assert_eq!(renamed, wanted, "snapshot {old}, {value} for {placement}");
    }
    follow(&mut overrides, &[], &named);
    assert_eq!(overrides.renamed(&named_of("o", 0)), None, "it is gone");
}

#[test]
fn what_is_kept() {
    let mut overrides = Overrides::default();
    let named = BTreeSet::from([named_of("o", 1), named_of("gone", 0)]);
    follow(&mut overrides, &[override_of("o", "x"), override_of("gone", "x")], &named);
    for n in 0..15 {
        follow(&mut overrides, &[override_of("o", &n.to_string())], &named);
    }
    assert_eq!(indexes(&overrides, "o"), [vec![1], (6..16).collect()].concat(), "ten, and one that is named");
    assert_eq!(indexes(&overrides, "gone"), [0], "it is named");
    assert_eq!(overrides.newest().map(|s| s.id.name()).collect::<Vec<_>>(), ["o-15"]);
    overrides.take_unwritten();
    follow(&mut overrides, &[], &BTreeSet::from([named_of("o", 7)]));
    assert_eq!((indexes(&overrides, "o"), indexes(&overrides, "gone")), (vec![7], vec![]));
    assert_eq!(overrides.newest().count(), 0);
    assert!(overrides.take_unwritten().iter().all(|id| (overrides.get(id)).is_none()));
}
