//! `gitfleet cordon`, `uncordon` and `drain`: changes to the tree that keep placements away from a cluster, or move them off it. The
//! daemon receives no command: the commit alone has an effect.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use similar::TextDiff;

use super::completion::{CompletedName, names};
use super::exit::Exit;
use super::records::{load_configuration, locate};
use super::{Daemon, config_file, output, person, rendering};
use daemon::commit_reader::{Cache, Error, read_commit, read_folder};
use engine::store::records::{BINDING_PREFIX, PLACEMENT_PREFIX, SOURCE_PREFIX};
use engine::store::saved::Records;
use git::NewCommit;
use model::id::{ClusterName, CommitId};
use model::text;
use model::tree::Tree;
use model::yaml;
use plan::cordon::{cordoned, uncordoned};
use plan::drain::{Drain, drain};
use system::clock;

/// What follows the help of each of these commands.
const HOW: &str = "\
Prints the change as a diff, or commits it with --commit; nothing else is written, and nothing happens before the daemon's branch has \
the commit. `gitfleet cordon east | git apply` changes the files of a checkout.

Exit codes: 0 done, also where there is nothing to change; 1 something stays on the cluster, standard error says why; 2 error.";

/// Where the tree is, and what becomes of the change.
#[derive(Debug, clap::Args)]
pub(crate) struct TreeChange {
    /// The member cluster.
    #[arg(add = names(CompletedName::Clusters))]
    pub(super) cluster: String,
    /// The folder with the tree; else what the configuration file says: `source.path` in the source, or in the clone that the
    /// current folder is in; else the current folder.
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// Commit the change on this branch, which begins at HEAD where there is none, and leave the work tree as it is.
    #[arg(long, value_name = "BRANCH")]
    commit: Option<String>,
}

/// Options of `cordon` and `uncordon`.
#[derive(Debug, clap::Args)]
#[command(after_help = HOW)]
pub(crate) struct Cordon {
    #[command(flatten)]
    change: TreeChange,
    /// The daemon's configuration file: says where the tree is.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Options of `drain`.
#[derive(Debug, clap::Args)]
#[command(after_help = HOW)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    change: TreeChange,
    #[command(flatten)]
    daemon: Daemon,
}

impl Cordon {
    /// Runs `cordon`.
    ///
    /// # Errors
    /// The tree cannot be read, has no such MemberCluster, or the change cannot be made.
    pub(crate) fn cordon(&self) -> anyhow::Result<Exit> {
        let mut edit = Edit::begin(&self.change, config_file::named(self.config.as_deref()).as_deref())?;
        edit.cordon()?;
        edit.end("Cordon", "is cordoned already")
    }

    /// Runs `uncordon`.
    ///
    /// # Errors
    /// As [`Self::cordon`].
    pub(crate) fn uncordon(&self) -> anyhow::Result<Exit> {
        let mut edit = Edit::begin(&self.change, config_file::named(self.config.as_deref()).as_deref())?;
        let (path, old) = edit.member_file()?;
        if let Some(new) = uncordoned(&old, &self.change.cluster).with_context(|| path.clone())? {
            edit.files.push(ChangedFile { path, old: Some(old), new });
        }
        edit.end("Uncordon", "is not cordoned")
    }
}

impl DrainArgs {
    /// Runs `drain`.
    ///
    /// # Errors
    /// As [`Cordon::cordon`]; the records cannot be read.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let mut edit = Edit::begin(&self.change, config_file::named(self.daemon.config.as_deref()).as_deref())?;
        let path = edit.cordon()?;
        let drain = found(&locate(&self.daemon)?.read_under(&DRAINED.map(str::to_owned))?, &self.change.cluster)?;
        if !drain.evictions.is_empty() {
            let folder = path.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
            let mut file = edit.new_file(&format!("{folder}drain-{}", self.change.cluster))?;
            file.new = drain.evictions.iter().map(yaml::to_string).collect::<Vec<_>>().join("---\n");
            edit.files.push(file);
        }
        let done = edit.end("Drain", "is cordoned, and nothing can be moved off it")?;
        for why in &drain.stays {
            eprintln!("{why}");
        }
        Ok(if drain.stays.is_empty() { done } else { Exit::NotAsWished })
    }
}

/// The records that say what is on a cluster.
const DRAINED: [&str; 3] = [SOURCE_PREFIX, PLACEMENT_PREFIX, BINDING_PREFIX];

/// Finds what is on the cluster in the records.
fn found(saved: &Records, cluster: &str) -> anyhow::Result<Drain> {
    let accepted = saved.source.as_ref().and_then(|source| source.accepted.clone());
    let accepted = accepted.context("no commit is accepted yet, so nothing is on any cluster")?;
    let name = ClusterName::from(cluster);
    let held = saved.placements.iter().flat_map(|placement| {
        let bindings = saved.bindings.get(&placement.key).into_iter().flatten();
        bindings.filter(|binding| binding.cluster == name).map(move |binding| (placement, binding.as_ref()))
    });
    Ok(drain(held, &name, &accepted))
}

/// Where the tree is.
struct TreeFolder {
    /// The folder that `git apply` runs in.
    root: PathBuf,
    /// The tree's folder in it; empty where that is the root.
    below: PathBuf,
}

impl TreeFolder {
    fn of(change: &TreeChange, config: Option<&Path>) -> anyhow::Result<Self> {
        let here = Path::new(".");
        let config = match (&change.repo, config) {
            (Some(repo), _) => return Ok(Self { root: repo.clone(), below: PathBuf::new() }),
            (None, None) => return Ok(Self { root: here.to_owned(), below: PathBuf::new() }),
            (None, Some(config)) => config,
        };
        let source = load_configuration(config)?.source;
        let below = if source.path == "." { PathBuf::new() } else { PathBuf::from(&source.path) };
        if source.local().is_some() {
            return Ok(Self { root: source.url.into(), below });
        }
        let (_, subtree) = git::discover(here).with_context(|| {
            format!("{} is not on this machine; run this in a clone of it, or name one with --repo DIR", source.url)
        })?;
        let ups = Path::new(&subtree).components().map(|_| "..");
        Ok(Self { root: here.join(ups.collect::<PathBuf>()), below })
    }

