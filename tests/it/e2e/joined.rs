//! Two repositories of one Gitea as one tree: each commit is told in its own repository, and people approve there.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::e2e::console::{Person, gitea};
use crate::e2e::daemon::{Daemon, World, config_map, namespace};
use crate::e2e::fleet::{BOT_SCOPES, MergeWay, PERSON_SCOPES, commit_all, git, http};

/// What webhooks are signed with.
const SECRETS: [(&str, &str); 2] = [("platform", "a secret of the platform"), ("shop", "another secret")];

/// One of the two repositories.
struct Repository {
    /// `owner/name`.
    repo: String,
    name: String,
    folder: PathBuf,
}

impl Repository {
    fn new(name: &str, folder: PathBuf) -> Self {
        gitea().create_repo(name).expect("a repository");
        fs::create_dir_all(&folder).expect("the work tree is made");
        git(&folder, &["init", "-q", "-b", "main"]).expect("git init");
        Self { repo: format!("{}/{name}", gitea().user), name: name.to_owned(), folder }
    }

    fn push(&self, branch: &str, path: &str, text: &str) -> String {
        fs::write(self.folder.join(path), text).expect("the file is written");
        commit_all(&self.folder, path).expect("a commit");
        gitea().push(&self.folder, &self.name, branch).expect("a push")
    }

    /// Opens a pull request with a file; returns its number and its head.
    fn change(&self, author: &Person, branch: &str, path: &str, text: &str) -> (u64, String) {
        let remote = gitea().address_for(&self.repo, &author.account.name, &author.token);
        git(&self.folder, &["fetch", "-q", &remote, "main"]).expect("git fetch");
        git(&self.folder, &["checkout", "-q", "-B", branch, "FETCH_HEAD"]).expect("git checkout");
        let head = self.push(branch, path, text);
        (gitea().open_pull(&author.token, &self.repo, branch, "main", branch).expect("a pull request"), head)
    }

    fn merge(&self, author: &Person, pull: u64) -> String {
        gitea().merge(&author.token, &self.repo, pull, MergeWay::Squash).expect("a merge")
    }

    /// Returns context, state and description of the newest status of each context.
    fn statuses(&self, commit: &str) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let statuses = gitea().statuses(&self.repo, commit).expect("statuses");
        let line = |s: &Value| format!("{} {} {}", text(&s["context"]), text(&s["status"]), text(&s["description"]));
        statuses.iter().map(line).collect()
    }

    fn await_status(&self, daemon: &Daemon<'_>, commit: &str, words: &[&str]) {
        daemon.until(&format!("a status of {commit} in {} says {words:?}", self.repo), || {
            self.statuses(commit).iter().any(|line| words.iter().all(|word| line.contains(word)))
        });
    }

    /// Returns the statuses of a commit when none of them waits any more.
    fn settled(&self, daemon: &Daemon<'_>, commit: &str) -> Vec<String> {
        let mut found = Vec::new();
        daemon.until(&format!("no status of {commit} in {} waits", self.repo), || {
            found = self.statuses(commit);
            !found.is_empty() && !found.iter().any(|line| line.contains(" pending "))
        });
        found
    }

    fn await_comment(&self, daemon: &Daemon<'_>, thread: u64, words: &[&str]) -> String {
        let mut found = String::new();
        daemon.until(&format!("a comment on #{thread} of {} says {words:?}", self.repo), || {
            let comments = gitea().comments(&self.repo, thread).expect("comments");
            let mut bodies = comments.iter().map(|comment| comment["body"].as_str().unwrap_or_default());
            bodies
                .find(|body| words.iter().all(|word| body.contains(word)))
                .map(|body| body.clone_into(&mut found))
                .is_some()
        });
        found
    }

    fn approve(&self, daemon: &Daemon<'_>, person: &Person, thread: u64) {
        let word = gitea().comment(&person.token, &self.repo, thread, "/approve canary").expect("a comment");
        daemon.until(&format!("comment {word} in {} is executed", self.repo), || {
            gitea().reactions(&self.repo, word).expect("reactions").iter().any(|found| found == "rocket")
        });
    }
}

