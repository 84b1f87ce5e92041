//! Over ssh, from a real sshd.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering;

use super::*;

use testservers::sshd::{Manner, Sshd, make_key};

fn access(sshd: &Sshd) -> SshAccess {
    SshAccess { key_file: sshd.key_file(), known_hosts_file: sshd.known_hosts_file() }
}

fn spec(place: &Place, sshd: &Sshd) -> SourceSpec {
    let branch = Some("main".to_owned());
    SourceSpec { location: sshd.url(&place.repo()), branch, ssh: Some(access(sshd)), ..place.spec() }
}

#[test]
#[ignore = "needs sshd"]
fn a_branch_is_followed_and_pull_requests_come() {
    // Without the variable the host answers in git's first protocol.
    for protocol in [true, false] {
        let place = Place::with(&[("a.yaml", "a: 1\n")]);
        let sshd = Sshd::start(protocol);
        // Protocol 1 answers about the default branch in another way, too.
        let branch = protocol.then(|| "main".to_owned());
        let mut source = place.open(SourceSpec { branch, ..spec(&place, &sshd) });
        assert_eq!(commit_of(&mut source), place.head(), "protocol 2: {protocol}");
        assert_eq!(source.tip().unwrap().branch.as_deref(), Some("main"));
        assert_eq!(poll(&mut source).unwrap(), None);
        let pushed = place.commit(&[("a.yaml", "a: 2\n")]);
        assert_eq!(commit_of(&mut source), pushed);
        assert_eq!(source.file(&pushed, "a.yaml").unwrap().unwrap(), b"a: 2\n");
        place.git(&["update-ref", "refs/pull/7/head", pushed.as_str()]);
        assert_eq!(source.fetch_pull(7, &AtomicBool::new(false)).unwrap(), pushed);
        let missing = source.fetch_pull(8, &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(missing, Error::PullMissing { number: 8, .. }), "{missing:?}");
        assert!(source.is_mirrored());
        assert!(source.compact_above(0, &AtomicBool::new(false)).unwrap());
        let reader = read_kept(&sshd.url(&place.repo()), ".", &place.state()).unwrap();
        assert_eq!(reader.file(&pushed, "a.yaml").unwrap().unwrap(), b"a: 2\n");
        let mut other = place.open(SourceSpec { branch: Some("other".to_owned()), ..spec(&place, &sshd) });
        let error = poll(&mut other).unwrap_err();
        assert!(matches!(error, Error::BranchMissing { .. }), "{error:?}");
    }
}

/// What is changed before a poll, and what must come of it.
type Case = (&'static str, fn(&Sshd, &mut SourceSpec), ErrorClass, &'static str);

const CASES: [Case; 10] = [
    (
        "a key that the host does not know",
        |sshd, spec| spec.ssh.as_mut().unwrap().key_file = sshd.path("stranger"),
        ErrorClass::Denied,
        "must know its public half",
    ),
    ("an unknown host", |sshd, _| sshd.know(""), ErrorClass::Denied, "has no key of [127.0.0.1]:"),
    (
        "another host",
        |sshd, _| sshd.know(&sshd.public("stranger")),
        ErrorClass::Denied,
        "Somebody may be in between, or the host has a new key",
    ),
    (
        "a revoked host",
        |sshd, _| {
            let line = format!("@revoked * {}\n", sshd.public("host"));
            fs::write(sshd.known_hosts_file(), line).unwrap();
        },
        ErrorClass::Denied,
        "has its host key as revoked",
    ),
    (
        "no key",
        |sshd, spec| spec.ssh.as_mut().unwrap().key_file = sshd.path("nothing"),
        ErrorClass::Denied,
        "No such file",
    ),
    (
        "no known hosts",
        |sshd, spec| spec.ssh.as_mut().unwrap().known_hosts_file = sshd.path("nothing"),
        ErrorClass::Denied,
        "No such file",
    ),
    (
        "a key that others may read",
        |sshd, _| fs::set_permissions(sshd.key_file(), fs::Permissions::from_mode(0o644)).unwrap(),
        ErrorClass::Denied,
        "others may read it, so ssh does not use it: chmod 600",
    ),
    (
        "a key with a passphrase",
        |sshd, spec| {
            make_key(&sshd.path("locked"), "hunter2");
            // Beside the private key it would be offered.
            fs::rename(sshd.path("locked.pub"), sshd.path("authorized_keys")).unwrap();
            spec.ssh.as_mut().unwrap().key_file = sshd.path("locked");
        },
        ErrorClass::Denied,
        "the host refuses the key, or it has a passphrase",
    ),
    (
        "no key in the file",
        |sshd, spec| {
            fs::write(sshd.path("text"), "no key\n").unwrap();
            fs::set_permissions(sshd.path("text"), fs::Permissions::from_mode(0o600)).unwrap();
            spec.ssh.as_mut().unwrap().key_file = sshd.path("text");
        },
        ErrorClass::Denied,
        "as a private key without a passphrase",
    ),
    (
        "no repository",
        |_, spec| spec.location.push_str("-gone"),
        ErrorClass::Invalid,
        "the host knows no such repository, or the key may not see it",
    ),
];

