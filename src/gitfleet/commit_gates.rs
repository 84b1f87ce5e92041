//! The gates of one commit, in all placements: `approve --commit`.

use std::io::{self, IsTerminal as _};

use anyhow::bail;

use super::commands::{CommandOptions, answers_yes, named};
use super::exit::Exit;
use decide::status::staged_run::{asks, closed_gates, command_name};
use decide::status::work::counted;
use engine::store::records::{PLACEMENT_PREFIX, RUN_PREFIX, SNAPSHOT_PREFIX};
use engine::store::saved::Records;
use model::commands::{Command, Verb, WaitingGate};
use model::records::{PlacementRecord, ResourceSnapshot};
use model::runs::{RunRecord, Runs};
use model::text;

/// Returns the gates of a commit that wait for a person, with the digests that are shown.
///
/// # Errors
/// Nothing waits there, or the commit fits several.
pub(crate) fn waiting(
    options: &CommandOptions,
    verb: Verb,
    commit: &str,
    stage: Option<&str>,
) -> anyhow::Result<Vec<WaitingGate>> {
    let prefixes = [PLACEMENT_PREFIX, RUN_PREFIX, SNAPSHOT_PREFIX].map(str::to_owned);
    let saved = options.source()?.read_under(&prefixes)?;
    let targets = targets(&saved, commit, stage)?;
    let mut gates = Vec::with_capacity(targets.len());
    for (target, stage) in targets {
        let command = Command { stage: Some(stage), ..Command::new(verb, target) };
        match options.preview(&command)? {
            Ok(gate) => gates.push(gate),
            Err(refusal) => eprintln!("left out: {refusal}"),
        }
    }
    if gates.is_empty() {
        let place = stage.map(|stage| format!(" at stage {stage}")).unwrap_or_default();
        bail!("no gate of commit {commit} waits for you{place}; `gitfleet get approvals` lists those that wait");
    }
    Ok(gates)
}

/// Returns run and stage of each gate of a commit that waits for a person.
fn targets(saved: &Records, commit: &str, stage: Option<&str>) -> anyhow::Result<Vec<(String, String)>> {
    let mut commits: Vec<&str> = Vec::new();
    let mut targets = Vec::new();
    for run in saved.placements.iter().flat_map(|record| asking(saved, record)) {
        let Some(of) = commits_of(saved, run).find(|of| of.starts_with(commit)) else { continue };
        for gate in closed_gates(run) {
            if gate.is_approval() && stage.is_none_or(|stage| gate.stage.name == stage) {
                targets.push((run.placement.qualified(), gate.stage.name.clone()));
                commits.push(of);
            }
        }
    }
    commits.sort_unstable();
    commits.dedup();
    if let [one, other, ..] = commits[..] {
        bail!("{commit} fits the commits {one} and {other}; write more of it");
    }
    targets.sort();
    targets.dedup();
    Ok(targets)
}

/// Returns the runs of a placement that wait for a person.
fn asking<'a>(saved: &'a Records, record: &'a PlacementRecord) -> impl Iterator<Item = &'a RunRecord> {
    let runs = saved.runs.get(&record.key).into_iter().flat_map(Runs::values);
    runs.filter(|run| asks(record, run))
}

/// Returns the commit that brought what a run rolls out, and of several sources the commits of those that it changed.
fn commits_of<'a>(saved: &'a Records, run: &RunRecord) -> impl Iterator<Item = &'a str> {
    let snapshots = saved.snapshots.get(&run.placement);
    let snapshot = run.snapshot().and_then(|index| snapshots?.get(&index));
    let snapshot: Option<&ResourceSnapshot> = snapshot.map(AsRef::as_ref);
    snapshot.into_iter().flat_map(|snapshot| {
        let sources = snapshot.changed_sources.iter().map(|source| source.commit.as_str());
        std::iter::once(snapshot.commit.as_str()).chain(sources)
    })
}

/// Shows gates, asks once on a terminal, and sends the command for each with the digest that was shown.
///
/// # Errors
/// A script does not say which stage it means, or the daemon cannot be told.
pub(crate) fn decide(
    options: &CommandOptions,
    verb: Verb,
    gates: Vec<WaitingGate>,
    yes: bool,
    has_stage: bool,
) -> anyhow::Result<Exit> {
    let is_asked = io::stdin().is_terminal() && io::stderr().is_terminal();
    for gate in &gates {
        eprintln!(
            "{} at stage {}, digest {}: {}; {}",
            gate.name,
            gate.stage,
            gate.digest.short(),
            gate.opens,
            named(gate)
        );
    }
    // Without a terminal no person can be asked, so the line itself has to say which gates it means.
    if !yes && !has_stage && !is_asked {
        bail!("name the stage with --stage, or say --yes to {verb} all of these");
    }
    if !yes && is_asked && !answers_yes(&format!("{verb} {}", counted(gates.len(), "gate")))? {
        eprintln!("nothing has changed");
        return Ok(Exit::NotAsWished);
    }
    let mut exit = Exit::Done;
    for gate in gates {
        let digest = (verb == Verb::Approve).then(|| gate.digest.to_string());
        exit = exit.and(options.send(Command { stage: Some(gate.stage), digest, ..Command::new(verb, gate.name) })?);
    }
    Ok(exit)
}

/// Returns the run or placement whose name is nearly this one.
pub(crate) fn near(options: &CommandOptions, name: &str) -> Option<String> {
    let saved = options.source().ok()?.read_under(&[PLACEMENT_PREFIX.to_owned(), RUN_PREFIX.to_owned()]).ok()?;
    let runs = saved.runs.values().flat_map(Runs::values);
    let runs = runs.map(|run| command_name(&run.placement, &run.name));
    let known: Vec<String> = saved.placements.iter().map(|record| record.key.to_string()).chain(runs).collect();
    text::suggest(name, known.iter().map(String::as_str)).map(str::to_owned)
}
