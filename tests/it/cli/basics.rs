//! What needs no tree: help, version, completion, schemas, wrong usage.

use std::fs;

use testservers::repository;

use crate::cli::scratch::{CONFIG, Scratch};

#[test]
fn help() {
    insta::assert_snapshot!(Scratch::new().run(&["--help"]).text(0), @r#"
    Makes a git repository the hub of a fleet of Kubernetes clusters

    Usage: gitfleet [OPTIONS] <COMMAND>

    Look:
      status      Show what needs a person, what is wrong, and how each placement stands
      get         Show records: placements, snapshots, runs, approvals, bindings, works, clusters
      describe    Show one object with its conditions and what happened to it
      explain     Show why a placement has the clusters it has, and not others
      history     Show the snapshots of a placement: commits, who approved, what became of each
      events      Show what happened, as sentences
      diff        Show how clusters differ from what they are to hold of a placement

    Decide:
      approve     Approve a gate that waits for approval
      reject      Say no at a gate: the run ends, and its snapshot is not rolled out again
      pause       Start nothing new for a placement
      resume      Resume a placement; without a name, accept the rewritten history of the source
      rollback    Return a placement to an earlier snapshot
      retry       Try failed clusters again, or a snapshot that was rolled back or rejected
      cordon      Keep placements away from a cluster: taint it, as a commit
      uncordon    Take the taint of a cordon away, as a commit
      drain       Move placements off a cluster: cordon it and evict what is there, as a commit

    Preview:
      validate    Check every manifest of a folder; prints each error with file and line
      plan        Show what a tree would do to the fleet; needs no cluster
      simulate    Simulate a rollout on a virtual clock; needs no cluster
      schedule    Decide which clusters placements go to, from objects in files alone

    Set up:
      demo        Show gitfleet at work: an example fleet, and changes made one after the other
      init        Write a repository and a configuration to begin with
      run         Follow the source and keep the fleet in step with it
      check       Say whether all that the daemon needs is there: source, store, members, git host
      member      Prepare a member cluster
      agent       Deliver to members from where they are, as a daemon says; or say which agents may
      forge       Connect the git host: statuses, comments, webhooks
      source      Say that a source that moved is the same one
      store       Back the store up, restore it, or continue after it was lost
      config      Print what the configuration file may hold
      crd         Print the CustomResourceDefinitions of the kinds that gitfleet reads

    Other:
      export      Print what other tools need of the records
      completion  Print a completion script for a shell, which completes names of placements and clusters too
      man         Write the manual pages into a folder
      version     Print the version

    Global options:
          --log-format <FORMAT>  How logs are written to standard error: text or json [env:
                                 GITFLEET_LOG_FORMAT=] [default: text]
          --log <FILTER>         What is logged, such as `debug` or `gitfleet=debug,kube=info` [env:
                                 GITFLEET_LOG=]
          --color <WHEN>         When to colour: auto, always or never [default: auto]
      -c, --config <FILE>        The daemon's configuration file, for commands that ask the daemon; it
                                 may also stand after the command. Else GITFLEET_CONFIG,
                                 ./gitfleet.yaml, or gitfleet/gitfleet.yaml in the configuration folder
                                 of the user
      -h, --help                 Print help
      -V, --version              Print version

    Exit codes: 0 success, 1 differences found, not converged, or refused, 2 error, 3 approval required,
    64 wrong usage.
    "#);
}

#[test]
fn version() {
    let expected = concat!("gitfleet ", env!("CARGO_PKG_VERSION"));
    let scratch = Scratch::new();
    assert_eq!(scratch.run(&["--version"]).text(0), format!("{expected}\n"));
    assert!(scratch.run(&["version"]).text(0).starts_with(&format!("{expected}, commit ")));
    let json = scratch.run(&["version", "-o", "json"]).json(0);
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    let placements = &json["kinds"]["clusterresourceplacements.placement.kubernetes-fleet.io"];
    assert_eq!(placements.as_array().map(Vec::len), Some(2), "{json}");
    assert!(scratch.run(&["version", "-o", "yaml"]).text(0).contains("kinds:\n"));
}

#[test]
fn completion_for_shells() {
    let scratch = Scratch::new();
    for (shell, sign) in
        [("bash", "_clap_complete_gitfleet"), ("zsh", "#compdef gitfleet"), ("fish", "--command gitfleet")]
    {
        let found = scratch.run(&["completion", shell]);
        assert!(found.text(0).contains(sign), "{shell}: {}", found.out);
        assert!(found.out.contains("GITFLEET_COMPLETE"), "{shell}: {}", found.out);
    }
}

#[test]
fn names_are_completed() {
    let scratch = Scratch::with_web();
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    let completed = |words: &[&str]| {
        let mut command = scratch.command(&[&["--", "gitfleet"], words].concat());
        let output = command.env("GITFLEET_COMPLETE", "fish").output().expect("the binary starts");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(completed(&["describe", "placement", "w"]), ["web"]);
    assert_eq!(completed(&["diff", "web", "--cluster", ""]), ["east", "west"]);
    assert_eq!(completed(&["-c", "nowhere.yaml", "pause", "w"]), [""; 0]);
    assert!(completed(&["val"])[0].starts_with("validate"));
}

#[test]
fn manual_pages_of_all_commands() {
    let scratch = Scratch::new();
    scratch.run(&["man", "pages"]).text(0);
    for page in ["gitfleet.1", "gitfleet-get.1", "gitfleet-member-bootstrap.1"] {
        let text = fs::read_to_string(scratch.path("pages").join(page)).expect(page);
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
}

#[test]
fn the_configuration_s_schema_is_json() {
    let schema = Scratch::new().run(&["config", "schema"]).json(0);
    assert_eq!(schema["title"], "gitfleet configuration");
    assert!(schema["properties"]["source"].is_object());
}

#[test]
fn the_definitions_are_those_in_deploy() {
    let found = Scratch::new().run(&["crd"]);
    let mut printed: Vec<String> = found.text(0).split("---\n").filter(|d| !d.is_empty()).map(str::to_owned).collect();
    let folder = repository().join("deploy/crds");
    let mut files: Vec<String> = fs::read_dir(&folder)
        .expect("deploy/crds")
        .map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("text"))
        .map(|text| text.trim_start_matches("---\n").to_owned())
        .collect();
    printed.sort();
    files.sort();
    assert_eq!(printed.len(), files.len());
    for (printed, file) in printed.iter().zip(&files) {
        let name = printed.lines().find(|l| l.starts_with("  name: ")).unwrap_or_default();
        assert!(printed == file, "deploy/crds is stale at{name}; write the output of `gitfleet crd` there");
    }
}

#[test]
fn wrong_usage_is_64_and_says_so_on_stderr() {
    let scratch = Scratch::new();
    let rows: &[&[&str]] = &[
        &[],
        &["fly"],
        &["--fly"],
        &["run"],
        &["run", "-c"],
        &["run", "-c", "x", "--timeout", "soon"],
        &["run", "-c", "x", "--timeout", "-5s"],
        &["validate", "a", "b"],
        &["validate", ".", "-o", "yaml"],
        &["plan", "a", "--repo", "b"],
        &["get"],
        &["get", "unicorns"],
        &["get", "placements", "-o", "xml"],
        &["config"],
        &["completion", "tcsh-but-not-really"],
        &["--log-format", "xml", "version"],
    ];
    for args in rows {
        let found = scratch.run(args);
        assert_eq!((found.code, found.out.as_str()), (64, ""), "{args:?}: {}", found.err);
        assert!(!found.err.is_empty(), "{args:?}");
    }
}

#[test]
fn ux1b_23_usage_shows_as_mandatory_only_what_is() {
    let scratch = Scratch::new();
    let output =
        scratch.command(&["pause"]).env("GITFLEET_CONFIG", "gitfleet.yaml").output().expect("the binary starts");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("Usage: gitfleet pause [OPTIONS] <PLACEMENT>\n"), "{err}");
}

#[test]
fn ux1b_26_one_cause_once_and_nothing_for_developers() {
    let scratch = Scratch::new();
    let status = scratch.command(&["status", "--server", "127.0.0.1:1"]).env("GITFLEET_CONFIG", "").output();
    let err = String::from_utf8(status.expect("the binary starts").stderr).expect("text");
    assert!(
        err.starts_with("error: asking the daemon at 127.0.0.1:1 (") && err.ends_with("): Connection refused\n"),
        "{err}"
    );
    scratch.write("a.yaml", "");
    scratch.commit("first");
    let plan = scratch.run(&["plan", "fleet", "--base", "nope"]);
    assert!(plan.err.contains("has no commit \"nope\": ") && !plan.err.contains(['{', '}']), "{}", plan.err);
    assert!(!plan.err.contains("Caused by"), "{}", plan.err);
}

#[test]
fn ux1b_31_colour_where_it_is_asked_for() {
    let scratch = Scratch::new();
    for (when, is_coloured) in [("always", true), ("auto", false), ("never", false)] {
        let plan = scratch.run(&["plan", "fleet", "--color", when]);
        assert_eq!(plan.text(0).contains('\x1b'), is_coloured, "{when}: {}", plan.out);
    }
}

#[test]
fn what_cannot_be_read_is_2() {
    let scratch = Scratch::new();
    for args in [
        &["run", "-c", "nowhere.yaml", "--once"][..],
        &["get", "placements", "-c", "nowhere.yaml"],
        &["status", "-c", "nowhere.yaml"],
    ] {
        let found = scratch.run(args);
        assert_eq!((found.code, found.out.as_str()), (2, ""), "{args:?}");
        assert!(found.err.contains("nowhere.yaml"), "{args:?}: {}", found.err);
    }
}
