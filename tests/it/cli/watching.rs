//! How a running daemon notices changes of files.

use std::fs;
use std::process::{Command, Stdio};

use crate::cli::edges::{Daemon, RUN, reconfigure, until};
use crate::cli::scratch::{Scratch, namespace};

const CLUSTERS: [&str; 6] = ["c0", "c1", "c2", "c3", "c4", "c5"];

fn file(scratch: &Scratch, member: &str) -> Option<std::path::PathBuf> {
    let name = scratch.member(member).into_iter().find(|name| name.contains(".a."))?;
    Some(scratch.path("members").join(member).join(name))
}

/// Counts what a process has below a folder of `/proc` for which a test holds.
fn count(pid: u32, folder: &str, test: impl Fn(&std::path::Path) -> bool) -> usize {
    let entries = fs::read_dir(format!("/proc/{pid}/{folder}")).expect("the daemon runs");
    entries.filter_map(Result::ok).filter(|entry| test(&entry.path())).count()
}

#[test]
fn point_12_folder_members_and_the_source_share_one_watcher() {
    let scratch = Scratch::with_web_on(&CLUSTERS);
    let daemon = Daemon::start(scratch.command(&RUN));
    until("all members hold it", || CLUSTERS.iter().all(|member| file(&scratch, member).is_some()));
    for member in CLUSTERS {
        let path = file(&scratch, member).expect("it is there");
        let text = fs::read_to_string(&path).expect("it can be read");
        fs::write(&path, text.replace("key:", "other:")).expect("it can be written");
        until("a change by hand is put back", || fs::read_to_string(&path).is_ok_and(|now| now == text));
    }
    let is_inotify = |path: &std::path::Path| {
        fs::read_to_string(path).is_ok_and(|text| text.lines().any(|line| line.starts_with("inotify")))
    };
    assert_eq!(count(daemon.pid(), "fdinfo", is_inotify), 1);
    let is_thread =
        |path: &std::path::Path| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.contains("notify"));
    assert_eq!(count(daemon.pid(), "task", is_thread), 1);
}

#[test]
fn point_12_a_source_that_cannot_be_watched_is_polled_every_second() {
    let scratch = Scratch::with_web_on(&CLUSTERS);
    reconfigure(&scratch, "branch: main}", "branch: main, pollInterval: 1h}");
    let limit = "echo 0 > /proc/sys/user/max_inotify_instances || exit 1; exec \"$0\" \"$@\"";
    let daemon = scratch.command(&RUN);
    let mut limited = Command::new("unshare");
    limited.args(["--user", "--map-root-user", "sh", "-c", limit]).arg(daemon.get_program()).args(daemon.get_args());
    limited.current_dir(scratch.path("")).stdin(Stdio::null());
    let daemon = Daemon::start(limited);
    until("the first commit arrives", || file(&scratch, "c0").is_some());
    let status = scratch.run(&["status", "--server", &daemon.address]);
    let said = "! the source cannot be watched for changes, gitfleet polls it every second: ";
    assert!(status.out.starts_with(said), "{}{}", status.out, status.err);
    let members = ["! the folders of c0, ", " cannot be watched, changes by hand are seen at the next start: "];
    until("the folders of members are named", || {
        let status = scratch.run(&["status", "--server", &daemon.address]).out;
        members.iter().all(|words| status.contains(words))
    });
    scratch.write("web.yaml", &namespace("web", &[("b", "1")]));
    scratch.commit("second");
    until("the second commit arrives", || scratch.member("c0").iter().any(|name| name.contains(".b.")));
}
