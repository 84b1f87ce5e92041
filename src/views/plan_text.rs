//! A plan for people on a terminal: what each placement does, the differences of objects as git shows them, and the sum.

use std::collections::{BTreeMap, BTreeSet};

use super::pull_request::{ObjectChange, ObjectDiff, OverrideEffect, concerned, is_changed};
use super::tree::{Line, REFUSED_ERRORS_MAX, Style, refused_lines};
use decide::status::work::{counted, objects};
use model::id::{ClusterName, PlacementKey};
use model::names::first_of;
use model::plan::{ClusterChanges, DeletionPlan, OcmPlan, PlacementPlan, Plan, Resource};
use model::runs::DELETION_GATE;
use model::variants::described;

/// Names of objects, clusters or placements on one line; the rest is counted.
const NAMED_MAX: usize = 5;
/// Objects of one placement that are listed where there is nothing to compare with.
const OBJECTS_MAX: usize = 20;
/// Lines of one difference; the rest is counted.
const DIFF_LINES_MAX: usize = 200;

/// A plan with what it does to objects.
#[derive(Clone, Copy, Debug)]
pub struct PlanText<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The running rollouts that it stops, a sentence each.
    pub stops: &'a [String],
    /// The objects that change, with their differences; none with a summary alone.
    pub objects: &'a [ObjectDiff],
    /// What overrides change on some clusters.
    pub overrides: &'a [OverrideEffect],
}

/// Returns what a plan says, errors first, the sum last.
pub fn plan_lines(text: &PlanText) -> Vec<Line> {
    let plan = text.plan;
    if !plan.errors.is_empty() {
        return refused_lines(&plan.errors);
    }
    let mut lines: Vec<Line> = text.stops.iter().map(|stop| line(Style::Bad, format!("! {stop}"))).collect();
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    lines.extend(warning_lines(plan));
    let mut quiet = 0;
    for placement in &plan.placements {
        let is_quiet = placement.changes.is_some() && !is_changed(placement) && placement.errors().next().is_none();
        if is_quiet && placement.deletion_guard.is_none() {
            // One that is renamed is told under its new name.
            quiet += usize::from(placement.renamed_to.is_none());
            continue;
        }
        let shares = plan.placements.iter().filter(|other| other.name == placement.name).count() > 1;
        lines.extend(placement_lines(placement, shares));
        lines.push(Line::default());
    }
    for placement in &plan.ocm_placements {
        if placement.errors.is_empty() && placement.changes.as_ref().is_some_and(ClusterChanges::is_empty) {
            quiet += 1;
            continue;
        }
        lines.extend(ocm_lines(placement));
        lines.push(Line::default());
    }
    lines.extend(object_diffs(text.objects));
    lines.extend(text.overrides.iter().flat_map(override_diff));
    if quiet > 0 {
        let verb = if quiet == 1 { "does" } else { "do" };
        lines.push(line(Style::Muted, format!("{} {verb} not change", counted(quiet, "placement"))));
        lines.push(Line::default());
    }
    lines.push(sum(plan));
    lines
}

fn line(style: Style, text: impl Into<String>) -> Line {
    Line::default().with(style, text)
}

/// Returns a line of the list below a placement's heading.
fn field(name: &str, text: impl Into<String>) -> Line {
    line(Style::Muted, format!("  {name:<9} ")).with(Style::Plain, text)
}

fn warning_lines(plan: &Plan) -> Vec<Line> {
    let shown = plan.warnings.iter().take(REFUSED_ERRORS_MAX);
    let mut lines: Vec<Line> = shown.map(|warning| line(Style::Progressing, format!("! {warning}"))).collect();
    if let Some(more) = plan.warnings.len().checked_sub(REFUSED_ERRORS_MAX).filter(|more| *more > 0) {
        let words = format!("and {}; gitfleet validate, or -o json, shows all", counted(more, "more warning"));
        lines.push(line(Style::Muted, words));
    }
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    lines
}

