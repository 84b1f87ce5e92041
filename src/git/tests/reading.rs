//! Listings, blobs, revisions and folders.

use super::*;

#[test]
fn sources_move_between_threads_and_readers_are_shared() {
    fn moves<T: Send + 'static>() {}
    fn shared<T: Clone + Send + Sync + 'static>() {}
    moves::<Source>();
    moves::<Error>();
    moves::<Watch>();
    shared::<Reader>();
}

#[test]
fn a_subtree_has_its_own_id_and_problems_are_collected() {
    let place = Place::with(&[("fleet/a.yaml", "a: 1\n"), ("other/b.yaml", "b: 2\n"), ("LICENSE", "x\n")]);
    let mut source = place.open(SourceSpec { path: "./fleet/".to_owned(), ..place.spec() });
    let first = commit_of(&mut source);
    assert_eq!(paths(&source.files(&first, &manifests).unwrap()), ["a.yaml"]);
    let second = place.commit(&[("other/b.yaml", "b: 3\n")]);
    assert_eq!(source.tree_id(&first).unwrap(), source.tree_id(&second).unwrap());

    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, place.repo().join(name)).unwrap();
    link("/etc/passwd", "fleet/out.yaml");
    link("a.yaml", "fleet/in.yaml");
    link("../other", "fleet/folder");
    link("../../..", "fleet/up");
    link("nothing", "fleet/dangling");
    link("../LICENSE", "fleet/LICENSE");
    link("/etc/passwd", "fleet/.hidden.yaml");
    fs::create_dir(place.repo().join("fleet/ignored")).unwrap();
    link("/etc", "fleet/ignored/etc");
    let third = place.commit(&[]);
    let module = format!("160000,{first},fleet/module");
    let ignored = format!("160000,{first},fleet/ignored/module");
    for cacheinfo in [&module, &ignored] {
        place.git(&["update-index", "--add", "--cacheinfo", cacheinfo]);
    }
    place.git(&["commit", "-q", "-m", "module"]);
    let fourth = place.head();
    assert_ne!(source.tree_id(&second).unwrap(), source.tree_id(&third).unwrap());
    let listing = source.files(&fourth, &manifests).unwrap();
    assert_eq!(paths(&listing), ["a.yaml"]);
    let followed = "a symbolic link to a folder, or to something outside: links are not followed";
    assert_eq!(
        complaints(&listing),
        [
            format!("dangling: {followed}"),
            format!("folder: {followed}"),
            "in.yaml: a symbolic link: links are not followed".to_owned(),
            "module: a submodule: other repositories are not read".to_owned(),
            "out.yaml: a symbolic link: links are not followed".to_owned(),
            format!("up: {followed}"),
        ]
    );
    for path in ["nowhere", "LICENSE"] {
        let mut source = place.open(SourceSpec { path: path.to_owned(), ..place.spec() });
        let commit = commit_of(&mut source);
        assert!(matches!(source.files(&commit, &manifests), Err(Error::PathMissing { .. })), "{path}");
    }
    let outside = Source::open(SourceSpec { path: "a/../..".to_owned(), ..place.spec() }, &place.state());
    assert!(matches!(outside, Err(Error::PathInvalid { .. })));
}

#[test]
fn names_that_are_not_utf8_are_named() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    for name in [&b"\xffbad.yaml"[..], b"\xff.txt", b"back\\slash.yaml"] {
        fs::write(place.repo().join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
    }
    let commit = place.commit(&[]);
    let mut source = place.open(place.spec());
    commit_of(&mut source);
    let listing = source.files(&commit, &manifests).unwrap();
    assert_eq!(
        complaints(&listing),
        ["back\\slash.yaml: the name contains a slash or backslash", "\u{fffd}bad.yaml: the name is not UTF-8"]
    );
    assert_eq!(read_folder(&place.repo(), &manifests).unwrap().listing, listing, "disk and commit agree");
}

