//! The pull request as the console: the whole scenario through Gitea's API alone, on three real clusters. With webhooks, and again
//! with polling only.

use std::fs;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;

use crate::e2e::daemon::{Daemon, World, access, clusters_of, namespace};
use crate::e2e::fleet::{Account, BOT_SCOPES, Gitea, Member, MergeWay, PERSON_SCOPES, git, http};
use crate::e2e::shared;

pub fn gitea() -> &'static Gitea {
    shared().gitea().expect("the fleet has a Gitea")
}

/// A person with a token.
pub struct Person {
    pub account: Account,
    pub token: String,
}

impl Person {
    pub fn new(name: &str, repo: &str, permission: Option<&str>, scopes: &[&str]) -> Self {
        let account = gitea().user(name).expect("an account");
        if let Some(permission) = permission {
            gitea().collaborator(repo, &account.name, permission).expect("a collaborator");
        }
        let token = gitea().token(&account, scopes).expect("a token");
        Self { account, token }
    }
}

/// A repository on Gitea, the people around it, and a world that follows it.
pub struct Stage {
    /// `owner/name`.
    pub repo: String,
    pub name: String,
    pub world: World,
    pub author: Person,
    pub approver: Person,
    stranger: Person,
    members: &'static [Member],
}

impl Stage {
    /// `poll` is how often the daemon looks by itself.
    pub fn new(name: &str, poll: &str) -> Self {
        Self::on(name, poll, &shared().members)
    }

    /// Has members of its own, which are called as the shared ones.
    pub fn on(name: &str, poll: &str, members: &'static [Member]) -> Self {
        let gitea = gitea();
        gitea.create_repo(name).expect("a repository");
        let repo = format!("{}/{name}", gitea.user);
        let author = Person::new(&format!("{name}-author"), &repo, Some("write"), PERSON_SCOPES);
        let approver = Person::new(&format!("{name}-approver"), &repo, Some("write"), PERSON_SCOPES);
        let stranger = Person::new(&format!("{name}-stranger"), &repo, None, PERSON_SCOPES);
        let bot = Person::new(&format!("{name}-bot"), &repo, Some("admin"), BOT_SCOPES);
        let reached = access(members);
        let world = World::new(None, &reached);
        fs::write(world.path().join("token"), &bot.token).expect("the token is written");
        fs::write(world.path().join("hook-secret"), SECRET).expect("the secret is written");
        let source = format!(
            "url: '{}', branch: main, pollInterval: {poll}, tokenFile: token, allowInsecureHttp: true",
            gitea.repo_url(name)
        );
        let forge = format!(
            "forge:\n  type: gitea\n  url: {}\n  repository: {repo}\n  tokenFile: token\n  allowInsecureHttp: true\n  \
             webhookSecretFile: hook-secret\n",
            gitea.url
        );
        world.configure_with(Some(&source), &reached, &forge);
        Self { repo, name: name.to_owned(), world, author, approver, stranger, members }
    }

    /// Connects the webhook.
    pub fn hook(&self) {
        let url = format!("http://127.0.0.1:{}/webhooks/gitea", self.world.port());
        let setup = self.world.gitfleet(&["forge", "setup", "-c", "gitfleet.yaml", "--url", &url]);
        assert!(setup.status.success(), "{}", String::from_utf8_lossy(&setup.stderr));
    }

    /// Writes the fleet, and a version of what is rolled out.
    pub fn write(&self, version: &str) {
        self.world.write("fleet.yaml", &clusters_of(&shared().members, ["canary", "early", "rest"]));
        self.world.write("app.yaml", &app(&self.name, version));
    }

    /// Commits and pushes to a branch.
    pub fn push(&self, branch: &str, message: &str) -> String {
        self.world.commit(message);
        gitea().push(&self.world.repo(), &self.name, branch).expect("a push")
    }

    /// Makes a branch from what is on the server's main.
    pub fn branch(&self, name: &str) {
        let remote = gitea().address_for(&self.repo, &self.author.account.name, &self.author.token);
        git(&self.world.repo(), &["fetch", "-q", &remote, "main"]).expect("git fetch");
        git(&self.world.repo(), &["checkout", "-q", "-B", name, "FETCH_HEAD"]).expect("git checkout");
    }

