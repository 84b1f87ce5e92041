//! Polls, pins and watches of the three kinds of source.

use super::*;

#[test]
fn a_local_repository_is_read_in_place() {
    let place = Place::with(&[("a.yaml", "a: 1\n"), ("sub/b.yaml", "b: 2\n"), ("README.md", "no\n")]);
    let mut source = place.open(place.spec());
    let first = commit_of(&mut source);
    assert_eq!(first, place.head());
    assert_eq!(source.tip().unwrap().branch.as_deref(), Some("main"));
    assert_eq!(poll(&mut source).unwrap(), None, "nothing moved");
    let listing = source.files(&first, &manifests).unwrap();
    assert_eq!(paths(&listing), ["a.yaml", "sub/b.yaml"]);
    assert_eq!(source.blob(&listing.files[1].blob).unwrap(), b"b: 2\n");
    assert_eq!(source.size(&listing.files[1].blob).unwrap(), 5);
    assert_eq!(source.file(&first, "sub/b.yaml").unwrap().unwrap(), b"b: 2\n");
    assert_eq!(source.file(&first, ".gitfleetignore").unwrap(), None);

    fs::write(place.repo().join("a.yaml"), "dirty").unwrap();
    assert_eq!(poll(&mut source).unwrap(), None, "the work tree is not read");
    let second = place.commit(&[("c.yaml", "c: 3\n")]);
    assert_eq!(commit_of(&mut source), second);
    assert_eq!(paths(&source.files(&second, &manifests).unwrap()), ["a.yaml", "c.yaml", "sub/b.yaml"]);
    assert!(!place.state().exists(), "a local repository needs no mirror");

    place.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(poll(&mut source).unwrap(), None);
    assert_eq!(source.files(&second, &manifests).unwrap().files.len(), 3, "packed objects and refs are found");
    place.git(&["checkout", "-q", "--detach", first.as_str()]);
    assert_eq!(poll(&mut source).unwrap(), Some(Tip { commit: first, branch: None }));
}

#[test]
fn one_of_several_that_is_away_is_read_from_its_copy_until_it_is_back() {
    let place = Place::with(&[("sub/a.yaml", "a: 1\n")]);
    let copies = crate::JoinedRepository::open(&place.state()).unwrap();
    let spec = || SourceSpec { path: "sub".to_owned(), ..place.spec() };
    let open = |accepted| Source::open_among(spec(), &place.state(), &copies, accepted);
    let mut source = open(None).unwrap();
    let head = commit_of(&mut source);
    let (repo, elsewhere) = (place.repo(), place.dir.path().join("elsewhere"));
    copies.copy(source.reader(), &head).unwrap();
    copies.reader().pin("p", &head).unwrap();
    copies.sweep().unwrap();
    fs::rename(&repo, &elsewhere).unwrap();
    assert!(matches!(open(None).err(), Some(Error::NotARepository { .. })), "at a first start a path is wrong");
    let other = CommitId::new("1".repeat(40));
    assert!(matches!(open(Some(&other)).err(), Some(Error::NotARepository { .. })), "nothing was copied");
    for mut source in [source, open(Some(&head)).unwrap()] {
        assert!(matches!(poll(&mut source), Err(Error::NotARepository { .. })));
        let listing = source.files(&head, &manifests).unwrap();
        assert_eq!(paths(&listing), ["a.yaml"]);
        assert_eq!(source.blob(&listing.files[0].blob).unwrap(), b"a: 1\n");
        fs::rename(&elsewhere, &repo).unwrap();
        assert_eq!(commit_of(&mut source), head, "it is back");
        assert_eq!(source.reader().git_dir(), repo.join(".git"));
        fs::rename(&repo, &elsewhere).unwrap();
    }
}

