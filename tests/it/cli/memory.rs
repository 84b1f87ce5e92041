//! What people may push, in an address space as small as the deployment's memory: an answer with a number, never a signal.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cli::git;
use crate::cli::scratch::{CONFIG, FLEET, Outcome, Scratch, namespace, placement};

/// Address space in KiB: the memory limit of deploy/base/deployment.yaml, and what a process has beside its memory: the binary,
/// the stacks of its threads, the files that are mapped.
const ADDRESS_SPACE_KIB: u64 = (1024 + 512) * 1024;

/// Runs the binary to its end, in so much address space.
fn bounded(scratch: &Scratch, args: &[&str]) -> Outcome {
    let plain = scratch.command(args);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {ADDRESS_SPACE_KIB} && exec \"$0\" \"$@\"")]).arg(plain.get_program());
    command.args(args).current_dir(scratch.path("")).env_clear().stdin(Stdio::null());
    command.env("HOME", scratch.path("home")).env("NO_COLOR", "1").env("MALLOC_ARENA_MAX", "2");
    let output = command.output().expect("sh starts");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    Outcome { code: output.status.code().unwrap_or_else(|| panic!("ended by a signal: {err}")), out, err }
}

/// Documents whose aliases expand to 216,000 texts of a kilobyte each.
fn alias_bomb(documents: usize) -> String {
    let line = |name: &str, alias: &str| format!("{name}: &{name} [{}]\n", vec![alias; 60].join(","));
    let one = format!("---\ns: &s {}\n{}c: [{}]\n", "x".repeat(1000), line("b", "*s"), ["*b"; 60].join(","));
    one.repeat(documents)
}

/// A file of 3.6 MB that is nothing but tiny mappings.
fn tiny(name: &str) -> String {
    format!(
        "apiVersion: example.com/v1\nkind: Big\nmetadata: {{name: {name}}}\nlist: [{}0]\n",
        "{a: 0},".repeat(514_000)
    )
}

/// Documents that are each within the limit of a document, and not together.
fn small_bombs(documents: usize) -> String {
    let one = |n: usize| {
        format!(
            "---\napiVersion: example.com/v1\nkind: Big\nmetadata: {{name: n{n}}}\nt: &t {}\na: &a [{}]\nb: [{}]\n",
            "x".repeat(1000),
            ["*t"; 40].join(","),
            ["*a"; 40].join(","),
        )
    };
    (0..documents).map(one).collect()
}

#[test]
fn d05_bombs_end_with_a_number_and_not_by_a_signal() {
    let many = "a\n".repeat(60_000);
    let laughs = (1..10).fold("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, level| {
        format!("{text}a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(","))
    });
    let nested = format!("{}1{}\n", "[".repeat(100_000), "]".repeat(100_000));
    let blocks: String = (0..3_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    let rows: Vec<(&str, Vec<(String, String)>, &str)> = vec![
        ("aliases over documents", vec![("a.yaml".into(), alias_bomb(1_000))], "the limit for a commit is 201,326,592"),
        (
            "small bombs over documents",
            vec![("a.yaml".into(), small_bombs(500))],
            "the limit for a commit is 201,326,592",
        ),
        ("row 02", vec![("a.yaml".into(), "# 50 MB\n".repeat(6_250_000))], "more than the 5242880 that are read"),
        (
            "row 03",
            (0..10).map(|file| (format!("f{file}.yaml"), tiny(&format!("n{file}")))).collect(),
            "f0.yaml: with this file there are 20",
        ),
        ("row 04", vec![("a.yaml".into(), nested)], "nested deeper than 200 levels"),
        ("row 05", vec![("a.yaml".into(), blocks)], "nested deeper than 200 levels"),
        ("row 06", vec![("a.yaml".into(), laughs)], "aliases expand to more than 100000 values"),
        ("row 07", vec![("a.yaml".into(), "a: &a [*a]\n".into())], "an alias stands inside the value it names"),
        (
            "row 49",
            vec![(".gitfleetignore".into(), many), ("a.yaml".into(), namespace("a", &[]))],
            "bytes, the limit is 32768",
        ),
    ];
    for (name, files, expected) in rows {
        let scratch = Scratch::new();
        for (path, text) in &files {
            scratch.write(path, text);
        }
        let found = bounded(&scratch, &["validate", FLEET]);
        assert_eq!(found.code, 1, "{name}: {}", found.err);
        assert!(found.out.contains(expected), "{name}: {}", &found.out[..found.out.len().min(2_000)]);
        if name == "row 03" {
            // Reading it three times takes a debug build too long.
            continue;
        }
        let plan = bounded(&scratch, &["plan", "--repo", FLEET]);
        assert_eq!(plan.code, 1, "{name}: {}", plan.err);
        scratch.configure().commit("bomb");
        let run = bounded(&scratch, &["run", "--once", "-c", CONFIG]);
        assert_eq!(run.code, 1, "{name}: {}", run.err);
        assert!(run.err.contains(expected), "{name}: {}", &run.err[..run.err.len().min(2_000)]);
    }
}

#[test]
fn d05_a_large_object_that_fits_is_taken() {
    let scratch = Scratch::new();
    let large = format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: large, namespace: web, annotations: {{a: {}}}}}\n",
        "x".repeat(2 * 1024 * 1024)
    );
    scratch.write("all.yaml", &[namespace("web", &[]), large, placement("p", "web", "")].concat());
    assert_eq!(bounded(&scratch, &["validate", FLEET]).code, 0, "row 20: members refuse it, we do not");
}

/// Makes a commit of a tree that is repeated in itself, or that has many entries; returns nothing, the branch has it.
fn commit_tree(repo: &Path, levels: usize, width: usize, files: usize) {
    let listed = |text: &str| {
        let file = repo.join(".git/listing");
        fs::write(&file, text).unwrap();
        let script = format!("git mktree < {}", file.display());
        let output = Command::new("sh").args(["-c", &script]).current_dir(repo).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    fs::write(repo.join("a.yaml"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n").unwrap();
    git::commit_all(repo, "first").unwrap();
    let blob = git::git(repo, &["rev-parse", "HEAD:a.yaml"]).unwrap().trim().to_owned();
    let entries: String = (0..files).map(|n| format!("100644 blob {blob}\tf{n}.yaml\n")).collect();
    let mut tree = listed(&entries);
    for _ in 0..levels {
        tree = listed(&(0..width).map(|n| format!("040000 tree {tree}\td{n}\n")).collect::<String>());
    }
    let commit = git::git(repo, &["commit-tree", &tree, "-p", "HEAD", "-m", "bomb"]).unwrap();
    git::git(repo, &["update-ref", "refs/heads/main", commit.trim()]).unwrap();
}

#[test]
fn d05_trees_without_end_end_with_a_number() {
    for (levels, width, files, expected) in
        [(12, 10, 1, "more than 20000 files to read"), (0, 0, 100_000, "more than 20000 files to read")]
    {
        let scratch = Scratch::new();
        scratch.configure().write("a.yaml", "").commit("begin");
        commit_tree(&scratch.path(FLEET), levels, width, files);
        let run = bounded(&scratch, &["run", "--once", "-c", CONFIG]);
        assert_eq!(run.code, 1, "{}", run.err);
        assert!(run.err.contains(expected), "{}", run.err);
    }
}
