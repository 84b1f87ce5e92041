//! A host that is reached over ssh: Debian's sshd, one process for each connection, as the user who runs the tests.
//!
//! The test accepts the connections itself and hands them over, so that no port is lost between two processes, the host can be
//! stopped and come back at the same address, and nothing is left when the test ends.

use std::fs;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tempfile::TempDir;

/// Where the package puts it.
const SSHD: &str = "/usr/sbin/sshd";
/// A folder that sshd wants to find where root runs it, empty.
const EMPTY_FOLDER: &str = "/run/sshd";

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It is served.
    Served,
    /// Nothing is answered, ever.
    Mute,
    /// The host admits the key, and its git says nothing.
    Stuck,
}

/// The host. It ends when dropped.
pub struct Sshd {
    folder: TempDir,
    port: u16,
    manner: Arc<Mutex<Manner>>,
    served: Arc<AtomicUsize>,
    listening: Option<Listening>,
}

struct Listening {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Sshd {
    /// Starts one that admits [`Self::key_file`]. `protocol` says whether it accepts the variable that asks for git's protocol 2.
    pub fn start(protocol: bool) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (manner, served) = (Arc::new(Mutex::new(Manner::Served)), Arc::default());
        let mut sshd = Self { folder, port: 0, manner, served, listening: None };
        for name in ["host", "client", "stranger"] {
            make_key(&sshd.path(name), "");
        }
        fs::copy(sshd.path("client.pub"), sshd.path("authorized_keys")).expect("the list of keys");
        let accept = if protocol { "AcceptEnv GIT_PROTOCOL\n" } else { "" };
        let path = std::env::var("PATH").expect("a PATH");
        // With that level bash does not run the start-up file of whoever runs the tests.
        let common = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nSetEnv PATH={path} SHLVL=9\nPidFile none\n{accept}",
            sshd.path("host").display(),
            sshd.path("authorized_keys").display(),
        );
        fs::write(sshd.path("served.conf"), &common).expect("a file");
        fs::write(sshd.path("stuck.conf"), format!("{common}ForceCommand cat >/dev/null\n")).expect("a file");
        // Of root only: sshd checks it before anything else.
        drop(fs::create_dir(EMPTY_FOLDER));
        sshd.listen();
        sshd.know(&sshd.public("host"));
        sshd
    }

    /// Returns a path of the host's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the private key that it admits.
    pub fn key_file(&self) -> PathBuf {
        self.path("client")
    }

    /// Returns the file of known hosts, with the host's key.
    pub fn known_hosts_file(&self) -> PathBuf {
        self.path("known_hosts")
    }

    /// Returns the public half of `host`, `client` or `stranger`.
    pub fn public(&self, name: &str) -> String {
        fs::read_to_string(self.path(name).with_extension("pub")).expect("a key").trim().to_owned()
    }

    /// Writes a key into the file of known hosts, in place of what is there; an empty one writes nothing.
    pub fn know(&self, public: &str) {
        let line = if public.is_empty() { String::new() } else { format!("[127.0.0.1]:{} {public}\n", self.port) };
        fs::write(self.known_hosts_file(), line).expect("a file");
    }

    /// Returns the URL of a repository of this machine.
    pub fn url(&self, repository: &Path) -> String {
        format!("ssh://{}@127.0.0.1:{}{}", user(), self.port, repository.display())
    }

    /// Returns how many connections were accepted.
    pub fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }

    /// Treats the next connections so.
    pub fn treat(&self, manner: Manner) {
        *self.manner.lock().expect("nobody failed") = manner;
    }

    /// Ends the host and its connections.
    pub fn stop(&mut self) {
        let Some(Listening { stop, thread }) = self.listening.take() else { return };
        stop.store(true, Ordering::SeqCst);
        // It waits for one more.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        thread.join().expect("the host's thread ends");
    }

    /// Listens, at the same address as before.
    pub fn listen(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).expect("a port");
        self.port = listener.local_addr().expect("an address").port();
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, manner, served) = (Arc::clone(&stop), Arc::clone(&self.manner), Arc::clone(&self.served));
        let folder = self.folder.path().to_owned();
        let thread = std::thread::spawn(move || {
            let (mut children, mut mute) = (Vec::new(), Vec::new());
            for stream in listener.incoming() {
                if asked.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                served.fetch_add(1, Ordering::SeqCst);
                let manner = *manner.lock().expect("nobody failed");
                match manner {
                    Manner::Mute => mute.push(stream),
                    Manner::Served => children.push(serve(stream, &folder, "served.conf")),
                    Manner::Stuck => children.push(serve(stream, &folder, "stuck.conf")),
                }
            }
            for stream in mute {
                drop(stream.shutdown(Shutdown::Both));
            }
            for child in &mut children {
                drop(child.kill());
                drop(child.wait());
            }
        });
        self.listening = Some(Listening { stop, thread });
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Hands a connection to a process of its own.
fn serve(stream: TcpStream, folder: &Path, config: &str) -> Child {
    let output = OwnedFd::from(stream.try_clone().expect("a second handle"));
    let log = folder.join("sshd.log");
    let mut command = Command::new(SSHD);
    command.arg("-i").arg("-f").arg(folder.join(config)).arg("-E").arg(log);
    command.env_clear().stdin(OwnedFd::from(stream)).stdout(output).stderr(Stdio::null());
    command.spawn().expect("sshd starts; Debian's package openssh-server has it")
}

/// Makes an SSH key.
pub fn make_key(path: &Path, passphrase: &str) {
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", passphrase, "-C", "", "-f"]).arg(path);
    assert!(keygen.status().expect("ssh-keygen starts").success());
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("it is ours");
}

/// Returns who runs the tests: sshd lets in no other user where it is not root.
fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id starts");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}
