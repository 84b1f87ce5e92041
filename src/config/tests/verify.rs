//! Whose signature commits need.

use super::*;

#[test]
fn files_of_keys_are_relative_to_the_file() {
    let text = "source: {url: x, verify: {ssh: {allowedSignersFile: keys/ssh}, openpgp: {keysFile: /keys/pgp}, \
                x509: {caFile: ca, identities: [a]}, keyless: {caFile: login, identities: [{issuer: i, identity: a}]}}}";
    let verify = body(text).unwrap().source.verify.unwrap();
    assert_eq!(verify.commits, VerifiedCommits::All);
    let files = ["/etc/fleet/keys/ssh", "/keys/pgp", "/etc/fleet/ca", "/etc/fleet/login"].map(Path::new);
    assert_eq!(verify.files().collect::<Vec<_>>(), files);
}

#[test]
fn artifacts_and_commits_have_keys_of_their_own() {
    let text = "source: {url: 'oci://r.example/a:b', verify: {cosign: {keysFile: cosign.pub}}}";
    let source = body(text).unwrap().source;
    assert_eq!(source.verify.unwrap().files().collect::<Vec<_>>(), [Path::new("/etc/fleet/cosign.pub")]);
    for (source, wanted) in [
        ("url: 'oci://r.example/a:b', verify: {cosign: {keysFile: k}}", "accepted"),
        ("url: 'oci://r.example/a:b', verify: {}", "source.verify: names no keys"),
        (
            "url: 'oci://r.example/a:b', verify: {openpgp: {keysFile: k}}",
            "source.verify: names keys of commits, and source.url is an artifact",
        ),
        (
            "url: 'oci://r.example/a:b', verify: {cosign: {keysFile: k}, ssh: {allowedSignersFile: s}}",
            "source.verify: names keys of commits",
        ),
        (
            "url: 'https://git.example/a', verify: {cosign: {keysFile: k}}",
            "source.verify.cosign: is for a source.url of oci",
        ),
        ("url: x, verify: {cosign: {keysFile: k}}", "source.verify.cosign: is for a source.url of oci"),
    ] {
        let found = complaints(&format!("source: {{{source}}}"));
        assert!(found.contains(wanted), "{source}: {found}");
    }
}

#[test]
fn certificates_need_people() {
    for (verify, wanted) in [
        ("x509: {caFile: r, identities: [a@b.c]}", "accepted"),
        ("x509: {caFile: r, identities: []}", "source.verify.x509.identities: is empty"),
        ("x509: {caFile: r, identities: ['']}", "source.verify.x509.identities: has an entry with an empty text"),
        ("keyless: {caFile: r, identities: []}", "source.verify.keyless.identities: is empty"),
        ("keyless: {caFile: r, identities: [{issuer: i}]}", "source.verify.keyless.identities[0]"),
        ("keyless: {caFile: r, identities: [{issuer: '', identity: a}]}", "an entry with an empty text"),
    ] {
        let found = complaints(&format!("source: {{url: x, verify: {{{verify}}}}}"));
        assert!(found.contains(wanted), "{verify}: {found}");
    }
}
