//! Against repositories that the real git made.

mod signed;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::*;
use bot::source_request::CandidateError;
use config::{Configuration, HistoryRewrite, Verify};
use decide::state::Payload;
use engine::store::Store;
use git::{Source, SourceSpec};
use model::tree::Tree;
use plan::pull_request::Candidate;
use tokio::sync::oneshot;

mod app;
mod dropped;
mod joined;
mod refused;

const PATIENCE: Duration = Duration::from_secs(20);
const CLUSTER: &str =
    "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: a}\nspec: {}\n";

struct Place {
    dir: TempDir,
    news: mpsc::Receiver<SourceEvent>,
    followed: Followed,
    accepted: Arc<Tree>,
}

fn git(repo: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(repo)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", repo)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b"), ("GIT_COMMITTER_NAME", "a")])
        .env("GIT_COMMITTER_EMAIL", "a@b")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn commit(repo: &Path, files: &[(&str, &str)]) -> CommitId {
    for (path, content) in files {
        fs::write(repo.join(path), content).unwrap();
    }
    git(repo, &["add", "-A", "-f"]);
    git(repo, &["commit", "-q", "--allow-empty", "-m", "change"]);
    CommitId::new(git(repo, &["rev-parse", "HEAD"]))
}

fn map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: web}}\ndata: {{k: '{value}'}}\n")
}

/// Makes a repository with some files, and returns its first commit.
fn repository(dir: &TempDir, files: &[(&str, &str)]) -> CommitId {
    let repo = dir.path().join("repo");
    fs::create_dir(&repo).unwrap();
    git(&repo, &["init", "-q", "-b", "main"]);
    commit(&repo, files)
}

fn spec(dir: &TempDir) -> SourceSpec {
    SourceSpec {
        location: format!("file://{}", dir.path().join("repo").display()),
        branch: Some("main".to_owned()),
        path: ".".to_owned(),
        ..SourceSpec::default()
    }
}

/// Begins to follow it, as a remote, with what an earlier life accepted.
fn begin(dir: &TempDir, accepted: Option<CommitId>) -> (Followed, mpsc::Receiver<SourceEvent>) {
    begin_in(dir, "state", accepted, None, None)
}

/// Begins to follow it so that commits need a signature.
fn begin_verified(
    dir: &TempDir,
    accepted: Option<CommitId>,
    verify: Option<Verify>,
) -> (Followed, mpsc::Receiver<SourceEvent>) {
    begin_in(dir, "state", accepted, None, verify)
}

/// Does the same in a folder, as one of the daemons on a store.
fn begin_in(
    dir: &TempDir,
    state: &str,
    accepted: Option<CommitId>,
    shared: Option<Arc<dyn Store>>,
    verify: Option<Verify>,
) -> (Followed, mpsc::Receiver<SourceEvent>) {
    let poll_interval = Duration::from_hours(1);
    let spec = spec(dir);
    let branch = BranchSettings {
        name: String::new(),
        spec,
        poll_interval,
        on_rewrite: HistoryRewrite::Hold,
        accepted_rewrite: None,
        accepted: accepted.clone(),
        branch: None,
        token: None,
        verify: verify.map(Box::new),
    };
    let settings = PollerSettings {
        branches: vec![branch],
        accepted,
        shared,
        rendering: Rendering::default(),
        decryption: member::decryption::Decryption::default(),
        tenants: Arc::default(),
        code_owners: None,
    };
    let (sender, news) = mpsc::channel(1_024);
    let supervisor = Supervisor::without_pauses();
    (follow(settings, &dir.path().join(state), sender, &supervisor).unwrap(), news)
}

