//! What power cuts, kills and bad disks leave of the repositories that are ours.

use std::fs::File;

use super::*;
use crate::File as Listed;
use crate::heal::{DAMAGED, LOCK_STALE_AFTER};

/// Does something to the mirror in a folder.
type Damages = fn(&Path);

fn only_below(folder: &Path) -> PathBuf {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().unwrap() == "git")
        .unwrap()
}

fn packs(mirror: &Path, extension: &str) -> Vec<PathBuf> {
    let folder = fs::read_dir(mirror.join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    folder.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

fn cut(path: &Path) {
    let length = fs::metadata(path).unwrap().len();
    set_writable(path);
    File::options().write(true).open(path).unwrap().set_len(length / 2).unwrap();
}

fn set_writable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
}

fn refs(mirror: &Path) -> Vec<PathBuf> {
    let mut open = vec![mirror.join("refs/gitfleet")];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            found.push(path);
        }
    }
    found
}

/// Reads everything the tip has.
fn whole(source: &Source, commit: &CommitId) -> Vec<String> {
    let listing = source.files(commit, &manifests).unwrap();
    let content = |file: &Listed| String::from_utf8(source.blob(&file.blob).unwrap()).unwrap();
    listing.files.iter().map(content).collect()
}

const DAMAGES: [(&str, Damages); 9] = [
    ("a pack is truncated", |mirror| packs(mirror, "pack").iter().for_each(|pack| cut(pack))),
    ("an index is truncated", |mirror| packs(mirror, "idx").iter().for_each(|index| cut(index))),
    ("indices are gone", |mirror| packs(mirror, "idx").iter().for_each(|index| fs::remove_file(index).unwrap())),
    ("packs are gone", |mirror| fs::remove_dir_all(mirror.join("objects/pack")).unwrap()),
    ("objects are gone", |mirror| fs::remove_dir_all(mirror.join("objects")).unwrap()),
    ("refs are empty", |mirror| refs(mirror).iter().for_each(|path| fs::write(path, "").unwrap())),
    ("HEAD is gone", |mirror| fs::remove_file(mirror.join("HEAD")).unwrap()),
    ("config is damaged", |mirror| fs::write(mirror.join("config"), "[core\0\0").unwrap()),
    ("everything is zeros", |mirror| {
        for path in packs(mirror, "pack") {
            set_writable(&path);
            let length = usize::try_from(fs::metadata(&path).unwrap().len()).unwrap();
            fs::write(&path, vec![0; length]).unwrap();
        }
    }),
];

#[test]
fn d08_every_damage_of_a_mirror_ends_in_a_readable_one() {
    for (name, damages) in DAMAGES {
        let place = Place::with(&[("a.yaml", "a: 1\n"), ("b/c.yaml", "c: 1\n")]);
        let first = place.head();
        let mut source = place.open(place.remote_spec(Some("main")));
        assert_eq!(commit_of(&mut source), first);
        source.pin(&format!("commit-{first}"), &first).unwrap();
        drop(source);
        damages(&only_below(&place.state().join("mirrors")));
        let mut source = place.open(place.remote_spec(Some("main")));
        let found = poll(&mut source).unwrap_or_else(|error| panic!("{name}: {}", error.in_full()));
        assert_eq!(found.unwrap().commit, first, "{name}");
        assert_eq!(whole(&source, &first), ["a: 1\n", "c: 1\n"], "{name}");
        let second = place.commit(&[("a.yaml", "a: 2\n")]);
        assert_eq!(commit_of(&mut source), second, "{name}");
        assert_eq!(whole(&source, &second), ["a: 2\n", "c: 1\n"], "{name}");
        drop(source);
        let mirror = only_below(&place.state().join("mirrors"));
        assert_eq!(fsck(&mirror), "", "{name}");
    }
}

/// A mirror with a pinned commit that the remote forgot, and the tip, each in a pack of its own.
fn forgotten(place: &Place) -> (CommitId, CommitId) {
    let old = place.head();
    let mut source = place.open(place.remote_spec(Some("main")));
    assert_eq!(commit_of(&mut source), old);
    source.pin(&format!("commit-{old}"), &old).unwrap();
    write(&place.repo(), &[("a.yaml", "a: amended\n")]);
    place.git(&["add", "-A"]);
    place.git(&["commit", "-q", "--amend", "-m", "amended"]);
    place.git(&["reflog", "expire", "--expire=now", "--all"]);
    place.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(commit_of(&mut source), place.head());
    (old, place.head())
}