#[test]
fn bare_repositories_work_trees_and_those_of_others_are_read() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let head = place.head();
    place.git(&["clone", "-q", "--bare", ".", "../bare.git"]);
    place.git(&["worktree", "add", "-q", "-b", "other", "../tree"]);
    let others = place.dir.path().join("others");
    place.git(&["clone", "-q", ".", "../others"]);
    let chown = Command::new("chown").args(["-R", "12345:12345"]).arg(&others).status().unwrap();
    let folders: &[&str] = if chown.success() { &["bare.git", "tree", "others"] } else { &["bare.git", "tree"] };
    for folder in folders {
        let location = place.dir.path().join(folder).display().to_string();
        let mut source = place.open(SourceSpec { location, ..place.spec() });
        assert_eq!(commit_of(&mut source), head, "{folder}");
        assert_eq!(source.files(&head, &manifests).unwrap().files.len(), 1, "{folder}");
        source.pin("p", &head).unwrap();
        assert_eq!(source.pins().unwrap().len(), 1, "{folder}");
    }
}

#[test]
fn a_remote_is_mirrored_and_followed() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    for branch in [Some("main"), None] {
        let mut source = place.open(place.remote_spec(branch));
        let first = commit_of(&mut source);
        assert_eq!(first, place.head(), "{branch:?}");
        assert_eq!(source.tip().unwrap().branch.as_deref(), Some("main"));
        assert_eq!(poll(&mut source).unwrap(), None, "{branch:?}");
        let second = place.commit(&[("b.yaml", "b: 2\n")]);
        assert_eq!(commit_of(&mut source), second, "{branch:?}");
        assert!(source.descends(&first, &second).unwrap());
        assert!(!source.descends(&second, &first).unwrap());
        assert_eq!(source.files(&second, &manifests).unwrap().files.len(), 2);
        place.git(&["rm", "-q", "b.yaml"]);
        place.commit(&[]);
    }
    let mirrors: Vec<_> = fs::read_dir(place.state().join("mirrors")).unwrap().collect();
    assert_eq!(mirrors.len(), 1, "pins outlive a change of branch");
    let mut again = place.open(place.remote_spec(Some("main")));
    assert_eq!(commit_of(&mut again), place.head(), "a restart finds the mirror");
}

#[test]
fn an_unmoved_remote_costs_no_pack() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let mut source = place.open(place.remote_spec(Some("main")));
    commit_of(&mut source);
    let packs = |source: &Source| fs::read_dir(source.git_dir().join("objects/pack")).unwrap().count();
    let before = packs(&source);
    assert!(before > 0);
    for _ in 0..3 {
        assert_eq!(poll(&mut source).unwrap(), None);
    }
    assert_eq!(packs(&source), before);
}

#[test]
fn a_force_push_does_not_descend() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let base = place.head();
    for spec in [place.spec(), place.remote_spec(Some("main"))] {
        place.git(&["reset", "-q", "--hard", base.as_str()]);
        let mut source = place.open(spec);
        let old = place.commit(&[("b.yaml", "old\n")]);
        assert_eq!(commit_of(&mut source), old);
        place.git(&["reset", "-q", "--hard", base.as_str()]);
        let new = place.commit(&[("b.yaml", "new\n")]);
        assert_eq!(commit_of(&mut source), new);
        let rows = [(&old, &new, false), (&base, &new, true), (&new, &new, true), (&new, &base, false)];
        for (old, new, descends) in rows {
            assert_eq!(source.descends(old, new).unwrap(), descends, "{old} {new}");
        }
        let gone = CommitId::new("1111111111111111111111111111111111111111");
        assert!(!source.descends(&gone, &new).unwrap(), "what is gone cannot be descended from");
        assert!(matches!(source.descends(&new, &gone), Err(Error::ObjectMissing { .. })));
    }
}