fn placement_lines(placement: &PlacementPlan, shares_name: bool) -> Vec<Line> {
    let (style, sign) = match &placement.changes {
        // Under another name it keeps what it has: nothing is removed.
        _ if placement.renamed_to.is_none() && placement.removed => (Style::Bad, "- "),
        Some(_) if is_changed(placement) => (Style::Progressing, "~ "),
        _ => (Style::Plain, ""),
    };
    let heading = line(style, sign).with(Style::Strong, format!("{} {}", placement.kind, placement.key()));
    let heading = match (&placement.renamed_from, &placement.renamed_to) {
        (Some(from), _) => heading.with(Style::Progressing, format!("  was {from}, and keeps what it has")),
        (_, Some(to)) => heading.with(Style::Progressing, format!("  is {to} now")),
        _ if placement.removed => heading.with(Style::Bad, "  is removed"),
        _ => heading,
    };
    let mut lines = vec![heading];
    let errors: Vec<String> = placement.errors().collect();
    lines.extend(errors.iter().take(REFUSED_ERRORS_MAX).map(|error| line(Style::Bad, format!("  ✗ {error}"))));
    if let Some(more) = errors.len().checked_sub(REFUSED_ERRORS_MAX).filter(|more| *more > 0) {
        lines.push(line(Style::Muted, format!("    and {}; -o json shows all", counted(more, "more error"))));
    }
    if !placement.removed {
        lines.extend(placement.snapshot.as_ref().map(|snapshot| {
            let standing = match &placement.changes {
                Some(changes) if changes.resources.is_empty() => ", as before",
                Some(_) => ", new",
                None => "",
            };
            field("snapshot", format!("{}, {}{standing}", snapshot.index, objects(snapshot.resources.len())))
        }));
        lines.extend(cluster_lines(placement));
        lines.extend(variant_lines(placement));
        lines.push(field("rollout", rollout_text(placement)));
    }
    lines.extend(object_lines(placement));
    lines.extend(hand_over_lines(placement));
    lines.extend(deletion_lines(placement, shares_name));
    lines
}

fn names<'a>(clusters: impl IntoIterator<Item = &'a ClusterName>) -> String {
    first_of(clusters.into_iter().map(ClusterName::as_str), NAMED_MAX)
}

/// Counts the clusters; names those that come, go, or get other overrides.
fn cluster_lines(placement: &PlacementPlan) -> Vec<Line> {
    let all: Vec<&ClusterName> = placement.works.iter().map(|work| &work.cluster_name).collect();
    let text = match all.len() {
        0 => "none".to_owned(),
        count if count <= NAMED_MAX => format!("{count}: {}", names(all)),
        count => count.to_string(),
    };
    let mut lines = vec![field("clusters", text)];
    let Some(changes) = &placement.changes else { return lines };
    let overridden =
        if placement.variants.is_empty() { " get other overrides" } else { " get other overrides or values" };
    let moves = [
        (Style::Ok, "+", &changes.clusters.gained, ""),
        (Style::Bad, "-", &placement.lost().cloned().collect(), ""),
        (Style::Progressing, "~", &changes.overridden, overridden),
    ];
    for (style, sign, clusters, what) in moves.into_iter().filter(|(_, _, clusters, _)| !clusters.is_empty()) {
        let count = counted(clusters.len(), "cluster");
        let names = names(clusters);
        lines.push(line(style, format!("    {sign} {count}{what}: {names}")));
    }
    lines
}

/// Counts the variants, and says which clusters get which.
fn variant_lines(placement: &PlacementPlan) -> Vec<Line> {
    let variants = &placement.variants;
    if variants.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![field("variants", variants.len().to_string())];
    lines.extend(variants.iter().take(NAMED_MAX).map(|variant| {
        let text = format!("      {}: {}", described(&variant.values), names(&variant.clusters));
        line(Style::Plain, text)
    }));
    if let Some(more) = variants.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        lines.push(line(Style::Muted, format!("      and {more} more; -o json shows all")));
    }
    lines
}

fn rollout_text(placement: &PlacementPlan) -> String {
    let rollout = &placement.rollout;
    let mut text = rollout.type_.as_str().to_owned();
    for (word, name) in [(" by", &rollout.strategy), (", run", &rollout.run)] {
        if let Some(name) = name {
            text.extend([word, " ", name.as_str()]);
        }
    }
    let stages: Vec<String> =
        rollout.stages.iter().map(|stage| format!("{} {}", stage.name, stage.clusters.len())).collect();
    if !stages.is_empty() {
        text.extend([": ", &stages.join(", ")]);
    }
    if !rollout.ignored.is_empty() {
        text.extend(["; in no stage, left as they are: ", &names(&rollout.ignored)]);
    }
    text
}