/// Two clusters, one in each stage, and what goes there: `shop`'s objects and the platform's own.
fn fleet() -> String {
    let mut text = String::from(
        "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata: {name: gated}\nspec:\n  \
         stages:\n    - name: canary\n      labelSelector: {matchLabels: {stage: canary}}\n      afterStageTasks: [{type: Approval}]\n    \
         - name: rest\n      labelSelector: {matchLabels: {stage: rest}}\n",
    );
    for (cluster, stage) in [("a", "canary"), ("b", "rest")] {
        write!(
            text,
            "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\n\
             metadata: {{name: {cluster}, labels: {{stage: {stage}}}}}\nspec: {{}}\n"
        )
        .expect("a string");
    }
    for name in ["base", "shop"] {
        write!(
            text,
            "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata:\n  name: {name}\n  \
             annotations: {{gitfleet.io/staged-update-strategy: gated}}\nspec:\n  resourceSelectors:\n    \
             - {{group: '', version: v1, kind: Namespace, name: {name}}}\n  strategy: {{type: External}}\n"
        )
        .expect("a string");
    }
    text
}

fn objects(namespace_of: &str, version: &str) -> String {
    namespace(namespace_of) + &config_map(namespace_of, "settings", version)
}

/// Both repositories, who works in them, and the daemon's world.
struct Two {
    world: World,
    platform: Repository,
    shop: Repository,
    author: Person,
    approver: Person,
}

impl Two {
    fn new(name: &str, poll: &str) -> Self {
        let world = World::new(None, &[]);
        let platform = Repository::new(&format!("{name}-platform"), world.path().join("platform"));
        let shop = Repository::new(&format!("{name}-shop"), world.path().join("shop"));
        let person = |role: &str, permission: &str, scopes: &[&str]| {
            let person = Person::new(&format!("{name}-{role}"), &platform.repo, Some(permission), scopes);
            gitea().collaborator(&shop.repo, &person.account.name, permission).expect("a collaborator");
            person
        };
        let (author, approver) = (person("author", "write", PERSON_SCOPES), person("approver", "write", PERSON_SCOPES));
        let bot = person("bot", "admin", BOT_SCOPES);
        fs::write(world.path().join("token"), &bot.token).expect("the token is written");
        let mut text = String::from("apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsources:\n");
        for ((source, secret), of) in SECRETS.into_iter().zip([&platform, &shop]) {
            fs::write(world.path().join(format!("{source}-secret")), secret).expect("the secret is written");
            write!(
                text,
                "  - name: {source}\n    url: '{}'\n    branch: main\n    pollInterval: {poll}\n    tokenFile: token\n    \
                 allowInsecureHttp: true\n    forge:\n      type: gitea\n      url: {}\n      tokenFile: token\n      \
                 allowInsecureHttp: true\n      webhookSecretFile: {source}-secret\n",
                gitea().repo_url(&of.name),
                gitea().url
            )
            .expect("a string");
        }
        write!(
            text,
            "members:\n  - name: '*'\n    directory: ./members/{{name}}\nstore: {{path: ./state}}\nhttp: {{listen: '127.0.0.1:{}'}}\n",
            world.port()
        )
        .expect("a string");
        fs::write(world.config(), text).expect("the configuration is written");
        Self { world, platform, shop, author, approver }
    }

