//! What a commit changes, in one line for each of the usual documents.
//!
//! | line | document |
//! | --- | --- |
//! | `cluster NAME KEY=VALUE… [suspended] [cordoned]` | MemberCluster with labels |
//! | `namespace NAME` | Namespace |
//! | `cm NAMESPACE/NAME KEY=VALUE…` | ConfigMap |
//! | `strategy [NAMESPACE/]NAME [approvers WHO] [in-no-stage VALUE]` | strategy; below it a line for each stage: `NAME KEY=VALUE, after Approval, after TimedWait 2s, before Approval, max 100%` |
//! | `placement NAME: CLAUSES` | ClusterResourcePlacement, or ResourcePlacement of `NAMESPACE/NAME` |
//! | `override NAMESPACE/NAME on CONFIGMAP [where KEY=VALUE] [for PLACEMENT]: OPERATION PATH VALUE` | ResourceOverride; `: delete` leaves the ConfigMap out |
//! | `run NAME of PLACEMENT by STRATEGY [index N] [state STATE]` | ClusterStagedUpdateRun |
//! | `evict NAME: PLACEMENT from CLUSTER` | ClusterResourcePlacementEviction |
//! | `file PATH` | the lines below it |
//! | `remove` and the beginning of one of these lines | |
//! | `as COMMIT` | all files as they are in that commit |
//!
//! Clauses of a placement, with commas: `of namespace NAME`, `of only namespace NAME`, `of namespace NAME with NAMES`, `of cm NAMES`;
//! `staged STRATEGY`, `external`, `max-unavailable N [SECONDS]`; `fixed NAMES`, `pick N`, `where KEY=VALUE`; `take-over Never`, `force`, `abandon`;
//! `keep N` (revisionHistoryLimit); any other is the name of an annotation of gitfleet and its value.

use std::fmt::Write as _;

use crate::scenarios::read::block;

/// A change of a repository.
pub enum Change {
    /// A file has this text.
    Write(String, String),
    /// A file goes.
    Remove(String),
    /// All files are as in the commit of this name.
    Restore(String),
}

const FLEET: &str = "placement.kubernetes-fleet.io/v1beta1";

/// Reads the lines below a commit.
pub fn changes(lines: &[(usize, &str)]) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    let mut rest = lines;
    while let Some(((indent, text), after)) = rest.split_first() {
        let until = after.iter().position(|(deeper, _)| deeper <= indent).unwrap_or(after.len());
        let (details, others) = after.split_at(until);
        changes.push(change(text, details).ok_or_else(|| format!("`{text}`: no such change of a file"))?);
        rest = others;
    }
    Ok(changes)
}

fn change(text: &str, details: &[(usize, &str)]) -> Option<Change> {
    let (verb, rest) = text.split_once(' ')?;
    if verb == "as" {
        return Some(Change::Restore(rest.to_owned()));
    }
    if verb == "remove" {
        let (kind, name) = rest.split_once(' ')?;
        return Some(Change::Remove(path(kind, name)?));
    }
    let (head, clauses) = rest.split_once(": ").unwrap_or((rest, ""));
    let words: Vec<&str> = head.split_whitespace().collect();
    let (name, more) = words.split_first()?;
    let text = match verb {
        "cluster" => cluster(name, more)?,
        "namespace" => format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"),
        "cm" => format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {}\ndata: {}\n", metadata(name, ""), map(more)?),
        "strategy" => strategy(name, more, details)?,
        "placement" => placement(name, clauses)?,
        "override" => over(name, more, clauses)?,
        "run" => run(name, more)?,
        "evict" => eviction(name, clauses)?,
        "file" => block(details),
        _ => return None,
    };
    Some(Change::Write(path(verb, name)?, text))
}

/// Returns the file of a document. Payload has a folder of its own.
fn path(verb: &str, name: &str) -> Option<String> {
    let flat = name.replace('/', ".");
    Some(match verb {
        "file" => name.to_owned(),
        "cm" | "namespace" => format!("payload/{verb}-{flat}.yaml"),
        "cluster" | "strategy" | "placement" | "override" | "run" | "evict" => format!("{verb}-{flat}.yaml"),
        _ => return None,
    })
}

/// Writes `metadata` of a name with or without a namespace; `annotations` are pairs with commas.
fn metadata(name: &str, annotations: &str) -> String {
    let annotations = if annotations.is_empty() { String::new() } else { format!(", annotations: {{{annotations}}}") };
    match name.split_once('/') {
        Some((namespace, name)) => format!("{{name: {name}, namespace: {namespace}{annotations}}}"),
        None => format!("{{name: {name}{annotations}}}"),
    }
}

