//! Heads of pull requests, merges and what has landed.

use super::*;

fn fetch(source: &mut Source, number: u64) -> Result<CommitId, Error> {
    source.fetch_pull(number, &AtomicBool::new(false))
}

fn refs_of(source: &Source) -> String {
    let output = Command::new("git")
        .arg("--git-dir")
        .arg(source.git_dir())
        .args(["for-each-ref", "refs/gitfleet/pull"])
        .output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn the_head_of_a_pull_request_comes_and_goes() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let main = place.head();
    let mut source = place.open(place.remote_spec(Some("main")));
    assert_eq!(commit_of(&mut source), main);
    place.git(&["checkout", "-q", "-b", "feature"]);
    let mut heads = Vec::new();
    for content in ["a: 2\n", "a: 3\n"] {
        // The second is no descendant of the first, as after a force-push.
        place.git(&["reset", "-q", "--hard", main.as_str()]);
        let head = place.commit(&[("a.yaml", content)]);
        place.git(&["update-ref", "refs/pull/7/head", head.as_str()]);
        assert_eq!(fetch(&mut source, 7).unwrap(), head);
        assert_eq!(fetch(&mut source, 7).unwrap(), head, "again, for nothing");
        assert_eq!(source.file(&head, "a.yaml").unwrap().unwrap(), content.as_bytes());
        heads.push(head);
    }
    place.git(&["checkout", "-q", "main"]);
    place.git(&["branch", "-q", "-D", "feature"]);
    assert_eq!(fetch(&mut source, 7).unwrap(), heads[1], "the branch is gone, the ref is not");
    assert!(refs_of(&source).contains("refs/gitfleet/pull/7"));
    assert_eq!(poll(&mut source).unwrap(), None, "the branch did not move");
    source.forget_pull(7).unwrap();
    source.forget_pull(7).unwrap();
    assert_eq!(refs_of(&source), "");
    let error = fetch(&mut source, 8).unwrap_err();
    assert!(matches!(error, Error::PullMissing { number: 8, .. }), "{error}");
    assert_eq!(poll(&mut source).unwrap(), None, "and nothing else is disturbed");
}

#[test]
fn places_without_pull_requests_say_so() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let mut local = place.open(place.spec());
    commit_of(&mut local);
    let error = fetch(&mut local, 1).unwrap_err();
    assert!(error.to_string().contains("has no head of pull request 1: a repository read in place"), "{error}");
    place.git(&["update-ref", "refs/pull/1/head", "HEAD"]);
    assert_eq!(fetch(&mut local, 1).unwrap(), place.head(), "unless it is a clone that has them");
    let folder = place.dir.path().join("plain");
    write(&folder, &[("a.yaml", "a: 1\n")]);
    let mut folder = place.open(SourceSpec { location: folder.display().to_string(), ..place.spec() });
    let error = fetch(&mut folder, 1).unwrap_err();
    assert!(error.to_string().contains("a plain folder has no pull requests"), "{error}");
}

#[test]
fn what_landed_is_listed_along_first_parents() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let old = place.head();
    place.git(&["checkout", "-q", "-b", "feature"]);
    place.commit(&[("b.yaml", "b: 1\n")]);
    let side = place.commit(&[("b.yaml", "b: 2\n")]);
    place.git(&["checkout", "-q", "main"]);
    let direct = place.commit(&[("c.yaml", "c: 1\n")]);
    place.git(&["merge", "-q", "--no-ff", "-m", "Merge `x` (#7)\nsecond line\n\nbody", "feature"]);
    let merge = place.head();
    let mut source = place.open(place.spec());
    commit_of(&mut source);
    let gone = CommitId::new("1111111111111111111111111111111111111111");
    let rows: [(&str, Option<&CommitId>, &CommitId, &[&CommitId]); 6] = [
        ("two", Some(&old), &merge, &[&merge, &direct]),
        ("nothing", Some(&merge), &merge, &[]),
        ("no start", None, &merge, &[&merge]),
        ("a start that is gone", Some(&gone), &merge, &[&merge]),
        ("a start beside the branch", Some(&side), &merge, &[&merge, &direct]),
        ("backwards", Some(&merge), &old, &[]),
    ];
    for (name, from, to, wanted) in rows {
        let found: Vec<CommitId> = source.landed(from, to).unwrap().into_iter().map(|c| c.commit).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), wanted, "{name}");
    }
    let first = &source.landed(None, &merge).unwrap()[0];
    assert_eq!((first.subject.as_str(), first.author_email.as_str()), ("Merge `x` (#7) second line", "a@b"));
    assert!(matches!(source.landed(None, &gone), Err(Error::ObjectMissing { .. })));
}

#[test]
fn only_so_many_commits_are_listed() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let old = place.head();
    for _ in 0..=LANDED_MAX {
        place.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
    }
    let mut source = place.open(place.spec());
    let tip = commit_of(&mut source);
    let listed = source.landed(Some(&old), &tip).unwrap();
    assert_eq!((listed.len(), &listed[0].commit), (LANDED_MAX, &tip));
}

/// A name, the common ancestor, the accepted commit, the head, what comes of them, and the conflicts.
type Merge<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str, &'a [&'a str]);

#[test]
fn listings_are_merged_by_path_and_content() {
    let file = |path: &str, blob: &str| File { path: path.into(), blob: BlobId::from(blob), executable: false };
    let listing = |text: &str| Listing {
        files: text.split_whitespace().map(|entry| entry.split_once('=').unwrap()).map(|(p, b)| file(p, b)).collect(),
        errors: Vec::new(),
    };
    let rows: [Merge<'_>; 9] = [
        ("nothing", "a=1", "a=1", "a=1", "a=1", &[]),
        ("theirs", "a=1 b=1", "a=1 b=1", "a=2 c=1", "a=2 c=1", &[]),
        ("ours stays", "a=1 b=1", "a=2 c=1", "a=1 b=1", "a=2 c=1", &[]),
        ("both sides, other files", "a=1 b=1", "a=2 b=1", "a=1 b=2", "a=2 b=2", &[]),
        ("both the same", "a=1", "a=2", "a=2", "a=2", &[]),
        ("both otherwise", "a=1", "a=2", "a=3", "a=3", &["a"]),
        ("they delete what we changed", "a=1 b=1", "a=2 b=1", "b=1", "b=1", &["a"]),
        ("we delete what they changed", "a=1", "", "a=2", "a=2", &["a"]),
        ("both add otherwise", "", "a=1", "a=2", "a=2", &["a"]),
    ];
    for (name, base, ours, theirs, wanted, conflicts) in rows {
        let merged = merged(listing(base), listing(ours), listing(theirs));
        assert_eq!(merged.listing, listing(wanted), "{name}");
        assert_eq!(merged.conflicts, conflicts, "{name}");
    }
}

#[test]
fn the_base_of_a_merge_is_found_or_missed() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let fork = place.head();
    place.git(&["checkout", "-q", "-b", "feature"]);
    let side = place.commit(&[("b.yaml", "b: 1\n")]);
    place.git(&["checkout", "-q", "main"]);
    let main = place.commit(&[("c.yaml", "c: 1\n")]);
    place.git(&["checkout", "-q", "--orphan", "other"]);
    let other = place.commit(&[]);
    let mut source = place.open(place.spec());
    commit_of(&mut source);
    for (one, two, wanted) in [(&main, &side, &fork), (&main, &fork, &fork), (&main, &main, &main)] {
        assert_eq!(source.merge_base(one, two).unwrap(), *wanted);
    }
    assert!(matches!(source.merge_base(&main, &other), Err(Error::Unrelated { .. })));
}