#[test]
fn missing_branches_and_empty_repositories_are_named() {
    let place = Place::empty();
    let spec = |branch: Option<&str>| SourceSpec { branch: branch.map(str::to_owned), ..place.spec() };
    for branch in [None, Some("main")] {
        for spec in [spec(branch), place.remote_spec(branch)] {
            let location = spec.location.clone();
            let error = poll(&mut place.open(spec)).unwrap_err();
            assert!(matches!(error, Error::EmptyRepository { .. }), "{location} {branch:?}: {error}");
        }
    }
    place.commit(&[("a.yaml", "a: 1\n")]);
    place.git(&["branch", "release"]);
    for spec in [spec(Some("release")), place.remote_spec(Some("release"))] {
        let mut source = place.open(spec);
        let seen = commit_of(&mut source);
        place.git(&["branch", "-D", "release"]);
        let error = poll(&mut source).unwrap_err();
        assert!(matches!(&error, Error::BranchMissing { branch, .. } if branch == "release"), "{error}");
        assert_eq!(error.class(), ErrorClass::Invalid);
        assert_eq!(source.tip().unwrap().commit, seen, "the last good tip stays known");
        assert!(source.files(&seen, &manifests).is_ok());
        place.git(&["branch", "release"]);
    }
    place.git(&["symbolic-ref", "HEAD", "refs/heads/nowhere"]);
    for spec in [spec(None), place.remote_spec(None)] {
        let error = poll(&mut place.open(spec)).unwrap_err();
        assert!(matches!(error, Error::BranchMissing { .. }), "HEAD leads nowhere: {error}");
    }
}

#[test]
fn wrong_locations_are_refused_with_words_and_without_the_token() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let file = place.repo().join("a.yaml").display().to_string();
    let gone = place.dir.path().join("gone").display().to_string();
    let rows: [Row<'_>; 9] = [
        ("http://git.example/a.git", false, |e| matches!(e, Error::InsecureToken { .. })),
        ("https://user:s3cret@git.example/a.git", false, |e| matches!(e, Error::InsecureToken { .. })),
        ("http://user:s3cret@git.example/a.git", true, |e| matches!(e, Error::InsecureToken { .. })),
        ("ssh://git@git.example/a.git", false, |e| matches!(e, Error::UnsupportedLocation { .. })),
        ("git@git.example:a.git", false, |e| matches!(e, Error::UnsupportedLocation { .. })),
        ("ext://sh -c reboot", false, |e| matches!(e, Error::UnsupportedLocation { .. })),
        ("https://", false, |e| matches!(e, Error::UnsupportedLocation { .. })),
        (&file, false, |e| matches!(e, Error::NotARepository { .. })),
        (&gone, false, |e| matches!(e, Error::NotARepository { .. })),
    ];
    for (location, allow_insecure_http, expected) in rows {
        let token = Some("s3cret".into());
        let spec = SourceSpec { location: location.to_owned(), token, allow_insecure_http, ..place.spec() };
        let error = Source::open(spec, &place.state()).err().expect(location);
        assert!(expected(&error), "{location}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
    let error = poll(&mut place.open(SourceSpec { location: format!("file://{gone}"), ..place.spec() })).unwrap_err();
    assert!(matches!(error, Error::NotARepository { .. }), "{error:?}");
    fs::remove_file(place.repo().join(".git/HEAD")).unwrap();
    let error = Source::open(place.spec(), &place.state()).err().unwrap();
    assert!(matches!(error, Error::NotARepository { .. }), "a broken repository is no plain folder: {error:?}");
}

#[test]
fn an_unreachable_server_is_transient() {
    let place = Place::empty();
    let token = Some("s3cret".into());
    // Port 1 of the loopback is closed on any machine these tests run on.
    let location = "http://127.0.0.1:1/a.git".to_owned();
    let spec = SourceSpec { location, token, allow_insecure_http: true, ..place.spec() };
    let error = poll(&mut place.open(spec)).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert_eq!(error.class(), ErrorClass::Transient);
    assert!(!format!("{error:?}").contains("s3cret"));
}

/// Answers every request with one status; returns the address and what was asked.
fn serve(status: &'static str) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.ends_with(b"\r\n\r\n") {
                let read = std::io::Read::read(&mut stream, &mut buffer).unwrap();
                if read == 0 {
                    break;
                }
                request.extend_from_slice(&buffer[..read]);
            }
            let challenge = "WWW-Authenticate: Basic realm=\"git\"\r\nContent-Type: text/html\r\nConnection: close";
            let answer = format!("HTTP/1.1 {status}\r\n{challenge}\r\nContent-Length: 4\r\n\r\npage");
            std::io::Write::write_all(&mut stream, answer.as_bytes()).unwrap();
            if sender.send(String::from_utf8(request).unwrap()).is_err() {
                return;
            }
        }
    });
    (address, requests)
}

