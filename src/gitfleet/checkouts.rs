//! Several sources for `gitfleet plan` and `gitfleet validate`: a clone of each, read as one tree, as the daemon joins them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use tempfile::TempDir;

use super::plan::{RefusedHead, Trees, base_refused};
use super::plan_config::is_repository;
use config::Configuration;
use daemon::commit_reader;
use daemon::commit_reader::{Cache, SourceAt, Survey, read_joined, read_joined_candidate};
use daemon::rendering::Rendering;
use git::{JoinedRepository, Reader};
use model::id::CommitId;
use model::tree::{JoinedSource, Tree};
use plan::pull_request::Candidate;

/// A clone of one of several sources, and what of it is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checkout {
    /// The source's name.
    pub name: String,
    /// The folder with its files.
    pub dir: PathBuf,
    /// What it is compared with.
    pub base: Compared,
    /// The revision that is planned; absent is `HEAD` where it is compared with another one, else the folder as it stands.
    pub head: Option<String>,
}

/// What a source is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// Itself: nothing of it changes.
    Itself,
    /// A revision.
    Revision(String),
    /// Nothing: it is new.
    Nothing,
}

/// What the command line says of several sources: values by the name of a source.
pub(super) struct SourceOptions {
    /// The folders of clones.
    pub dirs: BTreeMap<String, String>,
    /// The revisions to compare with.
    pub bases: BTreeMap<String, String>,
    /// The revisions to plan.
    pub heads: BTreeMap<String, String>,
}

impl SourceOptions {
    /// Reads options of the form `NAME=VALUE`.
    ///
    /// # Errors
    /// One names no source of the configuration, or two name the same one.
    pub(crate) fn read(
        configuration: &Configuration,
        sources: &[String],
        bases: &[String],
        heads: &[String],
    ) -> anyhow::Result<Self> {
        Ok(Self {
            dirs: by_name(configuration, "--source", "DIR", sources)?,
            bases: by_name(configuration, "--base", "REV", bases)?,
            heads: by_name(configuration, "--head", "REV", heads)?,
        })
    }
}

fn by_name(
    configuration: &Configuration,
    option: &str,
    what: &str,
    values: &[String],
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for value in values {
        let names: Vec<&str> = configuration.sources.iter().map(|source| source.name.as_str()).collect();
        let Some((name, rest)) = value.split_once('=').filter(|(name, _)| names.contains(name)) else {
            let names = names.join(", ");
            bail!("{option} {value} names no source; write {option} NAME={what}. The names are {names}");
        };
        if found.insert(name.to_owned(), rest.to_owned()).is_some() {
            bail!("{option} names the source {name} twice; name it once");
        }
    }
    Ok(found)
}

/// Returns where each source is, and what of it is planned. A source that no option names is read where the configuration has it, if that
/// is on this machine: a repository at its branch, compared with the commit that `accepted` knows of it.
///
/// # Errors
/// A source is not on this machine, or `accepted` cannot tell.
pub(super) fn checkouts(
    configuration: &Configuration,
    named: &SourceOptions,
    accepted: impl Fn() -> anyhow::Result<BTreeMap<String, CommitId>>,
) -> anyhow::Result<Vec<Checkout>> {
    let mut known = None;
    let mut all = Vec::new();
    for source in &configuration.sources {
        let name = &source.name;
        let base = named.bases.get(name).cloned().map_or(Compared::Itself, Compared::Revision);
        let head = named.heads.get(name).cloned();
        if let Some(dir) = named.dirs.get(name) {
            all.push(Checkout { name: name.clone(), dir: dir.into(), base, head });
            continue;
        }
        if source.local().is_none() {
            bail!("the source {name} ({}) is not on this machine; name a clone of it: --source {name}=DIR", source.url);
        }
        let root = PathBuf::from(&source.url);
        let dir = if source.path == "." { root.clone() } else { root.join(&source.path) };
        // Where options say what is compared, the store is not asked for what is accepted.
        if !is_repository(&root) || !named.bases.is_empty() {
            all.push(Checkout { name: name.clone(), dir, base, head });
            continue;
        }
        let known = match &mut known {
            Some(known) => known,
            none => none.insert(accepted()?),
        };
        let base = match known.get(name) {
            Some(commit) => Compared::Revision(commit.to_string()),
            None if known.is_empty() => Compared::Itself,
            // The accepted commit has other sources, so this one is new.
            None => Compared::Nothing,
        };
        let head = head.or_else(|| source.branch.clone()).or_else(|| Some("HEAD".to_owned()));
        all.push(Checkout { name: name.clone(), dir, base, head });
    }
    Ok(all)
}

