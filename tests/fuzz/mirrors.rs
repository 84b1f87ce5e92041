//! Fuzz target: whatever happened to the files of a mirror, the next polls make it readable again, and pins are kept or gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use git::{Error, Source, SourceSpec};
use model::id::CommitId;
use tempfile::TempDir;

/// Damages of one input.
const DAMAGES_MAX: usize = 6;

/// A remote, a whole mirror of it, and what is pinned there that the remote forgot.
struct World {
    dir: TempDir,
    tip: CommitId,
    old: CommitId,
}

pub(super) fn run(input: &[u8]) {
    static WORLD: OnceLock<World> = OnceLock::new();
    let world = WORLD.get_or_init(World::new);
    let state = world.dir.path().join("state");
    if state.exists() {
        fs::remove_dir_all(&state).unwrap();
    }
    copy(&world.dir.path().join("whole"), &state);
    let files = below(&state);
    for damage in input.chunks_exact(2).take(DAMAGES_MAX) {
        damaged(&files[usize::from(damage[0]) % files.len()], damage[1]);
    }
    let mut source = Source::open(world.spec(), &state).expect("no damage keeps a mirror from being opened");
    let mut found = source.poll(&AtomicBool::new(false)).expect("the remote is there");
    assert_eq!(found.take().map(|tip| tip.commit).as_ref(), Some(&world.tip));
    if let Err(error) = readable(&source, &world.tip) {
        assert!(source.doubt(&world.tip, &error), "{error}");
        source.poll(&AtomicBool::new(false)).expect("the remote is there");
        readable(&source, &world.tip).expect("a new clone is whole");
    }
    match source.pins().expect("pins can be listed").values().next() {
        Some(pinned) => assert_eq!(*pinned, world.old, "a pin holds what it held"),
        None => drop(readable(&source, &world.old)),
    }
}

fn readable(source: &Source, commit: &CommitId) -> Result<(), Error> {
    for file in source.files(commit, &|path| path == "a.yaml")?.files {
        source.blob(&file.blob)?;
    }
    Ok(())
}

fn damaged(file: &Path, how: u8) {
    let content = fs::read(file).unwrap_or_default();
    // Packs are read-only; a file that is replaced may have been.
    drop(fs::remove_file(file));
    let lock = |file: &Path| {
        let mut name = file.as_os_str().to_owned();
        name.push(".lock");
        PathBuf::from(name)
    };
    let half = content.len() / 2;
    match how % 6 {
        0 => {}
        1 => fs::write(file, []).unwrap(),
        2 => fs::write(file, &content[..half]).unwrap(),
        3 => fs::write(file, vec![0; content.len()]).unwrap(),
        4 => fs::write(file, content.iter().chain(b"more").copied().collect::<Vec<u8>>()).unwrap(),
        _ => {
            fs::write(file, &content).unwrap();
            fs::write(lock(file), []).unwrap();
        }
    }
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "-q", "-b", "main"]);
        let commit = |content: &str| {
            fs::write(repo.join("a.yaml"), content).unwrap();
            git(&repo, &["add", "-A"]);
            git(&repo, &["commit", "-q", "-m", "change"]);
            CommitId::new(git(&repo, &["rev-parse", "HEAD"]))
        };
        let mut world = Self { dir, old: commit("a: 1\n"), tip: CommitId::new("") };
        let mut source = Source::open(world.spec(), &world.dir.path().join("whole")).unwrap();
        source.poll(&AtomicBool::new(false)).unwrap();
        source.pin(&format!("commit-{}", world.old), &world.old).unwrap();
        git(&repo, &["checkout", "-q", "--orphan", "new"]);
        world.tip = commit("a: 2\n");
        git(&repo, &["branch", "-q", "-M", "main"]);
        git(&repo, &["reflog", "expire", "--expire=now", "--all"]);
        git(&repo, &["gc", "-q", "--prune=now"]);
        source.poll(&AtomicBool::new(false)).unwrap();
        world
    }

    fn spec(&self) -> SourceSpec {
        let location = format!("file://{}", self.dir.path().join("repo").display());
        SourceSpec { location, branch: Some("main".to_owned()), path: ".".to_owned(), ..SourceSpec::default() }
    }
}

fn git(repo: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b.test"]).args(args).current_dir(repo);
    let output = git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn below(dir: &Path) -> Vec<PathBuf> {
    let (mut open, mut found) = (vec![dir.to_owned()], Vec::new());
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
