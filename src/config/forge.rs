//! The section of the file about the git host: its address, our account, and the approvers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

use super::source::proxy_problem;
use super::tenants::{folder, is_folder};
use super::values::{DURATION_FORMAT, duration};
use super::{Error, complaint, invalid, read_text};
use model::approvers::ApproversByPath;
use model::manifest::InputError;

/// Approvals a gate needs.
pub const APPROVALS_REQUIRED_DEFAULT: u32 = 1;
/// How long an approval counts.
pub const APPROVAL_EXPIRES_DEFAULT: Duration = Duration::from_hours(72);
/// Webhook secrets that count at a time: the new one, and the one whose place it takes.
pub const WEBHOOK_SECRETS_MAX: usize = 2;
/// Where GitHub is, unless it is somebody's own.
const GITHUB_HOST: &str = "github.com";
/// The field of the repository.
const REPOSITORY: &str = "forge.repository";

/// The git host.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Forge {
    /// What it is.
    #[serde(rename = "type")]
    pub type_: ForgeType,
    /// Where it is; may be absent for github.com.
    #[serde(default)]
    pub url: Option<String>,
    /// The repository there, as `OWNER/NAME`; absent: what follows the host in the source's URL.
    #[serde(default)]
    pub repository: Option<String>,
    /// File with the token to write statuses and comments with; absent where `app` is given.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// The GitHub App to act as, instead of a token.
    #[serde(default)]
    pub app: Option<App>,
    /// Lets the token travel over plain `http://`.
    #[serde(default)]
    pub allow_insecure_http: bool,
    /// File with certificates of authorities, as PEM, that its certificate may come from, beside those that the system trusts. Gitea only.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The proxy that carries requests to it, such as `http://proxy.example:3128`, without an account. Gitea only. Absent: what the
    /// field `proxy` beside `forge` says.
    #[serde(default)]
    pub proxy: Option<String>,
    /// File with the secret that webhooks are signed with; absent: webhooks are refused. A second line is a second secret,
    /// for the time in which one takes the other's place.
    #[serde(default)]
    pub webhook_secret_file: Option<PathBuf>,
    /// Who may approve.
    #[serde(default)]
    pub approvals: Approvals,
    /// What the bot writes on pull requests.
    #[serde(default)]
    pub plans: Plans,
    /// Which commit statuses a rollout has.
    #[serde(default)]
    pub statuses: Statuses,
    /// When a new comment is written, beside the one that is edited.
    #[serde(default = "notify_default")]
    pub notify: Vec<Notify>,
    /// Whether `/approve` is a command; `/gitfleet approve` always is. For repositories where another bot uses that word.
    #[serde(default = "yes")]
    pub short_commands: bool,
}

/// A GitHub App.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct App {
    /// Its id, a number.
    pub id: u64,
    /// File with its private key, as PEM.
    pub private_key_file: PathBuf,
}

/// What the bot writes on pull requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Plans {
    /// Whether pull requests from forks get a plan: a stranger's files are read then.
    pub forks: bool,
    /// How much of a change is shown.
    pub content: PlanContent,
}

/// How much of a change a plan shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PlanContent {
    /// What changes, with the differences of each object; secrets are masked.
    #[default]
    Diff,
    /// The names of what changes.
    Summary,
}

/// The commit statuses of a rollout, fewest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Statuses {
    /// `gitfleet` only, which counts all placements of the commit.
    Summary,
    /// Also `gitfleet/PLACEMENT`, for at most 12 placements that are not done at once.
    #[default]
    Placements,
    /// Also `gitfleet/PLACEMENT/STAGE`, for each stage that has begun.
    Stages,
}

/// A reason to write a new comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Notify {
    /// A gate waits for a person.
    Approval,
    /// A rollout halted.
    Failure,
}

/// The kinds of git hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ForgeType {
    /// Gitea, and Forgejo.
    Gitea,
    /// GitHub.
    Github,
}

