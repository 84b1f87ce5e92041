use super::*;

fn keys(names: &[&str]) -> BTreeSet<ObjectKey> {
    names
        .iter()
        .map(|n| {
            let (kind, name) = n.split_once('/').unwrap_or(("ConfigMap", n));
            let group = if kind == "CustomResourceDefinition" { "apiextensions.k8s.io" } else { "" };
            ObjectKey { group: group.into(), kind: kind.into(), namespace: "n".into(), name: name.into() }
        })
        .collect()
}

fn member(inventory: &[&str], desired: &[&str]) -> GuardedMember<'static> {
    GuardedMember::Known { inventory: Cow::Owned(keys(inventory)), desired: Cow::Owned(keys(desired)), leaves: false }
}

fn leaver(inventory: &[&str]) -> GuardedMember<'static> {
    GuardedMember::Known { inventory: Cow::Owned(keys(inventory)), desired: Cow::default(), leaves: true }
}

#[test]
fn what_is_guarded() {
    let rows: &[(&str, bool, Vec<GuardedMember>, Option<&str>)] = &[
        ("first delivery", false, vec![member(&[], &["a", "b"])], None),
        ("nothing goes", false, vec![member(&["a"], &["a", "b"])], None),
        ("half goes", false, vec![member(&["a", "b"], &["a"])], None),
        (
            "more than half goes",
            false,
            vec![member(&["a", "b", "c"], &["a", "d"])],
            Some("2 of 3 objects of the placement would be deleted"),
        ),
        ("emptied", false, vec![member(&["a"], &[])], Some("all 1 objects of the placement would be deleted")),
        ("removed", true, vec![leaver(&["a"])], Some("the placement was removed: 1 object on m0 would be deleted")),
        ("removed with nothing delivered", true, vec![leaver(&[])], None),
        (
            "a namespace goes",
            false,
            vec![member(&["a", "b", "c", "Namespace/x"], &["a", "b", "c"])],
            Some("1 object on m0 would be deleted, with Namespace n/x"),
        ),
        (
            "a definition goes, and all of its resources with it",
            false,
            vec![member(&["a", "b", "CustomResourceDefinition/x"], &["a", "b"])],
            Some("1 object on m0 would be deleted, with CustomResourceDefinition.apiextensions.k8s.io n/x"),
        ),
        (
            "ux1a_6 everything is counted",
            false,
            vec![member(&["a", "b", "c", "Namespace/x"], &["a"]), member(&["a", "Namespace/x", "Namespace/y"], &["a"])],
            Some("5 objects on 2 clusters would be deleted, with Namespace n/x and 1 more of such kinds"),
        ),
        ("one of two clusters is left", false, vec![leaver(&["a"]), member(&["a"], &["a"])], None),
        (
            "two of three clusters are left",
            false,
            vec![leaver(&["a"]), leaver(&["a"]), member(&["a"], &["a"])],
            Some("the placement would leave 2 of 3 clusters: 2 objects on 2 clusters would be deleted"),
        ),
        ("nobody knows what it holds", false, vec![GuardedMember::Unknown { leaves: false }], None),
        (
            "one of two clusters is left, and of the other nobody knows whether it holds anything",
            false,
            vec![leaver(&["a"]), GuardedMember::Unknown { leaves: false }],
            Some("the placement would leave 1 of 1 clusters: 1 object on m0 would be deleted"),
        ),
        (
            "two of three clusters are left, and of one nobody knows what it holds",
            false,
            vec![leaver(&["a"]), GuardedMember::Unknown { leaves: true }, member(&["a"], &["a"])],
            Some("the placement would leave 2 of 3 clusters: 1 object on m0 would be deleted"),
        ),
        (
            "more than half goes of what is known",
            false,
            vec![member(&["a", "b", "c"], &["a"]), GuardedMember::Unknown { leaves: false }],
            Some("2 of 3 objects of the placement would be deleted"),
        ),
    ];
    for (name, removed, members, expected) in rows {
        let members = members.iter().enumerate().map(|(n, m)| (ClusterName::from(&*format!("m{n}")), m.clone()));
        let found = guarded(&PlacementKey::cluster_scoped("p"), *removed, &members.collect(), &BTreeMap::new());
        assert_eq!(found.map(|g| g.reason).as_deref(), *expected, "{name}");
    }
}

#[test]
fn the_digest_names_what_goes() {
    let digest = |inventory: &[&str]| {
        let members = BTreeMap::from([(ClusterName::from("m"), member(inventory, &[]))]);
        guarded(&PlacementKey::cluster_scoped("p"), false, &members, &BTreeMap::new()).map(|g| g.digest)
    };
    assert_eq!(digest(&["a", "b"]), digest(&["b", "a"]));
    assert_ne!(digest(&["a"]), digest(&["b"]));
}

#[test]
fn clusters_that_leave_in_masses_wait_though_nothing_is_deleted() {
    let leave = MassLeave { left: 3, of: 4 };
    let found = |leaving: &[&str], desired: &[&str]| {
        let members = BTreeMap::from([(ClusterName::from("m"), member(&["a", "b", "c"], desired))]);
        let leaving = leaving.iter().map(|name| (ClusterName::from(*name), leave)).collect();
        guarded(&PlacementKey::cluster_scoped("p"), false, &members, &leaving)
    };
    assert_eq!(found(&[], &["a", "b", "c"]), None);
    let alone = found(&["x", "y"], &["a", "b", "c"]).expect("it is guarded");
    let words = "3 of the 4 clusters of the fleet left it in one commit, 2 of this placement among them";
    assert_eq!((alone.reason.as_str(), alone.deletions.len(), alone.leaving.len()), (words, 0, 2));
    let both = found(&["x"], &["a"]).expect("it is guarded");
    assert!(both.reason.ends_with("; 2 of 3 objects of the placement would be deleted"), "{}", both.reason);
    assert_ne!(found(&["x"], &["a"]).map(|g| g.digest), found(&["y"], &["a"]).map(|g| g.digest));
}