#[test]
fn d08_pins_that_the_remote_does_not_have_are_kept_where_they_are_whole() {
    for old_is_whole in [true, false] {
        let place = Place::with(&[("a.yaml", "a: 1\n")]);
        let first_pack = {
            let mut source = place.open(place.remote_spec(Some("main")));
            commit_of(&mut source);
            packs(&only_below(&place.state().join("mirrors")), "pack")
        };
        let (old, new) = forgotten(&place);
        let mirror = only_below(&place.state().join("mirrors"));
        let broken = packs(&mirror, "pack").into_iter().find(|pack| first_pack.contains(pack) != old_is_whole).unwrap();
        cut(&broken);
        let mut source = place.open(place.remote_spec(Some("main")));
        assert_eq!(commit_of(&mut source), new);
        assert_eq!(whole(&source, &new), ["a: amended\n"]);
        let pins = source.pins().unwrap();
        let aside = mirror.with_extension(DAMAGED);
        if old_is_whole {
            assert_eq!(pins.values().collect::<Vec<_>>(), [&old]);
            assert_eq!(whole(&source, &old), ["a: 1\n"]);
        } else {
            assert!(pins.is_empty(), "{pins:?}");
            assert!(
                matches!(source.tree_id(&old), Err(Error::ObjectMissing { .. })),
                "what is lost is said to be missing"
            );
        }
        assert_eq!(aside.exists(), !old_is_whole, "the damaged one is kept where something of it was lost");
    }
}

#[test]
fn d08_while_the_server_is_away_both_are_said() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let mut source = place.open(place.remote_spec(Some("main")));
    let tip = commit_of(&mut source);
    drop(source);
    let mirror = only_below(&place.state().join("mirrors"));
    for pack in packs(&mirror, "pack") {
        cut(&pack);
    }
    let away = place.repo().with_extension("away");
    fs::rename(place.repo(), &away).unwrap();
    let mut source = place.open(place.remote_spec(Some("main")));
    for _ in 0..2 {
        let said = poll(&mut source).unwrap_err().to_string();
        assert!(said.contains(&*mirror.to_string_lossy()) && said.contains("is truncated"), "{said}");
        assert!(said.contains("cannot be made again now: no git repository"), "{said}");
    }
    fs::rename(&away, place.repo()).unwrap();
    assert_eq!(commit_of(&mut source), tip);
    assert_eq!(whole(&source, &tip), ["a: 1\n"]);
}

#[test]
fn d08_a_blob_that_turns_out_to_be_missing_is_fetched_again_once() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let mut source = place.open(place.remote_spec(Some("main")));
    let tip = commit_of(&mut source);
    let blob = source.files(&tip, &manifests).unwrap().files[0].blob.clone();
    let error = Error::ObjectMissing { location: "here".to_owned(), id: blob.as_str().to_owned() };
    assert!(source.doubt(&tip, &error));
    assert_eq!(poll(&mut source).unwrap(), None, "the tip is where it was");
    assert_eq!(whole(&source, &tip), ["a: 1\n"]);
    assert!(!source.doubt(&tip, &error), "what the new one lacks, the remote lacks, too");
}

#[test]
fn d08_locks_of_a_dead_process_are_removed() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let mut source = place.open(place.remote_spec(Some("main")));
    let tip = commit_of(&mut source);
    source.pin(&format!("commit-{tip}"), &tip).unwrap();
    drop(source);
    let mirror = only_below(&place.state().join("mirrors"));
    let locks =
        ["refs/gitfleet/src/main.lock", "HEAD.lock", "packed-refs.lock", "config.lock", "objects/pack/.tmpAbc123"];
    for lock in locks.map(|name| mirror.join(name)) {
        fs::write(lock, "").unwrap();
    }
    fs::write(mirror.join(format!("refs/gitfleet/pin/commit-{tip}.lock")), "").unwrap();
    let next = place.commit(&[("a.yaml", "a: 2\n")]);
    let mut source = place.open(place.remote_spec(Some("main")));
    assert_eq!(commit_of(&mut source), next);
    source.pin(&format!("commit-{tip}"), &next).unwrap();
    assert!(!mirror.join("objects/pack/.tmpAbc123").exists());
}