/// Says what news there is, with commits by the names they have here.
fn told(news: Option<SourceEvent>, names: &[(&CommitId, &str)]) -> String {
    let called = |commit: &CommitId| {
        names
            .iter()
            .find(|(known, _)| *known == commit)
            .map_or_else(|| commit.to_string(), |(_, name)| (*name).to_owned())
    };
    let of = |tree: &Tree| tree.commit.as_ref().map(called).unwrap_or_default();
    match news.expect("the source is followed") {
        SourceEvent::Of(name, news) => format!("{name}: {}", told(Some(*news), names)),
        SourceEvent::Restored(Ok(tree)) => format!("restored {}", of(&tree)),
        SourceEvent::Restored(Err(_)) => "not restored".to_owned(),
        SourceEvent::Accepted(tree) => format!("accepted {}", of(&tree)),
        SourceEvent::Refused(commit, _) => format!("refused {}", called(&commit)),
        SourceEvent::Rewritten(commit) => format!("held {}", called(&commit)),
        SourceEvent::Failed(why) => format!("failed: {why}"),
        SourceEvent::Unchanged => "unchanged".to_owned(),
        SourceEvent::Readable => "readable".to_owned(),
        SourceEvent::Follows(branch) => format!("follows {branch}"),
        SourceEvent::Switched(commit, _) => format!("switched to {}", called(&commit)),
        SourceEvent::Unwatched(_) => "unwatched".to_owned(),
        SourceEvent::Unkept(risk) => format!("at risk: {}", risk.is_some()),
        SourceEvent::Payload(..) => "payload".to_owned(),
        SourceEvent::HeldRead(..) => "found".to_owned(),
        SourceEvent::Seen(commit) => format!("seen {}", called(&commit)),
    }
}

/// Waits for the next news; that a tip was seen is none, for what becomes of it follows.
fn next(news: &mut mpsc::Receiver<SourceEvent>) -> Option<SourceEvent> {
    loop {
        let next = news.blocking_recv();
        match &next {
            Some(SourceEvent::Seen(_)) => {}
            Some(SourceEvent::Of(_, news)) if matches!(**news, SourceEvent::Seen(_)) => {}
            _ => return next,
        }
    }
}

impl Place {
    /// Follows a repository with some files, as a remote.
    fn following(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        repository(&dir, files);
        let (followed, mut news) = begin(&dir, None);
        let Some(SourceEvent::Accepted(accepted)) = next(&mut news) else { unreachable!("the first commit is good") };
        Self { dir, news, followed, accepted }
    }

    fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    /// Commits on a branch from `from`, publishes it as a pull request, and goes back.
    fn pull(&self, number: u64, from: &str, files: &[(&str, &str)]) -> CommitId {
        let repo = self.repo();
        git(&repo, &["checkout", "-q", "-B", "feature", from]);
        let head = commit(&repo, files);
        git(&repo, &["update-ref", &format!("refs/pull/{number}/head"), head.as_str()]);
        git(&repo, &["checkout", "-q", "main"]);
        head
    }

    fn candidate(&self, number: u64, head: &CommitId, fetch: bool) -> Result<Candidate, CandidateError> {
        let (reply, answer) = oneshot::channel();
        self.followed
            .requests
            .send(SourceRequest::Candidate { source: String::new(), number, head: head.clone(), fetch, reply })
            .unwrap();
        answer.blocking_recv().unwrap()
    }

    fn accept(&mut self, files: &[(&str, &str)]) -> CommitId {
        let tip = commit(&self.repo(), files);
        self.followed.requests.send(SourceRequest::Poll).unwrap();
        let deadline = std::time::Instant::now() + PATIENCE;
        while std::time::Instant::now() < deadline {
            if let Some(SourceEvent::Accepted(tree)) = next(&mut self.news)
                && tree.commit.as_ref() == Some(&tip)
            {
                return tip;
            }
        }
        unreachable!("the commit is good");
    }
}

fn values(tree: &Tree) -> Vec<String> {
    tree.manifests
        .iter()
        .map(|m| format!("{}={}", m.id.name, m.object["data"]["k"].as_str().unwrap_or_default()))
        .collect()
}