#[test]
fn large_files_and_lfs_pointers_are_not_read() {
    let large = "x".repeat(6 * 1024 * 1024);
    let lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    let place = Place::with(&[("a.yaml", "a: 1\n"), ("large.yaml", &large), ("lfs.yaml", lfs)]);
    let mut source = place.open(place.spec());
    let commit = commit_of(&mut source);
    let listing = source.files(&commit, &manifests).unwrap();
    let ids: Vec<BlobId> = listing.files.iter().map(|file| file.blob.clone()).collect();
    let blobs = source.blobs(&ids).unwrap();
    assert_eq!(blobs, [Blob::Content(b"a: 1\n".to_vec()), Blob::TooLarge(6 * 1024 * 1024), Blob::LfsPointer]);
    assert!(matches!(source.blob(&ids[1]), Err(Error::BlobTooLarge { size: 6_291_456, .. })));
    let gone = BlobId::new("1111111111111111111111111111111111111111");
    assert!(matches!(source.blobs(&[ids[0].clone(), gone.clone()]), Err(Error::ObjectMissing { .. })));
    assert!(matches!(source.blob(&gone), Err(Error::ObjectMissing { .. })));
    let folder = read_folder(&place.repo(), &manifests).unwrap();
    assert_eq!(
        complaints(&folder.listing),
        [
            "large.yaml: 6291456 bytes, more than the 5242880 that are read",
            "lfs.yaml: the content is kept by Git LFS, which is not read"
        ]
    );
    assert_eq!(paths(&folder.listing), ["a.yaml"]);
}

#[test]
fn many_blobs_come_in_the_order_asked_for() {
    let files: Vec<(String, String)> = (0..2000).map(|i| (format!("{i}.yaml"), format!("value: {i}\n"))).collect();
    let place = Place::with(&files.iter().map(|(p, c)| (p.as_str(), c.as_str())).collect::<Vec<_>>());
    let mut source = place.open(place.remote_spec(Some("main")));
    let commit = commit_of(&mut source);
    let listing = source.files(&commit, &manifests).unwrap();
    let ids: Vec<BlobId> = listing.files.iter().map(|file| file.blob.clone()).collect();
    for (file, blob) in listing.files.iter().zip(source.blobs(&ids).unwrap()) {
        let number = file.path.strip_suffix(".yaml").unwrap();
        assert_eq!(blob, Blob::Content(format!("value: {number}\n").into_bytes()));
    }
}

#[test]
fn a_plain_folder_becomes_commits() {
    let place = Place::empty();
    fs::remove_dir_all(place.repo().join(".git")).unwrap();
    let state = place.repo().join("store");
    let excluded = vec![place.repo().join("rendered")];
    let open = || Source::open(SourceSpec { excluded: excluded.clone(), ..place.spec() }, &state).unwrap();
    assert!(matches!(poll(&mut open()), Err(Error::EmptyRepository { .. })));
    let files = [("a.yaml", "a: 1\n"), (".gitfleetignore", "x\n"), (".env.yaml", "no\n"), ("big.bin", "no\n")];
    write(&place.repo(), &files);
    write(&place.repo(), &[("sub/b.yml", "b: 2\n"), ("sub-1/c.json", "{}"), ("rendered/m/d.yaml", "d: 4\n")]);
    std::os::unix::fs::symlink("/etc/passwd", place.repo().join("link.yaml")).unwrap();
    let mut source = open();
    let first = commit_of(&mut source);
    let listing = source.files(&first, &manifests).unwrap();
    assert_eq!(paths(&listing), ["a.yaml", "sub-1/c.json", "sub/b.yml"]);
    assert_eq!(complaints(&listing), ["link.yaml: a symbolic link: links are not followed"]);
    assert_eq!(source.file(&first, ".gitfleetignore").unwrap().unwrap(), b"x\n");
    assert_eq!(source.file(&first, ".env.yaml").unwrap(), None);
    assert_eq!(source.file(&first, "big.bin").unwrap(), None);

    assert_eq!(poll(&mut source).unwrap(), None, "unchanged is no new commit");
    write(&place.repo(), &[("rendered/m/e.yaml", "e: 5\n"), ("big.bin", "more\n")]);
    assert_eq!(poll(&mut source).unwrap(), None, "what is not read makes no commit");
    assert_eq!(commit_of(&mut open()), first, "nor does a restart");
    write(&place.repo(), &[("a.yaml", "a: 2\n")]);
    let second = commit_of(&mut source);
    assert_ne!(first, second);
    assert!(source.descends(&first, &second).unwrap());

    let elsewhere = tempfile::tempdir().unwrap();
    let other = |content| {
        write(&place.repo(), &[("a.yaml", content)]);
        let spec = SourceSpec { excluded: [excluded.clone(), vec![state.clone()]].concat(), ..place.spec() };
        commit_of(&mut Source::open(spec, elsewhere.path()).unwrap())
    };
    assert_eq!([other("a: 1\n"), other("a: 2\n")], [first, second], "the same contents are the same commits");
    let problems = fsck(&source.git_dir());
    assert!(problems.is_empty(), "{problems}");
}

