//! Receivers of notifications.

use secrecy::ExposeSecret as _;

use super::*;
use model::notification::{NotificationKind, NotificationTemplate};

#[test]
fn receivers_are_read_with_defaults() {
    let read = body(
        "source: {url: /fleet}\nnotify:\n- {name: ops, url: 'https://events.example/x', secretFile: ops-secret}\n\
         - {name: chat, urlFile: chat-url, template: slack, events: [GateWaiting, RolloutHalted], caFile: /ca.pem}\n",
    )
    .unwrap();
    let [ops, chat] = read.notify.as_slice() else { panic!("{:?}", read.notify) };
    assert_eq!(ops.secret_file.as_deref(), Some(Path::new("/etc/fleet/ops-secret")));
    assert_eq!((ops.template, ops.events.as_slice()), (NotificationTemplate::CloudEvents, &NotificationKind::ALL[..]));
    assert_eq!(ops.address().unwrap().expose_secret(), "https://events.example/x");
    assert_eq!(chat.url_file.as_deref(), Some(Path::new("/etc/fleet/chat-url")));
    assert_eq!(chat.ca_file.as_deref(), Some(Path::new("/ca.pem")));
    assert_eq!(chat.events, [NotificationKind::GateWaiting, NotificationKind::RolloutHalted]);
}

#[test]
fn what_is_wrong_with_a_receiver_names_its_field_and_not_the_address() {
    let table = [
        ("{name: a, url: 'https://x/t0ken', template: slack}", "accepted"),
        ("{name: a, url: 'http://127.0.0.1:9/t0ken', template: plain}", "accepted"),
        ("{name: a, url: 'http://x/t0ken', template: plain, allowInsecureHttp: true}", "accepted"),
        (
            "{name: a, url: 'http://x/t0ken', template: plain}",
            "notify[0].url: would send notifications over plain http",
        ),
        ("{name: a, url: 'http://localhost.x/t0ken', template: plain}", "notify[0].url: would send"),
        ("{name: a, url: 'ftp://x/t0ken', template: teams}", "notify[0].url: must be an address"),
        ("{name: a, url: 'https:///t0ken', template: teams}", "notify[0].url: must be an address"),
        ("{name: a, url: 'https://ann:t0ken@x', template: teams}", "notify[0].url: names an account"),
        ("{name: a, template: plain}", "notify[0].url: is missing, and so is urlFile"),
        ("{name: a, url: 'https://x', urlFile: f, template: plain}", "notify[0].url: and urlFile are both given"),
        ("{name: a, url: 'https://x'}", "notify[0].secretFile: is missing"),
        ("{name: a, url: 'https://x', secretFile: s, events: []}", "notify[0].events: is empty"),
        (
            "{name: a, url: 'https://x', secretFile: s, events: [Done]}",
            "notify[0].events[0]: is \"Done\", must be GateWaiting or",
        ),
        ("{name: A b, url: 'https://x', secretFile: s}", "notify[0].name: \"A b\" is not"),
        (
            "{name: a, urlFile: s, template: plain}, {name: a, urlFile: s, template: plain}",
            "notify[1].name: \"a\" is given twice",
        ),
    ];
    for (receivers, expected) in table {
        let found = complaints(&format!("source: {{url: /fleet}}\nnotify: [{receivers}]\n"));
        assert!(found.contains(expected) && !found.contains("t0ken"), "{receivers}: {found}");
    }
    let nine: Vec<String> = (0..9).map(|n| format!("{{name: r{n}, urlFile: s, template: plain}}")).collect();
    let found = complaints(&format!("source: {{url: /fleet}}\nnotify: [{}]\n", nine.join(", ")));
    assert!(found.contains("notify: has 9 receivers, at most 8 are told"), "{found}");
}

#[test]
fn an_address_in_a_file_is_checked_like_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("url");
    let text =
        format!("source: {{url: /fleet}}\nnotify: [{{name: a, urlFile: '{}', template: plain}}]\n", path.display());
    let receiver = body(&text).unwrap().notify.remove(0);
    for (content, expected) in
        [("https://x/t0ken\n", Ok("https://x/t0ken")), ("http://x/t0ken", Err("would send")), ("", Err("is empty"))]
    {
        std::fs::write(&path, content).unwrap();
        match (receiver.address(), expected) {
            (Ok(address), Ok(expected)) => assert_eq!(address.expose_secret(), expected),
            (Err(error), Err(expected)) => {
                let error = error.to_string();
                assert!(error.contains(expected) && !error.contains("t0ken"), "{error}");
            }
            (found, _) => panic!("{content:?}: {found:?}"),
        }
    }
    assert!(!format!("{receiver:?}").contains("url"), "{receiver:?}");
}
