use super::*;

/// A repository whose branch dropped commits, and copies of it: of who saw them, and of who came later.
struct Rewritten {
    place: Place,
    dropped: BTreeSet<CommitId>,
    newest: CommitId,
    tip: CommitId,
    seen: Source,
    late: Source,
}

fn rewritten() -> Rewritten {
    let place = Place::with(&[("a.yaml", "a: 1\n"), ("deep/er/same.yaml", "same: 1\n")]);
    let base = place.head();
    let mut seen = place.open(place.remote_spec(Some("main")));
    // The second has a parent that nobody needs.
    let mut dropped = BTreeSet::new();
    for content in ["b: 1\n", "b: 2\n"] {
        let lost = place.commit(&[("deep/b.yaml", content), ("deep/er/c.yaml", content)]);
        assert_eq!(commit_of(&mut seen), lost);
        seen.pin(content.trim_end_matches('\n').replace(": ", "-").as_str(), &lost).unwrap();
        dropped.insert(lost);
    }
    let newest = place.head();
    place.git(&["reset", "-q", "--hard", base.as_str()]);
    let tip = place.commit(&[("d.yaml", "d: 1\n")]);
    assert_eq!(commit_of(&mut seen), tip);
    let other = SourceSpec { path: "deep".to_owned(), ..place.remote_spec(Some("main")) };
    let mut late = Source::open(other, &place.dir.path().join("late")).unwrap();
    assert_eq!(commit_of(&mut late), tip);
    Rewritten { place, dropped, newest, tip, seen, late }
}

#[test]
fn commits_that_the_branch_dropped_are_read_from_another_copy() {
    let Rewritten { place, dropped, newest, tip, seen, mut late } = rewritten();
    let mut asked = dropped.clone();
    asked.insert(tip.clone());
    assert_eq!(seen.unreached(&asked, &tip).unwrap(), dropped, "the tip is a part of its history");
    let packed = seen.pack(&dropped, &tip).unwrap();
    assert_eq!((&packed.commits, packed.left_out.len()), (&dropped, 0));
    assert_eq!(seen.pack(&dropped, &tip).unwrap(), packed, "equal commits are equal bytes");
    let lost = dropped.first().unwrap();
    assert!(!late.has(lost) && late.files(lost, &manifests).is_err(), "it has what the branch has");

    late.unpack(&packed.bytes).unwrap();
    for lost in &dropped {
        let (here, there) = (late.files(lost, &manifests).unwrap(), seen.files(lost, &manifests).unwrap());
        assert_eq!(here.files.len(), 3);
        let ids: Vec<BlobId> = there.files.iter().map(|file| file.blob.clone()).collect();
        assert_eq!(late.blobs(&ids).unwrap(), seen.blobs(&ids).unwrap());
        assert!(!late.descends(lost, &tip).unwrap() && !late.descends(&tip, lost).unwrap());
    }
    assert_eq!(late.unreached(&dropped, &tip).unwrap(), dropped);
    assert_eq!(late.pack(&dropped, &tip).unwrap(), packed, "whoever read them can pass them on");

    // A fetch is not misled by commits whose history is not here.
    place.git(&["reset", "-q", "--hard", newest.as_str()]);
    let next = place.commit(&[("e.yaml", "e: 1\n")]);
    assert_eq!(commit_of(&mut late), next);
    assert!(dropped.iter().all(|lost| late.descends(lost, &next).unwrap()));
    // Nothing refers to the tip that was replaced: that alone is said.
    let problems = fsck(&late.git_dir());
    assert_eq!(problems, format!("dangling commit {tip}"));
}

#[test]
fn what_is_too_large_to_pack_is_named() {
    let Rewritten { place: _place, dropped, tip, seen, .. } = rewritten();
    let nothing = seen.pack_within(&dropped, &tip, 10).unwrap();
    assert_eq!((nothing.commits.len(), &nothing.left_out), (0, &dropped));
    // Each has about 400 bytes: a small file, three folders and itself.
    let one = seen.pack_within(&dropped, &tip, 600).unwrap();
    assert_eq!((one.commits.len(), one.left_out.len()), (1, 1), "{one:?}");
    assert!(one.commits.is_disjoint(&one.left_out));
}

#[test]
fn damaged_bytes_are_refused() {
    let Rewritten { place: _place, dropped, tip, seen, late, .. } = rewritten();
    let bytes = seen.pack(&dropped, &tip).unwrap().bytes;
    for damaged in [&bytes[..bytes.len() / 2], b"no deflated stream"] {
        assert!(matches!(late.unpack(damaged), Err(Error::Disk { .. })), "{damaged:?}");
    }
    assert!(dropped.iter().filter(|lost| late.has(lost)).all(|lost| late.tree_id(lost).is_ok()));
}
