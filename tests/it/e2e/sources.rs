//! Sources that refuse, vanish, change their past or hold what may not be read; and a disk that is full.

use std::fs;
use std::process::{Command, Stdio};

use crate::e2e::daemon::{World, access, config_map, member_clusters, namespace, placement, value};
use crate::e2e::fleet::{Gitea, Member, git};
use crate::e2e::shared;

fn gitea() -> &'static Gitea {
    shared().gitea().expect("the fleet has a Gitea")
}

/// A world that follows a Gitea repository with a token that a test may spoil.
struct Remote {
    world: World,
    repo: &'static str,
    member: &'static Member,
}

impl Remote {
    fn new(repo: &'static str, position: usize, extra: &str) -> Self {
        gitea().create_repo(repo).expect("a repository");
        let member = &shared().members[position];
        let remote = Self { world: World::new(None, &[]), repo, member };
        remote.token(&gitea().token);
        let source = format!(
            "url: '{}', branch: main, pollInterval: 1s, tokenFile: ./token, allowInsecureHttp: true{extra}",
            gitea().repo_url(repo)
        );
        remote.world.configure(Some(&source), &access(std::slice::from_ref(member)));
        remote
    }

    fn token(&self, token: &str) {
        fs::write(self.world.path().join("token"), token).expect("the token is written");
    }

    /// Writes a version of the one application and pushes it.
    fn push(&self, version: &str) -> String {
        self.write(version);
        self.world.commit(version);
        gitea().push(&self.world.repo(), self.repo, "main").expect("a push")
    }

    fn write(&self, version: &str) {
        self.world.write("fleet.yaml", &member_clusters([self.member.name.as_str()]));
        let name = self.repo;
        let text = [placement(name, ""), namespace(name), config_map(name, "settings", version)].concat();
        self.world.write("a.yaml", &text);
    }

    fn url(&self) -> String {
        let Gitea { url, user, token, .. } = gitea();
        format!("{}/{user}/{}.git", url.replace("://", &format!("://{user}:{token}@")), self.repo)
    }

    fn git(&self, args: &[&str]) {
        git(&self.world.repo(), args).expect("git");
    }

    fn holds(&self) -> String {
        value(self.member, self.repo, "settings")
    }
}

#[test]
fn a_wrong_token_is_told_and_the_last_good_commit_stays() {
    let remote = Remote::new("denied", 0, "");
    // Only a private repository asks who is there.
    let path = format!("/repos/{}/denied", gitea().user);
    gitea().api("PATCH", &path, Some(&serde_json::json!({"private": true}))).expect("it is private");
    remote.push("1");
    let daemon = remote.world.start();
    daemon.await_rolled_out("denied", 0);
    daemon.kill();
    remote.token("0123456789012345678901234567890123456789");
    let daemon = remote.world.start();
    let status = daemon.await_status("the source cannot be read: access to");
    assert!(!status.contains("0123456789"), "the token is not told: {status}");
    // Delivery continues by the last good commit.
    daemon.await_rolled_out("denied", 0);
    crate::e2e::daemon::patch(remote.member, "denied", "settings", "theirs");
    daemon.until("drift is put back", || remote.holds() == "1");
}

#[test]
fn an_empty_repository_then_a_first_push_then_a_branch_that_goes_and_returns() {
    let remote = Remote::new("vanish", 1, "");
    let daemon = remote.world.start();
    daemon.await_status("the source cannot be read");
    let first = remote.push("1");
    daemon.await_rolled_out("vanish", 0);
    remote.git(&["push", "-q", &remote.url(), "HEAD:refs/heads/other"]);
    let path = format!("/repos/{}/vanish", gitea().user);
    gitea().api("PATCH", &path, Some(&serde_json::json!({"default_branch": "other"}))).expect("another default");
    remote.git(&["push", "-q", &remote.url(), ":refs/heads/main"]);
    let status = daemon.await_status("the source cannot be read");
    assert!(status.contains("main"), "{status}");
    assert_eq!(remote.holds(), "1", "nothing is deleted because something cannot be read");
    // The same commit again: nothing new, and yet news.
    remote.git(&["push", "-q", &remote.url(), &format!("{first}:refs/heads/main")]);
    daemon.until("the source can be read again", || !daemon.status().contains("cannot be read"));
    remote.push("2");
    daemon.await_rolled_out("vanish", 1);
    assert_eq!(remote.holds(), "2");
}

