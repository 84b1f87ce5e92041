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
fn d19_the_journal_is_as_long_as_the_fleet_needs() {
    let entries = |store: &str| body(&format!("{SOURCE}{store}")).unwrap().store.journal_entries;
    assert_eq!(entries(""), JOURNAL_ENTRIES_DEFAULT);
    assert_eq!(entries("store: {journalEntries: 3000000}\n"), 3_000_000);
    assert!(complaints(&format!("{SOURCE}store: {{journalEntries: 10}}\n")).contains("store.journalEntries"));
}

#[test]
fn the_store_takes_no_more_memory_than_it_may() {
    let bytes = |store: &str| body(&format!("{SOURCE}{store}")).unwrap().store.cache_bytes;
    assert_eq!(bytes(""), CACHE_BYTES_DEFAULT);
    assert_eq!(bytes("store: {cacheBytes: 1048576}\n"), 1_048_576);
    assert!(complaints(&format!("{SOURCE}store: {{cacheBytes: 1000}}\n")).contains("store.cacheBytes"));
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