/// Who may approve. Annotations in git can only narrow this.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Approvals {
    /// The permission on the repository that an approver needs.
    pub min_permission: Permission,
    /// How many people must approve, at least 1.
    #[schemars(range(min = 1))]
    pub required: u32,
    /// Whether somebody who had a part in a change may approve it.
    pub self_approval: bool,
    /// What counts as a part in a change, where `selfApproval` is false.
    pub parts: Vec<Part>,
    /// Who may approve, reject and roll back, whatever their permission: `user:NAME`, `team:ORG/NAME`. Without any, whoever has
    /// `minPermission`.
    pub approvers: Vec<String>,
    /// The same for the placements of single folders, instead of `approvers`. Of several folders around a file, those of tenants
    /// included, the deepest counts.
    pub paths: Vec<ApproversOfPath>,
    /// Whether the file CODEOWNERS of the accepted commit names who may approve: the owners of the file that holds a placement, as far as
    /// they have `minPermission`. Whoever may push can change that file. Where it names nobody the other fields decide.
    pub code_owners: bool,
    /// How long an approval counts.
    #[serde(with = "duration")]
    #[schemars(with = "String", extend("format" = DURATION_FORMAT))]
    pub expire_after: Duration,
}

/// Who may approve rollouts of the placements of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApproversOfPath {
    /// The folder, relative to `source.path`.
    pub path: String,
    /// Who may approve: `user:NAME`, `team:ORG/NAME`.
    pub approvers: Vec<String>,
}

impl Approvals {
    /// Returns who may approve by the file of a placement.
    pub(super) fn by_path(&self) -> ApproversByPath {
        let folders = self.paths.iter().map(|entry| (folder(&entry.path), entry.approvers.clone()));
        ApproversByPath::new(folders.collect(), self.code_owners)
    }

    fn problems(&self, errors: &mut Vec<InputError>) {
        const FIELD: &str = "forge.approvals";
        let mut check = |field: &str, approvers: &[String]| {
            for (position, approver) in approvers.iter().enumerate().filter(|(_, approver)| !is_approver(approver)) {
                let message = format!("{approver:?} must be user:NAME or team:ORG/NAME");
                errors.push(complaint(&format!("{FIELD}.{field}[{position}]"), message));
            }
        };
        check("approvers", &self.approvers);
        for (position, entry) in self.paths.iter().enumerate() {
            check(&format!("paths[{position}].approvers"), &entry.approvers);
        }
        let mut folders = BTreeSet::new();
        for (position, entry) in self.paths.iter().enumerate() {
            let field = format!("{FIELD}.paths[{position}]");
            if !is_folder(&entry.path) {
                let message = format!("{:?} must be a folder below `source.path`, without `..`", entry.path);
                errors.push(complaint(&format!("{field}.path"), message));
            }
            if !folders.insert(folder(&entry.path)) {
                errors.push(complaint(&format!("{field}.path"), format!("{:?} is there twice", entry.path)));
            }
            if entry.approvers.is_empty() {
                errors.push(complaint(&format!("{field}.approvers"), "is empty; name somebody, or remove the entry"));
            }
        }
    }

    /// Says who may approve by comment where a strategy does not say, for people.
    pub fn who(&self) -> String {
        if self.approvers.is_empty() {
            format!("whoever has the permission {}", self.min_permission.as_str())
        } else {
            self.approvers.join(", ")
        }
    }
}

impl Default for Approvals {
    fn default() -> Self {
        Self {
            min_permission: Permission::default(),
            required: APPROVALS_REQUIRED_DEFAULT,
            self_approval: false,
            parts: vec![Part::Opened, Part::Authored, Part::Pushed, Part::Merged],
            approvers: Vec::new(),
            paths: Vec::new(),
            code_owners: false,
            expire_after: APPROVAL_EXPIRES_DEFAULT,
        }
    }
}

/// What somebody may have had to do with a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// Opened the pull request.
    Opened,
    /// Is author or committer of one of its commits, as the host maps addresses to accounts.
    Authored,
    /// Pushed one of its commits, as far as the host tells.
    Pushed,
    /// Merged it.
    Merged,
}

impl From<Part> for model::forge::Part {
    fn from(part: Part) -> Self {
        match part {
            Part::Opened => Self::Opened,
            Part::Authored => Self::Authored,
            Part::Pushed => Self::Pushed,
            Part::Merged => Self::Merged,
        }
    }
}

