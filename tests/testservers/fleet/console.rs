//! The setup to click through: a fleet in three stages, a repository on Gitea, people, and the daemon's configuration.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    Fleet,
    git::{commit_all, git},
    people::{Account, BOT_SCOPES, PERSON_SCOPES},
    wait::{free_port, secret},
};
use crate::repository;

/// The clusters of `examples-repo` that are real here: one for each stage of its strategy.
pub const CLUSTERS: [&str; 3] = ["dev-eu", "staging-eu", "prod-eu-1"];

/// Owner and name of the repository on Gitea.
const ORGANISATION: &str = "platform";
const REPOSITORY: &str = "fleet";

/// Who has an account, and what each may do with the repository, which everybody may read.
const PEOPLE: [(&str, Option<&str>); 3] = [("author", Some("write")), ("approver", Some("write")), ("stranger", None)];

/// The daemon's account: asking what others may needs an administrator of the repository.
const BOT: &str = "gitfleet";

/// A prepared setup.
#[derive(Debug)]
pub struct Console {
    /// Full name of the repository.
    pub repo: String,
    /// Work tree of the author.
    pub work_tree: PathBuf,
    /// The daemon's configuration.
    pub config: PathBuf,
    /// Where the daemon will listen on 127.0.0.1.
    pub port: u16,
    /// Accounts with a token of each, people first, the daemon's last.
    pub accounts: Vec<(Account, String)>,
    /// What the Gitea signs deliveries of webhooks with.
    pub webhook_secret: String,
}

impl Console {
    /// Fills the Gitea of a fleet and writes the daemon's configuration into the fleet's folder. Its members must be `CLUSTERS`.
    ///
    /// # Errors
    /// When Gitea or git refuse, or a file cannot be written.
    pub fn prepare(fleet: &Fleet) -> Result<Self> {
        let gitea = fleet.gitea()?;
        gitea.organisation(ORGANISATION)?;
        let repo = gitea.organisation_repo(ORGANISATION, REPOSITORY)?;
        let mut accounts = Vec::new();
        for (name, permission) in PEOPLE.into_iter().chain([(BOT, Some("admin"))]) {
            let account = gitea.user(name)?;
            if let Some(permission) = permission {
                gitea.collaborator(&repo, name, permission)?;
            }
            let token = gitea.token(&account, if name == BOT { BOT_SCOPES } else { PERSON_SCOPES })?;
            accounts.push((account, token));
        }
        let folder = fleet.folder();
        let work_tree = folder.join("work-tree");
        copy_example(&work_tree)?;
        commit_all(&work_tree, "The example fleet")?;
        gitea.push_as(&work_tree, &repo, "main", &gitea.user, &gitea.token)?;
        let author = &accounts[0];
        git(&work_tree, &["remote", "add", "origin", &gitea.address_for(&repo, &author.0.name, &author.1)])?;
        git(&work_tree, &["config", "user.name", &author.0.name])?;
        git(&work_tree, &["config", "user.email", &format!("{}@example.test", author.0.name)])?;
        let console = Self {
            repo,
            work_tree,
            config: folder.join("gitfleet.yaml"),
            port: free_port()?,
            accounts,
            webhook_secret: secret(),
        };
        console.write(folder, &gitea.url)?;
        Ok(console)
    }

    fn write(&self, folder: &Path, url: &str) -> Result<()> {
        let secrets = folder.join("secrets");
        fs::create_dir_all(&secrets).context("a folder for the tokens")?;
        for (account, token) in &self.accounts {
            keep(&secrets.join(format!("{}-token", account.name)), token)?;
        }
        keep(&secrets.join("webhook-secret"), &self.webhook_secret)?;
        let own = format!(
            "members:
  - name: \"*\"
    kubeconfig: {{path: \"./{{name}}.kubeconfig\"}}
store: {{path: ./state}}
http: {{listen: \"127.0.0.1:{}\"}}
",
            self.port
        );
        self.write_configuration(&self.config, url, &own)
    }

    /// Writes a daemon's configuration: the repository and the Gitea at `url`, and the other sections as they are in `own`.
    pub(super) fn write_configuration(&self, path: &Path, url: &str, own: &str) -> Result<()> {
        let repo = &self.repo;
        let text = format!(
            "# The daemon of the test fleet. Paths are relative to this file.
apiVersion: gitfleet.io/v1alpha1
kind: Configuration
source:
  url: {url}/{repo}.git
  branch: main
  pollInterval: 5s
  tokenFile: ./secrets/{BOT}-token
  # Everything is on this machine.
  allowInsecureHttp: true
forge:
  type: gitea
  url: {url}
  repository: {repo}
  tokenFile: ./secrets/{BOT}-token
  allowInsecureHttp: true
  webhookSecretFile: ./secrets/webhook-secret
{own}"
        );
        fs::write(path, text).with_context(|| format!("write {}", path.display()))
    }

    /// Returns what `State` keeps of it.
    pub fn state(&self) -> Value {
        let people: Vec<Value> = self
            .accounts
            .iter()
            .map(|(account, _)| json!({ "name": account.name, "password": account.password }))
            .collect();
        json!({
            "repo": self.repo,
            "workTree": self.work_tree,
            "config": self.config,
            "daemon": format!("http://127.0.0.1:{}", self.port),
            "people": people,
        })
    }
}

/// Describes a setup that was kept and, where a person is to start the daemon, what to do next.
pub(super) fn describe(console: &Value, gitea: &str, starts_daemon: bool) -> String {
    let text = |key: &str| console[key].as_str().unwrap_or_default();
    let [repo, config, work_tree] = ["repo", "config", "workTree"].map(text);
    let mut lines = vec![String::new(), format!("repository   {gitea}/{repo}   log in as:")];
    for person in console["people"].as_array().into_iter().flatten() {
        let [name, password] = ["name", "password"].map(|key| person[key].as_str().unwrap_or_default());
        let may = match name {
            "author" => "may push; opens pull requests",
            "approver" => "may push; says yes at gates",
            "stranger" => "may read and comment",
            _ => "the daemon's account",
        };
        lines.push(format!("  {name:<10} {password}  {may}"));
    }
    lines.push(format!("work tree    {work_tree}   pushes as author"));
    if !starts_daemon {
        return lines.join("\n");
    }
    lines.extend([
        format!("daemon       {}   configured by {config}", text("daemon")),
        String::new(),
        "Next (docs/tutorial.md continues from here):".to_owned(),
        format!("  cargo run -- run -c {config}"),
        format!("  cargo run -- forge check -c {config}"),
        "  # a webhook; without it news are found by asking:".to_owned(),
        format!("  cargo run -- forge setup -c {config} --url {}/webhooks/gitea", text("daemon")),
    ]);
    lines.join("\n")
}

/// Writes a secret that only this user can read.
pub(super) fn keep(path: &Path, text: &str) -> Result<()> {
    let what = || format!("write {}", path.display());
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).with_context(what)?;
    file.write_all(text.as_bytes()).with_context(what)
}

/// Copies the manifests of `examples-repo`, with the clusters that are real here only.
fn copy_example(target: &Path) -> Result<()> {
    let source = repository().join("examples-repo");
    for part in ["apps", "clusters", "placements", "platform", "strategies"] {
        let folder = target.join(part);
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        for entry in fs::read_dir(source.join(part)).with_context(|| format!("read {part} of the example"))? {
            let path = entry?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let name = path.file_name().context("a file without a name")?;
            if part != "clusters" || CLUSTERS.contains(&stem.as_str()) {
                fs::copy(&path, folder.join(name)).with_context(|| format!("copy {}", path.display()))?;
            }
        }
    }
    Ok(())
}
