//! A real Gitea: the contract that the fake keeps too, the webhook, and the commands that connect it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use forge::webhook::{Delivery, read, text_digest};
use forge::{Auth, Forge, Kind, Reach, Settings, connect};
use model::forge::{ForgeEvent, Pushed, Reaction, Said, ThreadNumber};
use model::id::CommitId;
use secrecy::SecretString;
use serde_json::{Value, json};
use tempfile::TempDir;
use testservers::program;

use crate::e2e::daemon::LIMIT;
use crate::e2e::fleet::{Gitea, http, until};
use crate::e2e::forge_contract::{Host, Outcome, Way, check};
use crate::e2e::shared;

/// The password of every account that is made here.
const PASSWORD: &str = "Pw-for-tests-1";

fn gitea() -> &'static Gitea {
    shared().gitea().expect("the fleet has a Gitea")
}

fn api(method: &str, path: &str, body: &Value) -> Value {
    gitea().api(method, path, Some(body)).unwrap()
}

/// Makes the accounts and the team once.
fn people() {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        for login in ["reader", "writer", "keeper", "outsider"] {
            let account = json!({
                "username": login, "email": format!("{login}@example.test"), "password": PASSWORD, "must_change_password": false
            });
            api("POST", "/admin/users", &account);
        }
        api("POST", "/orgs", &json!({"username": "crew"}));
        let team = json!({"name": "release", "permission": "read", "units": ["repo.code"]});
        let team = api("POST", "/orgs/crew/teams", &team);
        api("PUT", &format!("/teams/{}/members/writer", team["id"]), &Value::Null);
    });
}

/// Returns a token of an account with these scopes.
fn token(login: &str, scopes: &[&str]) -> String {
    let port = gitea().url.rsplit(':').next().unwrap().parse().unwrap();
    let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("{login}:{PASSWORD}")));
    let headers = [("Authorization", basic.as_str()), ("Content-Type", "application/json")];
    let wanted = json!({"name": scopes.join(" "), "scopes": scopes}).to_string();
    let (status, answer) = http("POST", port, &format!("/api/v1/users/{login}/tokens"), &headers, &wanted).unwrap();
    assert_eq!(status, 201, "{answer}");
    serde_json::from_str::<Value>(&answer).unwrap()["sha1"].as_str().unwrap().to_owned()
}

/// A repository with a first commit, in which people have what their names say.
struct Repository {
    path: String,
    name: &'static str,
    forge: Option<Arc<dyn Forge>>,
}

impl Repository {
    fn new(name: &'static str) -> Self {
        people();
        api("POST", "/user/repos", &json!({"name": name, "auto_init": true, "default_branch": "main"}));
        let path = format!("/repos/{}/{name}", gitea().user);
        for (login, permission) in [("reader", "read"), ("writer", "write"), ("keeper", "admin")] {
            api("PUT", &format!("{path}/collaborators/{login}"), &json!({"permission": permission}));
        }
        Self { path, name, forge: None }
    }

    /// Commits a new file.
    fn commit(&self, file: &str, branch: &str, new_branch: Option<&str>) {
        let mut body = json!({"content": BASE64_STANDARD.encode(file), "message": file, "branch": branch});
        if let Some(new_branch) = new_branch {
            body["new_branch"] = json!(new_branch);
        }
        api("POST", &format!("{}/contents/{file}", self.path), &body);
    }

    fn pull(&self, branch: &str, commits: usize) -> ThreadNumber {
        self.commit(&format!("{branch}-0"), "main", Some(branch));
        for number in 1..commits {
            self.commit(&format!("{branch}-{number}"), branch, None);
        }
        let pull = json!({"head": branch, "base": "main", "title": branch});
        api("POST", &format!("{}/pulls?sudo=writer", self.path), &pull)["number"].as_u64().unwrap()
    }
}

impl Host for Repository {
    fn forge(&self) -> &dyn Forge {
        self.forge.as_deref().unwrap()
    }