    fn path(&self) -> PathBuf {
        self.root.join(&self.below)
    }
}

/// A file of the tree before and after.
pub(super) struct ChangedFile {
    path: String,
    /// Absent for a new file.
    old: Option<String>,
    /// What is in it then.
    pub(super) new: String,
}

/// A change that is being made.
pub(super) struct Edit<'a> {
    change: &'a TreeChange,
    folder: TreeFolder,
    /// The tree before.
    pub(super) tree: Tree,
    /// The repository and the commit that is continued, where a commit is to be made.
    base: Option<(git::Reader, CommitId)>,
    /// What changes.
    pub(super) files: Vec<ChangedFile>,
}

fn not_read(error: Error) -> anyhow::Error {
    match error {
        Error::Refused(errors) => match errors.first() {
            Some(first) => anyhow!("the tree has errors; the first is {first}"),
            None => anyhow!("the tree has errors"),
        },
        error => error.into(),
    }
}

impl<'a> Edit<'a> {
    /// Reads the tree.
    ///
    /// # Errors
    /// It cannot be read, or has errors.
    pub(super) fn begin(change: &'a TreeChange, config: Option<&Path>) -> anyhow::Result<Self> {
        let folder = TreeFolder::of(change, config)?;
        let rendering = rendering::of_tree(&folder.path(), config.map(load_configuration).transpose()?.as_ref())?;
        let (tree, base) = match &change.commit {
            None => (read_folder(&folder.path(), &rendering).map_err(not_read)?, None),
            Some(branch) => {
                let (reader, _) = git::discover(&folder.path())?;
                let base = reader.base_of(branch)?;
                (read_commit(&reader, &base, &mut Cache::rendering(rendering)).map_err(not_read)?, Some((reader, base)))
            }
        };
        Ok(Self { change, folder, tree, base, files: Vec::new() })
    }

    /// Returns the file with the cluster's MemberCluster, and what it holds.
    fn member_file(&self) -> anyhow::Result<(String, String)> {
        let cluster = self.change.cluster.as_str();
        let Some(origin) = self.tree.member_origins.get(&ClusterName::from(cluster)) else {
            let near = text::suggest(cluster, self.tree.member_origins.keys().map(ClusterName::as_str));
            let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            bail!("the tree has no MemberCluster {cluster}{hint}");
        };
        let path = origin.path.to_string();
        let bytes = self.read(&path)?.with_context(|| format!("{path} is gone"))?;
        Ok((path.clone(), String::from_utf8(bytes).with_context(|| path)?))
    }

    fn read(&self, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
        if let Some((reader, base)) = &self.base {
            return Ok(reader.file(base, path)?);
        }
        match std::fs::read(self.folder.path().join(path)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {path}")),
        }
    }

    /// Puts the taint into the cluster's file, and returns which that is.
    fn cordon(&mut self) -> anyhow::Result<String> {
        let (path, old) = self.member_file()?;
        if let Some(new) = cordoned(&old, &self.change.cluster).with_context(|| path.clone())? {
            self.files.push(ChangedFile { path: path.clone(), old: Some(old), new });
        }
        Ok(path)
    }

    /// Returns a file that is not there yet, under a name or the first of its numbered ones.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn new_file(&self, stem: &str) -> anyhow::Result<ChangedFile> {
        let names = std::iter::once(format!("{stem}.yaml")).chain((2..).map(|number| format!("{stem}-{number}.yaml")));
        for path in names {
            if self.read(&path)?.is_none() {
                return Ok(ChangedFile { path, old: None, new: String::new() });
            }
        }
        bail!("every name for a new file is taken")
    }

    /// Prints or commits what has changed.
    ///
    /// # Errors
    /// It cannot be committed.
    pub(super) fn end(&self, verb: &str, otherwise: &str) -> anyhow::Result<Exit> {
        let cluster = &self.change.cluster;
        if self.files.is_empty() {
            eprintln!("{cluster} {otherwise}");
            return Ok(Exit::Done);
        }
        let (Some((reader, base)), Some(branch)) = (&self.base, &self.change.commit) else {
            return output::print(&self.files.iter().map(|file| diff(file, &self.folder.below)).collect::<String>());
        };
        let files: Vec<(String, String)> =
            self.files.iter().map(|file| (file.path.clone(), file.new.clone())).collect();
        let user = person::os_user();
        let commit = reader.commit_on(
            base,
            &NewCommit {
                branch,
                files: &files,
                message: &format!("{verb} {cluster}\n\nMade by gitfleet {}.\n", verb.to_lowercase()),
                author: (&user, &format!("{user}@localhost")),
                seconds: clock::now().as_second(),
            },
        )?;
        output::print(&format!("commit {commit} on branch {branch}: {verb} {cluster}\n"))
    }
}

/// Returns a change as `git apply` takes it where the folder `below` is.
fn diff(file: &ChangedFile, below: &Path) -> String {
    let path = below.join(&file.path);
    let old_name = file.old.as_ref().map_or_else(|| "/dev/null".to_owned(), |_| format!("a/{}", path.display()));
    let diff = TextDiff::from_lines(file.old.as_deref().unwrap_or_default(), &file.new);
    diff.unified_diff().header(&old_name, &format!("b/{}", path.display())).to_string()
}
