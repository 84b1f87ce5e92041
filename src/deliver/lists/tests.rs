use super::*;

fn key(name: &str) -> Arc<ObjectKey> {
    Arc::new(ObjectKey { kind: "ConfigMap".into(), name: name.into(), ..ObjectKey::default() })
}

fn unlisted(lists: &Lists) -> Option<String> {
    lists.unlisted(["ConfigMap", "Secret"].map(str::to_owned).into_iter()).why(&key("a")).map(str::to_owned)
}

#[test]
fn a_kind_is_known_once_it_was_listed_completely_and_until_a_list_fails() {
    let mut lists = Lists::default();
    assert!(lists.expect("ConfigMap") && !lists.expect("ConfigMap"));
    assert!(lists.is_pending("ConfigMap") && lists.any_pending());
    assert_eq!(unlisted(&lists).as_deref(), Some(PENDING));
    assert!(!lists.note(&key("a")), "what was known of it may be of another history");
    assert!(lists.note(&key("a")), "it is of this one now");
    lists.fail("ConfigMap", "500".to_owned());
    assert_eq!(unlisted(&lists).as_deref(), Some("500"));
    lists.begin("ConfigMap");
    assert_eq!(unlisted(&lists).as_deref(), Some("500"), "a list that has only begun proves nothing");
    lists.note(&key("b"));
    assert_eq!(lists.complete("ConfigMap"), Some([(key("b"), ())].into_iter().collect()));
    assert_eq!(unlisted(&lists), None);
    assert!(lists.note(&key("c")), "no list is under way: versions say what is newer");
    lists.begin("ConfigMap");
    assert_eq!(unlisted(&lists), None, "a later list that is under way takes nothing back");
    lists.absent("ConfigMap");
    assert!(lists.is_absent("ConfigMap") && unlisted(&lists).is_none(), "of what is not served nothing is there");
}

#[test]
fn lists_that_are_not_answered_in_time_failed() {
    let mut lists = Lists::default();
    lists.expect("ConfigMap");
    lists.expect("Secret");
    lists.complete("Secret");
    lists.give_up("no answer");
    assert_eq!(unlisted(&lists).as_deref(), Some("no answer"));
    assert!(!lists.any_pending());
    lists.note(&key("late"));
    assert_eq!(
        lists.complete("ConfigMap"),
        Some([(key("late"), ())].into_iter().collect()),
        "it may still be answered"
    );
}
