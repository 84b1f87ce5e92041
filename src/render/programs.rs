//! Where programs are, and how they render a folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::error::Error;
use crate::limits::{MEMORY_GOAL, TIME_MAX};
use crate::process::{Output, run};
use crate::{error, launch};
use model::rendering::{Capabilities, Release, Renderer};

/// The address of a proxy that does not exist: requests fail there where the network could not be taken away.
const NO_PROXY_THERE: &str = "http://127.0.0.1:9";

/// Where programs are, and how they are started.
#[derive(Clone, Debug)]
pub struct Programs {
    folder: Option<PathBuf>,
    pub(super) launcher: PathBuf,
    pub(super) scratch: PathBuf,
    pub(super) time_max: Duration,
    /// Versions that programs said, by the file that said it: the question takes as long as a small folder.
    said: Arc<Mutex<BTreeMap<ProgramFile, Option<String>>>>,
}

/// A program's file. Another one in its place is told apart by its size and when it was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ProgramFile {
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl ProgramFile {
    fn at(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self { path: path.to_owned(), bytes: found.len(), modified: found.modified().ok() })
    }
}

/// A program of the version that was asked for.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    renderer: Renderer,
    programs: Programs,
}

/// A file that a program may read.
#[derive(Clone, Debug)]
pub struct InputFile {
    /// Its path from the root of the source's subtree.
    pub path: Arc<str>,
    /// Its content.
    pub content: Vec<u8>,
}

/// What to render. Paths are relative to the root of the source's subtree.
#[derive(Clone, Copy, Debug)]
pub enum Job<'a> {
    /// A kustomization: its folder; the root is an empty text.
    Kustomization(&'a str),
    /// A chart.
    Chart {
        /// How.
        release: &'a Release,
        /// One more file of values, which wins.
        values: Option<&'a str>,
    },
}

impl Job<'_> {
    /// Returns the arguments of the program.
    fn arguments(self) -> Vec<String> {
        match self {
            Self::Kustomization(folder) => {
                let options = ["build", "--load-restrictor", "LoadRestrictionsRootOnly"];
                options.into_iter().map(str::to_owned).chain([below_the_tree(folder)]).collect()
            }
            Self::Chart { release, values } => {
                let options = ["template", "--namespace", &release.namespace, "--include-crds", "--skip-tests"];
                let mut arguments: Vec<String> = options.into_iter().map(str::to_owned).collect();
                let Capabilities { kube_version, api_versions } = &release.capabilities;
                arguments
                    .extend(kube_version.iter().flat_map(|version| ["--kube-version".to_owned(), version.clone()]));
                arguments
                    .extend(api_versions.iter().flat_map(|version| ["--api-versions".to_owned(), version.clone()]));
                for path in release.values.iter().map(String::as_str).chain(values) {
                    arguments.extend(["--values".to_owned(), element(&below_the_tree(path))]);
                }
                // Schemas may name addresses and files that are then read. Values by cluster are checked by the chart's templates alone.
                // After `--` no name is taken for an option.
                let rest = ["--skip-schema-validation", "--", &release.name];
                arguments.extend(rest.into_iter().map(str::to_owned).chain([below_the_tree(&release.chart)]));
                arguments
            }
        }
    }
}

/// Returns a path as an argument: a name may begin with a dash.
fn below_the_tree(path: &str) -> String {
    format!("./{path}")
}

/// Returns a path as one element of an option that takes a list: a comma in it would begin another path, out of the tree too.
///
/// Source: package encoding/csv of Go.
fn element(path: &str) -> String {
    if path.contains([',', '"', '\n', '\r']) { format!("\"{}\"", path.replace('"', "\"\"")) } else { path.to_owned() }
}

impl Programs {
    /// Takes the folder of the programs (`PATH` without one) and the folder that scratch folders are made in.
    pub fn new(folder: Option<PathBuf>, scratch: PathBuf) -> Self {
        // The link leads to the running program also where its file was replaced.
        let launcher = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe().unwrap_or_else(|_| "gitfleet".into())
        };
        Self { folder, launcher, scratch, time_max: TIME_MAX, said: Arc::default() }
    }

    /// Starts programs through another executable of gitfleet: for tests, which are executables of their own.
    #[must_use]
    pub fn launched_by(self, launcher: PathBuf) -> Self {
        Self { launcher, ..self }
    }

    /// Finds a program and asks it for its version.
    ///
    /// # Errors
    /// `Missing`, `OtherVersion`; `Start` and `Scratch` where the system refuses.
    pub fn find(&self, renderer: Renderer, wanted: &str) -> Result<Program, Error> {
        let name = renderer.program();
        let Some(path) = self.locate(name) else {
            return Err(Error::Missing { program: name, wanted: wanted.to_owned(), places: self.places() });
        };
        let program = Program { path, renderer, programs: self.clone() };
        let found = self.version_of(&program)?;
        if found.as_deref() == Some(wanted) {
            return Ok(program);
        }
        let path = program.path.display().to_string();
        Err(Error::OtherVersion { program: name, path, wanted: wanted.to_owned(), found })
    }
}

