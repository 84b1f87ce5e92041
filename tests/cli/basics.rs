//! What needs no tree: help, version, completion, schemas, wrong usage.

use std::fs;
use std::path::Path;

use crate::scratch::Scratch;

#[test]
fn help() {
    insta::assert_snapshot!(Scratch::new().run(&["--help"]).text(0), @r#"
    Makes a git repository the hub of a fleet of Kubernetes clusters

    Usage: gitfleet [OPTIONS] <COMMAND>

    Commands:
      run         Follow the source and keep the fleet in step with it
      demo        Show gitfleet at work: an example fleet, and changes made one after the other
      validate    Check every manifest of a folder; prints each error with file and line
      plan        Show what a tree would do to the fleet; needs no cluster
      simulate    Simulate a rollout on a virtual clock; needs no cluster
      schedule    Decide which clusters placements go to, from objects in files alone
      explain     Show why a placement has the clusters it has, and not others
      get         Show records: placements, snapshots, runs, approvals, bindings, works, clusters
      describe    Show one object with its conditions and what happened to it
      status      Show who is waited for, what is wrong, and how each placement stands
      approve     Approve a gate that waits for approval
      reject      Say no at a gate: the run ends, and its snapshot is not rolled out again
      pause       Start nothing new for a placement
      resume      Resume a placement; without a name, accept the rewritten history of the source
      rollback    Return a placement to an earlier snapshot
      retry       Try failed clusters again, or a snapshot that was rolled back or rejected
      cordon      Keep placements away from a cluster: taint it, as a commit
      uncordon    Take the taint of a cordon away, as a commit
      drain       Move placements off a cluster: cordon it and evict what is there, as a commit
      export      Print what other tools need of the records
      source      Say that a source that moved is the same one
      store       Back the store up, restore it, or continue after it was lost
      member      Prepare a member cluster
      forge       Connect the git host: statuses, comments, webhooks
      crd         Print the CustomResourceDefinitions of the kinds that gitfleet reads
      config      Print what the configuration file may hold
      version     Print the version
      completion  Print a completion script for a shell
      help        Print this message or the help of the given subcommand(s)

    Options:
          --log-format <LOG_FORMAT>
              How logs are written to standard error

              Possible values:
              - text: One line of text an event
              - json: One JSON object an event
              
              [env: GITFLEET_LOG_FORMAT=]
              [default: text]

          --log <FILTER>
              What is logged, such as `debug` or `gitfleet=debug,kube=info`
              
              [env: GITFLEET_LOG=]

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Exit codes: 0 success, 1 differences found, not converged, or refused, 2 error, 3 approval required,
    64 wrong usage.
    "#);
}

#[test]
fn version() {
    let expected = format!("gitfleet {}\n", env!("CARGO_PKG_VERSION"));
    let scratch = Scratch::new();
    assert_eq!(scratch.run(&["version"]).text(0), expected);
    assert_eq!(scratch.run(&["--version"]).text(0), expected);
}

#[test]
fn completion_for_shells() {
    let scratch = Scratch::new();
    for (shell, sign) in
        [("bash", "complete -F _gitfleet"), ("zsh", "#compdef gitfleet"), ("fish", "complete -c gitfleet")]
    {
        let found = scratch.run(&["completion", shell]);
        assert!(found.text(0).contains(sign), "{shell}");
        assert!(found.out.contains("validate"), "{shell}");
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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/crds");
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
