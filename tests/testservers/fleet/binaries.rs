//! The servers' binaries: built once by the ordinary `go build` into a cache, then found there.
//!
//! The cache needs no Go and no sources any more once it is filled: a CI system may keep and restore that one folder.

use std::{
    env, fs,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

/// Environment variable that names the cache folder.
pub const CACHE_VARIABLE: &str = "GITFLEET_TEST_CACHE";

/// Environment variables that name folders with programs to use in the stead of those that would be built, by their names: one of our own,
/// and that of the envtest of controller-runtime.
const GIVEN_VARIABLES: [&str; 2] = ["GITFLEET_TEST_BINARIES", "KUBEBUILDER_ASSETS"];

/// How all are compiled. Without the compiler's own data for debuggers, which the linker would drop anyway, a sixth of the time is saved.
/// Without inlining more is: the servers do little in a test, and are built on every new machine.
const FLAGS: [&str; 2] = ["-trimpath", "-gcflags=all=-dwarf=false -l"];

/// One Go module below `servers/` and what is built from it.
struct Module {
    name: &'static str,
    packages: &'static [(&'static str, &'static str)],
    ldflags: &'static str,
    tags: &'static str,
    cgo: bool,
    /// A module of which these folders are kept too, because the server reads them at run time.
    files: Option<(&'static str, &'static [&'static str])>,
    /// What to expect of a first build on two cores.
    cold: &'static str,
}

const MODULES: &[Module] = &[
    Module {
        name: "etcd",
        packages: &[("etcd", "go.etcd.io/etcd/server/v3")],
        ldflags: "-s -w",
        tags: "",
        cgo: false,
        files: None,
        cold: "20 s",
    },
    Module {
        name: "kubernetes",
        packages: &[
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
            ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
            ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
        ],
        ldflags: "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
                  -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36",
        tags: "",
        cgo: false,
        files: None,
        cold: "4 to 5 minutes",
    },
    Module {
        name: "gitea",
        packages: &[("gitea", "code.gitea.io/gitea")],
        ldflags: "-s -w",
        tags: "sqlite sqlite_unlock_notify",
        cgo: true,
        files: Some(("code.gitea.io/gitea", &["options", "public", "templates"])),
        cold: "3 minutes",
    },
];

/// Programs that people render and encrypt with, and tests too. They belong to no fleet.
const TOOLS: &[Module] = &[
    Module {
        name: "helm",
        packages: &[("helm", "helm.sh/helm/v4/cmd/helm")],
        // As in its releases: otherwise it does not know its whole version.
        ldflags: "-s -w -X helm.sh/helm/v4/internal/version.version=v4.3.1",
        tags: "",
        cgo: false,
        files: None,
        cold: "2 minutes",
    },
    Module {
        name: "kustomize",
        packages: &[("kustomize", "sigs.k8s.io/kustomize/kustomize/v5")],
        ldflags: "-s -w",
        tags: "",
        cgo: false,
        files: None,
        cold: "15 s",
    },
    Module {
        name: "sops",
        packages: &[("sops", "github.com/getsops/sops/v3/cmd/sops"), ("age-keygen", "filippo.io/age/cmd/age-keygen")],
        ldflags: "-s -w",
        tags: "",
        cgo: false,
        files: None,
        cold: "3 minutes",
    },
];

/// The modules in the order in which they are built where several are missing: those that take longest first, so that none is left alone at
/// the end, and after another what shares packages with it.
const ORDER: [&str; 6] = ["kubernetes", "gitea", "sops", "helm", "etcd", "kustomize"];

/// Modules that are built at a time: while one is fetched or linked, others compile.
const AT_A_TIME: usize = 3;

/// Where the binaries of the servers are that every fleet has.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// `etcd`.
    pub etcd: PathBuf,
    /// `kube-apiserver`.
    pub kube_apiserver: PathBuf,
    /// `kubectl`.
    pub kubectl: PathBuf,
}

/// Where the tools' binaries are.
#[derive(Clone, Debug)]
pub struct Tools {
    /// `helm`.
    pub helm: PathBuf,
    /// `kustomize`.
    pub kustomize: PathBuf,
    /// `sops`.
    pub sops: PathBuf,
    /// `age-keygen`.
    pub age_keygen: PathBuf,
}

impl Tools {
    /// Returns the tools, built first where neither a given folder nor the cache has them; see [`Binaries::build_or_cached`].
    ///
    /// # Errors
    /// When Go is missing, a build fails, or the cache cannot be written.
    pub fn build_or_cached() -> Result<Self> {
        Ok(Self {
            helm: program("helm")?,
            kustomize: program("kustomize")?,
            sops: program("sops")?,
            age_keygen: program("age-keygen")?,
        })
    }
}

impl Binaries {
    /// Returns the binaries. Those that neither a given folder nor the cache has are built first, one module after the other, which takes
    /// minutes and is said on stderr; [`build_everything`] is faster. Of several processes one builds and the others wait for it.
    ///
    /// # Errors
    /// When Go (or for Gitea, a C compiler) is missing, a build fails, or the cache cannot be written.
    pub fn build_or_cached() -> Result<Self> {
        Ok(Self { etcd: program("etcd")?, kube_apiserver: program("kube-apiserver")?, kubectl: program("kubectl")? })
    }

    /// Returns the controller manager, which not every fleet has; as [`Self::build_or_cached`].
    ///
    /// # Errors
    /// As there.
    pub fn controller_manager() -> Result<PathBuf> {
        program("kube-controller-manager")
    }

    /// Returns Gitea, which not every fleet has, and the folder with templates and the like, which it reads at run time.
    ///
    /// # Errors
    /// As [`Self::build_or_cached`].
    pub fn gitea() -> Result<(PathBuf, PathBuf)> {
        let gitea = program("gitea")?;
        let files = gitea.with_file_name("files");
        Ok((gitea, files))
    }
}

/// Returns where a program is: in a folder that was given, or in the cache, where its module is built first if it is missing.
fn program(name: &str) -> Result<PathBuf> {
    if let Some(given) = given(name) {
        return Ok(given);
    }
    let mut modules = MODULES.iter().chain(TOOLS);
    let module = modules.find(|module| module.packages.iter().any(|(program, _)| *program == name));
    let cache = cache()?;
    fs::create_dir_all(&cache).with_context(|| format!("create the cache {}", cache.display()))?;
    Ok(module.with_context(|| format!("no module has {name}"))?.ensured(&cache)?.join(name))
}

/// Returns the path of a program in the folders that the environment gives.
fn given(name: &str) -> Option<PathBuf> {
    let folders = GIVEN_VARIABLES.iter().filter_map(env::var_os).filter(|folder| !folder.is_empty());
    folders.map(|folder| PathBuf::from(folder).join(name)).find(|path| path.is_file())
}

/// Returns the servers' binaries and those of the tools, all built first where the cache does not have them.
///
/// # Errors
/// As [`Binaries::build_or_cached`].
pub fn build_everything() -> Result<(Binaries, Tools)> {
    let cache = cache()?;
    fs::create_dir_all(&cache).with_context(|| format!("create the cache {}", cache.display()))?;
    let waiting = Mutex::new(ORDER.iter());
    let worker = || {
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(name) = next() {
            let module = MODULES.iter().chain(TOOLS).find(|module| module.name == *name);
            let module = module.with_context(|| format!("no module `{name}`"))?;
            if module.packages.iter().any(|(program, _)| given(program).is_none()) {
                module.ensured(&cache)?;
            }
        }
        anyhow::Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    Ok((Binaries::build_or_cached()?, Tools::build_or_cached()?))
}

impl Module {
    fn sources(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fleet/servers").join(self.name)
    }

    /// Returns the name of the folder in the cache: other module files or other flags, another folder.
    fn key(&self) -> Result<String> {
        let mut hash = Sha256::new();
        for file in ["go.mod", "go.sum"] {
            let path = self.sources().join(file);
            hash.update(fs::read(&path).with_context(|| format!("read {}", path.display()))?);
        }
        hash.update(format!("{:?} {FLAGS:?} {} {} {}", self.packages, self.ldflags, self.tags, self.cgo));
        let digest = hash.finalize();
        let digits: String = format!("{digest:x}")[..12].to_owned();
        Ok(format!("{}-{digits}", self.name))
    }

    /// Returns its folder in the cache, built first where it is not there.
    fn ensured(&self, cache: &Path) -> Result<PathBuf> {
        self.ensure(cache).with_context(|| format!("the test module `{}`", self.name))
    }

    fn ensure(&self, cache: &Path) -> Result<PathBuf> {
        let folder = cache.join(self.key()?);
        if folder.is_dir() {
            return Ok(folder);
        }
        let lock = File::create(cache.join(format!("{}.lock", self.name))).context("create the lock file")?;
        lock.lock().context("wait for another process that builds the same")?;
        if folder.is_dir() {
            return Ok(folder);
        }
        // Complete or not there at all: the folder gets its name when everything is in it. Only the holder of the lock
        // comes here, so what lies there is the rest of a build that was interrupted.
        let unfinished = cache.join(format!("{}.unfinished", self.name));
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).context("remove an interrupted build")?;
        }
        fs::create_dir_all(&unfinished)?;
        let names: Vec<&str> = self.packages.iter().map(|(name, _)| *name).collect();
        eprintln!("fleet: building {} (a first build takes about {} on two cores)", names.join(", "), self.cold);
        let started = Instant::now();
        self.build(&unfinished)?;
        self.copy_files(&unfinished.join("files"))?;
        fs::rename(&unfinished, &folder).context("give the finished build its name")?;
        eprintln!("fleet: built {} in {} s", names.join(", "), started.elapsed().as_secs());
        Ok(folder)
    }

    /// Builds its packages together, so that one is linked while another compiles.
    fn build(&self, folder: &Path) -> Result<()> {
        let mut go = self.go();
        go.arg("build").args(FLAGS).args(["-ldflags", self.ldflags, "-tags", self.tags, "-o"]);
        match self.packages {
            // The path of its package may end with a version, and not with its name.
            [(name, _)] => go.arg(folder.join(name)),
            // Go names them by the ends of their paths.
            _ => go.arg(folder),
        };
        let status = go.args(self.packages.iter().map(|(_, package)| package)).status().map_err(no_go)?;
        if !status.success() {
            let compiler = if self.cgo { " (this one also needs a C compiler such as gcc)" } else { "" };
            bail!("go build of the module {} ended with {status}{compiler}", self.name);
        }
        for (name, package) in self.packages {
            ensure!(folder.join(name).is_file(), "go build {package} made no {name}");
        }
        Ok(())
    }

    fn copy_files(&self, target: &Path) -> Result<()> {
        let Some((module, folders)) = self.files else { return Ok(()) };
        let output = self.go().args(["list", "-m", "-f", "{{.Dir}}", module]).output().map_err(no_go)?;
        let source = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || source.is_empty() {
            bail!("go list -m {module}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        for folder in folders {
            copy(&Path::new(&source).join(folder), &target.join(folder))?;
        }
        Ok(())
    }

    fn go(&self) -> Command {
        let mut go = Command::new("go");
        go.current_dir(self.sources()).env("CGO_ENABLED", if self.cgo { "1" } else { "0" });
        // Module files are taken as they are, whatever the user's own settings say.
        go.env("GOFLAGS", "-mod=readonly").env("GOWORK", "off");
        // The compiler is a short-lived process: it takes a fourth less time if it collects no garbage before it holds this much.
        go.env("GOGC", "off").env("GOMEMLIMIT", "1536MiB");
        go
    }
}

fn no_go(error: std::io::Error) -> anyhow::Error {
    anyhow::Error::new(error).context(
        "cannot run `go`: the servers of the end-to-end tests are built from source. Install Go 1.26 or newer, and gcc \
         for Gitea, and see that both are in PATH",
    )
}

/// Returns the folder of the cache.
pub(super) fn cache() -> Result<PathBuf> {
    if let Some(folder) = env::var_os(CACHE_VARIABLE).filter(|value| !value.is_empty()) {
        return std::path::absolute(folder).with_context(|| format!("the folder of {CACHE_VARIABLE}"));
    }
    if let Some(folder) = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute()) {
        return Ok(folder.join("gitfleet-tests"));
    }
    let home = env::var_os("HOME").with_context(|| format!("neither HOME nor {CACHE_VARIABLE} is set"))?;
    Ok(PathBuf::from(home).join(".cache/gitfleet-tests"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| format!("copy to {}", target.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The version that the Kubernetes binaries report; keep it equal to the one in `servers/kubernetes/go.mod`.
    const KUBERNETES: &str = "v1.36.3";

    #[test]
    fn version_in_flags_is_that_of_the_module_file() {
        for module in MODULES.iter().filter(|module| module.name == "kubernetes") {
            let file =
                fs::read_to_string(module.sources().join("go.mod")).expect("the module file is in the repository");
            assert!(file.contains(&format!("k8s.io/kubernetes {KUBERNETES}")), "go.mod requires another Kubernetes");
            assert!(module.ldflags.contains(&format!("gitVersion={KUBERNETES}")));
        }
        for module in TOOLS {
            let file =
                fs::read_to_string(module.sources().join("go.mod")).expect("the module file is in the repository");
            let version = module.ldflags.split_once("version.version=").map(|(_, version)| version);
            assert!(version.is_none_or(|version| file.contains(&format!("/v4 {version}"))), "go.mod requires another");
        }
    }
}
