//! Repositories that are read over ssh: by the official program, started so that nothing but the configuration steers it.
//!
//! gix can start ssh itself, but inherits the environment, writes what ssh says to our own standard error, and cannot end it while
//! a read waits. So the process is ours, and gix speaks the protocol of git over its pipes. See docs/design/062-source-access.md.

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gix::protocol::transport::Protocol;
use gix::protocol::transport::client::git::ConnectMode;
use gix::protocol::transport::client::git::blocking_io::Connection;

use self::address::SshAddress;
use super::error::Secrets;
use super::watchdog::{Stopped, watched};
use super::{Cause, Error, SSH_ALIVE_INTERVAL, SSH_CONNECT_TIME_MAX, SSH_SILENCE_MAX, WATCHDOG_INTERVAL};

mod access;
mod address;
mod said;

pub use self::access::SshAccess;
pub(super) use self::address::is_ssh;

/// The program.
const PROGRAM: &str = "ssh";
/// The most that is kept of what ssh and the host say, in bytes: the host chooses the text.
const SAID_SIZE_MAX_BYTES: u64 = 4096;
/// How long ssh may take to end by itself once its output ended: its last words say why.
const END_TIME_MAX: Duration = Duration::from_secs(2);
/// How many signs of life in a row the host may leave unanswered.
const ALIVE_COUNT_MAX: u32 = 3;

/// What gix speaks to a server through.
pub(super) type Transport = dyn gix::protocol::transport::client::blocking_io::Transport + Send;

/// A repository behind ssh, and the process that is connected to it now.
pub(super) struct Ssh {
    address: SshAddress,
    access: SshAccess,
    process: Arc<Process>,
}

#[derive(Default)]
struct Process {
    running: Mutex<Option<Running>>,
    /// Reads that have ended.
    reads: AtomicU64,
    /// A read waits for the host.
    is_waiting: AtomicBool,
}

struct Running {
    child: Child,
    /// Receives what was said, once.
    said: Receiver<Vec<u8>>,
}

impl Ssh {
    /// Checks a location. Starts nothing and opens no file.
    ///
    /// # Errors
    /// `UnsupportedLocation` where the location cannot be used, or no key is configured.
    pub(crate) fn new(location: &str, access: Option<&SshAccess>) -> Result<Self, Error> {
        let address = SshAddress::parse(location).map_err(|reason| {
            // It may hold a password before the host.
            let shown = location.rsplit_once('@').map_or(location, |(_, rest)| rest);
            Error::unsupported(shown, reason)
        })?;
        let Some(access) = access else {
            return Err(Error::unsupported(location, "ssh needs `source.ssh` with keyFile and knownHostsFile"));
        };
        for path in [&access.key_file, &access.known_hosts_file] {
            // ssh expands names of files and splits lists of them.
            if path.to_string_lossy().contains(|c: char| c.is_control() || " %$~\"'\\#".contains(c)) {
                let reason = "its path has blanks, quotes or one of % $ ~ # \\, which ssh would expand: rename it";
                return Err(Error::AccessFile {
                    location: location.to_owned(),
                    path: path.clone(),
                    reason: reason.to_owned(),
                });
            }
        }
        Ok(Self { address, access: access.clone(), process: Arc::default() })
    }