#[test]
fn a_pull_request_is_read_as_its_merge_leaves_the_tree() {
    let mut place = Place::following(&[("c.yaml", CLUSTER), ("x.yaml", &map("x", "1")), ("y.yaml", &map("yy", "1"))]);
    let fork = place.accepted.commit.clone().unwrap();
    let head = place.pull(1, "main", &[("x.yaml", &map("x", "2")), ("new.yaml", &map("z", "1"))]);
    let found = place.candidate(1, &head, true).unwrap();
    assert_eq!((&found.base, &found.head, &found.tree.commit), (&fork, &head, &Some(head.clone())));
    assert_eq!(values(&found.tree), ["x=2", "yy=1", "z=1"]);
    assert!(found.conflicts.is_empty());
    // The branch continues: what it changed is in the merge too.
    let tip = place.accept(&[("y.yaml", &map("yy", "9"))]);
    let found = place.candidate(1, &head, false).unwrap();
    assert_eq!((found.base, values(&found.tree)), (tip, ["x=2", "yy=9", "z=1"].map(str::to_owned).to_vec()));
    place.accept(&[("x.yaml", &map("x", "7"))]);
    let found = place.candidate(1, &head, false).unwrap();
    assert_eq!((found.conflicts, values(&found.tree)[0].as_str()), (vec!["x.yaml".to_owned()], "x=2"));
    // What was ignored on one side is ignored in the merge.
    place.accept(&[(".gitfleetignore", "y.yaml\n")]);
    assert_eq!(values(&place.candidate(1, &head, false).unwrap().tree), ["x=2", "z=1"]);
}

#[test]
fn why_a_pull_request_cannot_be_read() {
    let place = Place::following(&[("c.yaml", CLUSTER)]);
    let broken = place.pull(2, "main", &[("c.yaml", &CLUSTER.replace("spec: {}", "spec: {nope: 1}"))]);
    let Err(CandidateError::Refused(errors)) = place.candidate(2, &broken, true) else {
        unreachable!("it has an error")
    };
    assert_eq!((errors[0].path.as_str(), errors[0].line > 0), ("c.yaml", true));
    let good = place.pull(3, "main", &[("x.yaml", &map("x", "1"))]);
    let gone = CommitId::new("1111111111111111111111111111111111111111");
    let rows = [
        (3, &gone, true, "its head has moved to"),
        (4, &good, true, "has no head of pull request 4"),
        (3, &gone, false, "1111111"),
    ];
    for (number, head, fetch, wanted) in rows {
        let Err(CandidateError::Unreadable(why)) = place.candidate(number, head, fetch) else {
            unreachable!("{wanted}")
        };
        assert!(why.contains(wanted) && why.starts_with(&format!("pull request {number}: ")), "{why}");
    }
    assert!(place.candidate(3, &good, true).is_ok(), "and the next is read again");
    place.followed.requests.send(SourceRequest::Forget { source: String::new(), number: 3 }).unwrap();
    place.followed.requests.send(SourceRequest::Forget { source: String::new(), number: 99 }).unwrap();
    assert!(place.candidate(3, &good, true).is_ok(), "and fetched again");
}

#[test]
fn d05_a_refused_pull_request_is_not_read_again_until_something_changes() {
    let place = Place::following(&[("c.yaml", CLUSTER)]);
    let list = |alias: &str, times: usize| vec![alias; times].join(",");
    let one =
        |n: usize| format!("{}a: &a [{}]\nb: [{}]\n---\n", map(&format!("m{n}"), "x"), list("0", 900), list("*a", 100));
    let bomb: String = (0..12).map(one).collect();
    let head = place.pull(2, "main", &[("bomb.yaml", &bomb)]);
    let refused = |place: &Place, head: &CommitId| match place.candidate(2, head, true) {
        Err(CandidateError::Refused(errors)) => errors,
        other => unreachable!("{other:?}"),
    };
    let errors = refused(&place, &head);
    let said = errors[0].to_string();
    assert!(said.starts_with("bomb.yaml: with this file there are 1,"), "{said}");
    assert!(said.contains("the limit for what a pull request adds or changes is 1,000,000"), "{said}");
    // Without the repository nothing can be read: the answer is the one from before.
    let away = place.repo().with_extension("away");
    fs::rename(place.repo(), &away).unwrap();
    assert_eq!(refused(&place, &head), errors);
    fs::rename(&away, place.repo()).unwrap();
    let good = place.pull(2, "main", &[("x.yaml", &map("x", "1"))]);
    assert!(place.candidate(2, &good, true).is_ok(), "it changed");
}

