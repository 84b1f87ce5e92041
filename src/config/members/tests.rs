use proptest::prelude::*;

use super::*;

#[test]
fn patterns_match_whole_names() {
    for (pattern, name, expected) in [
        ("prod-1", "prod-1", true),
        ("prod-1", "prod-10", false),
        ("prod-*", "prod-1", true),
        ("prod-*", "prod-", true),
        ("prod-*", "a-prod-1", false),
        ("*", "", true),
        ("*", "anything", true),
        ("*-eu", "prod-eu", true),
        ("*-eu", "prod-eu-1", false),
        ("a*b*c", "abc", true),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "ac", false),
        ("a*a", "a", false),
        ("**", "x", true),
        ("p?d", "pod", false),
    ] {
        assert_eq!(glob_matches(pattern, name), expected, "{pattern} on {name}");
    }
}

/// The textbook definition, slow and plain.
fn reference(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => reference(rest, name) || (!name.is_empty() && reference(pattern, &name[1..])),
        (Some((p, rest)), Some((n, tail))) => p == n && reference(rest, tail),
        _ => false,
    }
}

proptest! {
    #[test]
    fn patterns_agree_with_the_definition(pattern in "[ab*]{0,8}", name in "[ab]{0,8}") {
        prop_assert_eq!(glob_matches(&pattern, &name), reference(pattern.as_bytes(), name.as_bytes()));
    }
}

#[test]
fn names_do_not_leave_their_folder() {
    let members = [Member { name: "*".into(), agent: None, kubeconfig: None, directory: Some("/out/{name}".into()) }];
    let path = |name: &str| access(&members, &name.into());
    assert_eq!(path("edge-1"), Some(MemberAccess::Directory { path: "/out/edge-1".into() }));
    for name in ["", ".", "..", "../etc", "a/b", "a\\b"] {
        assert_eq!(path(name), None, "{name:?}");
    }
}

#[test]
fn the_fixed_part_ends_before_the_name() {
    for (directory, expected) in
        [("/out/{name}", "/out"), ("/out/x-{name}/y", "/out"), ("/out/a", "/out/a"), ("/{name}", "/")]
    {
        assert_eq!(fixed_part(Path::new(directory)), Path::new(expected), "{directory}");
    }
}