/// A permission on a repository, weakest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Permission {
    /// May read.
    Read,
    /// May push.
    #[default]
    Write,
    /// May change settings.
    Admin,
}

impl Permission {
    /// Returns its name, as the file has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl From<Permission> for model::forge::Permission {
    fn from(permission: Permission) -> Self {
        match permission {
            Permission::Read => Self::Read,
            Permission::Write => Self::Write,
            Permission::Admin => Self::Admin,
        }
    }
}

impl Forge {
    /// Returns owner and name of the repository. The check of the file made sure that there are both.
    pub fn owner_and_name(&self) -> (&str, &str) {
        self.repository.as_deref().and_then(|repository| repository.split_once('/')).unwrap_or_default()
    }

    /// Returns where the host shows the repository, without a slash at the end.
    pub fn web_url(&self) -> String {
        let host = self.url.clone().unwrap_or_else(|| format!("https://{GITHUB_HOST}"));
        format!("{}/{}", host.trim_end_matches('/'), self.repository.as_deref().unwrap_or_default())
    }

    /// Returns the paths that it names, to be made whole.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let app = self.app.iter_mut().map(|app| &mut app.private_key_file);
        self.token_file.iter_mut().chain(&mut self.ca_file).chain(app).chain(&mut self.webhook_secret_file)
    }

    /// Tells whether another is on the same host.
    pub(super) fn is_same_host(&self, other: &Self) -> bool {
        self.type_ == other.type_ && self.host() == other.host()
    }

    /// Returns the address of the host in a form that can be compared; `None` for GitHub's own.
    fn host(&self) -> Option<String> {
        self.url.as_deref().map(|url| url.trim_end_matches('/').to_ascii_lowercase())
    }

    /// Tells whether another is the same repository of the same host.
    pub(super) fn is_same_repository(&self, other: &Self) -> bool {
        let (Some(own), Some(others)) = (&self.repository, &other.repository) else { return false };
        self.is_same_host(other) && own.eq_ignore_ascii_case(others)
    }

    /// Takes the repository from the source's URL, where that is on this host and the file names none.
    pub(super) fn derive_repository(&mut self, source: &str) {
        if self.repository.is_none() {
            self.repository = self.repository_of(source);
        }
    }

    fn repository_of(&self, source: &str) -> Option<String> {
        let (host, path) = host_and_path(source)?;
        let (own_host, own_path) = match &self.url {
            Some(url) => host_and_path(url)?,
            None => (GITHUB_HOST, ""),
        };
        if !host.eq_ignore_ascii_case(own_host) {
            return None;
        }
        let path = path.trim_matches('/');
        // Over ssh, a host below a path has its repositories at the top.
        let path = path.strip_prefix(own_path.trim_matches('/')).unwrap_or(path).trim_matches('/');
        let repository = path.strip_suffix(".git").unwrap_or(path);
        is_repository(repository).then(|| repository.to_owned())
    }

    /// Returns what the schema cannot say.
    pub(super) fn problems(&self, errors: &mut Vec<InputError>) {
        self.url_problems(errors);
        self.account_problems(errors);
        self.way_problems(errors);
        match &self.repository {
            Some(repository) if !is_repository(repository) => {
                let message = format!("{repository:?} must be OWNER/NAME, such as \"platform/fleet\"");
                errors.push(complaint(REPOSITORY, message));
            }
            None => {
                let host = self.url.as_deref().unwrap_or(GITHUB_HOST);
                let message = format!("is missing, and source.url names no repository of {host}");
                let hint = Some("write repository: OWNER/NAME".into());
                errors.push(InputError { hint, ..complaint(REPOSITORY, message) });
            }
            Some(_) => {}
        }
        self.approvals.problems(errors);
    }

    fn url_problems(&self, errors: &mut Vec<InputError>) {
        const FIELD: &str = "forge.url";
        let Some(url) = &self.url else {
            if self.type_ == ForgeType::Gitea {
                errors.push(complaint(FIELD, "is missing; a gitea is at no address of its own"));
            }
            return;
        };
        let after_scheme = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        match after_scheme.map(|rest| rest.split('/').next().unwrap_or_default()) {
            None | Some("") => {
                errors.push(complaint(FIELD, format!("{url:?} must be an address such as https://git.example")));
            }
            // Without the URL: it holds a password.
            Some(authority) if authority.contains('@') => {
                errors
                    .push(complaint(FIELD, "names an account; put its token into a file and name that as `tokenFile`"));
            }
            Some(_) if url.contains(['?', '#']) => {
                errors.push(complaint(FIELD, format!("{url:?} must end with the host or a path")));
            }
            Some(_) if url.starts_with("http://") && !self.allow_insecure_http => {
                let hint = Some("use https, or say allowInsecureHttp: true".into());
                errors.push(InputError { hint, ..complaint(FIELD, "would send the token over plain http") });
            }
            Some(_) => {}
        }
    }

    fn way_problems(&self, errors: &mut Vec<InputError>) {
        for (field, is_given) in [("forge.caFile", self.ca_file.is_some()), ("forge.proxy", self.proxy.is_some())] {
            if is_given && self.type_ == ForgeType::Github {
                errors.push(complaint(field, "is for gitea only"));
            }
        }
        if let Some(problem) = self.proxy.as_deref().and_then(proxy_problem) {
            errors.push(complaint("forge.proxy", problem));
        }
    }

    fn account_problems(&self, errors: &mut Vec<InputError>) {
        match (&self.token_file, &self.app) {
            (None, None) => {
                errors.push(complaint("forge.tokenFile", "is missing; nothing can be written without a token"));
            }
            (Some(_), Some(_)) => errors.push(complaint("forge", "names both tokenFile and app; keep one of them")),
            (None, Some(_)) if self.type_ == ForgeType::Gitea => {
                errors.push(complaint("forge.app", "is for github only; give a tokenFile"));
            }
            _ => {}
        }
    }
}