#[test]
fn d08_the_thread_has_ended_when_what_follows_is_dropped() {
    let place = Place::following(&[("c.yaml", CLUSTER)]);
    let requests = place.followed.requests.clone();
    drop(place.followed);
    let deadline = std::time::Instant::now() + PATIENCE;
    while requests.send(SourceRequest::Poll).is_ok() {
        assert!(std::time::Instant::now() < deadline, "somebody is there who may still hold a lock");
        std::thread::yield_now();
    }
}

#[test]
fn the_accepted_commit_stays_parsed() {
    let mut place = Place::following(&[("c.yaml", CLUSTER), ("x.yaml", &map("x", "1"))]);
    let object = |tree: &Tree| Arc::clone(&tree.manifests[0].object);
    let before = object(&place.accepted);
    let head = place.pull(1, "main", &[("x.yaml", &map("x", "2"))]);
    place.candidate(1, &head, true).unwrap();
    commit(&place.repo(), &[("y.yaml", &map("yy", "1"))]);
    place.followed.requests.send(SourceRequest::Poll).unwrap();
    let Some(SourceEvent::Accepted(tree)) = next(&mut place.news) else { unreachable!("the commit is good") };
    assert!(Arc::ptr_eq(&before, &object(&tree)), "it was not parsed again");
}

#[test]
fn what_landed_is_answered() {
    let mut place = Place::following(&[("c.yaml", CLUSTER)]);
    let old = place.accepted.commit.clone();
    let tip = place.accept(&[("x.yaml", &map("x", "1"))]);
    let landed = |from: Option<CommitId>, to: CommitId| {
        let (reply, answer) = oneshot::channel();
        place.followed.requests.send(SourceRequest::Landed { source: String::new(), from, to, reply }).unwrap();
        answer.blocking_recv().unwrap()
    };
    let found = landed(old, tip.clone()).unwrap();
    assert_eq!(found.iter().map(|c| (&c.commit, c.subject.as_str())).collect::<Vec<_>>(), [(&tip, "change")]);
    assert!(landed(None, CommitId::new("x")).is_err());
}

#[test]
fn an_accepted_commit_that_could_not_be_restored_is_read_again() {
    let broken = CLUSTER.replace("spec: {}", "spec: {nope: 1}");
    let rows: [(&str, &str, Option<&str>, &[&str]); 4] = [
        ("the mirror was lost", CLUSTER, None, &["not restored", "accepted x"]),
        ("the rules refuse it now", &broken, None, &["not restored", "refused x"]),
        ("and the next is good", &broken, Some(CLUSTER), &["not restored", "accepted y"]),
        (
            "the mirror was lost, and the next is refused",
            CLUSTER,
            Some(&broken),
            &["not restored", "refused y", "restored x"],
        ),
    ];
    for (name, first, second, wanted) in rows {
        let dir = tempfile::tempdir().unwrap();
        let x = repository(&dir, &[("c.yaml", first)]);
        let y = second.map(|second| commit(&dir.path().join("repo"), &[("c.yaml", second)]));
        let y = y.unwrap_or_else(|| CommitId::new("none"));
        let (followed, mut news) = begin(&dir, Some(x.clone()));
        let told: Vec<String> = wanted.iter().map(|_| told(next(&mut news), &[(&x, "x"), (&y, "y")])).collect();
        assert_eq!(told, wanted, "{name}");
        drop(followed);
    }
}

#[test]
fn a_person_lets_a_tip_in_once() {
    let mut place = Place::following(&[("c.yaml", CLUSTER)]);
    let repo = place.repo();
    let root = git(&repo, &["commit-tree", "-m", "other", "HEAD^{tree}"]);
    git(&repo, &["reset", "-q", "--hard", &root]);
    let (other, mut names) = (CommitId::new(root), Vec::new());
    let mut next = |request: Option<SourceRequest>, names: &[(&CommitId, &str)]| {
        if let Some(request) = request {
            place.followed.requests.send(request).unwrap();
        }
        told(next(&mut place.news), names)
    };
    names.push((&other, "other"));
    assert_eq!(next(Some(SourceRequest::Poll), &names), "held other");
    assert_eq!(next(Some(SourceRequest::AcceptRewrite(other.clone())), &names), "accepted other");
    let child = commit(&repo, &[("x.yaml", &map("x", "1"))]);
    names.push((&child, "child"));
    assert_eq!(next(Some(SourceRequest::Poll), &names), "accepted child");
    git(&repo, &["reset", "-q", "--hard", other.as_str()]);
    assert_eq!(next(Some(SourceRequest::Poll), &names), "held other", "the word was for another rewrite");
    git(&repo, &["reset", "-q", "--hard", child.as_str()]);
    assert_eq!(next(Some(SourceRequest::Poll), &names), "unchanged");
    assert_eq!(next(Some(SourceRequest::AcceptRewrite(other.clone())), &names), "unchanged", "it is the tip no more");
}

