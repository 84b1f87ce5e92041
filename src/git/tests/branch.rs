//! Commits on a branch that a command names.

use super::*;

fn new<'a>(branch: &'a str, files: &'a [(String, String)]) -> NewCommit<'a> {
    NewCommit { branch, files, message: "Cordon east", author: ("ann", "ann@localhost"), seconds: 1_700_000_000 }
}

#[test]
fn a_commit_follows_the_branch_or_head_and_touches_nothing_else() {
    let place = Place::with(&[("fleet/a.yaml", "a: 1\n"), ("fleet/sub/b.yaml", "b: 1\n"), ("c.txt", "c\n")]);
    let (reader, _) = discover(&place.repo().join("fleet")).unwrap();
    let main = place.head();
    assert_eq!(reader.base_of("cordon").unwrap(), main);
    let files = [("a.yaml".to_owned(), "a: 2\n".to_owned()), ("new/d.yaml".to_owned(), "d: 1\n".to_owned())];
    let first = reader.commit_on(&main, &new("cordon", &files)).unwrap();
    assert_eq!(place.git(&["diff", "--name-status", "main", "cordon"]), "M\tfleet/a.yaml\nA\tfleet/new/d.yaml");
    assert_eq!(place.git(&["show", "cordon:fleet/a.yaml"]), "a: 2");
    assert_eq!(
        place.git(&["log", "-1", "--format=%an <%ae> %at %s", "cordon"]),
        "ann <ann@localhost> 1700000000 Cordon east"
    );
    assert_eq!((place.head(), place.git(&["status", "--porcelain"])), (main.clone(), String::new()));

    place.git(&["config", "user.name", "Bob"]);
    place.git(&["config", "user.email", "bob@example.com"]);
    let (reader, _) = discover(&place.repo().join("fleet")).unwrap();
    assert_eq!(reader.base_of("cordon").unwrap(), first);
    let second = reader.commit_on(&first, &new("cordon", &files[..1])).unwrap();
    assert_eq!(place.git(&["log", "--format=%H %an", "cordon", "-2"]), format!("{second} Bob\n{first} ann"));
    // Folders between the old tree and the new one are left to `git gc`.
    let found = fsck(&place.repo().join(".git"));
    assert!(!["error", "missing", "broken"].iter().any(|word| found.contains(word)), "{found}");
    assert!(reader.commit_on(&main, &new("cordon", &files)).is_err(), "the branch is elsewhere");
}

#[test]
fn a_branch_that_is_checked_out_is_left_alone() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let (reader, _) = discover(&place.repo()).unwrap();
    assert!(matches!(reader.base_of("main"), Err(Error::BranchCheckedOut { .. })));
    assert!(matches!(reader.base_of("no..name"), Err(Error::BranchName { .. })));
}

#[test]
fn a_new_work_tree_is_one_that_git_continues() {
    let place = Place { dir: tempfile::tempdir().unwrap() };
    let mut made = WorkTree::create(&place.repo()).unwrap();
    let files = [("a.yaml".to_owned(), "a: 1\n".to_owned()), ("sub/b.yaml".to_owned(), "b: 1\n".to_owned())];
    let first = made.commit(&new("main", &files)).unwrap();
    assert_eq!((place.head(), place.git(&["status", "--porcelain"])), (first, String::new()));
    let second = made.commit(&new("main", &[("a.yaml".to_owned(), "a: 2\n".to_owned())])).unwrap();
    assert_eq!((place.head(), place.git(&["status", "--porcelain"])), (second.clone(), String::new()));
    assert_eq!(place.git(&["log", "--format=%an", "--name-only", "-1"]), "ann\n\na.yaml");

    write(&place.repo(), &[("sub/b.yaml", "b: 2\n")]);
    place.git(&["commit", "-q", "-am", "by hand"]);
    assert_eq!(place.git(&["diff", "--name-status", second.as_str(), "HEAD"]), "M\tsub/b.yaml");
    let found = fsck(&place.repo().join(".git"));
    assert!(!["error", "missing", "broken"].iter().any(|word| found.contains(word)), "{found}");
    assert!(made.commit(&new("main", &files)).is_err(), "the branch is elsewhere");
    assert!(WorkTree::create(&place.repo()).is_err(), "it is one already");
}