impl Programs {
    /// Returns the version that a program says it has. Its file is asked once.
    fn version_of(&self, program: &Program) -> Result<Option<String>, Error> {
        let file = ProgramFile::at(&program.path);
        if let Some(known) = file.as_ref().and_then(|file| self.said().get(file).cloned()) {
            return Ok(known);
        }
        let found = program.version()?;
        if let Some(file) = file {
            let mut said = self.said();
            said.retain(|known, _| known.path != file.path);
            said.insert(file, found.clone());
        }
        Ok(found)
    }

    fn said(&self) -> MutexGuard<'_, BTreeMap<ProgramFile, Option<String>>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the same with the programs of `PATH`.
    pub(super) fn of_path(&self) -> Self {
        Self { folder: None, ..self.clone() }
    }

    /// Returns where a program is, if it is there.
    pub(super) fn locate(&self, name: &str) -> Option<PathBuf> {
        let folders: Vec<PathBuf> = match &self.folder {
            Some(folder) => vec![folder.clone()],
            None => std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect(),
        };
        // A relative folder of PATH would be looked for in the tree.
        let found = folders.iter().filter(|folder| folder.is_absolute()).map(|folder| folder.join(name));
        found.into_iter().find(|path| path.is_file())
    }

    /// Names where programs are looked for.
    pub(super) fn places(&self) -> String {
        self.folder.as_ref().map_or("PATH".to_owned(), |folder| folder.display().to_string())
    }
}

/// A folder that is gone with the value, and what is in it.
pub(super) struct Scratch {
    dir: TempDir,
    pub(super) root: PathBuf,
}

impl Scratch {
    pub(super) fn new(parent: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(parent).map_err(Error::scratch(parent))?;
        let dir = tempfile::Builder::new().prefix("gitfleet-render-").tempdir_in(parent);
        let dir = dir.map_err(Error::scratch(parent))?;
        // What a program prints has the real path.
        let root = dir.path().canonicalize().map_err(Error::scratch(parent))?;
        for folder in ["home", "bin", "tree"] {
            std::fs::create_dir(root.join(folder)).map_err(Error::scratch(parent))?;
        }
        Ok(Self { dir, root })
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.root.join("tree")
    }

    pub(super) fn write(&self, inputs: &[InputFile]) -> Result<(), Error> {
        let tree = self.tree();
        for input in inputs {
            let path = tree.join(&*input.path);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).map_err(Error::scratch(&path))?;
            }
            std::fs::write(&path, &input.content).map_err(Error::scratch(&path))?;
        }
        Ok(())
    }
}

impl Program {
    /// Gives the program less time than [`TIME_MAX`]: for tests.
    #[must_use]
    pub fn within(mut self, time_max: Duration) -> Self {
        self.programs.time_max = time_max;
        self
    }

    /// Returns where the program is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the version that the program says it has, such as `v5.8.2`.
    fn version(&self) -> Result<Option<String>, Error> {
        let scratch = Scratch::new(&self.programs.scratch)?;
        let arguments: &[&str] = match self.renderer {
            Renderer::Kustomize => &["version"],
            Renderer::Helm => &["version", "--short"],
        };
        let output = self.run(&scratch, arguments.iter().map(OsString::from))?;
        let text = String::from_utf8_lossy(&output.printed).into_owned();
        Ok(text.split_whitespace().find_map(version_in))
    }

    /// Renders a folder, and returns what the program printed. `inputs` are all files that may be read.
    ///
    /// # Errors
    /// `Failed`, `Memory`, `Slow`, `Large`, `Ended`: because of the folder. `Start`, `Scratch`: because of the system.
    pub fn render(&self, job: Job<'_>, inputs: &[InputFile]) -> Result<Vec<u8>, Error> {
        let scratch = Scratch::new(&self.programs.scratch)?;
        scratch.write(inputs)?;
        let output = self.run(&scratch, job.arguments().into_iter().map(OsString::from))?;
        if output.status.success() {
            return Ok(output.printed);
        }
        let root = scratch.tree();
        let message = error::message(&output.said, &root.to_string_lossy());
        drop(scratch.dir);
        Err(match output.status.code() {
            _ if error::lacks_memory(&output.said) => Error::Memory { program: self.renderer.program() },
            Some(_) => Error::Failed { program: self.renderer.program(), message },
            None => Error::Ended { program: self.renderer.program(), how: output.status.to_string() },
        })
    }

