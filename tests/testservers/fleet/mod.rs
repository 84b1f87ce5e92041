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
//! A member is an API server on its own part of a common etcd; `workloads` makes its workloads available. A fleet ends with its handle;
//! one in a `static` ends with the test process.

mod agents;
mod binaries;
pub mod command;
mod console;
mod data;
mod debian;
pub mod git;
mod gitea;
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
mod workloads;

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
    member::{Member, Named},
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
    member::Backend,
    process::{Process, Watchdog},
    workloads::Workloads,
};

/// Environment variable that, set to 1, keeps a fleet's folder (logs, kubeconfigs, data) after its processes ended.
pub const KEEP_VARIABLE: &str = "GITFLEET_KEEP_FLEET";

/// Environment variable that chooses what members are: `processes` (the default) or `doubles`.
pub const PROVIDER_VARIABLE: &str = "GITFLEET_FLEET_PROVIDER";

/// Environment variable that names the folder of a fleet that runs (`tests/fleet.sh up --plain`), for tests to use; relative to the root of
/// the repository.
pub const RUNNING_VARIABLE: &str = "GITFLEET_FLEET";

/// What members are. Tests need kubeconfigs and do not ask how they came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// API servers that are started as processes.
    Processes,
    /// The doubles of [`crate::apiserver`], in this process.
    Doubles,
    /// The servers of a fleet that runs, by its folder.
    Running(PathBuf),
}

impl Provider {
    /// Returns the provider that the environment asks for.
    ///
    /// # Errors
    /// When it asks for an unknown one: never silently another one.
    pub fn from_environment() -> Result<Self> {
        if let Some(folder) = std::env::var_os(RUNNING_VARIABLE).filter(|folder| !folder.is_empty()) {
            return Ok(Self::Running(crate::repository().join(folder)));
        }
        match std::env::var(PROVIDER_VARIABLE).unwrap_or_default().as_str() {
            "" | "processes" => Ok(Self::Processes),
            "doubles" => Ok(Self::Doubles),
            other => bail!("{PROVIDER_VARIABLE}={other}: expected `processes` or `doubles`"),
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
    workloads: Option<Workloads>,
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
        let started = Instant::now();
        let home = ServerHome::create(options.folder.as_deref())?;
        let mut fleet = Self { workloads: None, members: Vec::new(), gitea: None, etcd: None, home };
        match Provider::from_environment()? {
            Provider::Processes => fleet.start_processes(&options)?,
            Provider::Doubles => {
                ensure!(!options.gitea, "a fleet of doubles has no Gitea");
                let folder = fleet.folder().to_owned();
                let members = options.names.iter().map(|name| Member::double(&folder, name));
                fleet.members = members.collect::<Result<_>>()?;
            }
            Provider::Running(running) => fleet.take(&running, &options)?,
        }
        // A fleet that runs has somebody for that.
        if fleet.members.iter().any(|member| !matches!(member.backend, Backend::Running)) {
            fleet.workloads = Some(Workloads::start(fleet.members.iter().map(Member::access))?);
        }
        eprintln!("fleet: ready after {:.1} s in {}", started.elapsed().as_secs_f32(), fleet.folder().display());
        Ok(fleet)
    }

    fn start_processes(&mut self, options: &Options) -> Result<()> {
        let binaries = Binaries::build_or_cached()?;
        let folder = self.folder().to_owned();
        if !options.names.is_empty() {
            let (etcd, port) = servers::etcd(&binaries, &folder, options.fsync)?;
            self.etcd = Some((etcd, port));
            for name in &options.names {
                self.members.push(Member::start(&binaries, &folder, name, port)?);
            }
        }
        // Gitea prepares its database while the API servers come up.
        if options.gitea {
            self.gitea = Some(Gitea::start(&folder).context("start Gitea")?);
        }
        for member in &mut self.members {
            let what = format!("start the member {}", member.name);
            member.complete(options.controller_manager).context(what)?;
        }
        self.gitea.iter().try_for_each(Gitea::await_ready)
    }

    /// Takes the servers of a fleet that runs. What former tests left there is in the way of tests of the same names.
    fn take(&mut self, running: &Path, options: &Options) -> Result<()> {
        let state = State::read(running)?.with_context(|| format!("no fleet runs in {}", running.display()))?;
        let (binaries, folder) = (Binaries::build_or_cached()?, self.folder().to_owned());
        let members = state.members().into_iter().take(options.names.len());
        let members = members.map(|(name, kubeconfig)| Member::running(&binaries, &folder, &name, &kubeconfig));
        self.members = members.collect::<Result<_>>()?;
        ensure!(self.members.len() == options.names.len(), "tests need {} members", options.names.len());
        if options.gitea {
            self.gitea = Some(state.gitea().context("the fleet that runs has no Gitea")?);
        }
        Ok(())
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
        let state = State::write(&self)?;
        // Another process makes workloads available from here on: this program, with another command.
        self.workloads = None;
        let own = std::env::current_exe().context("the path of this program")?;
        let workloads = process::Spec::new("workloads", &own, self.folder()).arg("workloads").arg("--state");
        let workloads = workloads.arg(format!("{}/", self.folder().display())).spawn()?;
        workloads.release();
        for process in self.etcd.iter().map(|(etcd, _)| etcd).chain(self.gitea.iter().filter_map(Gitea::server)) {
            process.release();
        }
        for member in &self.members {
            if let Backend::Process { apiserver, controllers, .. } = &member.backend {
                apiserver.release();
                controllers.iter().for_each(Process::release);
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
