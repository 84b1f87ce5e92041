use super::*;

#[test]
fn a_token_goes_to_the_configured_place_only() {
    let configured = place(&gix::url::parse("https://git.example/a/b.git").unwrap());
    let rows = [
        ("https://git.example/a/b.git", true),
        ("https://git.example:443/other", true),
        ("https://git.example:8443/a/b.git", false),
        ("http://git.example/a/b.git", false),
        ("https://evil.example/a/b.git", false),
        ("https://git.example.evil.example/a/b.git", false),
    ];
    let token = SecretString::from("t0ken");
    for (url, given) in rows {
        let action = helper::Action::get_for_url(url);
        let outcome = answer(&action, Some(&token), &configured);
        assert_eq!(outcome.is_some(), given, "{url}");
    }
    assert!(answer(&helper::Action::get_for_url("https://git.example/a"), None, &configured).is_none());
}
