use std::path::{Component, Path};

use proptest::prelude::*;

use super::*;

fn key(group: &str, kind: &str, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { group: group.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
}

#[test]
fn what_files_are_called() {
    let rbac = "rbac.authorization.k8s.io";
    for (group, kind, namespace, name, wanted) in [
        ("", "ConfigMap", "app", "a", "configmap..app.a.yaml"),
        ("", "ConfigMap", "app", "kube-root-ca.crt", "configmap..app.kube-root-ca.crt.yaml"),
        ("", "Namespace", "", "app", "namespace...app.yaml"),
        ("apps", "Deployment", "web", "d", "deployment.apps.web.d.yaml"),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "",
            "a.b.io",
            "customresourcedefinition.apiextensions.k8s.io..a.b.io.yaml",
        ),
        // Under the first name these two were one file.
        (rbac, "Role", "app", "team:read", "role.rbac.authorization.k8s.io.app.team%3Aread.yaml"),
        (rbac, "Role", "app", "team_read", "role.rbac.authorization.k8s.io.app.team_read.yaml"),
        // These three, too.
        ("a", "X", "b", "c.d", "x.a.b.c%2Ed.yaml"),
        ("a.b", "X", "c", "d", "x.a.b.c.d.yaml"),
        ("a", "X", "", "b.c.d", "x.a..b.c.d.yaml"),
        (rbac, "ClusterRole", "", "Team", "clusterrole.rbac.authorization.k8s.io..%54eam.yaml"),
        ("", "../prod/secret", "app", "db", "%2E%2E%2Fprod%2Fsecret..app.db.yaml"),
        ("", "/etc/x", "..", "..", "%2Fetc%2Fx..%2E%2E....yaml"),
    ] {
        assert_eq!(FileName::of(&key(group, kind, namespace, name)).as_str(), wanted);
    }
    assert_eq!(FileName::of_inventory("rp.app.web").as_str(), ".inventory.rp.app.web.yaml");
}

#[test]
fn long_names_are_cut_and_told_apart() {
    let named = |name: &str| FileName::of(&key("a.example.com", "Widget", "app", name));
    let (one, other) = (named(&"é".repeat(200)), named(&format!("{}x", "é".repeat(200))));
    assert_eq!((one.as_str().len(), other.as_str().len()), (FILE_NAME_BYTES_MAX, FILE_NAME_BYTES_MAX));
    assert_ne!(one, other);
    assert!(one.as_str().starts_with("widget.a.example.com.app.%C3%A9"), "{}", one.as_str());
    let fits = named(&"a".repeat(FILE_NAME_BYTES_MAX - "widget.a.example.com.app..yaml".len()));
    assert!(fits.as_str().len() == FILE_NAME_BYTES_MAX && !fits.as_str().contains('~'), "{}", fits.as_str());
}

/// Texts in which the borders between parts are hard to see, and any others.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab.]{0,4}",
        "[aA:_%~/.-]{0,4}",
        prop::sample::select(vec!["", ".", "..", "../x", "inventory", "a".repeat(300).leak()]).prop_map(str::to_owned),
        any::<String>(),
    ]
}

fn any_key() -> impl Strategy<Value = ObjectKey> {
    (part(), part(), part(), part()).prop_map(|(group, kind, namespace, name)| key(&group, &kind, &namespace, &name))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn d14_two_objects_never_share_a_file(one in any_key(), other in any_key()) {
        let folded = |key: &ObjectKey| ObjectKey { kind: key.kind.to_ascii_lowercase().into(), ..key.clone() };
        let same = FileName::of(&one) == FileName::of(&other);
        prop_assert_eq!(same, folded(&one) == folded(&other), "{:?} {:?}", one, other);
        prop_assert_eq!(FileName::of_inventory(&one.name) == FileName::of_inventory(&other.name), one.name == other.name);
        prop_assert!(FileName::of(&one) != FileName::of_inventory(&other.name));
    }

    #[test]
    fn d03_a_name_is_one_segment_of_a_path(key in any_key()) {
        let kind = WatchedKind { group: key.group.to_string(), kind: key.kind.to_string() };
        for name in [FileName::of(&key), FileName::of_inventory(&key.name), FileName::of(&key).temporary()] {
            let parts: Vec<_> = Path::new(name.as_str()).components().collect();
            prop_assert!(matches!(parts.as_slice(), [Component::Normal(_)]), "{:?}", name);
            prop_assert!(name.as_str().len() <= FILE_NAME_BYTES_MAX && name.as_str().is_ascii());
            prop_assert!(!name.as_str().contains('\\') && !name.as_str().contains(char::is_control));
        }
        prop_assert!(FileName::of(&key).is_of_kind(&kind) && !FileName::of(&key).is_inventory());
    }
}
