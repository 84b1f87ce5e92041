//! One source or several.

use super::*;

#[test]
fn one_source_may_be_a_list_and_several_have_names() {
    let one = body("sources: [{url: https://a}]").unwrap();
    assert_eq!((one.source.url.as_str(), one.sources.len(), one.all_sources().len()), ("https://a", 0, 1));
    let named = body("sources: [{name: a, url: https://a}]").unwrap();
    assert_eq!((named.source.url.as_str(), named.sources.len()), ("https://a", 1), "others may follow");
    let two = body("sources: [{name: a, url: ./a, tokenFile: t}, {name: b, url: https://b}]").unwrap();
    assert_eq!(two.source, two.sources[0]);
    assert!(two.sources[0].url.starts_with('/') && two.sources[0].token_file.as_ref().unwrap().is_absolute());
    for (text, expected) in [
        ("sources: [{url: https://a}, {url: https://b}]", "sources[0].name: \"\" is not 1 to 63 lowercase letters"),
        (
            "sources: [{name: a, url: https://a}, {name: a, url: https://b}]",
            "sources[1].name: \"a\" is the name of sources[0] too",
        ),
        (
            "sources: [{name: a, url: https://a}, {name: b, url: https://a/}]",
            "sources[1].url: is the url of sources[0] too",
        ),
        (
            "sources: [{name: a, url: https://a}, {name: b, url: https://b, path: ../x}]",
            "sources[1].path: \"../x\" must be",
        ),
        (
            "sources: [{name: a, url: https://a}, {name: b, url: https://b, identity: x}]",
            "sources[1].identity: is not used",
        ),
        ("source: {url: https://a, name: a}", "source.name: is for a list `sources`"),
        (
            "sources: [{name: a, url: https://a}]\nforge: {type: gitea, url: https://a, repository: a/b}",
            "forge: is for one `source`, and there is a list `sources`",
        ),
        ("source: {url: https://a, forge: {type: github, tokenFile: t}}", "source.forge: is for a list `sources`"),
        ("source: {url: https://a}\nsources: [{url: https://b}]", "sources: and `source` are both given"),
        ("sources: []", "source: is missing"),
    ] {
        assert!(complaints(text).contains(expected), "{text}: {}", complaints(text));
    }
}

#[test]
fn each_of_several_sources_may_have_a_repository_on_one_git_host() {
    let two = |one: &str, other: &str| {
        let entry = |name: &str, more: &str| {
            let forge = format!("type: gitea, url: 'https://git.example', tokenFile: t{more}");
            format!("{{name: {name}, url: 'https://git.example/acme/{name}.git', forge: {{{forge}}}}}")
        };
        format!("sources: [{}, {}]", entry("a", one), entry("b", other))
    };
    let read = body(&two("", ", webhookSecretFile: w")).unwrap();
    let forges: Vec<_> = read.forges().map(|(source, forge)| (&*source.name, forge.owner_and_name())).collect();
    assert_eq!(forges, [("a", ("acme", "a")), ("b", ("acme", "b"))]);
    assert!(read.sources[1].forge.as_ref().unwrap().webhook_secret_file.as_ref().unwrap().is_absolute());
    let alike = ", approvals: {required: 2, approvers: ['user:ann']}";
    let read = body(&two(alike, alike)).unwrap();
    assert_eq!((read.approval_rules().required, read.approvals().unwrap().approvers.len()), (2, 1));
    let some = body(
        "sources: [{name: a, url: https://a}, {name: b, url: 'https://github.com/o/r', forge: {type: github, tokenFile: t}}]",
    );
    assert_eq!(some.unwrap().forges().count(), 1, "not each needs one");
    for (one, other, expected) in [
        ("", alike, "sources[1].forge.approvals: differ from those of sources[0]"),
        ("", ", repository: acme/A", "sources[1].forge.repository: is the repository of sources[0] too"),
        ("", ", shortCommand: true", "sources[1].forge.shortCommand: is unknown"),
        (", repository: x", "", "sources[0].forge.repository: \"x\" must be OWNER/NAME"),
    ] {
        let text = two(one, other);
        assert!(complaints(&text).contains(expected), "{text}: {}", complaints(&text));
    }
    let text = two("", "").replacen("url: 'https://git.example',", "url: 'https://other.example', repository: a/a,", 1);
    let expected = "sources[1].forge.url: is another git host than that of sources[0]";
    assert!(complaints(&text).contains(expected), "{text}: {}", complaints(&text));
}