#[test]
#[ignore = "needs sshd"]
fn what_is_wrong_is_named_with_what_to_do() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    for (case, change, class, words) in CASES {
        let sshd = Sshd::start(true);
        let mut spec = spec(&place, &sshd);
        change(&sshd, &mut spec);
        let error = poll(&mut place.open(spec)).unwrap_err();
        let said = error.in_full();
        assert!(said.contains(words), "{case}: {said}");
        assert_eq!(error.class(), class, "{case}: {said}");
        assert!(!said.contains("PRIVATE KEY") && !said.contains("hunter2"), "{case}: {said}");
    }
}

#[test]
#[ignore = "needs sshd"]
fn a_host_that_was_away_is_followed_again() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let mut sshd = Sshd::start(true);
    let mut source = place.open(spec(&place, &sshd));
    commit_of(&mut source);
    let pushed = place.commit(&[("a.yaml", "a: 2\n")]);
    sshd.stop();
    let error = poll(&mut source).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert_eq!(error.class(), ErrorClass::Transient);
    sshd.listen();
    assert_eq!(commit_of(&mut source), pushed);
}

#[test]
#[ignore = "needs sshd"]
fn keys_and_known_hosts_are_read_with_each_poll() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let sshd = Sshd::start(true);
    let mut source = place.open(spec(&place, &sshd));
    sshd.know("");
    drop(poll(&mut source).unwrap_err());
    sshd.know(&sshd.public("host"));
    assert_eq!(commit_of(&mut source), place.head());
    fs::copy(sshd.path("stranger.pub"), sshd.path("authorized_keys")).unwrap();
    assert!(matches!(poll(&mut source).unwrap_err(), Error::AccessDenied { .. }));
    fs::remove_file(sshd.key_file().with_extension("pub")).unwrap();
    fs::copy(sshd.path("stranger"), sshd.key_file()).unwrap();
    assert_eq!(poll(&mut source).unwrap(), None);
}

#[test]
#[ignore = "needs sshd"]
fn a_host_that_says_nothing_holds_nobody_up() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    for manner in [Manner::Mute, Manner::Stuck] {
        let sshd = Sshd::start(true);
        sshd.treat(manner);
        let interrupt = AtomicBool::new(false);
        let mut source = place.open(spec(&place, &sshd));
        let error = std::thread::scope(|scope| {
            let polling = scope.spawn(|| source.poll(&interrupt));
            while sshd.served() == 0 {
                std::thread::yield_now();
            }
            interrupt.store(true, Ordering::SeqCst);
            polling.join().unwrap().unwrap_err()
        });
        assert!(matches!(error, Error::Interrupted { .. }), "{manner:?}: {error:?}");
    }
}

#[test]
#[ignore = "needs sshd"]
fn hostile_locations_start_nothing() {
    let place = Place::empty();
    let sshd = Sshd::start(true);
    let command = "exit";
    let rows = [
        format!("ssh://-oProxyCommand={command}/a"),
        format!("ssh://git@-oProxyCommand={command}/a"),
        format!("git@-oProxyCommand={command}:a"),
        format!("-oProxyCommand={command}@127.0.0.1:a"),
        format!("ssh://git@127.0.0.1/a';{command};'"),
        format!("git@127.0.0.1:--upload-pack={command}"),
        "ssh://git:hunter2@127.0.0.1/a".to_owned(),
        "ext::sh -c id".to_owned(),
    ];
    for location in rows {
        let spec = SourceSpec { location: location.clone(), ..spec(&place, &sshd) };
        let error = Source::open(spec, &place.state()).err().expect(&location);
        assert!(matches!(error, Error::UnsupportedLocation { .. }), "{location}: {error:?}");
        assert!(!error.in_full().contains("hunter2"), "{error}");
    }
    let without = SourceSpec { ssh: None, ..spec(&place, &sshd) };
    let error = Source::open(without, &place.state()).err().unwrap();
    assert!(error.to_string().contains("`source.ssh`"), "{error}");
    let token = SourceSpec { token: Some("s3cret".into()), ..spec(&place, &sshd) };
    assert!(matches!(Source::open(token, &place.state()).err().unwrap(), Error::UnsupportedLocation { .. }));
    for name in ["a b", "%h", "${HOME}", "~", "a\"b"] {
        let key_file = place.dir.path().join(name);
        let spec = SourceSpec { ssh: Some(SshAccess { key_file, ..access(&sshd) }), ..spec(&place, &sshd) };
        let error = Source::open(spec, &place.state()).err().expect(name);
        assert!(matches!(error, Error::AccessFile { .. }), "{name}: {error:?}");
    }
    assert_eq!(sshd.served(), 0);
}