/// A source that was read, on both sides.
struct ReadSource {
    name: String,
    reader: Reader,
    base: Option<CommitId>,
    head: CommitId,
}

impl ReadSource {
    /// Finds the commits of a clone. A folder as it stands is recorded below `scratch` as a commit.
    fn open(checkout: &Checkout, everything: bool, scratch: &Path) -> anyhow::Result<Self> {
        let Checkout { name, dir, base, head } = checkout;
        let head = match (head, base) {
            (Some(head), _) => Some(head.as_str()),
            (None, Compared::Revision(_)) => Some("HEAD"),
            (None, _) => None,
        };
        let Some(head) = head else {
            let (reader, commit) = git::record_folder(dir, everything, scratch)?;
            let base = (*base == Compared::Itself).then(|| commit.clone());
            return Ok(Self { name: name.clone(), reader, base, head: commit });
        };
        let (reader, _) = git::discover(dir)?;
        let head = reader.resolve(head)?;
        let base = match base {
            Compared::Itself => Some(head.clone()),
            Compared::Revision(revision) => Some(reader.resolve(revision)?),
            Compared::Nothing => None,
        };
        Ok(Self { name: name.clone(), reader, base, head })
    }
}

/// Several sources, joined.
struct Joined {
    sources: Vec<ReadSource>,
    repository: JoinedRepository,
    /// What finds the files of all of them.
    reader: Reader,
    /// Whether there is something to compare with.
    is_compared: bool,
    /// Whether a revision is planned, and not folders as they stand.
    is_committed: bool,
    _scratch: TempDir,
}

impl Joined {
    fn open(checkouts: &[Checkout], everything: bool) -> anyhow::Result<Self> {
        let scratch =
            tempfile::tempdir().context("cannot make a temporary folder for the commits that join sources")?;
        let mut sources = Vec::with_capacity(checkouts.len());
        for checkout in checkouts {
            let read = ReadSource::open(checkout, everything, scratch.path());
            let read =
                read.with_context(|| format!("reading the source {} in {}", checkout.name, checkout.dir.display()));
            sources.push(read?);
        }
        let repository = JoinedRepository::open(scratch.path())?;
        let reader = sources.iter().fold(repository.reader().clone(), |all, it| all.with_blobs_of(&it.reader));
        let is_compared = checkouts.iter().any(|it| matches!(it.base, Compared::Revision(_)));
        let is_committed = is_compared || checkouts.iter().any(|it| it.head.is_some());
        Ok(Self { sources, repository, reader, is_compared, is_committed, _scratch: scratch })
    }

