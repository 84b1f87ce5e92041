//! `gitfleet forge`: connects a git host, and reports what is missing.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use secrecy::{ExposeSecret as _, SecretString};

use super::exit::Exit;
use super::output::{self, Terminal};
use super::records::load_configuration;
use super::{config_file, proxy};
use config::{Configuration, Forge, Source, read_webhook_secrets};
use forge::{Ability, Admin, Error, HookRepair, Kind, Known, Result as ForgeResult, Settings};
use model::forge::Permission;
use model::text::hexadecimal;
use views::table::Table;

/// Bytes of a webhook secret that is made: as many as its signature has.
const SECRET_BYTES: usize = 32;
/// The only account that may read the secret's file.
const SECRET_MODE: u32 = 0o600;

/// Commands about the git host.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ForgeArgs {
    /// Say whether the token may do what the daemon does, and whether the webhook is right. Changes nothing.
    #[command(after_help = "Exit codes: 0 nothing is missing, 1 something is, 2 the host cannot be queried.")]
    Check(Check),
    /// Create or repair the webhook, and make its secret where there is none.
    Setup(Setup),
}

/// Options of `forge check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// The daemon's configuration file.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The source whose repository is meant, where there are several; all of them without it.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
}

/// Options of `forge setup`.
#[derive(Debug, clap::Args)]
pub(crate) struct Setup {
    /// The daemon's configuration file.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The source whose repository is meant, where several have one.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Where the host reaches the daemon, such as https://gitfleet.example/webhooks/gitea.
    #[arg(long, value_name = "URL")]
    url: String,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Returns the sources' repositories that are meant: that of one source, or all.
///
/// # Errors
/// There is none in the configuration.
fn meant<'a>(configuration: &'a Configuration, source: Option<&str>) -> anyhow::Result<Vec<(&'a Source, &'a Forge)>> {
    let meant = configuration.forges().filter(|(of, _)| source.is_none_or(|source| of.name == source));
    let meant: Vec<_> = meant.collect();
    match source {
        Some(source) if meant.is_empty() => {
            bail!("--source {source}: the configuration has no such source with a `forge`")
        }
        None if meant.is_empty() => bail!("the configuration has no section `forge`; docs/forges.md shows one"),
        _ => Ok(meant),
    }
}

/// Returns which host it is, and as whom we act.
///
/// # Errors
/// A secret's file cannot be read.
fn settings(forge: &Forge) -> anyhow::Result<Settings> {
    let settings = bot::forge_settings(forge)?;
    settings.context("the section `forge` of the configuration names neither tokenFile nor app")
}

impl ForgeArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// The configuration cannot be read, or the host cannot be asked.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let (Self::Check(Check { config, .. }) | Self::Setup(Setup { config, .. })) = self;
        let configuration = load_configuration(&config_file::require(config.as_deref())?)?;
        proxy::heed(configuration.proxy)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        match self {
            Self::Check(Check { source, .. }) => {
                let rows = runtime.block_on(check(&configuration, source.as_deref()))?;
                let is_bad = rows.iter().any(|row| row.state == State::Missing);
                output::print(&output::render_table(&table(rows), Terminal::of_stdout()))?;
                Ok(if is_bad { Exit::NotAsWished } else { Exit::Done })
            }
            Self::Setup(args) => match meant(&configuration, args.source.as_deref())?.as_slice() {
                [(_, forge)] => runtime.block_on(setup(forge, &args.url, args.dry_run)),
                several => {
                    let names: Vec<&str> = several.iter().map(|(source, _)| &*source.name).collect();
                    bail!("several sources have a repository; say which is meant: --source {}", names.join(" or "))
                }
            },
        }
    }
}

/// Whether something is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is.
    Ok,
    /// It is not, and is needed.
    Missing,
    /// It cannot be told, or is not needed.
    Unknown,
}

impl State {
    fn text(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}

/// One thing that is needed.
#[derive(Debug)]
pub(super) struct Row {
    need: String,
    /// Whether it is there.
    pub(super) state: State,
    detail: String,
}

impl Row {
    /// It is there.
    pub(super) fn ok(need: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { need: need.into(), state: State::Ok, detail: detail.into() }
    }

    /// It is missing.
    pub(super) fn missing(need: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { need: need.into(), state: State::Missing, detail: detail.into() }
    }

