//! A daemon whose configuration is changed while it runs.

use std::fs;

use crate::cli::edges::{Daemon, RUN, reconfigure, until};
use crate::cli::scratch::{CONFIG, Scratch, namespace};

/// Waits until `status` says something, or does not say it any more.
fn says(scratch: &Scratch, daemon: &Daemon, words: &str, expected: bool) {
    until(words, || scratch.run(&["status", "--server", &daemon.address]).out.contains(words) == expected);
}

#[test]
fn an_added_member_is_used_and_a_file_with_errors_changes_nothing() {
    let scratch = Scratch::with_web();
    reconfigure(&scratch, "name: \"*\"", "name: east");
    let daemon = Daemon::start(scratch.command(&RUN));
    until("east gets it", || !scratch.member("east").is_empty());
    says(&scratch, &daemon, "1 cluster has no entry in `members:`: west", true);
    assert_eq!(scratch.member("west"), Vec::<String>::new());

    reconfigure(&scratch, "name: east", "name: \"*\"");
    until("west gets it, too", || !scratch.member("west").is_empty());
    says(&scratch, &daemon, "has no entry", false);

    let right = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let unusable = "! the configuration changed: it cannot be used, and changes nothing: ";
    fs::write(scratch.path(CONFIG), right.replace("members:", "member:")).expect("a file");
    says(&scratch, &daemon, unusable, true);
    says(&scratch, &daemon, "did you mean `members`?", true);
    fs::write(scratch.path(CONFIG), right.replace("name: \"*\"", "name: east")).expect("a file");
    says(&scratch, &daemon, "! the configuration changed: no entry of `members:` names west any more: restart", true);
    let listen = right.replace("http: {listen: \"127.0.0.1:0\"}", "http: {listen: \"127.0.0.1:1\"}");
    fs::write(scratch.path(CONFIG), listen).expect("a file");
    says(&scratch, &daemon, "! the configuration changed: http changed: restart the daemon to use it", true);

    // Whatever the file said meanwhile, both members are reached as before.
    scratch.write("web.yaml", &namespace("web", &[("b", "1")]));
    scratch.commit("second");
    let has = |member: &str| scratch.member(member).iter().any(|name| name.contains(".b."));
    until("both get the next commit", || has("east") && has("west"));
    fs::write(scratch.path(CONFIG), right).expect("a file");
    says(&scratch, &daemon, "the configuration changed", false);
}
