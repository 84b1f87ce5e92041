use super::*;
use model::records::HeldSnapshot;

#[test]
fn a_parent_survives_writing_and_reading() {
    let placement = PlacementKey::namespaced("app", "web");
    let parent = Parent {
        source: "https://git.example/fleet.git".into(),
        placement: Some(placement.clone()),
        group_kinds: ["ConfigMap".to_owned(), "Deployment.apps".to_owned()].into(),
        namespaces: ["app".to_owned()].into(),
        holds: Some(Held { index: 3, commit: "abc".into(), digest: "def".into() }),
        kept: Kept {
            paused: Some(Pause {
                by: "ann".into(),
                at: jiff::Timestamp::UNIX_EPOCH,
                reason: Some("an incident".into()),
            }),
            held: Some(HeldSnapshot {
                index: 4,
                hash: "ghi".into(),
                why: "was rejected".into(),
                since: jiff::Timestamp::UNIX_EPOCH,
                returns: false,
                inputs: None,
            }),
        },
    };
    assert_eq!(Parent::read(&parent.object(&placement)), parent);
    let unfinished = Parent { holds: None, kept: Kept::default(), ..parent };
    assert_eq!(Parent::read(&unfinished.object(&placement)), unfinished);
    let mut garbled = unfinished.object(&placement);
    garbled["metadata"]["annotations"][PAUSED] = json!("yes");
    assert!(Parent::read(&garbled).kept.paused.is_some(), "whatever it says, somebody meant to stop");
}

#[test]
fn d03_a_member_names_no_placement_that_cannot_be() {
    for (name, is_placement) in
        [("web", true), ("app/web", true), ("../web", false), ("a/b/c", false), ("a\nb", false), ("", false)]
    {
        let parent = json!({"metadata": {"annotations": {PLACEMENT: name}}});
        assert_eq!(Parent::read(&parent).placement.is_some(), is_placement, "{name}");
    }
}

#[test]
fn ids_differ_by_kind_and_fit_a_label() {
    let cluster = applyset_id(&PlacementKey::cluster_scoped("web"));
    let namespaced = applyset_id(&PlacementKey::namespaced("web", "web"));
    assert_ne!(cluster, namespaced);
    assert!(cluster.len() <= 63, "{cluster} is a label value");
    assert!(cluster.starts_with("applyset-") && cluster.ends_with("-v1"));
}

#[test]
fn a_secret_is_written_as_it_is_kept() {
    let secret = |fields: Value| {
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret"});
        secret.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
        secret
    };
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "stringData": {"a": "b"}});
    let rows = [
        ("only data", secret(json!({"data": {"a": "Yg=="}})), secret(json!({"data": {"a": "Yg=="}}))),
        (
            "both, and stringData wins",
            secret(json!({"data": {"a": "eA==", "c": "ZA=="}, "stringData": {"a": "b"}})),
            secret(json!({"data": {"a": "Yg==", "c": "ZA=="}})),
        ),
        ("no data", secret(json!({"data": null, "stringData": {"a": "b"}})), secret(json!({"data": {"a": "Yg=="}}))),
        ("a number", secret(json!({"stringData": {"a": 1}})), secret(json!({"stringData": {"a": 1}}))),
        ("no Secret", map.clone(), map),
    ];
    for (name, object, expected) in rows {
        assert_eq!(stored(&object), expected, "{name}");
    }
}

#[test]
fn labelling_creates_missing_maps_and_refuses_what_is_none() {
    let of = |metadata: Value| {
        labelled(&json!({"metadata": metadata}), &PlacementKey::namespaced("app", "web"), "here", &Digest::from("d1"))
    };
    for metadata in [json!({"name": "a"}), json!({"labels": null, "annotations": {"mine": "x"}})] {
        let object = of(metadata).expect("there is room for an entry");
        let annotations = &object["metadata"]["annotations"];
        assert_eq!((&annotations[SPEC_HASH], &annotations[SOURCE]), (&json!("d1"), &json!("here")));
        assert_eq!(annotations[PLACED_BY], "ResourcePlacement/app/web");
        assert!(object["metadata"]["labels"][PART_OF_LABEL].is_string());
    }
    for (metadata, wanted) in [
        (json!({"labels": "x"}), "metadata.labels: is not a map"),
        (json!({"annotations": [1]}), "metadata.annotations: is not a map"),
        (json!("x"), "metadata: is not a map"),
    ] {
        assert_eq!(of(metadata), Err(wanted.to_owned()));
    }
}