    /// It cannot be told, or is not needed.
    pub(super) fn unknown(need: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { need: need.into(), state: State::Unknown, detail: detail.into() }
    }
}

/// Returns the table of what is needed.
pub(super) fn table(rows: Vec<Row>) -> Table {
    let rows = rows.into_iter().map(|row| vec![row.need, row.state.text().to_owned(), row.detail]);
    Table { headers: ["NEEDED", "STATE", "DETAIL"].map(str::to_owned).to_vec(), rows: rows.collect() }
}

/// Looks at everything that the daemon needs of the host, in the order in which it is to be fixed.
///
/// # Errors
/// The host cannot be queried.
pub(super) async fn check(configuration: &Configuration, source: Option<&str>) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (source, forge) in meant(configuration, source)? {
        for row in check_one(forge).await? {
            // A source alone has no name.
            let need = if source.name.is_empty() { row.need } else { format!("{}: {}", source.name, row.need) };
            rows.push(Row { need, ..row });
        }
    }
    Ok(rows)
}

async fn check_one(forge: &Forge) -> anyhow::Result<Vec<Row>> {
    let settings = settings(forge)?;
    let admin = Admin::connect(&settings)?;
    let mut rows = Vec::new();
    match admin.server().await {
        Ok(server) => rows.push(Row::ok("server", server)),
        // A server that hides its version is still there.
        Err(error) => rows.push(answered("server", Err(error), "")?),
    }
    match admin.forge().whoami().await {
        Ok(me) => rows.push(Row::ok("token", format!("of {}", me.login))),
        // Nothing else can be asked with a token that is no account's.
        Err(Error::Unauthenticated { .. }) => {
            rows.push(Row::missing("token", "it is not accepted; make a new one and put it into the file"));
            return Ok(rows);
        }
        Err(error) => {
            // A token may lack the right to say whose it is, and have all that the daemon needs.
            let advice = if settings.kind == Kind::Gitea { "; give it the scope read:user" } else { "" };
            rows.push(answered("token", Err(error), advice)?);
        }
    }
    let repository = format!("{}/{}", settings.owner, settings.name);
    // All that follows is about the repository: without it there is nothing to look at.
    let permission = match admin.own_permission().await {
        Ok(permission) => permission,
        Err(error) => {
            rows.push(answered("repository", Err(error), "; check its name, and invite the account")?);
            return Ok(rows);
        }
    };
    rows.push(Row::ok("repository", repository));
    rows.push(ability(&admin, "statuses", Ability::Statuses, &settings).await?);
    rows.push(ability(&admin, "comments", Ability::Comments, &settings).await?);
    rows.push(permissions(&admin, forge, settings.kind, permission).await?);
    rows.push(secret(forge));
    rows.push(hook(&admin).await?);
    Ok(rows)
}

/// Returns a row for what the host refuses; a host that is not there ends the command.
fn answered(need: &'static str, result: ForgeResult<String>, advice: &str) -> anyhow::Result<Row> {
    match result {
        Ok(detail) => Ok(Row::ok(need, detail)),
        Err(error @ (Error::NotFound { .. } | Error::Forbidden { .. } | Error::Refused { .. })) => {
            Ok(Row::missing(need, format!("{error}{advice}")))
        }
        // A server may tell this to known accounts alone; the row of the token says whether this one is known.
        Err(error @ Error::Unauthenticated { .. }) => Ok(Row::unknown(need, error.to_string())),
        Err(error) => Err(error).context("the forge cannot be queried"),
    }
}

async fn ability(admin: &Admin, need: &'static str, ability: Ability, settings: &Settings) -> anyhow::Result<Row> {
    let wanted = match (ability, settings.kind) {
        (Ability::Statuses, Kind::Gitea) => "the scope write:repository, and the account write access",
        (Ability::Comments, Kind::Gitea) => "the scope write:issue",
        (Ability::Statuses, Kind::GitHub) => "the permission Commit statuses: write",
        (Ability::Comments, Kind::GitHub) => "the permissions Issues: write and Pull requests: write",
    };
    Ok(match admin.may(ability).await {
        Ok(Known::Yes) => Row::ok(need, "may be written"),
        Ok(Known::No(why)) => Row::missing(need, format!("{why}; the token needs {wanted}")),
        Ok(Known::Unclear) => {
            let detail = format!("only a write would show it; the token needs {wanted}");
            Row::unknown(need, detail)
        }
        Err(error) => answered(need, Err(error), "")?,
    })
}