    /// Starts ssh; the host is spoken to with the first request.
    ///
    /// # Errors
    /// `AccessFile` where a file cannot be read, `SshProgram` where there is no ssh.
    pub(crate) fn connect(&self, location: &str) -> Result<Box<Transport>, Error> {
        self.process.end();
        for path in [&self.access.key_file, &self.access.known_hosts_file] {
            std::fs::File::open(path).map_err(|error| Error::AccessFile {
                location: location.to_owned(),
                path: path.clone(),
                reason: error.to_string(),
            })?;
        }
        let mut child = self
            .command()
            .spawn()
            .map_err(|error| Error::SshProgram { location: location.to_owned(), reason: not_started(&error) })?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Error::SshProgram { location: location.to_owned(), reason: "it has no pipes".to_owned() });
        };
        self.process.begin(child, stderr);
        let output = Output { inner: stdout, process: Arc::clone(&self.process) };
        let path = self.address.path.clone();
        let host = None::<(&str, Option<u16>)>;
        let connection = Connection::new(output, stdin, Protocol::V2, path, host, ConnectMode::Process, false);
        Ok(Box::new(connection))
    }

    /// Runs what speaks to the host; ends ssh after it, when `interrupt` is set, after `limit`, and where the host is silent for
    /// [`SSH_SILENCE_MAX`].
    ///
    /// # Errors
    /// Those of `work`; `Interrupted`, `Timeout`.
    pub(crate) fn guard<T>(
        process: &SshProcess,
        location: &str,
        interrupt: &AtomicBool,
        limit: Duration,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let process = &process.0;
        let mut reads = process.reads.load(Ordering::Relaxed);
        let mut silent = Duration::ZERO;
        let look = move || {
            let now = process.reads.load(Ordering::Relaxed);
            let waits = process.is_waiting.load(Ordering::Relaxed);
            silent = if waits && now == reads { silent + WATCHDOG_INTERVAL } else { Duration::ZERO };
            reads = now;
            (silent >= SSH_SILENCE_MAX).then_some(SSH_SILENCE_MAX)
        };
        let (result, stopped) = watched(interrupt, limit, look, || process.kill(), work);
        process.end();
        let location = location.to_owned();
        result.map_err(|error| match (error, stopped) {
            // The first say more than that something was stopped.
            (error @ (Error::FetchTooLarge { .. } | Error::Timeout { .. } | Error::Interrupted { .. }), _)
            | (error, None) => error,
            (_, Some(Stopped::Asked)) => Error::Interrupted { location },
            (_, Some(Stopped::Late(limit))) => Error::Timeout { location, limit },
        })
    }

    /// Returns what [`Self::guard`] ends.
    pub(crate) fn process(&self) -> SshProcess {
        SshProcess(Arc::clone(&self.process))
    }

    /// Returns why a connection failed: by what ssh or the host said, else by gix's error.
    pub(crate) fn failed(&self, location: &str, error: &gix::Error) -> Error {
        let (said, by_ssh) = self.process.said();
        let of_gix = Cause::of(error, &Secrets::default());
        if said.is_empty() && !by_ssh {
            return Error::remote(location, error, &Secrets::default(), false);
        }
        let cause = match (said.is_empty(), by_ssh) {
            (true, _) => of_gix,
            (false, true) => Cause::text(&said, &Secrets::default()),
            // What a host says beside git may have nothing to do with it.
            (false, false) => Cause::text(&format!("{} ({of_gix})", said.trim()), &Secrets::default()),
        };
        said::error(&self.address, &self.access, location, &said, by_ssh, cause)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command.env_clear().envs([("LANG", "C"), ("LC_ALL", "C"), ("GIT_PROTOCOL", "version=2")]);
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.args(["-T", "-a", "-x", "-F", "/dev/null"]);
        for option in self.options() {
            command.args(["-o", &option]);
        }
        command.arg("-i").arg(&self.access.key_file).args(["-l", &self.address.user]);
        if let Some(port) = self.address.port {
            command.args(["-p", &port.to_string()]);
        }
        // The path has no quote: the address was checked.
        command.args(["--", &self.address.host, &format!("git-upload-pack '{}'", self.address.path)]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Who interrupts gitfleet at a terminal interrupts it alone; it then ends ssh.
        command.current_dir("/").process_group(0);
        command
    }

    /// Source: ssh_config(5).
    fn options(&self) -> Vec<String> {
        let fixed = [
            "StrictHostKeyChecking=yes",
            "GlobalKnownHostsFile=/dev/null",
            "UpdateHostKeys=no",
            "VerifyHostKeyDNS=no",
            "CheckHostIP=no",
            "IdentitiesOnly=yes",
            "IdentityAgent=none",
            "AddKeysToAgent=no",
            "PreferredAuthentications=publickey",
            "BatchMode=yes",
            "ProxyCommand=none",
            "ProxyJump=none",
            "ControlMaster=no",
            "ControlPath=none",
            "ClearAllForwardings=yes",
            "PermitLocalCommand=no",
            "CanonicalizeHostname=no",
            "ConnectionAttempts=1",
            "SendEnv=GIT_PROTOCOL",
            "LogLevel=ERROR",
        ];
        let mut options: Vec<String> = fixed.map(str::to_owned).into();
        options.push(format!("UserKnownHostsFile={}", self.access.known_hosts_file.display()));
        options.push(format!("ConnectTimeout={}", SSH_CONNECT_TIME_MAX.as_secs()));
        options.push(format!("ServerAliveInterval={}", SSH_ALIVE_INTERVAL.as_secs()));
        options.push(format!("ServerAliveCountMax={ALIVE_COUNT_MAX}"));
        options
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        self.process.end();
    }
}

