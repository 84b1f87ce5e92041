use super::*;
use model::api::annotations;

#[test]
fn a_silence_becomes_too_long_once() {
    let at = |second: i64| Timestamp::from_second(second).expect("an instant");
    let silent = ClusterRecord::new("a".into(), at(0));
    let end = silence_ends(&silent, at(1)).expect("it is silent");
    assert_eq!((silent_since(&silent, at(300)), silent_since(&silent, end)), (None, Some(at(0))));
    assert_eq!(silence_ends(&silent, end), None, "nothing more is to come");
    for changed in [ClusterRecord { online: true, ..silent.clone() }, ClusterRecord { left: true, ..silent }] {
        assert_eq!(silence_ends(&changed, at(1)), None);
    }
}

#[test]
fn what_was_seen_of_a_cluster_goes_before_what_git_states() {
    let mut member = MemberCluster::default();
    let stated = r#"{"cost": 1, "kubernetes-fleet.io/node-count": 9}"#;
    member.annotations.insert(annotations::PROPERTIES.into(), stated.into());
    let seen = |properties: &[(&str, &str)]| {
        let properties = properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let now = Timestamp::UNIX_EPOCH;
        let record = ClusterRecord { properties, ..ClusterRecord::new("a".into(), now) };
        let found = cluster(&Tree::default(), &member, Some(&record), now).properties;
        found.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    };
    assert_eq!(seen(&[]), ["cost=1", "kubernetes-fleet.io/node-count=9"], "as a directory has it");
    let rows = [("kubernetes-fleet.io/node-count", "3"), ("x", "1")];
    assert_eq!(seen(&rows), ["cost=1", "kubernetes-fleet.io/node-count=3", "x=1"]);
}