/// Whoever approves by permission must be looked up, which Gitea lets only its administrators do.
async fn permissions(admin: &Admin, forge: &Forge, kind: Kind, own: Permission) -> anyhow::Result<Row> {
    const NEED: &str = "permissions";
    let approvers = &forge.approvals.approvers;
    // Owners of a file count only with a permission.
    let by_permission = approvers.is_empty() || forge.approvals.code_owners;
    if !by_permission && approvers.iter().all(|approver| approver.starts_with("user:")) {
        return Ok(Row::ok(NEED, "not needed: the approvers are named"));
    }
    // Not left to the question below: Gitea answers everybody about themselves.
    if kind == Kind::Gitea && own < Permission::Admin {
        let detail = "Gitea shows them only to administrators of the repository: make the account one, or name the \
                      approvers as user:NAME";
        return Ok(Row::missing(NEED, detail));
    }
    let advice = "; the token needs the permission Metadata: read";
    match admin.forge().whoami().await {
        Ok(me) => answered(NEED, admin.forge().permission(&me.login).await.map(|_| "may be read".into()), advice),
        Err(error) => answered(NEED, Err(error), advice),
    }
}

fn secret(forge: &Forge) -> Row {
    const NEED: &str = "webhook secret";
    match forge.webhook_secret_file.as_deref() {
        None => Row::unknown(NEED, "no forge.webhookSecretFile: webhooks are refused, and gitfleet polls for changes"),
        Some(path) => match read_webhook_secrets(path) {
            Ok(_) => Row::ok(NEED, path.display().to_string()),
            Err(error) => Row::missing(NEED, format!("{error}; `gitfleet forge setup` makes one")),
        },
    }
}

async fn hook(admin: &Admin) -> anyhow::Result<Row> {
    const NEED: &str = "webhook";
    let setup = "run `gitfleet forge setup`";
    Ok(match admin.hook(None).await {
        Ok(HookRepair { id: Some(id), wrong }) if wrong.is_empty() => Row::ok(NEED, format!("number {id}")),
        Ok(HookRepair { wrong, .. }) => Row::missing(NEED, format!("{}; {setup}", wrong.join(", "))),
        Err(Error::Forbidden { .. } | Error::NotFound { .. }) => {
            let detail = format!("only an administrator's token sees webhooks; {setup} with one, or make it by hand");
            Row::unknown(NEED, detail)
        }
        Err(error) => answered(NEED, Err(error), "")?,
    })
}

/// Makes the secret and the hook what they must be, and says what was done.
async fn setup(forge: &Forge, url: &str, dry_run: bool) -> anyhow::Result<Exit> {
    let settings = settings(forge)?;
    let admin = Admin::connect(&settings)?;
    if !(url.starts_with("https://") || url.starts_with("http://")) || !url.ends_with(admin.path()) {
        bail!("--url {url}: it must be the daemon's address followed by {}", admin.path());
    }
    let file = forge.webhook_secret_file.clone();
    let file =
        file.context("forge.webhookSecretFile is missing in the configuration: name a file for the secret there")?;
    // Asked before anything is made: a token that may not see webhooks changes nothing.
    let repair = admin.hook(Some(url)).await.context("the token must be an administrator's to see webhooks")?;
    let mut report = String::new();
    let secret = if file.exists() {
        // The first of two is the newest, which deliveries are to be signed with.
        read_webhook_secrets(&file)?.swap_remove(0)
    } else {
        report.extend([format!(
            "webhook secret in {}: {}\n",
            file.display(),
            if dry_run { "would be made" } else { "made" }
        )]);
        if dry_run { SecretString::from("") } else { make_secret(&file)? }
    };
    let what = match (repair.id, repair.wrong.as_slice()) {
        (None, _) => "created, there was none".to_owned(),
        // Whether the host has the right secret cannot be read back, so it is sent in any case.
        (Some(_), []) => "kept, its secret sent again".to_owned(),
        (Some(_), wrong) => format!("repaired: {}", wrong.join(", ")),
    };
    if dry_run {
        report.extend([format!("webhook to {url} would be {what}\n")]);
    } else {
        let id = admin.write_hook(repair.id, url, &secret).await?;
        report.extend([format!("webhook {id} to {url} is {what}\n")]);
    }
    output::print(&report)
}

/// Makes a secret of random bytes in a file that only we can read; one that is there already is not touched.
fn make_secret(path: &Path) -> anyhow::Result<SecretString> {
    let mut bytes = [0; SECRET_BYTES];
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| anyhow::anyhow!("the system has no random bytes for a secret"))?;
    let secret = SecretString::from(hexadecimal(&bytes));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(SECRET_MODE)
        .open(path)
        .with_context(|| format!("making the secret file {}", path.display()))?;
    writeln!(file, "{}", secret.expose_secret())
        .with_context(|| format!("writing the secret file {}", path.display()))?;
    Ok(secret)
}
