//! The process between gitfleet and a program: gives up what the program must not have, and becomes the program.
//!
//! It is gitfleet's own executable, started again: a thread of the daemon could not leave the network or lower its limits alone.

use std::process::ExitCode;

/// The first argument by which gitfleet knows that it is to launch a program.
pub(super) const ARGUMENT: &str = "--launch-renderer";

/// The same for a program that reaches keys over the network.
pub(super) const ARGUMENT_NETWORK: &str = "--launch-with-network";

/// The exit code where the program could not be started, as shells have it.
const EXIT_NOT_STARTED: u8 = 126;

/// Launches a program if the process was started for that, and does not return then unless it fails.
///
/// To be called before anything starts a thread: only a process with one thread may leave its user namespace.
pub fn launch() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let asked = arguments.next()?;
    if asked != ARGUMENT && asked != ARGUMENT_NETWORK {
        return None;
    }
    let program = arguments.next()?;
    if asked == ARGUMENT {
        leave_network();
    }
    eprintln!("{} cannot be started: {}", program.to_string_lossy(), become_program(&program, arguments));
    Some(ExitCode::from(EXIT_NOT_STARTED))
}

#[cfg(unix)]
fn become_program(program: &std::ffi::OsStr, arguments: impl Iterator<Item = std::ffi::OsString>) -> std::io::Error {
    use std::os::unix::process::CommandExt as _;
    if let Err(error) = limit().and_then(|()| end_with_the_starter()) {
        return error.into();
    }
    std::process::Command::new(program).args(arguments).exec()
}

#[cfg(not(unix))]
fn become_program(_: &std::ffi::OsStr, _: impl Iterator<Item = std::ffi::OsString>) -> std::io::Error {
    std::io::Error::other("folders are rendered on Unix only")
}

/// Takes a network without any interface. Containers often may not: what keeps a program from the network then is in docs/security.md.
#[cfg(target_os = "linux")]
fn leave_network() {
    use nix::sched::{CloneFlags, unshare};
    // Root may without a user namespace of its own.
    let left =
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).or_else(|_| unshare(CloneFlags::CLONE_NEWNET));
    // Where neither is permitted the program is started all the same: what it could fetch was refused before.
    left.unwrap_or_default();
}

#[cfg(not(target_os = "linux"))]
fn leave_network() {}

/// Has the program end when gitfleet does, however that ends: it is of a process group of its own, which no Ctrl-C of a terminal reaches.
#[cfg(target_os = "linux")]
fn end_with_the_starter() -> nix::Result<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
}

#[cfg(all(unix, not(target_os = "linux")))]
#[expect(clippy::unnecessary_wraps, reason = "Linux may refuse")]
fn end_with_the_starter() -> nix::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn limit() -> nix::Result<()> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    use super::{FILE_BYTES_MAX, MEMORY_BYTES_MAX, OPEN_FILES_MAX, TIME_MAX};
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Seconds of all cores together.
    let processor = TIME_MAX.as_secs() * u64::try_from(cores).unwrap_or(1);
    let limits = [
        // macOS refuses less than what its own libraries reserve.
        #[cfg(not(target_os = "macos"))]
        (Resource::RLIMIT_AS, super::ADDRESSES_BYTES_MAX),
        // Counts what may be written to, and not what is only reserved.
        (Resource::RLIMIT_DATA, MEMORY_BYTES_MAX),
        (Resource::RLIMIT_CPU, processor),
        (Resource::RLIMIT_FSIZE, FILE_BYTES_MAX),
        (Resource::RLIMIT_NOFILE, OPEN_FILES_MAX),
        (Resource::RLIMIT_CORE, 0),
    ];
    for (resource, limit) in limits {
        // A lower limit of the system stays.
        let (_, hard) = getrlimit(resource)?;
        setrlimit(resource, limit.min(hard), limit.min(hard))?;
    }
    Ok(())
}