    fn open_pull(&self, branch: &str, commits: usize, moves_base: bool) -> Outcome<ThreadNumber> {
        let number = self.pull(branch, commits);
        if moves_base {
            self.commit(&format!("{branch}-meanwhile"), "main", None);
        }
        Ok(number)
    }

    fn merge(&self, number: ThreadNumber, way: Way) -> Outcome<CommitId> {
        let how = match way {
            Way::Merge => "merge",
            Way::Squash => "squash",
            Way::Rebase => "rebase",
            Way::RebaseMerge => "rebase-merge",
            Way::FastForward => "fast-forward-only",
        };
        let path = format!("{}/pulls/{number}", self.path);
        // Whether it can be merged is found out in the background.
        until("the merge", LIMIT, || Ok(gitea().api("POST", &format!("{path}/merge"), Some(&json!({"Do": how}))).ok()))
            .map_err(|error| format!("{way:?}: {error:#}"))?;
        until("the merge to be told", LIMIT, || Ok((gitea().api("GET", &path, None)?["merged"] == true).then_some(())))
            .map_err(|error| error.to_string())?;
        let branch = gitea().api("GET", &format!("{}/branches/main", self.path), None).map_err(|e| e.to_string())?;
        Ok(CommitId::from(branch["commit"]["id"].as_str().unwrap()))
    }

    fn say(&self, thread: ThreadNumber, body: &str) -> Outcome<u64> {
        let path = format!("{}/issues/{thread}/comments?sudo=writer", self.path);
        Ok(api("POST", &path, &json!({"body": body}))["id"].as_u64().unwrap())
    }

    fn edit(&self, id: u64, body: &str) -> Outcome {
        let path = format!("{}/issues/comments/{id}?sudo=keeper", self.path);
        gitea().api("PATCH", &path, Some(&json!({"body": body}))).map(drop).map_err(|error| error.to_string())
    }

    fn react(&self, comment: u64, reaction: Reaction) -> Outcome {
        let path = format!("{}/issues/comments/{comment}/reactions?sudo=writer", self.path);
        gitea().api("POST", &path, Some(&json!({"content": reaction}))).map(drop).map_err(|error| error.to_string())
    }

    fn approve(&self, number: ThreadNumber) -> Outcome {
        let path = format!("{}/pulls/{number}/reviews?sudo=keeper", self.path);
        gitea().api("POST", &path, Some(&json!({"event": "APPROVED"}))).map(drop).map_err(|error| error.to_string())
    }

    fn delete_comment(&self, id: u64) -> Outcome {
        let deleted = gitea().api("DELETE", &format!("{}/issues/comments/{id}", self.path), None);
        deleted.map(drop).map_err(|error| error.to_string())
    }
}

#[test]
fn gitea_keeps_the_contract() {
    let mut repository = Repository::new("contract");
    let settings = Settings {
        kind: Kind::Gitea,
        url: Some(gitea().url.clone()),
        owner: gitea().user.clone(),
        name: repository.name.to_owned(),
        auth: Auth::Token(SecretString::from(gitea().token.clone())),
        reach: Reach::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        repository.forge = Some(connect(&settings, None).unwrap());
        check(&repository).await.unwrap();
    });
}

/// A delivery as it came: its head and its body.
type Delivered = (String, Vec<u8>);

/// Takes deliveries on a port of its own until the test ends.
struct Listener {
    url: String,
    taken: Arc<Mutex<Vec<Delivered>>>,
}

impl Listener {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}/webhooks/gitea", listener.local_addr().unwrap());
        let taken = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&taken);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut bytes = Vec::new();
                let (mut part, mut whole) = ([0; 4096], None);
                while whole.is_none() {
                    let count = stream.read(&mut part).unwrap();
                    bytes.extend_from_slice(&part[..count]);
                    whole = taken_apart(&bytes);
                    if count == 0 {
                        break;
                    }
                }
                keeps.lock().unwrap().extend(whole);
                stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
            }
        });
        Self { url, taken }
    }

    /// Returns the hints of all deliveries so far.
    fn hints(&self, secret: &SecretString) -> Vec<ForgeEvent> {
        let taken = self.taken.lock().unwrap();
        let read = taken.iter().filter_map(|(head, body)| {
            let header = |name: &str| {
                let lines = head.lines().filter_map(|line| line.split_once(": "));
                lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
            };
            read(Kind::Gitea, std::slice::from_ref(secret), None, Delivery { header: &header, body }).unwrap()
        });
        read.collect()
    }
}