    fn run(&self, scratch: &Scratch, arguments: impl Iterator<Item = OsString>) -> Result<Output, Error> {
        let mut command = Command::new(&self.programs.launcher);
        command.arg(launch::ARGUMENT).arg(&self.path).args(arguments);
        command.current_dir(scratch.tree()).env_clear().envs(environment(&scratch.root));
        run(&mut command, self.renderer.program(), self.programs.time_max)
    }
}

/// Returns the whole environment of a program: nothing of the daemon's is in it.
pub(super) fn environment(root: &Path) -> Vec<(&'static str, OsString)> {
    let home = root.join("home").into_os_string();
    let mut variables = vec![
        // An empty folder: there is no other program to start.
        ("PATH", root.join("bin").into_os_string()),
        ("GOMEMLIMIT", MEMORY_GOAL.into()),
        ("GOTRACEBACK", "none".into()),
        // The launcher is of this program, and must have one thread to leave the network.
        ("_RJEM_MALLOC_CONF", "background_thread:false".into()),
    ];
    for name in ["HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
        variables.push((name, home.clone()));
    }
    for name in ["HTTP_PROXY", "HTTPS_PROXY"] {
        variables.push((name, NO_PROXY_THERE.into()));
    }
    variables
}

/// Reads a word as a version, without what says how it was built.
pub(super) fn version_in(word: &str) -> Option<String> {
    let bare = word.trim_start_matches("kustomize/").strip_prefix('v')?;
    let version = semver::Version::parse(bare).ok()?;
    Some(format!("v{}", semver::Version { build: semver::BuildMetadata::EMPTY, ..version }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_programs_print_them() {
        let rows = [
            ("v5.8.2", Some("v5.8.2")),
            ("v4.3.1+g1234567", Some("v4.3.1")),
            ("v4.0.0-rc.1+g12", Some("v4.0.0-rc.1")),
            ("(devel)", None),
            ("5", None),
            ("", None),
        ];
        for (word, version) in rows {
            assert_eq!(version_in(word).as_deref(), version, "{word}");
        }
    }

    #[test]
    fn what_programs_are_asked() {
        let kustomize = "build --load-restrictor LoadRestrictionsRootOnly";
        assert_eq!(Job::Kustomization("-h").arguments().join(" "), format!("{kustomize} ./-h"));
        let text = |chart: &str, values: &[&str], last| {
            let values = values.iter().map(ToString::to_string).collect();
            let capabilities = Capabilities::default();
            let release =
                Release { chart: chart.to_owned(), name: "shop".into(), namespace: "web".into(), values, capabilities };
            let arguments = Job::Chart { release: &release, values: last }.arguments().join(" ");
            arguments.strip_prefix("template --namespace web --include-crds --skip-tests ").expect("as ever").to_owned()
        };
        assert_eq!(text("a/shop", &[], None), "--skip-schema-validation -- shop ./a/shop");
        assert_eq!(
            text("", &["b.yaml", "x,/etc/passwd"], Some("a\".yaml")),
            "--values ./b.yaml --values \"./x,/etc/passwd\" --values \"./a\"\".yaml\" --skip-schema-validation -- shop ./"
        );
        let capabilities =
            Capabilities { kube_version: Some("v1.34.0".into()), api_versions: vec!["a/v1".into(), "b/v1/C".into()] };
        let chart = "web".into();
        let name = "shop".into();
        let namespace = "web".into();
        let release = Release { chart, name, namespace, values: Vec::new(), capabilities };
        let arguments = Job::Chart { release: &release, values: None }.arguments().join(" ");
        let wanted =
            "--kube-version v1.34.0 --api-versions a/v1 --api-versions b/v1/C --skip-schema-validation -- shop ./web";
        assert!(arguments.ends_with(wanted), "{arguments}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named_with_its_version_and_the_place() {
        let dir = tempfile::tempdir().expect("a folder");
        let programs = Programs::new(Some(dir.path().to_owned()), dir.path().join("scratch"));
        let error = programs.find(Renderer::Helm, "v4.3.1").expect_err("there is none").to_string();
        assert_eq!(
            error,
            format!(
                "folders are to be rendered by helm v4.3.1, and there is no helm in {}: put it there, or set `render.folder`",
                dir.path().display()
            )
        );
    }

    #[test]
    fn nothing_of_this_process_is_in_the_environment() {
        let names: Vec<&str> = environment(Path::new("/x")).into_iter().map(|(name, _)| name).collect();
        assert!(!names.iter().any(|name| name.starts_with("GITFLEET") || name.starts_with("KUBE")), "{names:?}");
        assert!(environment(Path::new("/x")).contains(&("PATH", "/x/bin".into())));
    }
}
