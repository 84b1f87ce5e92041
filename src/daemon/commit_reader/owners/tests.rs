//! Which file of a commit names the owners, and whose path counts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::OwnersSyntax::{GitHub, Gitea};
use super::*;
use crate::commit_reader::{Cache, SourceAt, read_commit, read_joined};
use model::id::PlacementKey;

const CLUSTER: &str =
    "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: a}\nspec: {}\n---\n";
const PLACEMENT: &str = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {name: web}\n\
    spec: {resourceSelectors: [{group: '', version: v1, kind: Namespace, name: web}]}\n---\n\
    apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n";

fn git(repo: &Path, args: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b"])
        .args(args)
        .current_dir(repo)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").expect("a path"))
        .env("HOME", repo)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("git starts");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Commits files to a repository in a folder.
fn committed(repo: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = repo.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        match content.strip_prefix("-> ") {
            Some(target) => symlink(target, path).expect("a link"),
            None => fs::write(path, content).expect("a file"),
        }
    }
    git(repo, &["init", "-q", "-b", "main"]);
    git(repo, &["add", "-A", "-f"]);
    git(repo, &["commit", "-q", "-m", "first"]);
}

/// Opens a folder of a repository at its last commit.
fn opened(folder: &Path) -> (Reader, CommitId) {
    let (reader, _) = git::discover(folder).expect("a repository");
    let head = reader.resolve("HEAD").expect("a commit");
    (reader, head)
}

/// Commits the files, with a placement in `deploy/apps/web.yaml`, and returns its owners, or what is wrong. `subtree` is what is read.
fn read(
    syntax: Option<OwnersSyntax>,
    subtree: &str,
    files: &[(&str, &str)],
) -> Result<(String, Vec<String>), Vec<String>> {
    let dir = tempfile::tempdir().expect("a folder");
    let repo = dir.path().join("repo");
    let web = CLUSTER.to_owned() + PLACEMENT;
    committed(&repo, &[files, &[("deploy/apps/web.yaml", &web)]].concat());
    let (reader, head) = opened(&repo.join(subtree));
    match read_commit(&reader, &head, &mut Cache::new().owned(syntax)) {
        Ok(tree) => {
            let placement = &tree.placements[&PlacementKey::cluster_scoped("web")];
            Ok((placement.owners.join(" "), tree.warnings.iter().map(ToString::to_string).collect()))
        }
        Err(error) => Err(error.refused().expect("refused").iter().map(ToString::to_string).collect()),
    }
}

#[test]
fn the_first_place_of_the_host_counts_and_paths_begin_at_the_root() {
    // whose syntax, what is read, files, owners
    type Row<'a> = (Option<OwnersSyntax>, &'a str, &'a [(&'a str, &'a str)], &'a str);
    let rows: [Row<'_>; 11] = [
        (Some(GitHub), "", &[("CODEOWNERS", "/deploy/ @ann")], "user:ann"),
        (Some(GitHub), "deploy", &[("CODEOWNERS", "/deploy/ @ann")], "user:ann"),
        (Some(GitHub), "deploy", &[("CODEOWNERS", "/apps/ @ann")], ""),
        (Some(GitHub), "deploy", &[("deploy/CODEOWNERS", "* @ann")], ""),
        (Some(GitHub), "deploy", &[("docs/CODEOWNERS", "* @ann")], "user:ann"),
        (Some(GitHub), "", &[(".github/CODEOWNERS", "* @ann"), ("CODEOWNERS", "* @eve")], "user:ann"),
        (Some(GitHub), "", &[(".gitea/CODEOWNERS", "* @eve")], ""),
        (Some(Gitea), "", &[(".gitea/CODEOWNERS", "deploy/apps/.* @ann")], "user:ann"),
        (Some(Gitea), "", &[(".gitea/CODEOWNERS", ".* @eve"), ("docs/CODEOWNERS", ".* @ann")], "user:ann"),
        (Some(Gitea), "", &[(".github/CODEOWNERS", ".* @eve")], ""),
        (None, "", &[("CODEOWNERS", "[ nobody reads this")], ""),
    ];
    for (syntax, subtree, files, wanted) in rows {
        let (owners, _) = read(syntax, subtree, files).unwrap_or_else(|errors| panic!("{files:?}: {errors:?}"));
        assert_eq!(owners, wanted, "{syntax:?} {subtree:?} {files:?}");
    }
}

#[test]
fn a_file_that_cannot_be_read_refuses_the_commit() {
    for (syntax, files, word) in [
        (GitHub, [(".github/CODEOWNERS", "* @ops\n!/deploy/ @eve")], ".github/CODEOWNERS:2: the pattern"),
        (GitHub, [("CODEOWNERS", "-> deploy/apps/web.yaml")], "CODEOWNERS: is a symbolic link"),
        (Gitea, [("CODEOWNERS", ".* @ops\n(")], "CODEOWNERS:2: "),
    ] {
        let errors = read(Some(syntax), "", &files).expect_err("it is refused");
        assert!(errors.len() == 1 && errors[0].contains(word), "{word}: {errors:?}");
    }
}

#[test]
fn an_address_is_a_warning_of_the_tree() {
    let (owners, warnings) = read(Some(GitHub), "", &[("CODEOWNERS", "* ann@example.org")]).expect("it is read");
    assert_eq!(owners, "email:ann@example.org");
    assert!(
        warnings.iter().any(|warning| warning.contains("CODEOWNERS:1: ann@example.org is an address")),
        "{warnings:?}"
    );
}

#[test]
fn each_of_several_sources_has_owners_of_its_own() {
    let dir = tempfile::tempdir().expect("a folder");
    let [platform, shop] = ["platform", "shop"].map(|name| dir.path().join(name));
    committed(&platform, &[("clusters.yaml", CLUSTER), ("CODEOWNERS", "* @eve")]);
    committed(&shop, &[("deploy/apps/web.yaml", PLACEMENT), ("CODEOWNERS", "/deploy/ @ann")]);
    let ((platform, first), (shop, second)) = (opened(&platform), opened(&shop.join("deploy")));
    let sources = [
        SourceAt { name: "platform", reader: &platform, commit: &first },
        SourceAt { name: "shop", reader: &shop, commit: &second },
    ];
    let all = platform.with_blobs_of(&shop);
    let tree = read_joined(&all, &first, &sources, &mut Cache::new().owned(Some(GitHub))).expect("it is read");
    assert_eq!(tree.placements[&PlacementKey::cluster_scoped("web")].owners, ["user:ann"]);
}