#[test]
fn d08_in_a_repository_of_somebody_else_only_old_locks_of_our_refs_go() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let mut source = place.open(place.spec());
    let tip = commit_of(&mut source);
    source.pin(&format!("commit-{tip}"), &tip).unwrap();
    let git = place.repo().join(".git");
    let lock = |name: &str, age: Duration| {
        let path = git.join(name);
        let file = File::create(&path).unwrap();
        file.set_modified(file.metadata().unwrap().modified().unwrap() - age).unwrap();
        path
    };
    let old = LOCK_STALE_AFTER * 2;
    let ours = lock(&format!("refs/gitfleet/pin/commit-{tip}.lock"), old);
    let young = lock("refs/gitfleet/pin/other.lock", Duration::ZERO);
    let theirs = lock("refs/heads/other.lock", old);
    let empty = git.join(format!("refs/gitfleet/pin/commit-{tip}"));
    fs::write(&empty, "").unwrap();
    poll(&mut source).unwrap();
    assert_eq!((ours.exists(), young.exists(), theirs.exists()), (false, true, true));
    assert_eq!(fs::read_to_string(&empty).unwrap().trim(), tip.as_str(), "the pin's name says what it held");
    source.pin(&format!("commit-{tip}"), &tip).unwrap();
}

#[test]
fn d08_the_record_of_a_folder_is_made_again() {
    for (name, damages) in [
        ("objects are gone", (|kept| fs::remove_dir_all(kept.join("objects")).unwrap()) as Damages),
        ("refs are empty", |kept| refs(kept).iter().for_each(|path| fs::write(path, "").unwrap())),
        ("HEAD is gone", |kept| fs::remove_file(kept.join("HEAD")).unwrap()),
    ] {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        write(&place.repo(), &[("a.yaml", "a: 1\n")]);
        let tip = commit_of(&mut place.open(place.spec()));
        damages(&only_below(&place.state().join("folders")));
        let mut source = place.open(place.spec());
        assert_eq!(commit_of(&mut source), tip, "{name}: the first state is the same commit whenever it is recorded");
        assert_eq!(whole(&source, &tip), ["a: 1\n"], "{name}");
    }
}

/// Says how many zeros the large object has.
const ZEROS: &str = "GITFLEET_TEST_ZEROS";

/// Runs the next test in a process of its own whose address space has no room for the object.
#[test]
fn d06_zeros_that_do_not_fit_into_memory_are_refused_with_their_number() {
    const ZEROS_MIB: u64 = 640;
    let test = "tests::damage::d06_a_pack_with_a_large_object_is_refused_with_its_size";
    let limited = format!("ulimit -v {} && exec \"$0\" \"$@\"", (ZEROS_MIB - 24) * 1024);
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).arg(std::env::current_exe().unwrap()).args(["--exact", test]);
    let output =
        command.env(ZEROS, (ZEROS_MIB * 1024 * 1024).to_string()).env("MALLOC_ARENA_MAX", "2").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn d06_a_pack_with_a_large_object_is_refused_with_its_size() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let mut source = place.open(place.remote_spec(Some("main")));
    let first = commit_of(&mut source);
    let size = std::env::var(ZEROS).map_or(OBJECT_SIZE_MAX_BYTES + 1, |bytes| bytes.parse().unwrap());
    File::create(place.repo().join("zeros.bin")).unwrap().set_len(size).unwrap();
    place.commit(&[]);
    place.git(&["update-ref", "refs/pull/7/head", "HEAD"]);
    for _ in 0..2 {
        let error = poll(&mut source).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Invalid);
        let said = error.to_string();
        assert!(said.contains(&format!("refs/heads/main of file://{}", place.repo().display())), "{said}");
        assert!(said.contains(&format!("an object has {size} bytes or more")), "{said}");
    }
    let pull = source.fetch_pull(7, &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(pull.contains("refs/pull/7/head") && pull.contains("too large to be fetched"), "{pull}");
    place.git(&["reset", "-q", "--hard", first.as_str()]);
    place.git(&["clean", "-fdq"]);
    let good = place.commit(&[("a.yaml", "a: 2\n")]);
    assert_eq!(commit_of(&mut source), good, "what is small enough is fetched as ever");
}