/// Tells whether a text is `OWNER/NAME`, of the characters that both hosts allow.
fn is_repository(text: &str) -> bool {
    text.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name))
}

fn is_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn is_approver(text: &str) -> bool {
    match text.split_once(':') {
        // Names of accounts have the characters of an owner's.
        Some(("user", name)) => is_repository(&format!("{name}/x")),
        // The names of Gitea's teams may have blanks.
        Some(("team", team)) => team.split_once('/').is_some_and(|(org, name)| {
            is_repository(&format!("{org}/x")) && !name.is_empty() && !name.contains(['/', '\n']) && name.trim() == name
        }),
        _ => false,
    }
}

/// Splits a URL, or what ssh takes for one, into host and path; the port and the account are left out.
fn host_and_path(url: &str) -> Option<(&str, &str)> {
    let (authority, path) = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/').unwrap_or((rest, "")),
        // `HOST:PATH`, as ssh takes it; a text without a colon is a path on this machine.
        None => return url.split_once(':').map(|(host, path)| (host.rsplit('@').next().unwrap_or(host), path)),
    };
    let host = authority.rsplit('@').next().unwrap_or(authority);
    match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some((host, path)),
        _ => Some((host, path)),
    }
}

/// Reads the secrets that webhooks are signed with: one in each line, the newest first; at most [`WEBHOOK_SECRETS_MAX`].
///
/// # Errors
/// Name the file, never what is in it. An empty secret is refused: everybody could sign with it.
pub fn read_webhook_secrets(path: &Path) -> Result<Vec<SecretString>, Error> {
    let text = read_text(path)?;
    let lines: Vec<&str> =
        text.trim_end_matches(['\r', '\n']).split('\n').map(|line| line.trim_end_matches('\r')).collect();
    match lines.as_slice() {
        [""] => Err(invalid(path, "is empty; `gitfleet forge setup` writes one if the file is not there")),
        lines if lines.len() > WEBHOOK_SECRETS_MAX => Err(invalid(path, "has more than two lines")),
        lines if lines.iter().any(|line| line.trim().is_empty()) => Err(invalid(path, "has an empty line")),
        lines if lines.iter().any(|line| line.contains(char::is_control)) => {
            Err(invalid(path, "has control characters"))
        }
        lines => Ok(lines.iter().map(|line| SecretString::from(*line)).collect()),
    }
}

fn notify_default() -> Vec<Notify> {
    vec![Notify::Approval, Notify::Failure]
}

fn yes() -> bool {
    true
}
