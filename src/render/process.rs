//! Runs one program within limits of time and output.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::{Error, MESSAGE_BYTES_MAX, OUTPUT_BYTES_MAX};

/// How much is kept of what a program says beside its output, in bytes: secret values are hidden before it is shortened.
const SAID_BYTES_MAX: usize = 32 * MESSAGE_BYTES_MAX;

/// After how long a program that printed everything is asked first whether it has ended: most end at once. Each further pause is twice
/// as long.
const END_PAUSE_MIN: Duration = Duration::from_micros(100);
/// The longest of these pauses.
const END_PAUSE_MAX: Duration = Duration::from_millis(5);

/// What a program left.
#[derive(Debug)]
pub(super) struct Output {
    pub status: ExitStatus,
    /// Standard output.
    pub printed: Vec<u8>,
    /// The beginning of standard error.
    pub said: Vec<u8>,
}

/// What a pipe brought.
enum Pipe {
    Printed(std::io::Result<Vec<u8>>),
    Said(std::io::Result<Vec<u8>>),
}

/// Runs a command to its end, or ends it at a limit.
///
/// # Errors
/// `Start`, `Slow`, `Large`.
pub(super) fn run(command: &mut Command, program: &'static str, time_max: Duration) -> Result<Output, Error> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = in_own_group(command).spawn().map_err(Error::start(program))?;
    let ended = follow(&mut child, program, time_max);
    // Without this it would stay, and a program may never end.
    if ended.is_err() {
        kill_group(&mut child);
    }
    let status = child.wait().map_err(Error::start(program))?;
    let (printed, said) = ended?;
    Ok(Output { status, printed, said })
}

/// Has a command begin a process group: what it starts is ended with it.
#[cfg(unix)]
fn in_own_group(command: &mut Command) -> &mut Command {
    std::os::unix::process::CommandExt::process_group(command, 0)
}

#[cfg(not(unix))]
fn in_own_group(command: &mut Command) -> &mut Command {
    command
}

/// Ends a program that nobody has waited for yet, and what it started.
fn kill_group(child: &mut Child) {
    #[cfg(unix)]
    // The number of a program that has ended by itself stays its own until somebody waits for it.
    let is_killed = i32::try_from(child.id()).is_ok_and(|group| {
        use nix::sys::signal::{Signal, killpg};
        killpg(nix::unistd::Pid::from_raw(group), Signal::SIGKILL).is_ok()
    });
    #[cfg(not(unix))]
    let is_killed = false;
    if !is_killed {
        drop(child.kill());
    }
}

/// Reads what a program prints until it ends.
fn follow(child: &mut Child, program: &'static str, time_max: Duration) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let (pipes, read) = channel();
    let out = child.stdout.take().expect("it is piped");
    let err = child.stderr.take().expect("it is piped");
    // They end with the program, which the caller ends.
    start(pipes.clone(), out, OUTPUT_BYTES_MAX, Pipe::Printed).map_err(Error::start(program))?;
    start(pipes, err, SAID_BYTES_MAX, Pipe::Said).map_err(Error::start(program))?;
    let mut printed = None;
    let mut said = None;
    let mut waited = Duration::ZERO;
    let mut end_pause = END_PAUSE_MIN;
    loop {
        let all = printed.is_some() && said.is_some();
        if all && child.try_wait().map_err(Error::start(program))?.is_some() {
            return Ok((printed.unwrap_or_default(), said.unwrap_or_default()));
        }
        let pause = if all { end_pause } else { time_max.saturating_sub(waited).min(Duration::from_millis(100)) };
        if waited >= time_max {
            return Err(Error::Slow { program, seconds: time_max.as_secs() });
        }
        match read.recv_timeout(pause) {
            Ok(Pipe::Printed(bytes)) => {
                let bytes = bytes.map_err(Error::start(program))?;
                if bytes.len() > OUTPUT_BYTES_MAX {
                    return Err(Error::Large { program });
                }
                printed = Some(bytes);
            }
            Ok(Pipe::Said(bytes)) => said = Some(bytes.map_err(Error::start(program))?),
            Err(RecvTimeoutError::Timeout) => waited += pause,
            // Both pipes are at their end: there is nothing to receive any more, and the pause has not passed.
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::park_timeout(pause);
                waited += pause;
                end_pause = (end_pause * 2).min(END_PAUSE_MAX);
            }
        }
    }
}

/// Reads a pipe in a thread of its own: up to one byte over the limit is kept.
fn start(
    pipes: Sender<Pipe>,
    pipe: impl Read + Send + 'static,
    bytes_max: usize,
    kind: fn(std::io::Result<Vec<u8>>) -> Pipe,
) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("gitfleet-render".to_owned());
    let started = thread.spawn(move || {
        let mut bytes = Vec::new();
        let mut pipe = pipe;
        let result = pipe.by_ref().take(bytes_max as u64 + 1).read_to_end(&mut bytes).map(|_| bytes);
        let more = result.as_ref().is_ok_and(|bytes| bytes.len() > bytes_max);
        // The receiver may be gone.
        drop(pipes.send(kind(result)));
        // A program that says too much is not stopped by a full pipe.
        if more {
            drop(std::io::copy(&mut pipe, &mut std::io::sink()));
        }
    });
    started.map(drop)
}