#[test]
fn what_was_accepted_after_the_core_last_heard_stays_pinned() {
    let mut place = Place::following(&[("c.yaml", CLUSTER)]);
    let heard = place.accept(&[("x.yaml", &map("x", "1"))]);
    let unheard = place.accept(&[("x.yaml", &map("x", "2"))]);
    let newest = place.accept(&[("x.yaml", &map("x", "3"))]);
    let rows: [(&str, Option<&CommitId>, &CommitId, &[&CommitId]); 3] = [
        ("decided about one", None, &heard, &[&heard, &unheard, &newest]),
        ("about the last, which names the one before", Some(&unheard), &newest, &[&unheard, &newest]),
        ("and does not any more", None, &newest, &[&newest]),
    ];
    for (name, named, at, wanted) in rows {
        let request = SourceRequest::Retain { named: named.into_iter().cloned().collect(), at: at.clone() };
        place.followed.requests.send(request).unwrap();
        // An answer comes after what was asked before.
        let (reply, answer) = oneshot::channel();
        place.followed.requests.send(SourceRequest::Branch { source: String::new(), reply }).unwrap();
        answer.blocking_recv().unwrap();
        let mirror = Source::open(spec(&place.dir), &place.dir.path().join("state")).unwrap();
        let pins = mirror.reader().pins().unwrap();
        assert_eq!(pins.values().collect::<BTreeSet<_>>(), wanted.iter().copied().collect(), "{name}");
    }
}

#[test]
fn d17_a_payload_whose_reading_panics_is_answered_and_the_next_is_read() {
    let (sender, inbox) = channel();
    let (news, mut told) = mpsc::channel(1_024);
    let read = |snapshot: &ResourceSnapshot| {
        assert!(snapshot.index > 0, "the trap snapped");
        Ok(Payload::default())
    };
    let life = payloads::payload_answers(inbox, news, read);
    let supervisor = Supervisor::without_pauses();
    let thread = supervisor.thread(Part::Payloads, "test", life).unwrap();
    for index in 0..2 {
        let snapshot = serde_json::json!({
            "placement": "web", "index": index, "commit": "c", "hash": "h", "resources": [], "parts": [0],
            "createdAt": "2026-01-01T00:00:00Z",
        });
        sender.send(Arc::new(serde_json::from_value(snapshot).unwrap())).unwrap();
    }
    drop(sender);
    thread.join().unwrap();
    let mut answers = Vec::new();
    while let Some(SourceEvent::Payload(snapshot, payload)) = told.blocking_recv() {
        answers.push((snapshot.index, payload.is_ok()));
    }
    assert_eq!(answers, [(0, false), (1, true)]);
    assert!(supervisor.health().report().lines[0].starts_with("payloads: was restarted"));
}

#[test]
fn polls_that_wait_together_are_one() {
    let (sender, inbox) = channel();
    let forget = |number| SourceRequest::Forget { source: String::new(), number };
    for request in [forget(1), SourceRequest::Poll, forget(2), SourceRequest::Poll, SourceRequest::Poll, forget(3)] {
        sender.send(request).unwrap();
    }
    let mut later = VecDeque::new();
    let mut next = || match next_request(&mut later, &inbox, clock::uptime()) {
        None | Some(SourceRequest::Poll) => 0,
        Some(SourceRequest::Forget { number, .. }) => number,
        Some(SourceRequest::End) => 99,
        _ => unreachable!("nobody asked for that"),
    };
    let order: Vec<u64> = (0..5).map(|_| next()).collect();
    assert_eq!(order, [1, 0, 2, 3, 0], "the last one comes after the pause");
    drop(sender);
    assert_eq!(next(), 99);
}
