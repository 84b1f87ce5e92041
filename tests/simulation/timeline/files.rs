//! The source as files: what people would write.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Cluster;
use super::{
    NEVER_ON, Object, PLACEMENTS_MAX, Placement, Policy, REFUSED_ON, Staged, Timeline, Written, cluster, role_name,
};

impl Timeline {
    /// Returns the files of the source, each with its text.
    pub(super) fn files(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for (number, Cluster { env, suspended, order }) in &self.clusters {
            let name = cluster(*number);
            let text = format!(
                "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata:\n  name: {name}\n  \
                 labels: {{env: {env}, order: '{order}'}}\n  annotations: {{gitfleet.io/suspended: '{suspended}'}}\nspec: {{}}\n"
            );
            files.push((format!("clusters/{name}.yaml"), text));
        }
        for (number, placement) in &self.placements {
            files.push((
                format!("placements/p{number}.yaml"),
                placement.text(
                    *number,
                    &self.name(*number),
                    self.abandons.contains(number),
                    self.shares.contains(number),
                    &self.roles_of(*number).map(|(role, _)| role_name(role)).collect::<Vec<_>>(),
                ),
            ));
            let staged = placement.staged.as_ref().filter(|staged| !staged.missing);
            files.extend(staged.map(|staged| (format!("strategies/s{number}.yaml"), staged.text(*number))));
        }
        files.extend(
            self.runs.iter().map(|(placement, run)| {
                (format!("runs/r{placement}.yaml"), run.text(*placement, &self.name(*placement)))
            }),
        );
        for of in 0..PLACEMENTS_MAX {
            let good = [("a", self.overrides.get(&of)), ("b", self.overrides_of_b.get(&of))];
            let good = good.into_iter().filter_map(|(env, value)| {
                Some(rule_text(env, "add, path: /metadata/labels", &format!("{{v: v{}}}", value?)))
            });
            let bad = self.bad_overrides.contains(&of);
            let bad = bad.then(|| rule_text("b", "replace, path: /metadata/labels/missing/field", "x"));
            let rules: String = good.chain(bad).collect();
            if !rules.is_empty() {
                files.push((format!("overrides/o{of}.yaml"), override_text(of, &self.name(of), &rules)));
            }
        }
        if !self.roles.is_empty() {
            let role = |(role, (_, value)): (&u64, &(u64, u64))| {
                format!(
                    "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {}, annotations: \
                     {{example.org/value: 'v{value}'}}}}\nrules: []\n---\n",
                    role_name(*role)
                )
            };
            files.push(("payload/roles.yaml".to_owned(), self.roles.iter().map(role).collect()));
        }
        for (placement, number) in &self.evictions {
            let text = format!(
                "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourcePlacementEviction\nmetadata: {{name: \
                 e{placement}{number}}}\nspec: {{placementName: p{placement}, clusterName: {}}}\n",
                cluster(*number)
            );
            files.push((format!("evictions/e{placement}{number}.yaml"), text));
        }
        for namespace in 0..PLACEMENTS_MAX {
            let mut text = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: n{namespace}}}\n");
            for ((_, number), object) in self.objects.range((namespace, 0)..(namespace + 1, 0)) {
                text.push_str(&object.text(namespace, *number));
            }
            files.push((format!("payload/n{namespace}.yaml"), text));
        }
        files
    }
}

impl Placement {
    fn text(&self, number: u64, name: &str, abandons: bool, shares: bool, roles: &[String]) -> String {
        let policy = match &self.policy {
            Policy::All => "{placementType: PickAll}".to_owned(),
            Policy::Env(env) => format!(
                "{{placementType: PickAll, affinity: {{clusterAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
                 {{clusterSelectorTerms: [{{labelSelector: {{matchLabels: {{env: {env}}}}}}}]}}}}}}}}"
            ),
            Policy::Fixed(fixed) => {
                let names: Vec<String> = fixed.iter().map(|number| cluster(*number)).collect();
                format!("{{placementType: PickFixed, clusterNames: [{}]}}", names.join(", "))
            }
            Policy::Number(count) => format!("{{placementType: PickN, numberOfClusters: {count}}}"),
        };
        let mut annotations = format!("gitfleet.io/progress-deadline: {}s", self.deadline_s);
        if let Some(max) = self.max_failures {
            write!(annotations, ", gitfleet.io/max-failures: '{max}'").expect("a String takes it");
        }
        if self.rolls_back {
            annotations.push_str(", gitfleet.io/on-failure: Rollback");
        }
        if self.guard_off {
            annotations.push_str(", gitfleet.io/deletion-guard: 'Off'");
        }
        let mut apply = match (self.reports_only, shares) {
            (true, true) => ", applyStrategy: {type: ReportDiff, allowCoOwnership: true}".to_owned(),
            (true, false) => ", applyStrategy: {type: ReportDiff}".to_owned(),
            (false, true) => ", applyStrategy: {allowCoOwnership: true}".to_owned(),
            (false, false) => String::new(),
        };
        if abandons {
            apply.push_str(", deleteStrategy: {propagationPolicy: Abandon}");
        }
        let strategy = if let Some(staged) = &self.staged {
            if staged.automatic {
                write!(annotations, ", gitfleet.io/staged-update-strategy: s{number}").expect("a String takes it");
            }
            if self.queue {
                annotations.push_str(", gitfleet.io/when-superseded: Queue");
            }
            format!("{{type: External{apply}}}")
        } else {
            format!(
                "{{type: RollingUpdate, rollingUpdate: {{maxUnavailable: {}, maxSurge: {}, unavailablePeriodSeconds: 5}}{apply}}}",
                self.max_unavailable, self.max_surge
            )
        };
        let begin = ", {group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole, name: ";
        let roles: String = roles.iter().map(|role| [begin, role, "}"].concat()).collect();
        format!(
            "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata:\n  name: {name}\n  \
             annotations: {{{annotations}}}\nspec:\n  resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: \
             n{number}}}{roles}]\n  policy: {policy}\n  strategy: {strategy}\n  revisionHistoryLimit: {}\n",
            self.history
        )
    }
}

