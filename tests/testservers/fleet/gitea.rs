//! A Gitea with one administrator, an empty database and webhooks to this machine allowed.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    binaries::Binaries,
    git::{git, push},
    process::{Process, Spec},
    servers::READY,
    wait::{free_port, http, secret, until},
};

/// Name of the administrator.
const USER: &str = "fleet";

/// A Gitea server; dropping it ends it.
#[derive(Debug)]
pub struct Gitea {
    /// Address without a slash at the end.
    pub url: String,
    /// The administrator.
    pub user: String,
    /// The administrator's password.
    pub password: String,
    /// Token of the administrator with every scope.
    pub token: String,
    pub(super) port: u16,
    /// Nothing where somebody else started it.
    server: Option<Process>,
}

impl Gitea {
    /// Starts a Gitea in `folder`, creates the administrator and does not wait until it serves.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let (port, password) = (free_port()?, secret());
        let own = folder.join("gitea");
        fs::create_dir_all(&own).context("create the folder of Gitea")?;
        let config = own.join("app.ini");
        let (program, files) = Binaries::gitea()?;
        fs::write(&config, settings(&own, &files, port, &os_user()?)).context("write the settings of Gitea")?;
        let spec = |name: &str| Spec::new(name, &program, folder).arg("--config").arg(config.display().to_string());
        spec("gitea-migrate").arg("migrate").run()?;
        let create = spec("gitea-user").arg("admin").arg("user").arg("create").arg("--admin");
        let create = create.flag("username", USER).flag("password", &password).flag("email", "fleet@example.test");
        let create = create.arg("--access-token").flag("access-token-scopes", "all");
        create.run()?;
        let log = fs::read_to_string(create.log()).context("read what Gitea said about the new user")?;
        let is_token = |word: &&str| word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let token = log.split_whitespace().find(is_token).with_context(|| create.tail())?.to_owned();
        let server = Some(spec("gitea").arg("web").spawn()?);
        Ok(Self { url: format!("http://127.0.0.1:{port}"), user: USER.to_owned(), password, token, port, server })
    }

    /// Returns a Gitea that runs; nothing where its address has no port.
    pub(super) fn running(url: String, user: String, password: String, token: String) -> Option<Self> {
        let port = url.rsplit(':').next()?.parse().ok()?;
        Some(Self { url, user, password, token, port, server: None })
    }

    pub(super) fn server(&self) -> Option<&Process> {
        self.server.as_ref()
    }

    /// Waits until it serves.
    ///
    /// # Errors
    /// When it ended, or does not serve in time.
    pub fn await_ready(&self) -> Result<()> {
        let look = || Ok(http("GET", self.port, "/api/v1/version", &[], "").ok().filter(|(status, _)| *status == 200));
        match &self.server {
            Some(server) => server.until("Gitea to serve", READY, look).map(drop),
            None => until("Gitea to serve", READY, look).map(drop),
        }
    }

    /// Asks the API as the administrator: `path` follows `/api/v1`. An empty answer is `null`.
    ///
    /// # Errors
    /// When Gitea cannot be asked or answers with anything but success.
    pub fn api(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        self.api_as(&self.token, method, path, body)
    }

    /// Creates an empty repository of the administrator and returns its address with credentials in it.
    ///
    /// # Errors
    /// When Gitea refuses, for example because the name is taken.
    pub fn create_repo(&self, name: &str) -> Result<String> {
        let wanted = json!({ "name": name, "default_branch": "main", "auto_init": false });
        self.api("POST", "/user/repos", Some(&wanted))?;
        let Self { user, token, port, .. } = self;
        Ok(format!("http://{user}:{token}@127.0.0.1:{port}/{user}/{name}.git"))
    }

    /// Pushes the current commit of the work tree `folder` to a branch, waits until Gitea has taken note of it, and
    /// returns its id. A plain `push` is not enough where the API comes next: Gitea registers pushes in a queue of its
    /// own, and until the first one is through, it takes the repository for empty and fails in some calls.
    ///
    /// # Errors
    /// When git does not succeed, or Gitea does not show the commit in time.
    pub fn push(&self, folder: &Path, repo: &str, branch: &str) -> Result<String> {
        let Self { user, token, .. } = self;
        self.push_as(folder, &format!("{user}/{repo}"), branch, user, token)
    }

    /// The same as another user, to any repository (`OWNER/NAME`).
    ///
    /// # Errors
    /// As `push`.
    pub fn push_as(&self, folder: &Path, repo: &str, branch: &str, user: &str, token: &str) -> Result<String> {
        push(folder, &self.address_for(repo, user, token), branch)?;
        let commit = git(folder, &["rev-parse", "HEAD"])?;
        let path = format!("/repos/{repo}");
        until(&format!("Gitea to show {commit} in {repo}"), READY, || {
            if self.api("GET", &path, None)?["empty"] != false {
                return Ok(None);
            }
            let found = self.api("GET", &format!("{path}/branches/{branch}"), None).ok();
            Ok(found.filter(|found| found["commit"]["id"] == commit.as_str()))
        })?;
        Ok(commit)
    }

    /// Returns the address of a repository of the administrator, without credentials.
    pub fn repo_url(&self, name: &str) -> String {
        format!("{}/{}/{name}.git", self.url, self.user)
    }

    /// Ends the server at once; its data stay.
    pub fn stop(&self) {
        self.server.iter().for_each(Process::stop);
    }

    /// Starts the server again, on the same port and with the same data, and waits until it serves.
    ///
    /// # Errors
    /// When it does not start, or not in time.
    pub fn restart(&self) -> Result<()> {
        if let Some(server) = &self.server {
            server.stop();
            server.start()?;
        }
        self.await_ready()
    }
}

/// Gitea insists on being run by the user of its settings.
fn os_user() -> Result<String> {
    let output = Command::new("id").arg("-un").output().context("run id")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The file must stay writable: Gitea adds secrets of its own to it.
fn settings(own: &Path, files: &Path, port: u16, os_user: &str) -> String {
    let (own, files, key) = (own.display(), files.display(), secret());
    let root = os_user == "root";
    format!(
        "I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = {root}
RUN_MODE = prod
RUN_USER = {os_user}
WORK_PATH = {own}
[server]
STATIC_ROOT_PATH = {files}
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = http://127.0.0.1:{port}/
DISABLE_SSH = true
OFFLINE_MODE = true
LFS_START_SERVER = false
[database]
DB_TYPE = sqlite3
PATH = {own}/gitea.db
[repository]
ROOT = {own}/repositories
[security]
INSTALL_LOCK = true
SECRET_KEY = {key}
[webhook]
ALLOWED_HOST_LIST = loopback
DELIVER_TIMEOUT = 5
[service]
DISABLE_REGISTRATION = true
[actions]
ENABLED = false
[cron]
ENABLED = false
[log]
LEVEL = Warn
"
    )
}