/// Counts the objects that differ from the base, or without one lists all of them.
fn object_lines(placement: &PlacementPlan) -> Vec<Line> {
    let Some(changes) = &placement.changes else {
        let listed = placement.snapshot.iter().flat_map(|snapshot| &snapshot.resources);
        let names: Vec<String> = listed.map(|resource| resource.0.to_string()).collect();
        let mut lines: Vec<Line> =
            names.iter().take(OBJECTS_MAX).map(|name| line(Style::Plain, format!("      {name}"))).collect();
        if let Some(more) = names.len().checked_sub(OBJECTS_MAX).filter(|more| *more > 0) {
            lines.push(line(Style::Muted, format!("      and {more} more; -o json shows all")));
        }
        return lines;
    };
    let resources = &changes.resources;
    let signs = [
        (Style::Ok, "+", &resources.added),
        (Style::Progressing, "~", &resources.changed),
        (Style::Bad, "-", &placement.dropped().cloned().collect()),
    ];
    let listed = signs.into_iter().filter(|(_, _, resources)| !resources.is_empty());
    listed.map(|(style, sign, of)| line(style, format!("    {sign} {}: {}", objects(of.len()), listing(of)))).collect()
}

fn listing(resources: &[Resource]) -> String {
    let ids: Vec<String> = resources.iter().map(|resource| resource.0.to_string()).collect();
    first_of(ids.iter().map(String::as_str), NAMED_MAX)
}

/// Lists what another placement has at the end, the same on several clusters once.
fn hand_over_lines(placement: &PlacementPlan) -> Vec<Line> {
    let mut groups: BTreeMap<(&PlacementKey, &[Resource]), Vec<&ClusterName>> = BTreeMap::new();
    for handed in placement.handed() {
        groups.entry((&handed.to, &handed.resources)).or_default().push(&handed.cluster_name);
    }
    let mut lines = Vec::new();
    for ((to, resources), clusters) in groups.iter().take(NAMED_MAX) {
        let from = placement.key();
        let verb = if resources.len() == 1 { "changes" } else { "change" };
        let on = format!("{}: {}", counted(clusters.len(), "cluster"), names(clusters.iter().copied()));
        let text = format!("  {} {verb} hands, {from} -> {to}, on {on}", objects(resources.len()));
        lines.push(line(Style::Progressing, text));
        lines.push(line(Style::Plain, format!("    {}", listing(resources))));
    }
    if let Some(more) = groups.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        let text = format!("  and {} of objects that change hands; -o json shows all", counted(more, "other list"));
        lines.push(line(Style::Progressing, text));
    }
    lines
}

/// Lists what goes, the same on several clusters once, and what a person must approve.
fn deletion_lines(placement: &PlacementPlan, shares_name: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut groups: BTreeMap<&[Resource], Vec<&ClusterName>> = BTreeMap::new();
    for DeletionPlan { cluster_name, resources } in &placement.deletions {
        groups.entry(resources).or_default().push(cluster_name);
    }
    for (resources, clusters) in groups.iter().take(NAMED_MAX) {
        let named = names(clusters.iter().copied());
        let from = match clusters.len() {
            1 => named,
            count => format!("{count} clusters: {named}"),
        };
        lines.push(line(Style::Bad, format!("  deletes {} from {from}", objects(resources.len()))));
        lines.push(line(Style::Bad, format!("    {}", listing(resources))));
    }
    if let Some(more) = groups.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        lines.push(line(Style::Bad, format!("  and {} of deletions; -o json shows all", counted(more, "other list"))));
    }
    if let Some(reason) = &placement.deletion_guard {
        lines.push(line(Style::Progressing, format!("  ! a person must approve this first: {reason}")));
        let word = if shares_name { placement.key().qualified() } else { placement.key().to_string() };
        let hint = format!("    once it is accepted: gitfleet approve {word} {DELETION_GATE}");
        lines.push(line(Style::Muted, hint));
    }
    lines
}

/// Says what an OCM Placement decides, and what comes and goes.
fn ocm_lines(placement: &OcmPlan) -> Vec<Line> {
    let heading = line(Style::Strong, format!("Placement {}/{}", placement.namespace, placement.name));
    let mut lines = vec![heading.with(Style::Muted, format!("  {}", placement.message))];
    lines.extend(placement.errors.iter().map(|error| line(Style::Bad, format!("  ✗ {error}"))));
    for group in &placement.groups {
        let name = if group.name.is_empty() { "clusters" } else { &group.name };
        let names = match group.clusters.len() {
            0 => "none".to_owned(),
            count => format!("{count}: {}", names(&group.clusters)),
        };
        lines.push(field(name, names));
    }
    let moves = placement.changes.iter().flat_map(|changes| {
        [(Style::Ok, "+", &changes.gained), (Style::Bad, "-", &changes.lost)].map(|(style, sign, clusters)| {
            let words = format!("    {sign} {}: {}", counted(clusters.len(), "cluster"), names(clusters));
            (!clusters.is_empty()).then(|| line(style, words))
        })
    });
    lines.extend(moves.flatten());
    lines
}