#[test]
fn what_a_server_answers_is_named() {
    let place = Place::empty();
    let rows: [Row<'static>; 8] = [
        ("401 Unauthorized", false, |e| {
            matches!(e, Error::AccessDenied { .. }) && e.to_string().contains("wants a token")
        }),
        ("401 Unauthorized", true, |e| matches!(e, Error::AccessDenied { .. }) && e.to_string().contains("is wrong")),
        ("403 Forbidden", true, |e| matches!(e, Error::AccessDenied { .. })),
        ("404 Not Found", true, |e| matches!(e, Error::NotARepository { .. })),
        ("500 Internal Server Error", true, |e| matches!(e, Error::Unreachable { .. })),
        ("503 Service Unavailable", false, |e| matches!(e, Error::Unreachable { .. })),
        ("429 Too Many Requests", true, |e| matches!(e, Error::Unreachable { .. })),
        ("200 OK", true, |e| matches!(e, Error::Remote { .. })),
    ];
    for (status, with_token, expected) in rows {
        let (address, requests) = serve(status);
        let location = format!("http://{address}/fleet.git");
        let token = with_token.then(|| "s3cret".into());
        let spec = SourceSpec { location, token, allow_insecure_http: with_token, ..place.spec() };
        let error = poll(&mut place.open(SourceSpec { branch: Some("main".to_owned()), ..spec })).unwrap_err();
        assert!(expected(&error), "{status} {with_token}: {error:?}");
        let request = requests.recv_timeout(PATIENCE).unwrap();
        // The login is "x-access-token:s3cret".
        let login = "eC1hY2Nlc3MtdG9rZW46czNjcmV0";
        assert_eq!(request.contains(login), with_token, "{status}: {request}");
        let said = format!("{error} {error:?}");
        assert!(!said.contains("s3cret") && !said.contains(login), "{said}");
    }
}

#[test]
fn pins_keep_what_is_needed() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let base = place.head();
    for spec in [place.spec(), place.remote_spec(Some("main"))] {
        let remote = spec.location.starts_with("file://");
        place.git(&["reset", "-q", "--hard", base.as_str()]);
        let mut source = place.open(spec.clone());
        let old = place.commit(&[("b.yaml", if remote { "remote\n" } else { "local\n" })]);
        commit_of(&mut source);
        source.pin("snapshot/web-0", &old).unwrap();
        source.pin("snapshot/web-0", &old).unwrap();
        source.pin("snapshot/web-1", &base).unwrap();
        place.git(&["reset", "-q", "--hard", base.as_str()]);
        place.git(&["reflog", "expire", "--expire=now", "--all"]);
        place.git(&["gc", "-q", "--prune=now"]);
        commit_of(&mut source);
        let source = place.open(spec);
        let names: BTreeSet<String> = source.pins().unwrap().into_keys().collect();
        assert_eq!(names, ["snapshot/web-0", "snapshot/web-1"].map(str::to_owned).into());
        assert_eq!(source.pins().unwrap()["snapshot/web-0"], old);
        assert_eq!(source.files(&old, &manifests).unwrap().files.len(), 2);
        source.unpin("snapshot/web-0").unwrap();
        source.unpin("snapshot/web-0").unwrap();
        assert_eq!(source.pins().unwrap().len(), 1);
        let gone = CommitId::new("1111111111111111111111111111111111111111");
        assert!(matches!(source.pin("x", &gone), Err(Error::ObjectMissing { .. })));
        assert!(matches!(source.pin("a..b", &base), Err(Error::PinName { .. })));
    }
    let refs = place.git(&["for-each-ref", "--format=%(refname)"]);
    assert!(refs.lines().all(|name| name == "refs/heads/main" || name.starts_with(REF_PREFIX)), "{refs}");
}