    pub fn comments(&self, thread: u64) -> Vec<String> {
        let comments = gitea().comments(&self.repo, thread).expect("comments");
        comments.iter().map(|comment| comment["body"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits for a comment that holds all these words; returns it.
    pub fn await_comment(&self, daemon: &Daemon<'_>, thread: u64, words: &[&str]) -> String {
        let mut found = String::new();
        daemon.until(&format!("a comment on #{thread} says {words:?}"), || {
            let comments = self.comments(thread);
            let all = comments.into_iter().find(|body| words.iter().all(|word| body.contains(word)));
            all.map(|body| found = body).is_some()
        });
        found
    }

    /// Returns context, state and description of the newest status of each context.
    pub fn statuses(&self, commit: &str) -> Vec<(String, String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let statuses = gitea().statuses(&self.repo, commit).expect("statuses");
        statuses.iter().map(|s| (text(&s["context"]), text(&s["status"]), text(&s["description"]))).collect()
    }

    pub fn await_status(&self, daemon: &Daemon<'_>, commit: &str, context: &str, state: &str, word: &str) {
        daemon.until(&format!("{context} of {commit} is {state}: {word}"), || {
            let statuses = self.statuses(commit);
            statuses.iter().any(|(c, s, d)| c == context && s == state && d.contains(word))
        });
    }

    pub fn say(&self, person: &Person, thread: u64, body: &str) -> u64 {
        gitea().comment(&person.token, &self.repo, thread, body).expect("a comment")
    }

    pub fn await_reaction(&self, daemon: &Daemon<'_>, comment: u64, reaction: &str) {
        daemon.until(&format!("comment {comment} has {reaction}"), || {
            gitea().reactions(&self.repo, comment).expect("reactions").iter().any(|found| found == reaction)
        });
    }

    /// Returns what each member holds.
    pub fn held(&self) -> Vec<String> {
        let value = |member: &Member| {
            let object = member.get(&self.name, "configmap", "settings").ok().flatten();
            object.and_then(|object| object["data"]["version"].as_str().map(str::to_owned)).unwrap_or_default()
        };
        self.members.iter().map(value).collect()
    }

    pub fn await_held(&self, daemon: &Daemon<'_>, versions: &[&str]) {
        daemon.until(&format!("members hold {versions:?}"), || self.held() == versions);
    }
}

/// How values begin that nobody may read anywhere but on the members.
const PLANTED: &str = "planted-value";

/// What webhooks are signed with.
const SECRET: &str = "a secret for webhooks of this test";

fn app(name: &str, version: &str) -> String {
    let stage = |stage: &str, more: &str| {
        format!("    - name: {stage}\n      labelSelector: {{matchLabels: {{stage: {stage}}}}}\n{more}")
    };
    format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata: {{name: {name}}}\n\
         spec:\n  stages:\n{}{}{}---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata:\n  \
         name: {name}\n  annotations: {{gitfleet.io/staged-update-strategy: {name}}}\n\
         spec:\n  resourceSelectors:\n    - {{group: '', version: v1, kind: Namespace, name: {name}}}\n  strategy: {{type: External}}\n\
         {}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings, namespace: {name}}}\ndata: {{version: '{version}', api-token: '{PLANTED}-map-{version}'}}\n\
         ---\napiVersion: v1\nkind: Secret\nmetadata: {{name: access, namespace: {name}}}\nstringData: {{value: '{PLANTED}-secret-{version}'}}\n",
        stage("canary", "      afterStageTasks: [{type: Approval}]\n"),
        stage("early", ""),
        stage("rest", ""),
        namespace(name),
    )
}

#[test]
fn the_pull_request_is_the_console_with_polling_only() {
    scenario(&Stage::new("console-polling", "1s"));
}

#[test]
fn the_pull_request_is_the_console_with_webhooks() {
    // Nothing is looked for within the test's time: what happens was told by the hook.
    let stage = Stage::new("console-hooks", "1h");
    stage.hook();
    scenario(&stage);
}

/// Fails where a planted value, or a secret of the daemon's own, can be read: in any conversation, status, log, or answer of the
/// daemon.
fn nothing_leaks(stage: &Stage, threads: &[u64], commits: &[&str]) {
    let mut told: Vec<(String, String)> = Vec::new();
    for thread in threads {
        told.extend(stage.comments(*thread).into_iter().map(|body| (format!("a comment on #{thread}"), body)));
    }
    for commit in commits {
        told.extend(stage.statuses(commit).into_iter().map(|(context, _, text)| (context, text)));
    }
    let issues = gitea().issues(&stage.repo).expect("issues");
    told.extend(issues.iter().map(|issue| ("an issue".to_owned(), issue.to_string())));
    for path in ["/metrics", "/api/v1/records", "/api/v1/journal"] {
        let (code, body) = http("GET", stage.world.port(), path, &[], "").expect("the daemon answers");
        assert_eq!(code, 200, "{path}");
        told.push((path.to_owned(), body));
    }
    told.extend(stage.world.log().iter().map(|line| ("the log".to_owned(), line.to_string())));
    assert!(told.len() > 20, "there was something to look at: {}", told.len());
    let encoded = BASE64_STANDARD.encode(format!("{PLANTED}-secret-1"));
    let token = fs::read_to_string(stage.world.path().join("token")).expect("the token is there");
    for (place, text) in told {
        for secret in [PLANTED, &encoded[..16], SECRET, token.trim()] {
            assert!(!text.contains(secret), "{place} says {secret}: {text}");
        }
    }
}

/// Fails where a status links to nothing.
fn nothing_lacks_a_link(stage: &Stage, commits: &[&str]) {
    for commit in commits {
        let statuses = gitea().statuses(&stage.repo, commit).expect("statuses");
        let links = |status: &Value| status["target_url"].as_str().is_some_and(|url| url.starts_with(&gitea().url));
        assert!(!statuses.is_empty() && statuses.iter().all(links), "{commit}: {statuses:?}");
    }
}

