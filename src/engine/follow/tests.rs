//! Against repositories that the real git made.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);
const CLUSTER: &str =
    "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: a}\nspec: {}\n";

struct Place {
    dir: TempDir,
    news: mpsc::UnboundedReceiver<News>,
    requests: Sender<Request>,
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

impl Place {
    /// Follows a repository with some files, as a remote.
    fn following(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "-q", "-b", "main"]);
        commit(&repo, files);
        let spec = SourceSpec {
            location: format!("file://{}", repo.display()),
            branch: Some("main".to_owned()),
            path: ".".to_owned(),
            ..SourceSpec::default()
        };
        let settings = Settings {
            spec,
            poll_interval: Duration::from_hours(1),
            on_rewrite: HistoryRewrite::Hold,
            let_in: None,
            accepted: None,
        };
        let (sender, mut news) = mpsc::unbounded_channel();
        let requests = follow(settings, &dir.path().join("state"), sender).unwrap();
        let Some(News::Accepted(accepted)) = news.blocking_recv() else { unreachable!("the first commit is good") };
        Self { dir, news, requests, accepted }
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
        self.requests.send(Request::Candidate { number, head: head.clone(), fetch, reply }).unwrap();
        answer.blocking_recv().unwrap()
    }

    fn accept(&mut self, files: &[(&str, &str)]) -> CommitId {
        let tip = commit(&self.repo(), files);
        self.requests.send(Request::Poll).unwrap();
        let deadline = std::time::Instant::now() + PATIENCE;
        while std::time::Instant::now() < deadline {
            if let Some(News::Accepted(tree)) = self.news.blocking_recv()
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
    // The branch goes on: what it changed is in the merge too.
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
    place.requests.send(Request::Forget { number: 3 }).unwrap();
    place.requests.send(Request::Forget { number: 99 }).unwrap();
    assert!(place.candidate(3, &good, true).is_ok(), "and fetched again");
}

#[test]
fn what_is_in_force_stays_parsed() {
    let mut place = Place::following(&[("c.yaml", CLUSTER), ("x.yaml", &map("x", "1"))]);
    let object = |tree: &Tree| Arc::clone(&tree.manifests[0].object);
    let before = object(&place.accepted);
    let head = place.pull(1, "main", &[("x.yaml", &map("x", "2"))]);
    place.candidate(1, &head, true).unwrap();
    commit(&place.repo(), &[("y.yaml", &map("yy", "1"))]);
    place.requests.send(Request::Poll).unwrap();
    let Some(News::Accepted(tree)) = place.news.blocking_recv() else { unreachable!("the commit is good") };
    assert!(Arc::ptr_eq(&before, &object(&tree)), "it was not parsed again");
}

#[test]
fn what_landed_is_answered() {
    let mut place = Place::following(&[("c.yaml", CLUSTER)]);
    let old = place.accepted.commit.clone();
    let tip = place.accept(&[("x.yaml", &map("x", "1"))]);
    let landed = |from: Option<CommitId>, to: CommitId| {
        let (reply, answer) = oneshot::channel();
        place.requests.send(Request::Landed { from, to, reply }).unwrap();
        answer.blocking_recv().unwrap()
    };
    let found = landed(old, tip.clone()).unwrap();
    assert_eq!(found.iter().map(|c| (&c.commit, c.subject.as_str())).collect::<Vec<_>>(), [(&tip, "change")]);
    assert!(landed(None, CommitId::new("x")).is_err());
}