#[test]
fn a_compacted_mirror_keeps_every_pin() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let base = place.head();
    let mut source = place.open(place.remote_spec(Some("main")));
    let mut dropped = Vec::new();
    for round in ["one", "two", "three"] {
        let lost = place.commit(&[("sub/b.yaml", round), ("sub/c.yaml", "same\n")]);
        assert_eq!(commit_of(&mut source), lost);
        source.pin(round, &lost).unwrap();
        dropped.push(lost);
        place.git(&["reset", "-q", "--hard", base.as_str()]);
    }
    let tip = place.commit(&[("d.yaml", "d\n")]);
    place.git(&["reflog", "expire", "--expire=now", "--all"]);
    place.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(commit_of(&mut source), tip);
    let interrupt = AtomicBool::new(false);
    let (git_dir, pins) = (source.git_dir(), source.pins().unwrap());
    let packs = || {
        let names = fs::read_dir(git_dir.join("objects/pack")).unwrap().map(|e| e.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|e| e == "pack")).count()
    };
    assert_eq!(packs(), 4);
    assert!(!source.compact(&interrupt).unwrap(), "few packs are left alone");
    assert!(source.compact_above(3, &interrupt).unwrap());
    assert_eq!(packs(), 1);
    assert_eq!(source.pins().unwrap(), pins);
    for lost in &dropped {
        let listing = source.files(lost, &manifests).unwrap();
        let ids: Vec<BlobId> = listing.files.iter().map(|file| file.blob.clone()).collect();
        assert_eq!(source.blobs(&ids).unwrap().len(), 3);
    }
    assert_eq!(poll(&mut source).unwrap(), None, "the tip is where it was");
    let problems = fsck(&git_dir);
    assert!(problems.is_empty(), "{problems}");

    fs::rename(&git_dir, git_dir.with_extension("replaced")).unwrap();
    let source = place.open(place.remote_spec(Some("main")));
    assert_eq!(source.pins().unwrap(), pins, "a crash between the two moves loses nothing");
    let left: Vec<_> = fs::read_dir(place.state().join("mirrors")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(left, [git_dir]);
}

#[test]
fn a_watch_tells_of_commits_and_of_files() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let plain = place.dir.path().join("plain");
    write(&plain, &[("sub/a.yaml", "a: 1\n")]);
    let remote = place.open(place.remote_spec(Some("main")));
    assert!(watch(&remote, || ()).unwrap().is_none());

    let (sender, news) = channel();
    let source = place.open(place.spec());
    let told = sender.clone();
    let watching = watch(&source, move || told.send("commit").unwrap_or(())).unwrap();
    place.commit(&[("b.yaml", "b: 2\n")]);
    assert_eq!(news.recv_timeout(PATIENCE), Ok("commit"));
    drop(watching);

    let spec = SourceSpec { location: plain.display().to_string(), ..place.spec() };
    let mut source = place.open(spec);
    commit_of(&mut source);
    let watching = watch(&source, move || sender.send("file").unwrap_or(())).unwrap();
    write(&plain, &[("sub/a.yaml", "a: 2\n")]);
    // A commit may be reported more than once.
    while news.recv_timeout(PATIENCE).unwrap() != "file" {}
    commit_of(&mut source);
    drop(watching);
}