/// A change from its pull request to every cluster, and what may go wrong on the way.
fn scenario(stage: &Stage) {
    let name = stage.name.as_str();
    stage.write("1");
    let first = stage.push("main", "The fleet and its first application");
    let daemon = stage.world.start();
    // Nobody opened a pull request for the first commit: it is told on an issue of its own.
    let mut issue = 0;
    daemon.until("an issue tells the first rollout", || {
        let issues = gitea().issues(&stage.repo).expect("issues");
        issue = issues.first().and_then(|issue| issue["number"].as_u64()).unwrap_or_default();
        issue > 0
    });
    stage.await_comment(&daemon, issue, &["canary", "/approve canary"]);
    let word = stage.say(&stage.approver, issue, "/approve canary");
    stage.await_reaction(&daemon, word, "rocket");
    stage.await_status(&daemon, &first, &format!("gitfleet/{name}"), "success", "");
    stage.await_held(&daemon, &["1", "1", "1"]);

    // A pull request shows what it would do.
    stage.branch("change");
    stage.write("2");
    let head = stage.push("change", "Second version");
    let pull = gitea().open_pull(&stage.author.token, &stage.repo, "change", "main", "Second version").expect("a pull");
    let plan = stage.await_comment(&daemon, pull, &["settings", "canary", "early", "rest"]);
    assert!(plan.contains("-  version: '1'") || plan.contains("-  version: \"1\""), "{plan}");
    stage.await_status(&daemon, &head, "gitfleet/plan", "success", "");

    // Merged, it rolls to the first gate and says so where people are.
    let merged = gitea().merge(&stage.author.token, &stage.repo, pull, MergeWay::Merge).expect("a merge");
    stage.await_status(&daemon, &merged, &format!("gitfleet/{name}"), "pending", "waiting");
    stage.await_status(&daemon, &merged, "gitfleet", "pending", "1 waits at canary");
    let told = stage.await_comment(&daemon, pull, &["early", "rest", "/approve canary"]);
    assert!(told.starts_with("<!-- gitfleet:v1 id="), "{told}");
    stage.await_held(&daemon, &["2", "1", "1"]);

    // Neither a stranger nor the author opens the gate.
    let word = stage.say(&stage.stranger, pull, "/approve canary");
    stage.await_reaction(&daemon, word, "confused");
    stage.await_comment(&daemon, pull, &[&stage.stranger.account.name, "permission"]);
    let word = stage.say(&stage.author, pull, "/approve canary");
    stage.await_reaction(&daemon, word, "confused");
    stage.await_comment(&daemon, pull, &[&stage.author.account.name, "somebody else"]);
    assert_eq!(stage.held(), ["2", "1", "1"]);

    // An approver does, and it ends green.
    let word = stage.say(&stage.approver, pull, "Looks good to me.\n\n/approve canary");
    stage.await_reaction(&daemon, word, "rocket");
    stage.await_held(&daemon, &["2", "2", "2"]);
    stage.await_status(&daemon, &merged, &format!("gitfleet/{name}"), "success", "");
    stage.await_status(&daemon, &merged, "gitfleet", "success", "1 done, 3/3 clusters");
    nothing_lacks_a_link(stage, &[&head, &merged]);
    stage.await_comment(&daemon, pull, &["<!-- gitfleet:v1", &stage.approver.account.name, "✅"]);

    // A broken manifest is refused with file and line, before the merge.
    stage.branch("broken");
    stage.world.write("broken.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {nme: x}\n");
    let head = stage.push("broken", "Broken");
    let broken = gitea().open_pull(&stage.author.token, &stage.repo, "broken", "main", "Broken").expect("a pull");
    stage.await_status(&daemon, &head, "gitfleet/plan", "failure", "broken.yaml:");
    stage.await_comment(&daemon, broken, &["broken.yaml"]);

    // A revert goes back the same way.
    stage.branch("revert");
    git(&stage.world.repo(), &["revert", "--no-edit", "-m", "1", &merged]).expect("git revert");
    gitea().push(&stage.world.repo(), name, "revert").expect("a push");
    let revert = gitea().open_pull(&stage.author.token, &stage.repo, "revert", "main", "Revert").expect("a pull");
    stage.await_comment(&daemon, revert, &["settings"]);
    let reverted = gitea().merge(&stage.author.token, &stage.repo, revert, MergeWay::Squash).expect("a merge");
    stage.await_comment(&daemon, revert, &["/approve canary"]);
    let word = stage.say(&stage.approver, revert, "/approve canary");
    stage.await_reaction(&daemon, word, "rocket");
    stage.await_status(&daemon, &reverted, &format!("gitfleet/{name}"), "success", "");
    stage.await_held(&daemon, &["1", "1", "1"]);
    nothing_leaks(stage, &[issue, pull, broken, revert], &[&first, &merged, &head, &reverted]);
}
