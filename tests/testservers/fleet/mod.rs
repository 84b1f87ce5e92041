//! The test fleet: real Kubernetes API servers and a real Gitea, as plain processes on 127.0.0.1.
//!
//! ```ignore
//! use testservers::fleet;
//!
//! let fleet = fleet::Fleet::start(fleet::Options::members(3).with_gitea())?;
//! fleet.member("member-1")?.kubectl_apply(manifests)?;
//! let url = fleet.gitea()?.create_repo("apps")?;
//! ```
//!
//! A member is an API server on its own part of a common etcd, with a kwok that makes workloads available
//! (`workloads.yaml`). A fleet ends with its handle; one in a `static` ends with the test process.

mod agents;
mod binaries;
pub mod command;
mod console;
mod data;
mod debian;
pub mod git;
mod gitea;
mod kind;
mod member;
mod metrics;
mod oci_registry;
mod people;
mod postgres;
mod process;
mod prometheus;
mod replicas;
mod servers;
mod state;
mod wait;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};

pub use self::{
    agents::Certificates,
    binaries::{Binaries, CACHE_VARIABLE, Tools, build_everything},
    console::{CLUSTERS, Console},
    git::{commit_all, git, push},
    gitea::Gitea,
    member::Member,
    metrics::{accepted_write_count, forbidden_count, request_count, write_count},
    oci_registry::OciRegistry,
    people::{Account, BOT_SCOPES, MergeWay, PERSON_SCOPES},
    postgres::Postgres,
    prometheus::Prometheus,
    replicas::Replicas,
    state::State,
    wait::{free_port, http, until},
};
use self::{
    kind::Kind,
    process::{Process, Watchdog},
};

/// Environment variable that, set to 1, keeps a fleet's folder (logs, kubeconfigs, data) after its processes ended.
pub const KEEP_VARIABLE: &str = "GITFLEET_KEEP_FLEET";

/// Environment variable that chooses who makes the members: `processes` (the default) or `kind`.
pub const PROVIDER_VARIABLE: &str = "GITFLEET_FLEET_PROVIDER";

/// Who makes the members. Tests need kubeconfigs and do not ask how they came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// API servers as processes, kwok for the workloads.
    Processes,
    /// `kind` on Docker; untested.
    Kind,
}

impl Provider {
    /// Returns the provider that the environment asks for.
    ///
    /// # Errors
    /// When it asks for an unknown one, or for kind where no Docker answers: never silently another one.
    pub fn from_environment() -> Result<Self> {
        match std::env::var(PROVIDER_VARIABLE).unwrap_or_default().as_str() {
            "" | "processes" => Ok(Self::Processes),
            "kind" if Kind::has_docker() => Ok(Self::Kind),
            "kind" => bail!("{PROVIDER_VARIABLE}=kind needs Docker, and `docker info` does not succeed"),
            other => bail!("{PROVIDER_VARIABLE}={other}: expected `processes` or `kind`"),
        }
    }
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of the members; lower-case letters, digits and hyphens.
    pub names: Vec<String>,
    /// Whether each member gets a controller manager: namespaces then really go away, owned objects are collected.
    pub controller_manager: bool,
    /// Whether there is a Gitea.
    pub gitea: bool,
    /// Whether etcd waits for the disk; off, for a fleet need not outlive a power cut.
    pub fsync: bool,
    /// The fleet's folder, which must not exist yet or be empty; a temporary one by default.
    pub folder: Option<PathBuf>,
}

impl Options {
    /// Asks for that many members, `member-1` and so on, and nothing else.
    pub fn members(count: usize) -> Self {
        Self::named((1..=count).map(|number| format!("member-{number}")))
    }

    /// Asks for members of those names.
    pub fn named(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self { names, controller_manager: false, gitea: false, fsync: false, folder: None }
    }

    /// Asks for a Gitea, too.
    #[must_use]
    pub fn with_gitea(mut self) -> Self {
        self.gitea = true;
        self
    }

    /// Asks for a controller manager for each member, too.
    #[must_use]
    pub fn with_controller_manager(mut self) -> Self {
        self.controller_manager = true;
        self
    }

    /// Asks for this folder instead of a temporary one.
    #[must_use]
    pub fn in_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    fn check(&self) -> Result<()> {
        let good = |name: &String| {
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            !name.is_empty() && !name.starts_with('-') && name.bytes().all(plain)
        };
        for (index, name) in self.names.iter().enumerate() {
            ensure!(good(name), "`{name}` is no name for a member: lower-case letters, digits and hyphens");
            ensure!(!self.names[..index].contains(name), "two members are named `{name}`");
            ensure!(
                !["etcd", "gitea", "logs"].contains(&name.as_str()),
                "the name `{name}` is taken by the fleet itself"
            );
        }
        Ok(())
    }
}

/// Running servers. Dropping it ends them and removes their folder.
#[derive(Debug)]
pub struct Fleet {
    // The order is that of ending: whoever uses a server ends before it, the folder goes last.
    /// The members, in the order in which they were asked for.
    pub members: Vec<Member>,
    gitea: Option<Gitea>,
    etcd: Option<(Process, u16)>,
    home: ServerHome,
}

