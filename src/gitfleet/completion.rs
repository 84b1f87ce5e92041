//! Completion of names: placements, runs, stages and clusters, asked from the daemon or its store.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;

use super::Daemon;
use super::kinds::Listing;
use super::records::{RecordsSource, locate};
use decide::status::staged_run::{ClosedGate, closed_gates, command_name};
use engine::store::records::{CLUSTER_PREFIX, RUN_PREFIX};
use model::runs::{DELETION_GATE, Runs};

/// The variable that a shell asks with; the script of `gitfleet completion` sets it.
pub(crate) const VARIABLE: &str = "GITFLEET_COMPLETE";

/// What a word may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletedName {
    /// Placements.
    Placements,
    /// Runs, and then placements: what most commands take.
    Runs,
    /// Stages that wait for an approval.
    Stages,
    /// Clusters.
    Clusters,
}

/// Returns what completes a word with names.
pub(crate) fn names(of: CompletedName) -> ArgValueCompleter {
    ArgValueCompleter::new(move |begun: &OsStr| candidates(of, begun))
}

/// Returns the names that begin so. Where nothing answers there are none: a shell is no place for errors.
fn candidates(of: CompletedName, begun: &OsStr) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    let all = source().and_then(|source| all(&source, of)).unwrap_or_default();
    all.into_iter().filter(|name| name.starts_with(&*begun)).map(CompletionCandidate::new).collect()
}

/// Finds the daemon as the line that is being completed names it.
fn source() -> anyhow::Result<RecordsSource> {
    let words: Vec<String> = std::env::args().collect();
    let config = value_of(&["-c", "--config"], &words).map(PathBuf::from);
    let server = value_of(&["--server"], &words);
    locate(&Daemon { config, server, token_file: None })
}

/// Returns the word after an option, which may have several names.
fn value_of(option: &[&str], words: &[String]) -> Option<String> {
    let at = words.iter().position(|word| option.contains(&word.as_str()))?;
    words.get(at + 1).cloned()
}

fn all(source: &RecordsSource, of: CompletedName) -> anyhow::Result<BTreeSet<String>> {
    Ok(match of {
        CompletedName::Placements => placements(source)?,
        CompletedName::Clusters => {
            let saved = source.read_under(&[CLUSTER_PREFIX.to_owned()])?;
            saved.clusters.into_keys().map(|name| name.to_string()).collect()
        }
        CompletedName::Runs => {
            let saved = source.read_under(&[RUN_PREFIX.to_owned()])?;
            let runs = saved.runs.values().flat_map(Runs::values).filter(|run| !run.phase.is_final());
            let runs: BTreeSet<String> = runs.map(|run| command_name(&run.placement, &run.name)).collect();
            runs.into_iter().chain(placements(source)?).collect()
        }
        CompletedName::Stages => {
            let saved = source.read_under(&[RUN_PREFIX.to_owned()])?;
            let gates = saved.runs.values().flat_map(Runs::values).flat_map(closed_gates);
            let gates = gates.filter(ClosedGate::is_approval).map(|gate| gate.stage.name.clone());
            gates.chain([DELETION_GATE.to_owned()]).collect()
        }
    })
}

fn placements(source: &RecordsSource) -> anyhow::Result<BTreeSet<String>> {
    let lines = source.lines(Listing::Placements, None)?.unwrap_or_default();
    let names = lines.iter().filter_map(|line| {
        let name = line["metadata"]["name"].as_str()?;
        Some(match line["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        })
    });
    Ok(names.collect())
}

/// Returns the script that a shell reads to complete command lines of ours.
///
/// # Errors
/// The shell is not known.
pub(crate) fn script(shell: clap_complete::Shell) -> anyhow::Result<String> {
    let shells = Shells::builtins();
    let known = shells.completer(&shell.to_string());
    let known = known.ok_or_else(|| anyhow::anyhow!("there is no completion for {shell}"))?;
    let mut script = Vec::new();
    known.write_registration(VARIABLE, "gitfleet", "gitfleet", "gitfleet", &mut script)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}
