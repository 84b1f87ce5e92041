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
            "forge: is not supported yet",
        ),
        ("source: {url: https://a}\nsources: [{url: https://b}]", "sources: and `source` are both given"),
        ("sources: []", "source: is missing"),
    ] {
        assert!(complaints(text).contains(expected), "{text}: {}", complaints(text));
    }
}
