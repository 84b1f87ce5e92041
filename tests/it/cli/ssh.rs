//! A source behind ssh: what `check` says is missing, a whole rollout, and an end while the host says nothing.

use std::fs;
use std::process::Command;

use crate::cli::edges::{Daemon, RUN, until};
use crate::cli::scratch::{CONFIG, FLEET, Scratch, namespace};

use testservers::sshd::{Manner, Sshd};

const ONCE: [&str; 4] = ["run", "-c", CONFIG, "--once"];

/// A fleet whose source is behind ssh.
fn fleet() -> (Scratch, Sshd) {
    let (scratch, sshd) = (Scratch::with_web(), Sshd::start(true));
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let source = format!(
        "url: '{}', ssh: {{keyFile: '{}', knownHostsFile: '{}'}}",
        sshd.url(&scratch.path(FLEET)),
        sshd.key_file().display(),
        sshd.known_hosts_file().display()
    );
    fs::write(scratch.path(CONFIG), text.replace("url: ./fleet", &source)).expect("a file");
    (scratch, sshd)
}

/// Returns a command that finds the programs of this machine.
fn command(scratch: &Scratch, args: &[&str]) -> Command {
    let mut command = scratch.command(args);
    command.env("PATH", std::env::var_os("PATH").expect("a PATH"));
    command
}

/// Runs a command to its end; returns its exit code and all it said.
fn run(scratch: &Scratch, args: &[&str]) -> (Option<i32>, String) {
    let output = command(scratch, args).output().expect("the binary starts");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
    (output.status.code(), said)
}

#[test]
#[ignore = "needs sshd"]
fn a_fleet_is_rolled_out_from_behind_ssh() {
    let (scratch, _sshd) = fleet();
    let (code, said) = run(&scratch, &ONCE);
    assert_eq!(code, Some(0), "{said}");
    assert!(scratch.member("east").iter().any(|name| name.contains(".a.")), "{said}");
    let daemon = Daemon::start(command(&scratch, &RUN));
    scratch.write("web.yaml", &namespace("web", &[("a", "1"), ("b", "1")]));
    scratch.commit("second");
    // As a webhook would.
    until("the second commit arrives", || {
        daemon.get("/healthz", "Host: x\r\n");
        scratch.member("east").iter().any(|name| name.contains(".b."))
    });
}

#[test]
#[ignore = "needs sshd"]
fn what_is_missing_is_named_by_check() {
    let (scratch, sshd) = fleet();
    let check = ["check", "-c", CONFIG];
    let (_, said) = run(&scratch, &check);
    assert!(said.contains("OpenSSH_"), "{said}");
    let without = scratch.command(&check).env("PATH", scratch.path("nothing")).output().expect("the binary starts");
    let without = String::from_utf8_lossy(&without.stdout).into_owned();
    assert!(without.contains("there is no program ssh in PATH") && without.contains("openssh-client"), "{without}");
    sshd.know("");
    let (code, said) = run(&scratch, &check);
    assert!(code == Some(1) && said.contains("ssh-keyscan -p"), "{said}");
    fs::remove_file(sshd.key_file()).expect("it is there");
    let (code, said) = run(&scratch, &check);
    assert!(code == Some(1) && said.contains(&sshd.key_file().display().to_string()), "{said}");
}

#[test]
#[ignore = "needs sshd"]
fn a_daemon_ends_while_the_host_says_nothing() {
    for manner in [Manner::Mute, Manner::Stuck] {
        let (scratch, sshd) = fleet();
        sshd.treat(manner);
        let daemon = Daemon::start(command(&scratch, &RUN));
        until("it asks", || sshd.served() > 0);
        let pid = daemon.pid().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill starts").success());
        until("it ends", || daemon.log().contains("ended") || !is_running(&pid));
        let log = daemon.log();
        assert!(!log.contains("the source is still being read"), "{log}");
    }
}

/// Tells whether a process runs: one that ended and was not waited for does not.
fn is_running(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}