/// Writes a map of `KEY=VALUE` words, values as texts.
fn map(words: &[&str]) -> Option<String> {
    let pairs = words.iter().map(|word| word.split_once('=').map(|(key, value)| format!("{key}: {value:?}")));
    Some(format!("{{{}}}", pairs.collect::<Option<Vec<_>>>()?.join(", ")))
}

fn cluster(name: &str, words: &[&str]) -> Option<String> {
    let labels: Vec<&str> = words.iter().copied().filter(|word| word.contains('=')).collect();
    let labels = map(&labels)?;
    let (mut suspended, mut taints) = ("", "");
    for word in words.iter().filter(|word| !word.contains('=')) {
        match *word {
            "suspended" => suspended = ", annotations: {gitfleet.io/suspended: \"true\"}",
            "cordoned" => taints = "taints: [{key: cordon-key, value: cordon-value, effect: NoSchedule}]",
            _ => return None,
        }
    }
    Some(format!(
        "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: {name}, labels: \
         {labels}{suspended}}}\nspec: {{{taints}}}\n"
    ))
}

fn strategy(name: &str, words: &[&str], stages: &[(usize, &str)]) -> Option<String> {
    let kind = if name.contains('/') { "StagedUpdateStrategy" } else { "ClusterStagedUpdateStrategy" };
    let annotation = |pair: &[&str]| match pair {
        ["approvers", who] => Some(format!("gitfleet.io/approvers: {who:?}")),
        ["in-no-stage", value] => Some(format!("gitfleet.io/clusters-in-no-stage: {value}")),
        _ => None,
    };
    let annotations = words.chunks(2).map(annotation).collect::<Option<Vec<_>>>()?.join(", ");
    let mut text =
        format!("apiVersion: {FLEET}\nkind: {kind}\nmetadata: {}\nspec:\n  stages:\n", metadata(name, &annotations));
    for (_, line) in stages {
        let mut clauses = line.split(", ");
        let mut words = clauses.next()?.split_whitespace();
        let (name, labels) = (words.next()?, words.collect::<Vec<_>>());
        let _ = writeln!(text, "    - name: {name}\n      labelSelector: {{matchLabels: {}}}", map(&labels)?);
        for clause in clauses {
            let _ = match clause.split_whitespace().collect::<Vec<_>>().as_slice() {
                ["max", number] => writeln!(text, "      maxConcurrency: {number}"),
                [when @ ("after" | "before"), "Approval"] => {
                    writeln!(text, "      {when}StageTasks: [{{type: Approval}}]")
                }
                ["after", "TimedWait", time] => {
                    writeln!(text, "      afterStageTasks: [{{type: TimedWait, waitTime: {time}}}]")
                }
                _ => return None,
            };
        }
    }
    Some(text)
}