/// Returns head and body as soon as all of it is there.
fn taken_apart(bytes: &[u8]) -> Option<Delivered> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length: usize =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok())?;
    let body = &bytes[end + 4..];
    (body.len() >= length).then(|| (head, body.to_vec()))
}

/// Writes a configuration for a repository, with a token of its own.
fn configure(folder: &Path, repository: &Repository, token: &str, more: &str) {
    fs::write(folder.join("token"), token).unwrap();
    let (url, user, name) = (&gitea().url, &gitea().user, repository.name);
    let text = format!(
        "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: '{url}/{user}/{name}.git'}}\nforge: {{type: gitea, \
         url: '{url}', tokenFile: token, allowInsecureHttp: true{more}}}\n"
    );
    fs::write(folder.join("gitfleet.yaml"), text).unwrap();
}

fn gitfleet(folder: &Path, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(program());
    command.args(args).args(["-c", "gitfleet.yaml"]).env("NO_COLOR", "1").current_dir(folder);
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    (status.code().unwrap(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

#[test]
fn setup_makes_a_webhook_that_brings_comments_on_pull_requests() {
    let repository = Repository::new("hooked");
    let folder = TempDir::new().unwrap();
    configure(folder.path(), &repository, &gitea().token, ", webhookSecretFile: secret");
    let (ours, narrow) = (Listener::start(), Listener::start());
    let hooks = || gitea().api("GET", &format!("{}/hooks", repository.path), None).unwrap();

    let (code, said) = gitfleet(folder.path(), &["forge", "check"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("webhook") && said.contains("there is none"), "{said}");
    let (code, said) = gitfleet(folder.path(), &["forge", "setup", "--url", &ours.url, "--dry-run"]);
    assert_eq!((code, hooks()), (0, json!([])), "{said}");
    assert!(!folder.path().join("secret").exists(), "{said}");
    let (code, said) = gitfleet(folder.path(), &["forge", "setup", "--url", "http://127.0.0.1/elsewhere"]);
    assert!(code == 2 && said.contains("/webhooks/gitea"), "{said}");

    let (code, said) = gitfleet(folder.path(), &["forge", "setup", "--url", &ours.url]);
    assert!(code == 0 && said.contains("created"), "{said}");
    let mode = fs::metadata(folder.path().join("secret")).unwrap().permissions().mode();
    let text = fs::read_to_string(folder.path().join("secret")).unwrap();
    assert_eq!((mode & 0o777, text.trim().len()), (0o600, 64));
    assert!(!said.contains(text.trim()), "the secret is not told");
    let (code, said) = gitfleet(folder.path(), &["forge", "check"]);
    assert_eq!(code, 0, "{said}");

    // Somebody breaks it; it is repaired, not doubled.
    let id = hooks()[0]["id"].as_u64().unwrap();
    api("PATCH", &format!("{}/hooks/{id}", repository.path), &json!({"active": false, "events": ["push"]}));
    let (code, said) = gitfleet(folder.path(), &["forge", "check"]);
    assert!(code == 1 && said.contains("not active") && said.contains("pull_request_comment"), "{said}");
    let (code, said) = gitfleet(folder.path(), &["forge", "setup", "--url", &ours.url]);
    assert!(code == 0 && said.contains("repaired"), "{said}");
    assert_eq!(hooks().as_array().unwrap().len(), 1);

    let config = json!({"url": narrow.url, "content_type": "json", "secret": text.trim()});
    let hook = json!({"type": "gitea", "active": true, "events": ["issue_comment"], "config": config});
    api("POST", &format!("{}/hooks", repository.path), &hook);
    let number = repository.pull("topic", 1);
    let on_pull = repository.say(number, "/approve canary").unwrap();
    let issue = api("POST", &format!("{}/issues", repository.path), &json!({"title": "t"}))["number"].as_u64().unwrap();
    let on_issue = repository.say(issue, "hello").unwrap();
    let secret = SecretString::from(text.trim());
    let id_of = |login: &str| gitea().api("GET", &format!("/users/{login}"), None).unwrap()["id"].as_u64().unwrap();
    let said = |text: &str| Some(Said { author: id_of("writer"), body: text_digest(text) });
    let on_pull = ForgeEvent::Comment { thread: number, id: on_pull, said: said("/approve canary") };
    let on_issue = ForgeEvent::Comment { thread: issue, id: on_issue, said: said("hello") };
    until("the deliveries", LIMIT, || {
        let (all, few) = (ours.hints(&secret), narrow.hints(&secret));
        let both = [&on_pull, &on_issue].iter().all(|hint| all.contains(hint));
        let is_opened = |hint: &ForgeEvent| matches!(hint, ForgeEvent::PullRequest { number: n, .. } if *n == number);
        Ok((both && all.iter().any(is_opened) && !few.is_empty()).then_some(()))
    })
    .unwrap();
    assert_eq!(narrow.hints(&secret), [on_issue], "`issue_comment` alone leaves pull requests out");

    // Who pushes is told, of a branch and of a pull request.
    let before = ours.hints(&secret).len();
    let content = json!({"content": BASE64_STANDARD.encode("more"), "message": "more", "branch": "topic"});
    let answer = api("POST", &format!("{}/contents/more?sudo=keeper", repository.path), &content);
    let commit = CommitId::from(answer["commit"]["sha"].as_str().unwrap());
    let keeper = id_of("keeper");
    until("the deliveries of a push", LIMIT, || {
        let later = ours.hints(&secret).split_off(before);
        let by_keeper = |pushed: &Option<Pushed>| {
            pushed.as_ref().is_some_and(|pushed| pushed.by.id == keeper && pushed.commit == commit)
        };
        let to_branch = later.iter().any(|hint| matches!(hint, ForgeEvent::Push { pushed, .. } if by_keeper(pushed)));
        let to_pull =
            later.iter().any(|hint| matches!(hint, ForgeEvent::PullRequest { pushed, .. } if by_keeper(pushed)));
        Ok((to_branch && to_pull).then_some(()))
    })
    .unwrap();
}

#[test]
fn check_names_the_scope_and_the_right_that_are_missing() {
    let repository = Repository::new("checked");
    let folder = TempDir::new().unwrap();
    let narrow = token("writer", &["read:user", "write:repository"]);
    configure(folder.path(), &repository, &narrow, ", approvals: {approvers: ['user:ann']}");
    let (code, said) = gitfleet(folder.path(), &["forge", "check"]);
    assert!(code == 1 && said.contains("write:issue") && said.contains("of writer"), "{said}");
    assert!(said.contains("the approvers are named"), "{said}");

    let whole = token("writer", &["read:user", "write:repository", "write:issue"]);
    configure(folder.path(), &repository, &whole, "");
    let (code, said) = gitfleet(folder.path(), &["forge", "check"]);
    assert!(code == 1 && said.contains("only to administrators of the repository"), "{said}");
    configure(folder.path(), &repository, &whole, ", approvals: {approvers: ['user:ann']}");
    let (code, said) = gitfleet(folder.path(), &["forge", "check"]);
    assert_eq!(code, 0, "{said}");

    let reading = token("reader", &["read:user", "write:repository", "write:issue"]);
    configure(folder.path(), &repository, &reading, "");
    let (code, said) = gitfleet(folder.path(), &["forge", "check"]);
    let statuses = said.lines().find(|line| line.starts_with("statuses")).unwrap();
    assert!(code == 1 && statuses.contains("missing"), "{said}");
    configure(folder.path(), &repository, &"0".repeat(40), "");
    let (code, said) = gitfleet(folder.path(), &["forge", "check"]);
    assert!(code == 1 && said.contains("not accepted"), "{said}");
    assert!(!said.contains(&"0".repeat(40)), "the token is not told: {said}");
}
