//! Server processes: started with a log file, recorded in the fleet's ledger, ended by their handle.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};

use super::wait::until;

/// How many lines of a server's log an error shows.
const TAIL_LINES: usize = 25;

/// File of a fleet's folder with one line for each process ever started: its id, the program's file name, its name.
pub(super) const LEDGER: &str = "processes";

/// What to run. Every command line names a file of the fleet's folder: that is how its processes are told from others.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub name: String,
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    /// The fleet's folder; the log goes to `logs/NAME.log` in it.
    pub folder: PathBuf,
    /// The ids of the user and the group to run as; those of this process where there are none.
    pub user: Option<(u32, u32)>,
}

impl Spec {
    pub(super) fn new(name: &str, program: &Path, folder: &Path) -> Self {
        let env = vec![("HOME".to_owned(), folder.display().to_string())];
        let (name, program, folder) = (name.to_owned(), program.to_owned(), folder.to_owned());
        Self { name, program, args: Vec::new(), env, folder, user: None }
    }

    pub(super) fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds `--name=value`.
    pub(super) fn flag(self, name: &str, value: impl std::fmt::Display) -> Self {
        self.arg(format!("--{name}={value}"))
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("logs").join(format!("{}.log", self.name))
    }

    /// Returns the last lines of the log, for error messages.
    pub(super) fn tail(&self) -> String {
        let text = fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(TAIL_LINES);
        format!("last lines of the log of {}:\n{}", self.name, lines[from..].join("\n"))
    }

    fn command(&self) -> Result<Command> {
        let log = self.log();
        fs::create_dir_all(self.folder.join("logs")).context("a folder for the logs")?;
        let out = OpenOptions::new().create(true).append(true).open(&log);
        let out = out.with_context(|| format!("open the log {}", log.display()))?;
        let err = out.try_clone().context("the log a second time, for stderr")?;
        let mut command = Command::new(&self.program);
        command.args(&self.args).envs(self.env.iter().cloned()).current_dir(&self.folder);
        // A group of its own: Ctrl-C in the terminal is for the tests, who then end their servers in order.
        command.env_remove("KUBECONFIG").stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        Ok(command)
    }

    /// Runs the command to its end.
    ///
    /// # Errors
    /// When it cannot start or does not succeed; the error shows the log.
    pub(super) fn run(&self) -> Result<()> {
        let status = self.command()?.status().with_context(|| format!("start {}", self.program.display()))?;
        if !status.success() {
            bail!("{} ended with {status}\n{}", self.name, self.tail());
        }
        Ok(())
    }

    /// Starts the server.
    ///
    /// # Errors
    /// When it cannot start.
    pub(super) fn spawn(self) -> Result<Process> {
        let process = Process { spec: self, child: Mutex::new(None) };
        process.start()?;
        Ok(process)
    }
}

/// One server. Running, or stopped and ready to be started again; dropping it ends it.
#[derive(Debug)]
pub struct Process {
    spec: Spec,
    child: Mutex<Option<Child>>,
}

impl Process {
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        // The child is a plain handle: it is as good after another thread's panic as before.
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the server again with the same arguments; does nothing when it runs.
    ///
    /// # Errors
    /// When it cannot start.
    pub fn start(&self) -> Result<()> {
        let mut child = self.child();
        if child.is_some() {
            return Ok(());
        }
        let started = self.spec.command()?.spawn();
        let started = started.with_context(|| format!("start {}", self.spec.program.display()))?;
        let pid = started.id();
        *child = Some(started);
        let mut ledger = OpenOptions::new().create(true).append(true).open(self.spec.folder.join(LEDGER))?;
        let program = self.spec.program.file_name().unwrap_or_default().display();
        writeln!(ledger, "{pid} {program} {}", self.spec.name).context("write the ledger")
    }

