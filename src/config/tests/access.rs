//! How the source is reached.

use super::*;

#[test]
fn the_way_to_a_source_fits_its_url() {
    let cases = [
        ("source: {url: 'ssh://git@git.example/a'}", "source.ssh: is missing"),
        ("source: {url: 'git@git.example:a'}", "source.ssh: is missing"),
        ("source: {url: 'https://git.example/a', caFile: ca, proxy: 'http://p.example:3128'}", "accepted"),
        ("source: {url: 'http://git.example/a', proxy: 'https://p.example/'}", "accepted"),
        ("source: {url: 'http://git.example/a', caFile: ca}", "source.caFile: is for a source.url of https"),
        ("source: {url: x, proxy: 'http://p.example:3128'}", "source.proxy: is for a source.url of https or http"),
        (
            "source: {url: 'https://git.example/a', proxy: 'http://ann:hunter2@p.example'}",
            "source.proxy: names an account",
        ),
        ("source: {url: 'https://git.example/a', proxy: 'p.example:3128'}", "source.proxy: must be an address"),
        ("source: {url: 'https://git.example/a', proxy: 'http://p.example/x'}", "source.proxy: must be an address"),
        ("source: {url: 'https://git.example/a', proxy: 'socks5://p.example'}", "source.proxy: must be an address"),
        ("source: {url: 'https://git.example/a', proxy: 'http://'}", "source.proxy: must be an address"),
        ("source: {url: 'https://github.com/platform/fleet.git', app: {id: 5, privateKeyFile: k}}", "accepted"),
        (
            "source: {url: 'https://github.com/platform', app: {id: 5, privateKeyFile: k}}",
            "source.app: source.url is no repository on GitHub over https",
        ),
        (
            "source: {url: 'https://github.com/a/b', tokenFile: t, app: {id: 5, privateKeyFile: k}}",
            "source: names both tokenFile and app",
        ),
        (
            "source: {url: 'https://github.com/a/b', caFile: ca, app: {id: 5, privateKeyFile: k}}",
            "source.app: GitHub is asked for tokens without",
        ),
        ("source: {url: 'http://github.com/a/b', app: {id: 5, privateKeyFile: k}}", "over plain http"),
        ("source: {url: 'git@git.example:a', ssh: {keyFile: k}}", "source.ssh.knownHostsFile: is missing"),
        ("source: {url: 'git@git.example:a', ssh: {keyFile: k, knownHostsFile: h}}", "accepted"),
        (
            "source: {url: 'ssh://git@git.example/a', tokenFile: t, ssh: {keyFile: k, knownHostsFile: h}}",
            "source.tokenFile: is for https",
        ),
        (
            "source: {url: 'oci://r.example/a:b', user: u, tokenFile: t, caFile: c, proxy: 'http://p.example'}",
            "accepted",
        ),
        ("source: {url: 'oci://127.0.0.1:5000/a:b', allowInsecureHttp: true, path: apps}", "accepted"),
        ("source: {url: 'oci://127.0.0.1:5000/a:b', allowInsecureHttp: true, caFile: c}", "source.caFile: is for"),
        ("source: {url: 'oci://r.example/a'}", "source.url: is no artifact: write oci://HOST/REPOSITORY:TAG"),
        ("source: {url: 'oci://u:hunter2@r.example/a:b'}", "source.url: holds a password"),
        ("source: {url: 'oci://r.example/a:b', branch: main}", "source.branch: is for git"),
        ("source: {url: 'oci://r.example/a:b', user: u}", "source.user: needs `tokenFile`"),
        ("source: {url: 'oci://r.example/a:b', user: 'u:hunter2', tokenFile: t}", "source.user: must be a name"),
        ("source: {url: 'https://git.example/a', user: u, tokenFile: t}", "source.user: is for a source.url of oci"),
        ("source: {url: 'oci://r.example/a:b', ssh: {keyFile: k, knownHostsFile: h}}", "source.ssh: is given"),
        (
            "source: {url: 'oci://r.example/a:b'}\nforge: {type: gitea, url: 'https://git.example', repository: a/b, \
             tokenFile: t}",
            "forge: is for a repository; no git host",
        ),
        (
            "source: {url: 'https://git.example/a', ssh: {keyFile: k, knownHostsFile: h}}",
            "source.ssh: is given, and source.url is not one of ssh",
        ),
    ];
    for (text, expected) in cases {
        let found = complaints(text);
        assert!(found.contains(expected), "{text}: {found}");
        assert!(!found.contains("hunter2"), "{found}");
    }
}

#[test]
fn files_of_the_source_are_relative_to_the_file() {
    let source =
        body("source: {url: 'git@git.example:a', ssh: {keyFile: key, knownHostsFile: /etc/hosts}}").unwrap().source;
    let ssh = source.ssh.unwrap();
    assert_eq!(
        (ssh.key_file.as_path(), ssh.known_hosts_file.as_path()),
        (Path::new("/etc/fleet/key"), Path::new("/etc/hosts"))
    );
    let source = body("source: {url: 'https://git.example/a', caFile: ca.pem}").unwrap().source;
    assert_eq!(source.ca_file.as_deref(), Some(Path::new("/etc/fleet/ca.pem")));
}

#[test]
fn local_and_remote_sources_are_told_apart() {
    for (url, local) in [
        ("https://git.example/a.git", None),
        ("ssh://git@git.example/a.git", None),
        ("git@git.example:a.git", None),
        ("file:///srv/fleet", Some("/srv/fleet")),
        ("oci://r.example/a:b", None),
        ("/srv/fleet", Some("/srv/fleet")),
        ("../fleet", Some("/etc/fleet")),
        ("./a:b", Some("/etc/fleet/a:b")),
    ] {
        let ssh = if url.contains('@') { ", ssh: {keyFile: k, knownHostsFile: h}" } else { "" };
        let read = body(&format!("source: {{url: \"{url}\"{ssh}}}\nstore: {{path: /var/lib/gitfleet}}\n")).unwrap();
        assert_eq!(read.source.local(), local.map(Path::new), "{url}");
    }
}
