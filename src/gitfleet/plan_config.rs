//! The configuration for `gitfleet plan`: repository and branch, accepted commit, and reachable clusters.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use jiff::Timestamp;

use super::checkouts::{Checkout, SourceOptions, checkouts};
use super::folder::TreeFolder;
use super::opened;
use super::records::{RecordsSource, load_configuration};
use super::rendering;
use config::Configuration;
use daemon::rendering::Rendering;
use decide::status::fleet::fleet_warnings;
use engine::persist::SavedRecords;
use engine::store::records::{
    BINDING_PREFIX, CLUSTER_PREFIX, PLACEMENT_PREFIX, POLICY_PREFIX, RUN_PREFIX, SNAPSHOT_PREFIX, SOURCE_PREFIX,
};
use model::id::CommitId;
use model::manifest::InputError;
use model::records::{ClusterRecord, MemberKind};
use model::tenants::Tenants;
use model::tree::Tree;
use plan::Baseline;
use plan::pull_request::stopped;

/// The records that say which rollouts run.
const OF_ROLLOUTS: [&str; 6] =
    [PLACEMENT_PREFIX, SNAPSHOT_PREFIX, POLICY_PREFIX, BINDING_PREFIX, RUN_PREFIX, CLUSTER_PREFIX];

/// What is to be planned, as the command line says it.
#[derive(Debug, clap::Args)]
pub(super) struct Wanted {
    #[command(flatten)]
    folder: TreeFolder,
    /// The daemon's configuration file: names the repository and the branch, which is compared with the accepted commit, and says
    /// which clusters can be reached. DIR, --base and --head go first.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where a clone of one of several sources is, such as shop=../shop; for each that is not on this machine where the configuration
    /// has it. Its files count as they stand, or with --base or --head as in those commits.
    #[arg(long, value_name = "NAME=DIR", requires = "config", conflicts_with_all = ["dir", "repo"])]
    source: Vec<String>,
    /// The commit to compare with: it counts as rolled out everywhere. Of several sources NAME=REV, for each that changes.
    #[arg(long, value_name = "REV")]
    base: Vec<String>,
    /// The commit to plan; HEAD if only --base is given. Of several sources NAME=REV.
    #[arg(long, value_name = "REV")]
    head: Vec<String>,
}

/// What is to be planned.
pub(super) struct PlanRequest {
    /// The folder with the tree.
    pub repo: PathBuf,
    /// What it is compared with; absent is compared with nothing.
    pub base: Option<String>,
    /// What is planned; absent is the folder as it stands.
    pub head: Option<String>,
    /// The sources, where there are several; they take the place of the folder.
    pub sources: Vec<Checkout>,
    configuration: Option<(PathBuf, Configuration)>,
}

impl PlanRequest {
    /// Finds out what is asked for: what the options leave open the configuration says.
    ///
    /// # Errors
    /// The configuration or its store cannot be read, or the repository is not on this machine.
    pub(crate) fn of(args: &Wanted) -> anyhow::Result<Self> {
        let named = args.folder.named();
        let Some(path) = &args.config else {
            let repo = args.folder.path().to_owned();
            let base = only("--base", &args.base)?;
            let head = only("--head", &args.head)?;
            return Ok(Self { repo, base, head, sources: Vec::new(), configuration: None });
        };
        let configuration = load_configuration(path)?;
        if !args.source.is_empty() && configuration.sources.is_empty() {
            bail!("{} has one source; name a clone of it without --source: gitfleet plan DIR", path.display());
        }
        if named.is_none() && !configuration.sources.is_empty() {
            let options = SourceOptions::read(&configuration, &args.source, &args.base, &args.head)?;
            let sources = checkouts(&configuration, &options, || accepted_commits(&configuration))?;
            let repo = PathBuf::from(".");
            return Ok(Self {
                repo,
                base: None,
                head: None,
                sources,
                configuration: Some((path.clone(), configuration)),
            });
        }
        let mut base = only("--base", &args.base)?;
        let mut head = only("--head", &args.head)?;
        let source = &configuration.source;
        let root = PathBuf::from(&source.url);
        if named.is_none() && source.local().is_none() {
            bail!(
                "{} (source.url of {}) is not on this machine; name a clone of it: gitfleet plan DIR",
                source.url,
                path.display()
            );
        }
        // A folder that is named is planned as it stands, unless options name commits.
        if named.is_none() && is_repository(&root) {
            base = base.map_or_else(|| accepted_commit(&configuration), |base| Ok(Some(base)))?;
            head = head.or_else(|| source.branch.clone()).or_else(|| Some("HEAD".to_owned()));
        }
        let tree = if source.path == "." { root } else { root.join(&source.path) };
        let repo = named.map_or(tree, Path::to_owned);
        Ok(Self { repo, base, head, sources: Vec::new(), configuration: Some((path.clone(), configuration)) })
    }

