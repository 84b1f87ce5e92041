//! The daemon's own addresses, and who may read there.

use super::*;

const SOURCE: &str = "source: {url: 'https://git.example/x.git'}\n";

#[test]
fn reading_needs_a_token_where_others_reach_the_daemon() {
    for (http, needed) in [
        ("{}", false),
        ("{listen: '127.0.0.1:80'}", false),
        ("{listen: '[::1]:80'}", false),
        ("{listen: '0.0.0.0:80'}", true),
        ("{listen: '192.0.2.1:80'}", true),
        ("{listen: '[::]:80'}", true),
        ("{listen: '0.0.0.0:80', read: open}", false),
        ("{read: token}", true),
    ] {
        let read = body(&format!("{SOURCE}http: {http}\n")).expect(http);
        assert_eq!(read.http.read_needs_token(), needed, "{http}");
    }
}

#[test]
fn d19_the_store_takes_as_much_as_the_fleet_needs() {
    let store = |fields: &str| format!("{SOURCE}store: {{{fields}}}\n");
    let sizes = |fields: &str| {
        let read = body(&store(fields)).unwrap().store;
        (read.journal_entries, read.cache_bytes)
    };
    assert_eq!(sizes(""), (JOURNAL_ENTRIES_DEFAULT, CACHE_BYTES_DEFAULT));
    assert_eq!(sizes("journalEntries: 3000000, cacheBytes: 1048576"), (3_000_000, 1_048_576));
    for (field, too_small) in [("journalEntries", 10), ("cacheBytes", 1000)] {
        assert!(complaints(&store(&format!("{field}: {too_small}"))).contains(&format!("store.{field}")));
    }
}

#[test]
fn the_addresses_of_the_daemon_are_checked() {
    let forge =
        "forge: {type: gitea, url: 'https://git.example', repository: a/b, tokenFile: t, webhookSecretFile: s}\n";
    for (forge, http, complaint) in [
        (forge, "{webhookListen: '0.0.0.0:8081', hosts: [Fleet.example, 192.0.2.1]}", "accepted"),
        (forge, "{webhookListen: '8081'}", "http.webhookListen"),
        (forge, "{webhookListen: '127.0.0.1:8080'}", "is http.listen as well"),
        ("", "{webhookListen: '127.0.0.1:8081'}", "without a secret"),
        ("", "{hosts: ['https://fleet.example']}", "http.hosts[0]"),
        ("", "{hosts: ['fleet.example:80']}", "http.hosts[0]"),
        ("", "{read: everybody}", "http.read"),
        ("", "{readTokens: [{name: prometheus}]}", "http.readTokens[0].tokenFile"),
        ("", "{pushTokens: [{name: '', tokenFile: t}]}", "http.pushTokens[0].name"),
        ("", "{pushTokens: [{name: a, tokenFile: t}, {name: a, tokenFile: u}]}", "http.pushTokens[1].name"),
    ] {
        let found = complaints(&format!("{SOURCE}{forge}http: {http}\n"));
        assert!(found.contains(complaint), "{http}: {found}");
    }
    let read = body(&format!("{SOURCE}http: {{readTokens: [{{name: prometheus, tokenFile: ./metrics}}]}}\n")).unwrap();
    assert_eq!(read.http.read_tokens[0].token_file, Path::new("/etc/fleet/metrics"));
}

#[test]
fn the_page_is_for_looking_and_its_proxy_has_addresses() {
    let read = |http: &str| body(&format!("{SOURCE}http: {{{http}}}\n")).expect(http).http;
    for (page, mode) in [
        ("", PageMode::Read),
        ("page: command", PageMode::Command),
        ("page: off", PageMode::Off),
        ("page: 'off'", PageMode::Off),
    ] {
        assert_eq!(read(page).page, mode, "{page}");
    }
    for (url, base, is_https) in [
        ("http://fleet.example", "", false),
        ("https://fleet.example/", "", true),
        ("https://fleet.example:8443/tools/gitfleet/", "/tools/gitfleet", true),
    ] {
        let http = read(&format!("publicUrl: '{url}'"));
        assert_eq!((http.base_path(), http.is_https()), (base, is_https), "{url}");
    }
    let proxy =
        read("proxy: {header: X-User, from: [10.1.2.3, 'fd00::/8'], commanders: [ann]}").proxy.expect("a proxy");
    let is_at = |address: &str| {
        let address: std::net::IpAddr = address.parse().expect("an address");
        proxy.networks().iter().any(|network| network.contains(&address))
    };
    assert_eq!(["10.1.2.3", "10.1.2.4", "fd00::1"].map(is_at), [true, false, true]);
    for (http, complaint) in [
        ("page: on", "http.page: is true"),
        ("public: [all]", "http.public[0]: is \"all\""),
        ("publicUrl: fleet.example", "http.publicUrl: "),
        ("publicUrl: 'https://fleet.example/<x>'", "http.publicUrl: "),
        ("proxy: {header: X-User, from: []}", "http.proxy.from: is empty"),
        ("proxy: {header: 'X User', from: [10.0.0.1]}", "http.proxy.header: "),
        ("proxy: {header: X-User, from: [0.0.0.0/0]}", "http.proxy.from[0]: 0.0.0.0/0 is every address"),
        ("proxy: {header: X-User, from: [ten]}", "http.proxy.from[0]: \"ten\" is no address"),
    ] {
        let said = complaints(&format!("{SOURCE}http: {{{http}}}\n"));
        assert!(said.contains(complaint), "{http}: {said}");
    }
}