/// What is connected now; nothing, most of the time.
pub(super) struct SshProcess(Arc<Process>);

impl Process {
    fn running(&self) -> std::sync::MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, child: Child, stderr: std::process::ChildStderr) {
        let (sender, said) = channel();
        let thread = std::thread::Builder::new().name("gitfleet-ssh".to_owned());
        // Without the thread nothing is said, and ssh is told that nobody listens.
        drop(thread.spawn(move || drop(sender.send(read_said(stderr)))));
        *self.running() = Some(Running { child, said });
    }

    /// Ends ssh; what waits for it is told at once.
    fn kill(&self) {
        if let Some(running) = &mut *self.running() {
            // It may have ended by itself.
            drop(running.child.kill());
        }
    }

    /// Ends ssh, and waits until it has.
    fn end(&self) {
        if let Some(mut running) = self.running().take() {
            drop(running.child.kill());
            drop(running.child.wait());
        }
    }

    /// Returns what was said, and whether it was ssh that failed and not the program on the host. Ends ssh.
    fn said(&self) -> (String, bool) {
        /// ssh's exit code for errors of its own.
        ///
        /// Source: ssh(1), exit status.
        const SSH_FAILED: i32 = 255;
        let Some(mut running) = self.running().take() else { return (String::new(), false) };
        // The sender speaks once ssh has closed its standard error, which is when it ends.
        let text = running.said.recv_timeout(END_TIME_MAX);
        let status = if text.is_ok() {
            running.child.wait()
        } else {
            drop(running.child.kill());
            running.child.wait()
        };
        let text = text.or_else(|_| running.said.recv_timeout(END_TIME_MAX)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        (text, status.is_ok_and(|status| status.code() == Some(SSH_FAILED)))
    }
}

/// Reads what is said until it ends; returns its beginning.
fn read_said(mut stderr: std::process::ChildStderr) -> Vec<u8> {
    let mut text = Vec::new();
    // What cannot be read was not said. The rest is read too: ssh would wait for a reader.
    drop(stderr.by_ref().take(SAID_SIZE_MAX_BYTES).read_to_end(&mut text));
    drop(std::io::copy(&mut stderr, &mut std::io::sink()));
    text
}

/// What the host sends.
struct Output {
    inner: std::process::ChildStdout,
    process: Arc<Process>,
}

impl Read for Output {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.process.is_waiting.store(true, Ordering::Relaxed);
        let read = self.inner.read(buffer);
        self.process.is_waiting.store(false, Ordering::Relaxed);
        self.process.reads.fetch_add(1, Ordering::Relaxed);
        read
    }
}

/// Says why the program was not started, and what to do.
fn not_started(error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::NotFound {
        format!("there is no program {PROGRAM} in PATH: install OpenSSH's client (Debian: openssh-client)")
    } else {
        error.to_string()
    }
}

/// Returns what `ssh -V` says of itself, for people.
///
/// # Errors
/// Why it cannot be started, and what to do.
pub fn ssh_version() -> Result<String, String> {
    let output = Command::new(PROGRAM).arg("-V").stdin(Stdio::null()).output().map_err(|error| not_started(&error))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(said) } else { Err(said) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_configuration_steers_ssh() {
        let access = SshAccess { key_file: "/keys/git".into(), known_hosts_file: "/keys/known_hosts".into() };
        let ssh = Ssh::new("ssh://git@git.example:2222/a/b.git", Some(&access)).unwrap();
        let command = ssh.command();
        let args: Vec<&str> = command.get_args().map(|arg| arg.to_str().unwrap()).collect();
        for option in [
            "StrictHostKeyChecking=yes",
            "UserKnownHostsFile=/keys/known_hosts",
            "GlobalKnownHostsFile=/dev/null",
            "IdentitiesOnly=yes",
            "IdentityAgent=none",
            "BatchMode=yes",
            "ConnectTimeout=20",
        ] {
            assert!(args.windows(2).any(|pair| pair == ["-o", option]), "{option}: {args:?}");
        }
        assert!(args.windows(2).any(|pair| pair == ["-F", "/dev/null"]), "{args:?}");
        let last = ["-i", "/keys/git", "-l", "git", "-p", "2222", "--", "git.example", "git-upload-pack '/a/b.git'"];
        assert!(args.ends_with(&last), "{args:?}");
        let names: Vec<_> = command.get_envs().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(names, ["GIT_PROTOCOL", "LANG", "LC_ALL", "PATH"]);
    }
}
