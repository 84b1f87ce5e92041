//! Which commits came, and what was signed in them.

use super::*;

fn ids(reader: &Reader, from: Option<&CommitId>, to: &CommitId, max: usize) -> BTreeSet<CommitId> {
    reader.gained(from, to, max).unwrap().into_iter().collect()
}

#[test]
fn what_a_branch_gained() {
    let place = Place::with(&[("a", "1")]);
    let first = place.head();
    let second = place.commit(&[("a", "2")]);
    place.git(&["checkout", "-q", "-b", "topic"]);
    let topic = place.commit(&[("b", "1")]);
    place.git(&["checkout", "-q", "main"]);
    // Its clock was far behind: what came is told by parents and not by times.
    write(&place.repo(), &[("a", "3")]);
    place.git(&["-c", "user.name=a", "commit", "-q", "-a", "-m", "late", "--date=2001-01-01T00:00:00Z"]);
    let late = place.head();
    place.git(&["merge", "-q", "--no-ff", "-m", "merge", "topic"]);
    let merge = place.head();
    let reader = Source::open(place.spec(), &place.state()).unwrap().reader().clone();
    let set = |ids: &[&CommitId]| ids.iter().map(|id| (*id).clone()).collect::<BTreeSet<_>>();
    assert_eq!(ids(&reader, None, &merge, 10), set(&[&merge]));
    assert_eq!(ids(&reader, Some(&merge), &merge, 10), set(&[]));
    assert_eq!(ids(&reader, Some(&second), &merge, 10), set(&[&topic, &late, &merge]));
    assert_eq!(ids(&reader, Some(&first), &merge, 10), set(&[&second, &topic, &late, &merge]));
    assert_eq!(ids(&reader, Some(&topic), &late, 10), set(&[&late]), "of another history what it lacks");
    assert_eq!(ids(&reader, Some(&first), &merge, 2).len(), 3, "one more than the limit");
    let gone = CommitId::new("1".repeat(40));
    assert_eq!(ids(&reader, Some(&gone), &late, 10), set(&[&first, &second, &late]), "what is gone has nothing");
    assert!(reader.gained(None, &gone, 10).is_ok() && reader.gained(Some(&first), &gone, 10).is_err());
}

#[test]
fn a_commit_without_its_signature() {
    let place = Place::with(&[("a", "1")]);
    let tree = place.git(&["rev-parse", "HEAD^{tree}"]);
    let begin = format!("tree {tree}\nauthor a <a@b> 1700000000 +0000\ncommitter a <a@b> 1700000000 +0000\n");
    let header = "gpgsig -----BEGIN SSH SIGNATURE-----\n AAAA\n -----END SSH SIGNATURE-----\n";
    let text = "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n";
    let read = |object: String| {
        let path = place.dir.path().join("object");
        fs::write(&path, object).unwrap();
        let id = place.git(&["hash-object", "-t", "commit", "-w", "--literally", path.to_str().unwrap()]);
        let reader = Source::open(place.spec(), &place.state()).unwrap().reader().clone();
        reader.signed(&CommitId::new(id)).unwrap()
    };
    let of = |payload: String, signatures: &[&str]| Signed::Read {
        payload: payload.into_bytes(),
        signatures: signatures.iter().map(|text| text.as_bytes().to_vec()).collect(),
    };
    assert_eq!(read(format!("{begin}\nm\n")), of(format!("{begin}\nm\n"), &[]));
    assert_eq!(read(format!("{begin}{header}\nm\n")), of(format!("{begin}\nm\n"), &[text]));
    let encoded = format!("{begin}encoding latin1\n{header}other x\n\nm\n");
    assert_eq!(read(encoded), of(format!("{begin}encoding latin1\nother x\n\nm\n"), &[text]));
    // What the message says of a signature is none.
    assert_eq!(read(format!("{begin}\n{header}\n")), of(format!("{begin}\n{header}\n"), &[]));
    let Signed::Read { signatures, .. } = read(format!("{begin}{header}{header}\nm\n")) else { panic!("it is small") };
    assert_eq!(signatures.len(), 2, "both are named");
    let large = format!("{begin}\n{}\n", "m".repeat(usize::try_from(SIGNED_SIZE_MAX_BYTES).unwrap()));
    assert!(matches!(read(large), Signed::TooLarge(size) if size > SIGNED_SIZE_MAX_BYTES));
}