    fn hook(&self) {
        let url = format!("http://127.0.0.1:{}/webhooks/gitea", self.world.port());
        let setup = |more: &[&str]| {
            let args = ["forge", "setup", "-c", "gitfleet.yaml", "--url", url.as_str()];
            let output = self.world.gitfleet(&[&args[..], more].concat());
            (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (done, said) = setup(&[]);
        assert!(!done && said.contains("--source platform or shop"), "{said}");
        for source in ["platform", "shop"] {
            let (done, said) = setup(&["--source", source]);
            assert!(done, "{said}");
        }
    }

    /// Returns which version of a namespace's settings each cluster holds.
    fn held(&self, namespace: &str) -> [String; 2] {
        ["a", "b"].map(|cluster| {
            let file = Path::new("members").join(cluster).join(format!("configmap..{namespace}.settings.yaml"));
            let text = fs::read_to_string(self.world.path().join(file)).unwrap_or_default();
            let value = text.lines().find_map(|line| line.trim().strip_prefix("value:"));
            value.unwrap_or_default().trim().trim_matches(['"', '\'']).to_owned()
        })
    }

    fn await_held(&self, daemon: &Daemon<'_>, namespace: &str, versions: [&str; 2]) {
        daemon.until(&format!("clusters hold {versions:?} of {namespace}"), || self.held(namespace) == versions);
    }

    /// Waits until the page of a placement leads to these places of a repository.
    fn await_links(&self, daemon: &Daemon<'_>, placement: &str, of: &Repository, places: &[String]) {
        let links: Vec<_> = places.iter().map(|place| format!("\"{}/{}/{place}\"", gitea().url, of.repo)).collect();
        daemon.until(&format!("the page of {placement} has the links {links:?}"), || {
            let path = format!("/placements/{placement}");
            let (_, page) = http("GET", self.world.port(), &path, &[], "").expect("the daemon answers");
            links.iter().all(|link| page.contains(link))
        });
    }

    /// Brings a change from its pull request to its end, with an approval there; the other repository is told nothing.
    fn roll(&self, daemon: &Daemon<'_>, of: &Repository, namespace: &str, other: (&Repository, &str)) -> String {
        let before = other.0.settled(daemon, other.1);
        let (pull, head) = of.change(&self.author, "change", "objects.yaml", &objects(namespace, "v2"));
        let plan = of.await_comment(daemon, pull, &["settings", "canary"]);
        assert!(plan.contains("v2"), "the own object is shown: {plan}");
        of.await_status(daemon, &head, &["gitfleet/plan success"]);
        let merged = of.merge(&self.author, pull);
        of.await_status(daemon, &merged, &["gitfleet pending", "waits at canary"]);
        of.await_comment(daemon, pull, &["/approve canary"]);
        self.await_held(daemon, namespace, ["v2", "v1"]);
        of.approve(daemon, &self.approver, pull);
        self.await_held(daemon, namespace, ["v2", "v2"]);
        of.await_status(daemon, &merged, &["gitfleet success", "1 done"]);
        self.await_links(daemon, namespace, of, &[format!("commit/{merged}"), format!("pulls/{pull}")]);
        assert_eq!(other.0.statuses(other.1), before, "the other repository has nothing to do with it");
        merged
    }

    fn scenario(&self) {
        let (platform, shop) = (&self.platform, &self.shop);
        fs::write(platform.folder.join("fleet.yaml"), fleet()).expect("the file is written");
        let first = platform.push("main", "objects.yaml", &objects("base", "v1"));
        shop.push("main", "objects.yaml", &objects("shop", "v1"));
        let daemon = self.world.start();
        // The first commit is of both repositories: nobody approves it by comment, because neither knows who made the other's.
        for namespace in ["base", "shop"] {
            self.await_held(&daemon, namespace, ["v1", ""]);
            let run = format!("{namespace}-0");
            daemon.until("the first version may continue", || {
                self.world.gitfleet(&["approve", &run, "canary", "-c", "gitfleet.yaml"]).status.success()
            });
            self.await_held(&daemon, namespace, ["v1", "v1"]);
        }
        platform.await_status(&daemon, &first, &["gitfleet success", "2 done"]);
        let of_shop = self.roll(&daemon, shop, "shop", (platform, &first));
        let of_platform = self.roll(&daemon, platform, "base", (shop, &of_shop));

        // A refused commit is told where it was made, and nowhere else.
        let before = platform.settled(&daemon, &of_platform);
        let (pull, head) = shop.change(&self.author, "broken", "broken.yaml", "kind: ConfigMap\nmetadata: {name: x}\n");
        shop.await_status(&daemon, &head, &["gitfleet/plan failure", "broken.yaml"]);
        let broken = shop.merge(&self.author, pull);
        shop.await_status(&daemon, &broken, &["gitfleet/plan failure", "not rolled out", "broken.yaml"]);
        assert_eq!(platform.statuses(&of_platform), before);
    }
}

#[test]
fn commits_of_two_repositories_are_told_and_approved_in_their_own_with_polling_only() {
    Two::new("joined-polling", "1s").scenario();
}

#[test]
fn commits_of_two_repositories_are_told_and_approved_in_their_own_with_webhooks() {
    let two = Two::new("joined-hooks", "1h");
    two.hook();
    two.scenario();
}