#[test]
fn a_rewritten_history_waits_unless_the_configuration_lets_it_in() {
    for (repo, extra, lets_in) in [("rewrite-hold", "", false), ("rewrite-accept", ", onHistoryRewrite: Accept", true)]
    {
        let remote = Remote::new(repo, 2, extra);
        remote.push("1");
        let good = remote.push("2");
        let daemon = remote.world.start();
        daemon.await_rolled_out(repo, 0);
        remote.git(&["reset", "-q", "--hard", "HEAD~1"]);
        remote.write("rewritten");
        remote.world.commit("Another past");
        remote.git(&["push", "-q", "--force", &remote.url(), "HEAD:refs/heads/main"]);
        if lets_in {
            daemon.until("it is accepted", || remote.holds() == "rewritten");
            continue;
        }
        let status = daemon.await_status("does not descend from");
        assert!(status.contains(&good[..7]), "{status}");
        assert_eq!(remote.holds(), "2", "the last good commit stays");
        // Also after a restart.
        daemon.kill();
        let daemon = remote.world.start();
        daemon.await_status("does not descend from");
        daemon.await_rolled_out(repo, 0);
        assert_eq!(remote.holds(), "2");
        // Taken back: the accepted commit is the tip again.
        remote.git(&["push", "-q", "--force", &remote.url(), &format!("{good}:refs/heads/main")]);
        daemon.until("nothing waits any more", || !daemon.status().contains("does not descend"));
    }
}

#[test]
fn a_commit_with_what_may_not_be_read_is_refused_whole() {
    let member = &shared().members[0];
    let world = World::new(None, &access(std::slice::from_ref(member)));
    world.write("fleet.yaml", &member_clusters([member.name.as_str()]));
    let of = |version: &str| {
        let text = [placement("unread", ""), namespace("unread"), config_map("unread", "settings", version)];
        world.write("a.yaml", &text.concat());
    };
    of("1");
    let good = world.commit("Good");
    let daemon = world.start();
    daemon.await_rolled_out("unread", 0);

    of("2");
    std::os::unix::fs::symlink("/etc/hostname", world.repo().join("outside.yaml")).expect("a link");
    world.commit("A link out of the tree");
    let status = daemon.await_status("is refused");
    assert!(status.contains("outside.yaml") && status.contains(&good[..7]), "{status}");
    assert_eq!(value(member, "unread", "settings"), "1");

    fs::remove_file(world.repo().join("outside.yaml")).expect("the link goes");
    let line = "# filler\n";
    world.write("large.yaml", &line.repeat((6 << 20) / line.len()));
    let large = world.commit("A file of 6 MiB");
    daemon.await_status(&large[..7]);
    let status = daemon.await_status("large.yaml");
    assert!(status.contains("is refused"), "{status}");
    assert_eq!(value(member, "unread", "settings"), "1");

    fs::remove_file(world.repo().join("large.yaml")).expect("the file goes");
    world.commit("Repaired");
    daemon.await_rolled_out("unread", 1);
    assert_eq!(value(member, "unread", "settings"), "2");
}

/// Limits how large a file of a process may become; `None` lifts the limit.
fn limit_files(daemon: &crate::e2e::daemon::Daemon<'_>, bytes: Option<u32>) {
    let size = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
    // The soft limit only: the hard one cannot be raised again by everybody.
    let args = [format!("--pid={}", daemon.id()), format!("--fsize={size}:")];
    let done = Command::new("prlimit").args(args).stdin(Stdio::null()).status().expect("prlimit runs");
    assert!(done.success());
}

#[test]
fn on_a_full_disk_nothing_happens_that_was_not_stored() {
    let member = &shared().members[1];
    let world = World::new(Some("url: ./repo, branch: main, pollInterval: 1s"), &access(std::slice::from_ref(member)));
    world.write("fleet.yaml", &member_clusters([member.name.as_str()]));
    let of = |version: &str| {
        let text = [placement("full", ""), namespace("full"), config_map("full", "settings", version)];
        world.write("a.yaml", &text.concat());
    };
    of("1");
    world.commit("One");
    let daemon = world.start_for_limits();
    daemon.await_rolled_out("full", 0);
    limit_files(&daemon, Some(1));
    of("2");
    world.commit("Two");
    daemon.until("the log says that nothing can be stored", || {
        world.log().iter().any(|line| line["message"].as_str().is_some_and(|m| m.contains("could not be stored")))
    });
    assert_eq!(value(member, "full", "settings"), "1", "what is not stored is not done");
    limit_files(&daemon, None);
    daemon.await_rolled_out("full", 1);
    assert_eq!(value(member, "full", "settings"), "2");
}