impl Staged {
    fn text(&self, number: u64) -> String {
        let after = match self.after_first {
            "" => String::new(),
            "TimedWait" => "\n      afterStageTasks: [{type: TimedWait, waitTime: 30s}]".to_owned(),
            type_ => format!("\n      afterStageTasks: [{{type: {type_}}}]"),
        };
        let more = if self.sorted { "\n      sortingLabelKey: order" } else { "" };
        let third =
            if self.has_third { "    - name: third\n      labelSelector: {matchLabels: {env: c}}\n" } else { "" };
        let before = if self.before_second { "\n      beforeStageTasks: [{type: Approval}]" } else { "" };
        format!(
            "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata: {{name: s{number}, \
             annotations: {{gitfleet.io/clusters-in-no-stage: {}}}}}\nspec:\n  stages:\n    - name: first\n      maxConcurrency: {max}\n      labelSelector: {{matchLabels: {{env: a}}}}{more}{after}\n    - name: second\n      maxConcurrency: {max}\n      labelSelector: {{matchLabels: {{env: b}}}}{before}\n{third}",
            self.in_no_stage,
            max = self.max_concurrency
        )
    }
}

impl Written {
    fn text(&self, placement: u64, of: &str) -> String {
        let state = if self.state.is_empty() { String::new() } else { format!(", state: {}", self.state) };
        let index = self.index.map_or(String::new(), |index| format!(", resourceSnapshotIndex: '{index}'"));
        format!(
            "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateRun\nmetadata: {{name: r{}}}\nspec: \
             {{placementName: {of}, stagedRolloutStrategyName: s{placement}{state}{index}}}\n",
            self.name
        )
    }
}

/// An override of everything in a namespace.
fn override_text(number: u64, placement: &str, rules: &str) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourceOverride\nmetadata: {{name: o{number}}}\nspec:\n  \
         placement: {{name: {placement}}}\n  clusterResourceSelectors: [{{group: '', version: v1, kind: Namespace, name: \
         n{number}}}]\n  policy:\n    overrideRules:\n{rules}"
    )
}

/// A rule of it for clusters of an env.
fn rule_text(env: &str, op: &str, value: &str) -> String {
    format!(
        "      - clusterSelector: {{clusterSelectorTerms: [{{labelSelector: {{matchLabels: {{env: {env}}}}}}}]}}\n        \
         jsonPatchOverrides: [{{op: {op}, value: {value}}}]\n"
    )
}

impl Object {
    fn text(&self, namespace: u64, number: u64) -> String {
        let on = |clusters: &BTreeSet<u64>| clusters.iter().map(|n| cluster(*n)).collect::<Vec<_>>().join(".");
        let (version, body) = match self.kind {
            "ConfigMap" => ("v1", format!("data: {{v: '{}'}}", self.value)),
            "Job" => ("batch/v1", format!("spec: {{backoffLimit: {}}}", self.value)),
            _ => ("apps/v1", format!("spec: {{replicas: {}}}", 1 + self.value)),
        };
        format!(
            "---\napiVersion: {version}\nkind: {}\nmetadata: {{name: o{number}, namespace: n{namespace}, annotations: \
             {{{NEVER_ON}: '{}', {REFUSED_ON}: '{}'}}}}\n{body}\n",
            self.kind,
            on(&self.never_on),
            on(&self.refused_on),
        )
    }
}
