//! The source as files: what people would write.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Cluster;
use super::{
    NEVER_ON, Object, PLACEMENTS_MAX, Placement, Policy, REFUSED_ON, Staged, TENANT, Timeline, Written, cluster, named,
    role_name,
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
            let folder = self.folder_of(*number);
            let (abandons, shares) = (self.abandons.contains(number), self.shares.contains(number));
            let strategy = placement.staged.as_ref().filter(|staged| !staged.missing);
            let list = self.list_text(*number);
            let strategy_text = |head: &Head| strategy.map(|staged| staged.text(head, list.as_deref()));
            let own = placement.text(*number, &self.cluster_scoped(*number), abandons, shares);
            files.push((format!("{folder}placements/p{number}.yaml"), own));
            let own = strategy_text(&cluster_strategy(*number));
            files.extend(own.map(|text| (format!("strategies/s{number}.yaml"), text)));
            if self.splits.contains(number) {
                let within =
                    placement.text(*number, &within_namespace(*number, &self.within(*number)), abandons, shares);
                files.push((format!("{folder}placements/q{number}.yaml"), within));
                let within = strategy_text(&namespaced_strategy(*number));
                files.extend(within.map(|text| (format!("{folder}strategies/s{number}.yaml"), text)));
            }
        }
        files.extend(self.runs.iter().map(|(placement, run)| {
            let is_within = self.splits.contains(placement) && run.name.is_multiple_of(2);
            let of = if is_within { self.within(*placement) } else { self.name(*placement) };
            (format!("runs/r{placement}.yaml"), run.text(*placement, &of, is_within))
        }));
        for of in 0..PLACEMENTS_MAX {
            let good = [("a", self.overrides.get(&of)), ("b", self.overrides_of_b.get(&of))];
            let good = good.into_iter().filter_map(|(env, value)| {
                Some(rule_text(env, "add, path: /metadata/labels", &format!("{{v: v{}}}", value?)))
            });
            let bad = self.bad_overrides.contains(&of);
            let bad = bad.then(|| rule_text("b", "replace, path: /metadata/labels/missing/field", "x"));
            let rules: String = good.chain(bad).collect();
            if !rules.is_empty() {
                let folder = self.folder_of(of);
                files.push((format!("{folder}overrides/o{of}.yaml"), override_text(of, &self.name(of), &rules)));
                let selectors: Vec<String> = self
                    .objects
                    .range((of, 0)..(of + 1, 0))
                    .map(|((_, number), object)| object.selector(*number))
                    .collect();
                if self.splits.contains(&of) && !selectors.is_empty() {
                    let text = override_in_namespace(of, &self.within(of), &selectors.join(", "), &rules);
                    files.push((format!("{folder}overrides/r{of}.yaml"), text));
                }
            }
        }
        for (role, (of, value)) in &self.roles {
            let text = format!(
                "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {}, annotations: \
                 {{example.org/value: 'v{value}'}}}}\nrules: []\n",
                role_name(*role)
            );
            files.push((format!("{}payload/role{role}.yaml", self.folder_of(*of)), text));
        }
        for (placement, number, times) in &self.evictions {
            let of = named(*placement, *times);
            let id = format!("e{}{number}", of.trim_start_matches('p'));
            let text = format!(
                "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourcePlacementEviction\nmetadata: {{name: \
                 {id}}}\nspec: {{placementName: {of}, clusterName: {}}}\n",
                cluster(*number)
            );
            files.push((format!("evictions/{id}.yaml"), text));
        }
        for namespace in 0..PLACEMENTS_MAX {
            let mut text = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: n{namespace}}}\n");
            for ((_, number), object) in self.objects.range((namespace, 0)..(namespace + 1, 0)) {
                text.push_str(&object.text(namespace, *number));
            }
            files.push((format!("{}payload/n{namespace}.yaml", self.folder_of(namespace)), text));
        }
        files
    }

    /// Returns the folder of what belongs to a placement: one of a tenant, or none.
    fn folder_of(&self, number: u64) -> &'static str {
        if self.has_tenant && number == TENANT { "tenant/" } else { "" }
    }

    /// Returns what is particular of a ClusterResourcePlacement: where its Namespace has a ResourcePlacement, it brings the Namespace alone.
    fn cluster_scoped(&self, number: u64) -> Head {
        let scope = if self.splits.contains(&number) { ", selectionScope: NamespaceOnly" } else { "" };
        let mut selectors = format!("{{group: '', version: v1, kind: Namespace, name: n{number}{scope}}}");
        for (role, _) in self.roles_of(number) {
            let name = role_name(role);
            write!(selectors, ", {{group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole, name: {name}}}")
                .expect("a String takes it");
        }
        Head { kind: "ClusterResourcePlacement", metadata: format!("name: {}", self.name(number)), selectors }
    }
}