    /// Returns what renders the folders of the tree.
    ///
    /// # Errors
    /// The tree's own configuration cannot be read.
    pub(crate) fn rendering(&self) -> anyhow::Result<Rendering> {
        rendering::of_tree(&self.repo, self.configuration.as_ref().map(|(_, configuration)| configuration))
    }

    /// Returns what the files of folders may ask for; without a configuration nothing restricts them.
    pub(crate) fn tenants(&self) -> Tenants {
        self.configuration.as_ref().map(|(_, configuration)| configuration.tenants()).unwrap_or_default()
    }

    /// Tells whether programs render folders, which then read all files.
    pub(crate) fn renders(&self) -> bool {
        self.configuration.as_ref().is_some_and(|(_, configuration)| configuration.render.is_some())
    }

    /// Returns a fleet on which a tree is rolled out.
    pub(crate) fn rolled_out(&self, tree: &Arc<Tree>, now: Timestamp) -> Baseline {
        Baseline::of_tenants(self.tenants()).rolling_out(tree, now)
    }

    /// Returns a warning about the clusters of a tree that the configuration does not reach.
    pub(crate) fn unreached(&self, tree: &Tree) -> Option<InputError> {
        let (path, configuration) = self.configuration.as_ref()?;
        let records = tree.clusters.iter().filter_map(|(name, member)| {
            let is_suspended =
                member.annotations.get(model::api::annotations::SUSPENDED).is_some_and(|it| it == "true");
            // As a daemon would have it before any answer, so that this is the warning that `status` would give.
            let mut record = ClusterRecord::new(name.clone(), jiff::Timestamp::UNIX_EPOCH);
            if configuration.member(name).is_some() {
                record.kind = MemberKind::Live;
            }
            (!is_suspended).then_some(record)
        });
        let records: Vec<ClusterRecord> = records.collect();
        let warning = fleet_warnings(records.iter()).into_iter().next()?;
        Some(InputError {
            path: path.display().to_string(),
            line: 0,
            object: None,
            field: Some("members".to_owned()),
            message: warning.message,
            hint: warning.hint,
        })
    }

    /// Returns the running rollouts that a head stops, a sentence each; none without a configuration, or where no daemon ran with it.
    ///
    /// # Errors
    /// The store cannot be read, or the daemon that holds it does not answer.
    pub(crate) fn stopped(
        &self,
        base: Option<&Arc<Tree>>,
        head: &Arc<Tree>,
        now: Timestamp,
    ) -> anyhow::Result<Vec<String>> {
        let Some((_, configuration)) = &self.configuration else { return Ok(Vec::new()) };
        let Some(source) = records_of(configuration)? else { return Ok(Vec::new()) };
        let records = source.read_under(&OF_ROLLOUTS.map(str::to_owned))?;
        let before = Arc::clone(base.unwrap_or(head));
        Ok(stopped(&Baseline::from_records(configuration, SavedRecords::from(records), before, now), head, now))
    }
}

/// Returns the one value of an option.
fn only(option: &str, values: &[String]) -> anyhow::Result<Option<String>> {
    match values {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        _ => bail!("{option} is given {} times; several are for several sources, with -c", values.len()),
    }
}

/// Tells whether a folder is the root of a repository, bare or not: only that is read as one.
pub(super) fn is_repository(root: &Path) -> bool {
    root.join(".git").exists() || (root.join("HEAD").is_file() && root.join("objects").is_dir())
}

/// Returns where records are read: a running daemon, or the store; none where there is no store yet.
fn records_of(configuration: &Configuration) -> anyhow::Result<Option<RecordsSource>> {
    let settings = &configuration.store;
    if settings.postgres.is_none() && !settings.path.exists() {
        return Ok(None);
    }
    Ok(Some(match opened::daemon_of(configuration)? {
        Some(_) => RecordsSource::of_daemon(configuration)?,
        None => RecordsSource::Store(Box::new(settings.clone())),
    }))
}

/// Returns the accepted commit of each of several sources; none where there is no store yet.
fn accepted_commits(configuration: &Configuration) -> anyhow::Result<BTreeMap<String, CommitId>> {
    let Some(records) = records_of(configuration)? else { return Ok(BTreeMap::new()) };
    let saved = records.read_under(&[SOURCE_PREFIX.to_owned()])?;
    let sources = saved.source.map(|source| source.sources).unwrap_or_default();
    Ok(sources.into_iter().filter_map(|(name, source)| Some((name, source.accepted?))).collect())
}

/// Returns the accepted commit; none where there is no store yet.
fn accepted_commit(configuration: &Configuration) -> anyhow::Result<Option<String>> {
    let Some(source) = records_of(configuration)? else { return Ok(None) };
    let saved = source.read_under(&[SOURCE_PREFIX.to_owned()])?;
    Ok(saved.source.and_then(|source| source.accepted).map(|commit| commit.to_string()))
}