fn placement(name: &str, clauses: &str) -> Option<String> {
    let kind = if name.contains('/') { "ResourcePlacement" } else { "ClusterResourcePlacement" };
    let (mut annotations, mut selectors, mut spec) = (Vec::new(), Vec::new(), String::new());
    let (mut kind_of_strategy, mut strategy) = ("RollingUpdate", String::new());
    let selector =
        |kind: &str, name: &str, scope: &str| format!("{{group: '', version: v1, kind: {kind}, name: {name}{scope}}}");
    for clause in clauses.split(", ") {
        let words: Vec<&str> = clause.split_whitespace().collect();
        match words.as_slice() {
            ["of", "namespace", name] => selectors.push(selector("Namespace", name, "")),
            ["of", "only", "namespace", name] => {
                selectors.push(selector("Namespace", name, ", selectionScope: NamespaceOnly"));
            }
            ["of", "namespace", name, "with", maps @ ..] => {
                selectors.push(selector("Namespace", name, ", selectionScope: NamespaceWithResourceSelectors"));
                selectors.extend(maps.iter().map(|map| selector("ConfigMap", map, "")));
            }
            ["of", "cm", maps @ ..] => selectors.extend(maps.iter().map(|map| selector("ConfigMap", map, ""))),
            ["staged", strategy] => {
                kind_of_strategy = "External";
                annotations.push(format!("gitfleet.io/staged-update-strategy: {strategy}"));
            }
            ["external"] => kind_of_strategy = "External",
            ["max-unavailable", number, seconds @ ..] => {
                let seconds = seconds.first().unwrap_or(&"0");
                let _ = write!(
                    strategy,
                    ", rollingUpdate: {{maxUnavailable: {number}, unavailablePeriodSeconds: {seconds}}}"
                );
            }
            ["take-over", when] => {
                let _ = write!(strategy, ", applyStrategy: {{whenToTakeOver: {when}}}");
            }
            ["force"] => {
                strategy += ", applyStrategy: {type: ServerSideApply, serverSideApplyConfig: {force: true}}";
            }
            ["abandon"] => strategy += ", deleteStrategy: {propagationPolicy: Abandon}",
            ["keep", number] => {
                let _ = writeln!(spec, "  revisionHistoryLimit: {number}");
            }
            ["fixed", names @ ..] => {
                let names = names.join(", ");
                let _ = writeln!(spec, "  policy: {{placementType: PickFixed, clusterNames: [{names}]}}");
            }
            ["pick", number] => {
                let _ = writeln!(spec, "  policy: {{placementType: PickN, numberOfClusters: {number}}}");
            }
            ["where", label] => {
                let labels = map(&[label])?;
                let _ = writeln!(
                    spec,
                    "  policy:\n    placementType: PickAll\n    affinity:\n      clusterAffinity:\n        \
                     requiredDuringSchedulingIgnoredDuringExecution:\n          clusterSelectorTerms: [{{labelSelector: \
                     {{matchLabels: {labels}}}}}]"
                );
            }
            [annotation, value] => annotations.push(format!("gitfleet.io/{annotation}: {value:?}")),
            _ => return None,
        }
    }
    Some(format!(
        "apiVersion: {FLEET}\nkind: {kind}\nmetadata: {}\nspec:\n  resourceSelectors: [{}]\n  strategy: {{type: {kind_of_strategy}{strategy}}}\n{spec}",
        metadata(name, &annotations.join(", ")),
        selectors.join(", ")
    ))
}

fn over(name: &str, words: &[&str], rule: &str) -> Option<String> {
    let (mut of, mut terms) = (String::new(), String::new());
    let ["on", object, words @ ..] = words else { return None };
    for pair in words.chunks(2) {
        match pair {
            ["where", label] => terms = format!("{{labelSelector: {{matchLabels: {}}}}}", map(&[label])?),
            ["for", placement] => of = format!("  placement: {{name: {placement}}}\n"),
            _ => return None,
        }
    }
    let rule = match rule.splitn(3, ' ').collect::<Vec<_>>().as_slice() {
        ["delete"] => "overrideType: Delete".to_owned(),
        ["remove", path] => format!("jsonPatchOverrides: [{{op: remove, path: {path}}}]"),
        [operation @ ("add" | "replace"), path, value] => {
            format!("jsonPatchOverrides: [{{op: {operation}, path: {path}, value: {value:?}}}]")
        }
        _ => return None,
    };
    Some(format!(
        "apiVersion: {FLEET}\nkind: ResourceOverride\nmetadata: {}\nspec:\n{of}  resourceSelectors: [{{group: '', version: v1, kind: \
         ConfigMap, name: {object}}}]\n  policy:\n    overrideRules: [{{clusterSelector: {{clusterSelectorTerms: [{terms}]}}, {rule}}}]\n",
        metadata(name, "")
    ))
}

fn run(name: &str, words: &[&str]) -> Option<String> {
    let ["of", placement, "by", strategy, words @ ..] = words else { return None };
    let more = |pair: &[&str]| match pair {
        ["index", index] => Some(format!(", resourceSnapshotIndex: {index:?}")),
        ["state", state] => Some(format!(", state: {state}")),
        _ => None,
    };
    let more = words.chunks(2).map(more).collect::<Option<String>>()?;
    Some(format!(
        "apiVersion: {FLEET}\nkind: ClusterStagedUpdateRun\nmetadata: {}\nspec: {{placementName: {placement}, \
         stagedRolloutStrategyName: {strategy}{more}}}\n",
        metadata(name, "")
    ))
}

fn eviction(name: &str, rest: &str) -> Option<String> {
    let (placement, cluster) = rest.split_once(" from ")?;
    Some(format!(
        "apiVersion: {FLEET}\nkind: ClusterResourcePlacementEviction\nmetadata: {}\nspec: {{placementName: {placement}, clusterName: {cluster}}}\n",
        metadata(name, "")
    ))
}