    /// Ends the server at once, as a crash or a power cut would.
    pub fn stop(&self) {
        if let Some(mut child) = self.child().take() {
            // An error here means that it already ended by itself: what we want.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends a signal by the name that `kill` knows, such as `STOP`.
    ///
    /// # Errors
    /// When the server is stopped or `kill` refuses.
    pub fn signal(&self, name: &str) -> Result<()> {
        let Some(pid) = self.id() else { bail!("{} is stopped", self.spec.name) };
        signal(pid, name)
    }

    /// The process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// Fails if the server ended by itself; the error shows the log.
    ///
    /// # Errors
    /// That it ended.
    pub fn check(&self) -> Result<()> {
        self.running().map_err(|error| anyhow!("{error:#}\n{}", self.spec.tail()))
    }

    /// Returns the answer of `look` as soon as it has one, as long as the server runs.
    ///
    /// # Errors
    /// That it ended, what `look` fails with, or after `limit` that `what` did not come about; with the end of the log.
    pub fn until<T>(&self, what: &str, limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let found = until(what, limit, || {
            self.running()?;
            look()
        });
        found.map_err(|error| anyhow!("{error:#}\n{}", self.spec.tail()))
    }

    fn running(&self) -> Result<()> {
        let ended = match self.child().as_mut() {
            Some(child) => child.try_wait().context("ask for the state of a child")?,
            None => bail!("{} is stopped", self.spec.name),
        };
        match ended {
            Some(status) => bail!("{} ended with {status}", self.spec.name),
            None => Ok(()),
        }
    }

    /// Lets the process live on without a handle.
    pub fn release(&self) {
        drop(self.child().take());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Sends a signal to a process by the `kill` command.
///
/// # Errors
/// When `kill` does not succeed.
pub(super) fn signal(pid: u32, name: &str) -> Result<()> {
    let output = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).output().context("run kill")?;
    if !output.status.success() {
        bail!("kill -{name} {pid}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// One line of the ledger.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub pid: u32,
    pub program: String,
    pub name: String,
}

impl Entry {
    /// Reads the ledger of the fleet in `folder`, oldest first.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn all(folder: &Path) -> Result<Vec<Self>> {
        let text = fs::read_to_string(folder.join(LEDGER)).context("read the ledger of the fleet's processes")?;
        let entry = |line: &str| {
            let mut words = line.split(' ');
            let pid = words.next()?.parse().ok()?;
            Some(Self { pid, program: words.next()?.to_owned(), name: words.next()?.to_owned() })
        };
        Ok(text.lines().filter_map(entry).collect())
    }

    /// Says whether the process is alive and still this one, by the program and the fleet's folder in its command line:
    /// ids are used again, and a stranger must never be ended. One that ended but was not reaped has an empty line.
    pub(super) fn is_alive(&self, folder: &Path) -> bool {
        let line = match fs::read(format!("/proc/{}/cmdline", self.pid)) {
            Ok(line) => line,
            Err(_) if Path::new("/proc/self").exists() => return false,
            Err(_) => match Command::new("ps").args(["-ww", "-o", "args=", "-p", &self.pid.to_string()]).output() {
                Ok(output) => output.stdout,
                Err(_) => return false,
            },
        };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(&format!("/{} ", self.program)) && line.contains(&format!("{}/", folder.display()))
    }
}

/// Ends the fleet's processes and removes its folder when this process ends, in whatever way: by an abort, by a
/// signal, or with the fleet in a `static`, which Rust never drops.
///
/// It is a shell that waits at the end of a pipe: the pipe closes when its owner is gone.
#[derive(Debug)]
pub(super) struct Watchdog {
    shell: Child,
    pipe: Option<ChildStdin>,
}

const WATCHDOG: &str = r#"
folder=$1
while read -r word; do
  if [ "$word" = release ]; then exit 0; fi
done
[ -f "$folder/processes" ] || exit 0
while read -r pid program name; do
  if [ -d /proc/self ]; then line=$(tr '\0' ' ' <"/proc/$pid/cmdline"); else line=$(ps -ww -o args= -p "$pid"); fi
  case $line in *"/$program "*"$folder/"*) kill -KILL "$pid" ;; esac
done <"$folder/processes"
[ "$GITFLEET_KEEP_FLEET" = 1 ] || { sleep 0.2; rm -rf "$folder"; }
"#;

impl Watchdog {
    /// Starts watching over the fleet in `folder`.
    ///
    /// # Errors
    /// When no shell can be started.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        File::create(folder.join(LEDGER)).context("create the ledger")?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(WATCHDOG).arg("fleet-watchdog").arg(folder).process_group(0);
        let mut shell =
            shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("start sh")?;
        let pipe = shell.stdin.take();
        Ok(Self { shell, pipe })
    }

    /// Ends the watch and leaves everything as it is.
    pub(super) fn release(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            // The shell can only be gone if somebody ended it, and then there is nothing to release.
            let _ = pipe.write_all(b"release\n");
        }
        let _ = self.shell.wait();
    }
}
