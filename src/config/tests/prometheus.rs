//! The servers that checks ask.

use super::*;

#[test]
fn servers_are_read_with_defaults() {
    let read = body(
        "source: {url: /fleet}\nprometheus:\n- {name: main, url: 'https://p.example/prom', tokenFile: token, caFile: /ca.pem}\n\
         - {name: plain, url: 'http://10.0.0.1:9090', interval: 1m, timeout: 30s}\n",
    )
    .unwrap();
    let [main, plain] = read.prometheus.as_slice() else { panic!("{:?}", read.prometheus) };
    assert_eq!(main.token_file.as_deref(), Some(Path::new("/etc/fleet/token")));
    assert_eq!(main.ca_file.as_deref(), Some(Path::new("/ca.pem")));
    assert_eq!((main.interval.as_secs(), main.timeout.as_secs()), (30, 10));
    assert_eq!(plain.timeout.as_secs(), 30);
    let intervals: Vec<_> = read.metric_servers().into_iter().map(|(name, every)| (name, every.as_secs())).collect();
    assert_eq!(intervals, [("main".to_owned(), 30), ("plain".to_owned(), 60)]);
}

#[test]
fn what_is_wrong_with_a_server_names_its_field() {
    let table = [
        ("{name: a, url: 'ftp://x'}", "prometheus[0].url: \"ftp://x\" must be an address"),
        ("{name: a, url: 'https://ann:word@x'}", "prometheus[0].url: names an account"),
        ("{name: a, url: 'https://x/?y'}", "prometheus[0].url: \"https://x/?y\" must end with"),
        ("{name: a, url: 'http://x', tokenFile: t}", "prometheus[0].url: would send the token over plain http"),
        ("{name: a, url: 'http://x', tokenFile: t, allowInsecureHttp: true}", "accepted"),
        ("{name: A, url: 'https://x'}", "prometheus[0].name: \"A\" is not"),
        ("{name: a, url: 'https://x'}, {name: a, url: 'https://y'}", "prometheus[1].name: \"a\" is given twice"),
        ("{name: a, url: 'https://x', timeout: 1m}", "prometheus[0].timeout: is longer than interval"),
        ("{name: a, url: 'https://x', interval: often}", "prometheus[0].interval: \"often\" is no duration"),
        ("{name: a, url: 'https://x', token: secret}", "prometheus[0].token: is unknown"),
        ("{name: a}", "prometheus[0].url: is missing"),
    ];
    for (servers, expected) in table {
        let found = complaints(&format!("source: {{url: /fleet}}\nprometheus: [{servers}]\n"));
        assert!(found.contains(expected) && !found.contains("word"), "{servers}: {found}");
    }
}