/// Shows differences, equal ones of several placements once.
fn object_diffs(objects: &[ObjectDiff]) -> Vec<Line> {
    let mut groups: Vec<(&ObjectDiff, Vec<&ObjectDiff>)> = Vec::new();
    for object in objects {
        let same = groups
            .iter_mut()
            .find(|(first, _)| object.text.is_some() && first.change == object.change && first.text == object.text);
        match same {
            Some((_, others)) => others.push(object),
            None => groups.push((object, Vec::new())),
        }
    }
    groups.into_iter().flat_map(|(first, others)| object_diff(first, &others)).collect()
}

fn object_diff(first: &ObjectDiff, others: &[&ObjectDiff]) -> Vec<Line> {
    let (style, sign) = match first.change {
        ObjectChange::Added => (Style::Ok, "+"),
        ObjectChange::Changed => (Style::Progressing, "~"),
        ObjectChange::Deleted => (Style::Bad, "-"),
    };
    let heading = line(style, format!("{sign} ")).with(Style::Strong, first.id.to_string());
    let mut lines = vec![heading.with(Style::Muted, format!("  of {}", first.placement))];
    let placements: BTreeSet<&PlacementKey> =
        others.iter().map(|other| &other.placement).filter(|placement| **placement != first.placement).collect();
    let own: Vec<String> =
        others.iter().filter(|other| other.placement == first.placement).map(|other| other.id.to_string()).collect();
    if !own.is_empty() {
        let names = first_of(own.iter().map(String::as_str), NAMED_MAX);
        lines.push(line(Style::Muted, format!("  the same in {}: {names}", counted(own.len(), "more object"))));
    }
    if !placements.is_empty() {
        let names: Vec<String> = placements.iter().map(ToString::to_string).collect();
        let names = first_of(names.iter().map(String::as_str), NAMED_MAX);
        let count = counted(placements.len(), "more placement");
        lines.push(line(Style::Muted, format!("  the same in {count}: {names}")));
    }
    lines.extend(first.text.iter().flat_map(|text| hunks(text)));
    lines.push(Line::default());
    lines
}

fn override_diff(effect: &OverrideEffect) -> Vec<Line> {
    let clusters = counted(effect.clusters.len(), "cluster");
    let heading = line(Style::Progressing, "~ ").with(Style::Strong, format!("overrides of {clusters}"));
    let mut lines = vec![heading.with(Style::Muted, format!("  of {}: {}", effect.placement, names(&effect.clusters)))];
    lines.extend(effect.text.iter().flat_map(|text| hunks(text)));
    lines.push(Line::default());
    lines
}

/// Returns the lines of a difference, coloured as git does.
fn hunks(text: &str) -> Vec<Line> {
    let shown = text.lines().take(DIFF_LINES_MAX).map(|text| match text.chars().next() {
        Some('+') => line(Style::Ok, text),
        Some('-') => line(Style::Bad, text),
        _ if text == " …" => line(Style::Muted, "@@"),
        _ => line(Style::Plain, text),
    });
    let mut lines: Vec<Line> = shown.collect();
    if let Some(more) = text.lines().count().checked_sub(DIFF_LINES_MAX).filter(|more| *more > 0) {
        lines.push(line(Style::Muted, format!("and {}", counted(more, "more line"))));
    }
    lines
}

/// Returns the plan in one line, as people know it from other tools.
fn sum(plan: &Plan) -> Line {
    let is_compared = plan.placements.iter().any(|placement| placement.changes.is_some())
        || plan.ocm_placements.iter().any(|placement| placement.changes.is_some());
    let parts = if is_compared { changes(plan) } else { whole(plan) };
    let failing = plan.placements.iter().flat_map(PlacementPlan::errors).count()
        + plan.ocm_placements.iter().map(|placement| placement.errors.len()).sum::<usize>();
    let text = line(Style::Strong, format!("Plan: {}", parts.join(", ")));
    if failing > 0 { text.with(Style::Bad, format!(", {}", counted(failing, "error"))) } else { text }
}