    /// Returns the sources at the commits that they are compared with.
    fn base(&self) -> Vec<SourceAt<'_>> {
        self.sources.iter().filter_map(|it| Some(source_at((it, it.base.as_ref()?)))).collect()
    }

    fn head(&self) -> Vec<SourceAt<'_>> {
        self.sources.iter().map(|it| source_at((it, &it.head))).collect()
    }

    /// Returns the commit that joins sources.
    fn join(&self, sources: &[SourceAt<'_>]) -> anyhow::Result<CommitId> {
        let sources = sources.iter().map(|it| JoinedSource { name: it.name.to_owned(), commit: it.commit.clone() });
        Ok(self.repository.join(&sources.collect::<Vec<_>>())?)
    }

    fn read(&self, sources: &[SourceAt<'_>], cache: &mut Cache) -> anyhow::Result<Result<Tree, commit_reader::Error>> {
        let commit = self.join(sources)?;
        Ok(read_joined(&self.reader, &commit, sources, cache))
    }

    fn read_base(&self, cache: &mut Cache) -> anyhow::Result<Arc<Tree>> {
        self.read(&self.base(), cache)?.map(Arc::new).map_err(|error| base_refused(error, "the base"))
    }
}

fn source_at<'a>((source, commit): (&'a ReadSource, &'a CommitId)) -> SourceAt<'a> {
    SourceAt { name: &source.name, reader: &source.reader, commit }
}

/// Reads what is compared and what is planned; see [`super::plan::read_revisions`].
///
/// # Errors
/// A source cannot be read, or what is compared with has errors.
pub(super) fn read(
    checkouts: &[Checkout],
    everything: bool,
    rendering: &Rendering,
) -> anyhow::Result<Result<Trees, RefusedHead>> {
    let joined = Joined::open(checkouts, everything)?;
    let mut cache = Cache::rendering(rendering.clone());
    let base = joined.is_compared.then(|| joined.read_base(&mut cache)).transpose()?;
    let head = joined.head();
    let commit = joined.is_committed.then(|| joined.join(&head)).transpose()?;
    Ok(match joined.read(&head, &mut cache)? {
        Ok(mut tree) => {
            tree.commit = commit;
            Ok((base, Arc::new(tree)))
        }
        Err(error) => Err((commit, error.refused()?)),
    })
}

/// Returns all findings about what is planned. Where it is refused, the documents that are not read are not known.
///
/// # Errors
/// A source cannot be read.
pub(super) fn survey(checkouts: &[Checkout], everything: bool, rendering: &Rendering) -> anyhow::Result<Survey> {
    let joined = Joined::open(checkouts, everything)?;
    let tree = match joined.read(&joined.head(), &mut Cache::rendering(rendering.clone()))? {
        Ok(tree) => Ok(tree),
        Err(error) => Err(error.refused()?),
    };
    let skipped = tree.as_ref().map(|tree| tree.skipped.clone()).unwrap_or_default();
    Ok(Survey { tree, skipped })
}

/// What a pull request of one of several sources would bring.
pub(super) struct JoinedPull {
    /// The source.
    pub name: String,
    /// The accepted tree.
    pub base: Arc<Tree>,
    /// The head of the pull request.
    pub head: CommitId,
    /// The tree of the merge, or why it cannot be read.
    pub candidate: Result<Candidate, commit_reader::Error>,
}

/// Reads the merge of the one source that is compared with a revision.
///
/// # Errors
/// None or several are compared; otherwise as [`read`].
pub(super) fn read_pull(checkouts: &[Checkout], everything: bool, rendering: &Rendering) -> anyhow::Result<JoinedPull> {
    let compared: Vec<&Checkout> = checkouts.iter().filter(|it| matches!(it.base, Compared::Revision(_))).collect();
    let [changed] = compared[..] else {
        bail!("-o markdown is about a merge in one source: name with --base NAME=REV what it would be merged into");
    };
    let joined = Joined::open(checkouts, everything)?;
    let mut cache = Cache::rendering(rendering.clone());
    let tree = joined.read_base(&mut cache)?;
    let base = joined.base();
    let head = joined.sources.iter().find(|it| it.name == changed.name).map(|it| it.head.clone());
    let head = head.context("every source was read")?;
    let commit = joined.join(&base)?;
    let candidate = read_joined_candidate(&joined.reader, &commit, &base, (&changed.name, &head), &cache);
    Ok(JoinedPull { name: changed.name.clone(), base: tree, head, candidate })
}