/// What is particular of a document of one of two scopes.
struct Head {
    kind: &'static str,
    metadata: String,
    selectors: String,
}

/// Returns that of the ResourcePlacement of a namespace: everything in it.
fn within_namespace(number: u64, name: &str) -> Head {
    let kinds = [("''", "v1", "ConfigMap"), ("apps", "v1", "Deployment"), ("batch", "v1", "Job")];
    let selectors = kinds.map(|(group, version, kind)| format!("{{group: {group}, version: {version}, kind: {kind}}}"));
    Head {
        kind: "ResourcePlacement",
        metadata: format!("name: {name}, namespace: n{number}"),
        selectors: selectors.join(", "),
    }
}

fn cluster_strategy(number: u64) -> Head {
    Head { kind: "ClusterStagedUpdateStrategy", metadata: format!("name: s{number}"), selectors: String::new() }
}

fn namespaced_strategy(number: u64) -> Head {
    let metadata = format!("name: s{number}, namespace: n{number}");
    Head { kind: "StagedUpdateStrategy", metadata, selectors: String::new() }
}

impl Placement {
    fn text(&self, number: u64, head: &Head, abandons: bool, shares: bool) -> String {
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
        let Head { kind, metadata, selectors } = head;
        // The placements of a namespace are served as v1beta1 alone.
        let version = if *kind == "ResourcePlacement" { "v1beta1" } else { "v1" };
        format!(
            "apiVersion: placement.kubernetes-fleet.io/{version}\nkind: {kind}\nmetadata:\n  {}\n  \
             annotations: {{{annotations}}}\nspec:\n  resourceSelectors: [{selectors}]\n  policy: {policy}\n  strategy: {strategy}\n  \
             revisionHistoryLimit: {}\n",
            metadata.replace(", ", "\n  "),
            self.history
        )
    }
}

impl Staged {
    fn text(&self, Head { kind, metadata, .. }: &Head, approvers: Option<&str>) -> String {
        let approvers = approvers.map_or(String::new(), |list| format!(", gitfleet.io/approvers: '{list}'"));
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
            "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: {kind}\nmetadata: {{{metadata}, \
             annotations: {{gitfleet.io/clusters-in-no-stage: {}{approvers}}}}}\nspec:\n  stages:\n    - name: first\n      maxConcurrency: {max}\n      labelSelector: {{matchLabels: {{env: a}}}}{more}{after}\n    - name: second\n      maxConcurrency: {max}\n      labelSelector: {{matchLabels: {{env: b}}}}{before}\n{third}",
            self.in_no_stage,
            max = self.max_concurrency
        )
    }
}

impl Written {
    fn text(&self, placement: u64, of: &str, is_within: bool) -> String {
        let state = if self.state.is_empty() { String::new() } else { format!(", state: {}", self.state) };
        let index = self.index.map_or(String::new(), |index| format!(", resourceSnapshotIndex: '{index}'"));
        let kind = if is_within { "StagedUpdateRun" } else { "ClusterStagedUpdateRun" };
        let namespace = if is_within { format!(", namespace: n{placement}") } else { String::new() };
        format!(
            "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: {kind}\nmetadata: {{name: r{}{namespace}}}\nspec: \
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

/// An override of these objects of a namespace.
fn override_in_namespace(number: u64, placement: &str, selectors: &str, rules: &str) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ResourceOverride\nmetadata: {{name: r{number}, namespace: \
         n{number}}}\nspec:\n  placement: {{name: {placement}, scope: Namespaced}}\n  resourceSelectors: [{selectors}]\n  \
         policy:\n    overrideRules:\n{rules}"
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
    /// Returns how an override selects it.
    fn selector(&self, number: u64) -> String {
        let (group, version) = match self.kind {
            "ConfigMap" => ("''", "v1"),
            "Job" => ("batch", "v1"),
            _ => ("apps", "v1"),
        };
        format!("{{group: {group}, version: {version}, kind: {}, name: o{number}}}", self.kind)
    }

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