#[test]
fn revisions_resolve_to_commits() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let first = place.head();
    place.git(&["tag", "light"]);
    place.git(&["tag", "-a", "-m", "x", "heavy"]);
    place.git(&["branch", "side"]);
    let second = place.commit(&[("sub/deep/b.yaml", "b: 2\n")]);
    let (reader, path) = discover(&place.repo().join("sub/deep")).unwrap();
    assert_eq!(path, "sub/deep");
    assert_eq!(discover(&place.repo()).unwrap().1, "");
    let short = &first.as_str()[..10];
    let rows = [
        ("HEAD", &second),
        ("main", &second),
        ("HEAD~1", &first),
        ("light", &first),
        ("heavy", &first),
        ("refs/heads/side", &first),
        (first.as_str(), &first),
        (short, &first),
    ];
    for (revision, commit) in rows {
        assert_eq!(&reader.resolve(revision).unwrap(), commit, "{revision}");
    }
    for revision in ["nothing", "HEAD~9", "HEAD:sub", "", "HEAD..side", "1111111111111111111111111111111111111111"] {
        assert!(matches!(reader.resolve(revision), Err(Error::RevisionUnknown { .. })), "{revision}");
    }
    assert_eq!(paths(&reader.files(&second, &manifests).unwrap()), ["b.yaml"]);
    assert!(matches!(reader.files(&first, &manifests), Err(Error::PathMissing { .. })));
    let outside = tempfile::tempdir().unwrap();
    assert!(matches!(discover(outside.path()), Err(Error::NotARepository { .. })));
}

#[test]
fn a_folder_and_its_commit_are_listed_alike() {
    let place = Place::with(&[("b.yaml", "b: 1\n"), ("a/z.yaml", "z\n"), ("a-b.yaml", "ä\r\n"), ("a.json", "{}")]);
    write(&place.repo(), &[(".hidden/x.yaml", "no\n"), ("ignored/x.yaml", "no\n"), ("copy.yaml", "b: 1\n")]);
    std::os::unix::fs::symlink("b.yaml", place.repo().join("link.yaml")).unwrap();
    std::os::unix::fs::symlink("a", place.repo().join("folder")).unwrap();
    let deep = "d/".repeat(PATH_DEPTH_MAX) + "x.yaml";
    write(&place.repo(), &[(&deep, "no\n")]);
    let commit = place.commit(&[]);
    let nested = place.repo().join("nested");
    fs::create_dir(&nested).unwrap();
    let mut source = place.open(place.spec());
    commit_of(&mut source);
    let listing = source.files(&commit, &manifests).unwrap();
    let folder = read_folder(&place.repo(), &manifests).unwrap();
    assert_eq!(folder.listing, listing);
    assert_eq!(paths(&listing), ["a-b.yaml", "a.json", "a/z.yaml", "b.yaml", "copy.yaml"]);
    assert_eq!(listing.errors.len(), 3, "{:?}", complaints(&listing));
    for file in &listing.files {
        assert_eq!(folder.contents[&file.blob], source.blob(&file.blob).unwrap(), "{}", file.path);
    }
    fs::write(nested.join(".git"), "gitdir: elsewhere").unwrap();
    let folder = read_folder(&place.repo(), &manifests).unwrap();
    assert!(complaints(&folder.listing).contains(&"nested: a submodule: other repositories are not read".to_owned()));
    assert!(matches!(read_folder(&place.repo().join("gone"), &manifests), Err(Error::NotARepository { .. })));
}
