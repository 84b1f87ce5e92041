//! Compares tables of transitions with the diagrams that docs/rollouts.md has of them.

use std::fmt::Debug;

use model::transitions::Transitions;

const PAGE: &str = include_str!("../../docs/rollouts.md");

/// Returns the section under a heading.
pub fn section(heading: &str) -> &'static str {
    PAGE.split("\n## ").find(|section| section.starts_with(heading)).expect(heading)
}

/// Returns the diagram under a heading, as it is drawn.
fn diagram(heading: &str) -> &'static str {
    section(heading).split("```mermaid\nstateDiagram-v2\n").nth(1).expect(heading).split("```").next().expect(heading)
}

/// Checks that the ways which are drawn are those of the tables. A group of phases is drawn as one; others each for itself.
pub fn check_ways<P: Debug + PartialEq>(heading: &str, tables: &[Transitions<P>], groups: &[(&str, &[P])]) {
    let mut expected = Vec::new();
    for (from, to, when) in tables.iter().copied().flatten() {
        let group = groups.iter().find(|(_, phases)| phases == from).map(|(name, _)| vec![(*name).to_owned()]);
        let from = group.unwrap_or_else(|| from.iter().map(|phase| format!("{phase:?}")).collect());
        expected.extend(from.iter().map(|from| format!("{from} --> {to:?}: {when}")));
    }
    let ways = diagram(heading).lines().map(str::trim).filter(|line| line.contains("-->") && !line.contains("[*]"));
    let ways: Vec<&str> = ways.collect();
    assert_eq!(ways, expected, "docs/rollouts.md, {heading}; it should say\n    {}\n", expected.join("\n    "));
}

/// Checks that the groups are drawn around their phases.
pub fn check_groups<P: Debug>(heading: &str, groups: &[(&str, &[P])]) {
    let mut open: Vec<&str> = Vec::new();
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for line in diagram(heading).lines().map(str::trim).take_while(|line| !line.contains("-->")) {
        match (line.strip_prefix("state ").and_then(|line| line.strip_suffix(" {")), line) {
            (Some(name), _) => {
                open.push(name);
                found.push((name.to_owned(), Vec::new()));
            }
            (None, "}") => drop(open.pop()),
            (None, phase) => {
                let around = found.iter_mut().filter(|(name, _)| open.contains(&name.as_str()));
                around.for_each(|(_, phases)| phases.push(phase.to_owned()));
            }
        }
    }
    let names = |phases: &[P]| phases.iter().map(|phase| format!("{phase:?}")).collect();
    let expected: Vec<(String, Vec<String>)> =
        groups.iter().map(|(group, phases)| ((*group).to_owned(), names(phases))).collect();
    assert_eq!(found, expected);
}

/// Returns every way of a table by itself.
pub fn each<P: Copy>(table: Transitions<P>) -> impl Iterator<Item = (P, P)> {
    table.iter().flat_map(|(from, to, _)| from.iter().map(|from| (*from, *to)))
}

/// Checks that each way is listed once and leads elsewhere.
pub fn check_once<P: PartialEq + Copy + Debug>(table: Transitions<P>) {
    let all: Vec<(P, P)> = each(table).collect();
    for (index, (from, to)) in all.iter().enumerate() {
        assert!(from != to && !all[..index].contains(&(*from, *to)), "{from:?} {to:?}");
    }
}