/// Counts what there is, where nothing is compared.
fn whole(plan: &Plan) -> Vec<String> {
    let works = plan.placements.iter().flat_map(|placement| &placement.works);
    let clusters: BTreeSet<&ClusterName> = works.map(|work| &work.cluster_name).collect();
    let snapshots = plan.placements.iter().filter_map(|placement| placement.snapshot.as_ref());
    let placements = counted(plan.placements.len() + plan.ocm_placements.len(), "placement");
    vec![
        format!("{placements} on {}", counted(clusters.len(), "cluster")),
        objects(snapshots.map(|snapshot| snapshot.resources.len()).sum()),
    ]
}

/// Counts what changes.
fn changes(plan: &Plan) -> Vec<String> {
    let changed: Vec<&PlacementPlan> = plan.placements.iter().filter(|placement| is_changed(placement)).collect();
    let moved = plan.ocm_placements.iter().filter(|p| p.changes.as_ref().is_some_and(|changes| !changes.is_empty()));
    let mut parts = match changed.len() + moved.count() {
        0 => vec!["nothing changes".to_owned()],
        1 => vec!["1 placement changes".to_owned()],
        count => vec![format!("{count} placements change")],
    };
    let clusters: BTreeSet<&ClusterName> = changed.iter().flat_map(|placement| concerned(placement)).collect();
    if !clusters.is_empty() {
        parts[0].extend([" on ", &counted(clusters.len(), "cluster")]);
    }
    let deletions: Vec<&DeletionPlan> = changed.iter().flat_map(|placement| &placement.deletions).collect();
    let losing: BTreeSet<&ClusterName> = deletions.iter().map(|deletion| &deletion.cluster_name).collect();
    if !losing.is_empty() {
        let verb = if losing.len() == 1 { "loses" } else { "lose" };
        parts.push(format!("{} {verb} objects", counted(losing.len(), "cluster")));
    }
    let gone = deletions.iter().map(|deletion| deletion.resources.len()).sum();
    let guarded: Vec<&PlacementPlan> =
        plan.placements.iter().filter(|placement| placement.deletion_guard.is_some()).collect();
    let held = guarded.iter().flat_map(|placement| &placement.deletions).map(|gone| gone.resources.len()).sum();
    match (gone, held) {
        // Clusters that leave the fleet keep their objects, and still need an approval.
        (0, _) if guarded.is_empty() => {}
        (0, _) => parts.push(format!("{} to approve", counted(guarded.len(), "departure"))),
        (gone, 0) => parts.push(counted(gone, "deletion")),
        (1, _) => parts.push("1 deletion (needs approval)".to_owned()),
        (gone, held) if gone == held => parts.push(format!("{} (need approval)", counted(gone, "deletion"))),
        (gone, held) => parts.push(format!("{} ({held} need approval)", counted(gone, "deletion"))),
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::plain;
    use model::id::ObjectId;
    use model::manifest::InputError;

    fn diff(placement: &str, name: &str, change: ObjectChange, text: Option<&str>) -> ObjectDiff {
        let id = ObjectId {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            namespace: "web".into(),
            name: name.into(),
        };
        ObjectDiff { placement: PlacementKey::cluster_scoped(placement), id, change, text: text.map(str::to_owned) }
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| plain(line).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn equal_differences_are_shown_once() {
        let image = Some("   containers:\n-  - image: old\n+  - image: new\n …\n-  replicas: 1\n+  replicas: 2\n");
        let objects = [
            diff("api", "api", ObjectChange::Changed, image),
            diff("cart", "cart", ObjectChange::Changed, image),
            diff("api", "worker", ObjectChange::Changed, image),
            diff("web", "web", ObjectChange::Changed, image),
            diff("web", "secret", ObjectChange::Deleted, None),
        ];
        insta::assert_snapshot!(text(&object_diffs(&objects)), @r#"
        ~ Deployment.apps web/api  of api
          the same in 1 more object: Deployment.apps web/worker
          the same in 2 more placements: cart, web
           containers:
        -  - image: old
        +  - image: new
        @@
        -  replicas: 1
        +  replicas: 2

        - Deployment.apps web/secret  of web
        "#);
    }

    #[test]
    fn of_many_errors_the_first_are_shown() {
        let error = |line| InputError {
            path: "a.yaml".into(),
            line,
            object: None,
            field: None,
            message: "wrong".into(),
            hint: None,
        };
        let plan = Plan::refused(None, (1..=3_248).map(error).collect());
        let lines = plan_lines(&PlanText { plan: &plan, stops: &[], objects: &[], overrides: &[] });
        assert_eq!(lines.len(), 1 + REFUSED_ERRORS_MAX + 1);
        assert!(
            text(&lines).ends_with("and 3228 more errors; gitfleet validate, or -o json, shows all"),
            "{}",
            text(&lines)
        );
    }
}
