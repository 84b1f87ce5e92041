//! `gitfleet demo`, from its first line to its last.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::cli::scratch::Scratch;

/// Returns the command with a temporary folder of its own, so that nothing of it is left elsewhere.
fn command(scratch: &Scratch, more: &[&str]) -> std::process::Command {
    let folder = scratch.path("tmp");
    fs::create_dir_all(&folder).expect("a folder");
    let mut command = scratch.command(&[&["demo", "--pause", "0s", "--port", "0"], more].concat());
    command.env("TMPDIR", folder);
    command
}

/// A demo, ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn left(scratch: &Scratch) -> Vec<PathBuf> {
    let entries = fs::read_dir(scratch.path("tmp")).expect("the folder");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn all_changes_are_shown_and_nothing_is_left() {
    let scratch = Scratch::new();
    let output = command(&scratch, &["--once"]).output().expect("the binary starts");
    let out = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{out}{}", String::from_utf8_lossy(&output.stderr));
    let mut rest = out.as_str();
    for words in [
        "3 changes are made",
        "It takes about 20 seconds, then ends.",
        "page      http://127.0.0.1:",
        "An example fleet",
        "search     ",
        "waiting for a person",
        "gitfleet approve search-0 staging: ",
        "search     4 of 4 clusters  up to date",
        "Shorten the offer",
        "shop       3 of 3 clusters  up to date",
        "Rank by recency",
        "search     2 of 4 clusters  waiting for a person",
        "Tolerate one more taint",
        "refused: placements/payments.yaml:",
        "did you mean `placementType`?",
        "Correct the placement of payments",
        "\nended; ",
        " is removed",
    ] {
        let Some(at) = rest.find(words) else { panic!("{words:?} does not follow in:\n{out}") };
        rest = &rest[at + words.len()..];
    }
    crate::cli::golden::compare_demo(&out, &String::from_utf8_lossy(&output.stderr));
    assert_eq!(left(&scratch), Vec::<PathBuf>::new());
}

#[test]
fn it_runs_until_it_is_interrupted_and_keeps_what_it_is_to_keep() {
    let scratch = Scratch::new();
    let mut command = command(&scratch, &["--changes", "0", "--keep"]);
    let mut demo = Running(command.stdout(Stdio::piped()).spawn().expect("it starts"));
    let mut lines = BufReader::new(demo.0.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let config = lines.find_map(|line| line.trim().strip_prefix("export GITFLEET_CONFIG=").map(str::to_owned));
    let config = config.expect("it says what to try");
    // What it says to try works: git continues from its repository, and the daemon follows.
    let folder = PathBuf::from(&config).parent().expect("a folder").to_owned();
    let path = folder.join("apps/search.yaml");
    fs::write(&path, fs::read_to_string(&path).expect("a file") + "\n").expect("it is written");
    let commit = crate::cli::git::commit_all(&folder, "by hand").expect("git commits");
    crate::cli::edges::until("the commit is accepted", || {
        scratch.run(&["status", "-c", &config]).out.contains(&commit[..7])
    });
    let interrupted = Command::new("kill").args(["-INT", &demo.0.id().to_string()]).status().expect("kill is there");
    assert!(interrupted.success() && demo.0.wait().expect("it ends").success());
    let last = lines.last().expect("it says where the folder is");
    assert!(last.contains("ended; the folder is ") && folder.join("apps/shop.yaml").exists(), "{last}");
}