impl Fleet {
    /// Builds what is missing, starts everything and returns when it is ready to be used.
    ///
    /// # Errors
    /// When something cannot be built or started, or is not ready within a minute; the error shows the server's log.
    #[expect(clippy::needless_pass_by_value, reason = "what describes a fleet is written in place")]
    pub fn start(options: Options) -> Result<Self> {
        options.check()?;
        let provider = Provider::from_environment()?;
        let binaries = Binaries::build_or_cached()?;
        let started = Instant::now();
        let home = ServerHome::create(options.folder.as_deref())?;
        let mut fleet = Self { members: Vec::new(), gitea: None, etcd: None, home };
        let folder = fleet.folder().to_owned();
        if provider == Provider::Processes && !options.names.is_empty() {
            let (etcd, port) = servers::etcd(&binaries, &folder, options.fsync)?;
            fleet.etcd = Some((etcd, port));
            for name in &options.names {
                fleet.members.push(Member::start(&binaries, &folder, name, port)?);
            }
        }
        // Gitea prepares its database while the API servers come up.
        if options.gitea {
            fleet.gitea = Some(Gitea::start(&binaries, &folder).context("start Gitea")?);
        }
        if provider == Provider::Kind {
            for name in &options.names {
                fleet.members.push(Member::of_kind(&binaries, &folder, name)?);
            }
        }
        for member in &mut fleet.members {
            let what = format!("start the member {}", member.name);
            member.complete(&binaries, options.controller_manager).context(what)?;
        }
        if let Some(gitea) = &fleet.gitea {
            gitea.await_ready()?;
        }
        eprintln!("fleet: ready after {:.1} s in {}", started.elapsed().as_secs_f32(), folder.display());
        Ok(fleet)
    }

    /// The folder with kubeconfigs (`NAME.kubeconfig`), logs and data.
    pub fn folder(&self) -> &Path {
        &self.home.folder
    }

    /// Returns a member by its name.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn member(&self, name: &str) -> Result<&Member> {
        let found = self.members.iter().find(|member| member.name == name);
        found.with_context(|| format!("the fleet has no member `{name}`"))
    }

    /// Returns the Gitea.
    ///
    /// # Errors
    /// When the options did not ask for one.
    pub fn gitea(&self) -> Result<&Gitea> {
        self.gitea.as_ref().context("the fleet was started without Gitea")
    }

    /// Writes one kubeconfig with a context for each member, each of the member's name, and returns its path.
    ///
    /// # Errors
    /// When kubectl cannot merge them.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        state::merge(self.folder(), &self.members)
    }

    /// Lets the servers run on after this process, and writes down what `State` needs to find and end them.
    ///
    /// # Errors
    /// When the state cannot be written; then everything ends, as without the call.
    pub fn detach(mut self) -> Result<State> {
        let state = State::write(&mut self)?;
        for process in self.etcd.iter().map(|(etcd, _)| etcd).chain(self.gitea.iter().map(|gitea| &gitea.server)) {
            process.release();
        }
        for member in &self.members {
            if let member::Backend::Processes { apiserver, helpers, .. } = &member.backend {
                apiserver.release();
                helpers.iter().for_each(Process::release);
            }
        }
        self.home.keep = true;
        Ok(state)
    }
}

/// A folder of servers and who watches over it: they end, and it is removed, however this process ends.
#[derive(Debug)]
pub struct ServerHome {
    folder: PathBuf,
    watchdog: Watchdog,
    keep: bool,
}

impl ServerHome {
    /// Makes a temporary folder.
    ///
    /// # Errors
    /// When there can be none, or no watchdog.
    pub fn temporary() -> Result<Self> {
        Self::create(None)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn create(wanted: Option<&Path>) -> Result<Self> {
        let folder = match wanted {
            None => tempfile::Builder::new().prefix("gitfleet-").tempdir().context("a temporary folder")?.keep(),
            Some(folder) => {
                fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
                let mut entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
                ensure!(entries.next().is_none(), "{} is not empty: is a fleet up already?", folder.display());
                folder.to_owned()
            }
        };
        // Servers are told from strangers by this path in their command line, so it must be the only spelling of it.
        let folder = folder.canonicalize().with_context(|| format!("the full path of {}", folder.display()))?;
        let watchdog = Watchdog::start(&folder)?;
        Ok(Self { folder, watchdog, keep: false })
    }
}

impl Drop for ServerHome {
    fn drop(&mut self) {
        self.watchdog.release();
        if self.keep {
            return;
        }
        if std::env::var_os(KEEP_VARIABLE).is_some_and(|value| value == "1") {
            eprintln!("fleet: ended; its folder is kept: {}", self.folder.display());
            return;
        }
        if let Err(error) = state::remove(&self.folder) {
            eprintln!("fleet: the folder {} is left behind: {error:#}", self.folder.display());
        }
    }
}
