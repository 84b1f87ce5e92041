//! CustomResourceDefinitions of gitfleet's kinds, generated from their types.
//!
//! Rules about changes (immutable fields) are left out on purpose: what git says next is always a possible next state.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::cluster::MemberClusterSpec;
use super::envelope::EnvelopeData;
use super::eviction::{DisruptionBudgetSpec, EvictionSpec};
use super::overrides::{ClusterResourceOverrideSpec, ResourceOverrideSpec};
use super::placement::PlacementSpec;
use super::staged::{ApprovalRequestSpec, StagedUpdateRunSpec, StagedUpdateStrategySpec};
use super::table::{self, CLUSTER_GROUP, PLACEMENT_GROUP};
use crate::tree::Scope;

mod decisions;

pub use decisions::placement_decision_crd;

/// The version that is stored, where a kind has it.
const STORAGE_VERSION: &str = "v1beta1";

/// Name, type, JSON path, and 1 where only the wide table shows it.
type Column = (&'static str, &'static str, &'static str, u8);

/// JSON path of a part of the schema, CEL rule, message.
type Rule = (&'static str, &'static str, &'static str);

/// What a definition says besides the kind's entry in [`table::KINDS`].
struct Definition {
    group: &'static str,
    kind: &'static str,
    /// Versions that are read but not served.
    unserved: &'static [&'static str],
    has_status: bool,
    columns: &'static [Column],
    rules: &'static [Rule],
    schema: fn() -> Value,
}

const NOT_ALPHA: &[&str] = &["v1alpha1"];
const AGE: Column = ("Age", "date", ".metadata.creationTimestamp", 0);

macro_rules! condition {
    ($type:literal, $field:literal) => {
        concat!(".status.conditions[?(@.type==\"", $type, "\")].", $field)
    };
}

macro_rules! placement_columns {
    ($scheduled:literal, $synchronized:literal, $available:literal) => {
        &[
            ("Gen", "string", ".metadata.generation", 0),
            ("Type", "string", ".spec.policy.placementType", 1),
            ("Scheduled", "string", condition!($scheduled, "status"), 0),
            ("Scheduled-Gen", "string", condition!($scheduled, "observedGeneration"), 0),
            ("Work-Synchronized", "string", condition!($synchronized, "status"), 1),
            ("Work-Synchronized-Gen", "string", condition!($synchronized, "observedGeneration"), 1),
            ("Available", "string", condition!($available, "status"), 0),
            ("Available-Gen", "string", condition!($available, "observedGeneration"), 0),
            AGE,
        ]
    };
}

const RUN_COLUMNS: &[Column] = &[
    ("Placement", "string", ".spec.placementName", 0),
    ("Resource-Snapshot-Index", "string", ".spec.resourceSnapshotIndex", 0),
    ("Policy-Snapshot-Index", "string", ".status.policySnapshotIndexUsed", 0),
    ("Initialized", "string", condition!("Initialized", "status"), 0),
    ("Progressing", "string", condition!("Progressing", "status"), 0),
    ("Succeeded", "string", condition!("Succeeded", "status"), 0),
    AGE,
    ("Strategy", "string", ".spec.stagedRolloutStrategyName", 1),
];

const APPROVAL_COLUMNS: &[Column] = &[
    ("Update-Run", "string", ".spec.parentStageRollout", 0),
    ("Stage", "string", ".spec.targetStage", 0),
    ("Approved", "string", condition!("Approved", "status"), 0),
    AGE,
];

const EVICTION_COLUMNS: &[Column] = &[
    ("Valid", "string", condition!("Valid", "status"), 0),
    ("Executed", "string", condition!("Executed", "status"), 0),
];

const MEMBER_COLUMNS: &[Column] = &[
    ("Joined", "string", condition!("Joined", "status"), 0),
    AGE,
    ("Member-Agent-Last-Seen", "date", ".status.agentStatus[?(@.type==\"MemberAgent\")].lastReceivedHeartbeat", 0),
    ("Node-Count", "string", ".status.properties.kubernetes-fleet\\.io/node-count.value", 0),
    ("Available-CPU", "string", ".status.resourceUsage.available.cpu", 0),
    ("Available-Memory", "string", ".status.resourceUsage.available.memory", 0),
    ("Allocatable-CPU", "string", ".status.resourceUsage.allocatable.cpu", 1),
    ("Allocatable-Memory", "string", ".status.resourceUsage.allocatable.memory", 1),
];

/// The first is for ClusterResourcePlacements only.
const CLUSTER_PLACEMENT_RULES: &[Rule] = &[
    (
        "spec",
        "!has(self.statusReportingScope) || self.statusReportingScope != 'NamespaceAccessible' || \
         (self.resourceSelectors.size() == 1 && self.resourceSelectors[0].kind == 'Namespace')",
        "NamespaceAccessible needs exactly one selector, of kind Namespace",
    ),
    (
        "spec",
        "self.resourceSelectors.filter(s, has(s.selectionScope) && s.selectionScope == 'NamespaceWithResourceSelectors').size() <= 1",
        "only one selector may use NamespaceWithResourceSelectors",
    ),
    (
        "spec",
        "self.resourceSelectors.all(s, !has(s.selectionScope) || s.selectionScope != 'NamespaceWithResourceSelectors' || \
         (has(s.name) && size(s.name) > 0 && !has(s.labelSelector)))",
        "NamespaceWithResourceSelectors needs a name and no labelSelector",
    ),
    (
        "spec",
        "!self.resourceSelectors.exists(s, has(s.selectionScope) && s.selectionScope == 'NamespaceWithResourceSelectors') || \
         self.resourceSelectors.filter(s, s.group == '' && s.version == 'v1' && s.kind == 'Namespace').size() == 1",
        "with NamespaceWithResourceSelectors there may be no other Namespace selector",
    ),
    (
        "spec.resourceSelectors[]",
        "!(has(self.name) && size(self.name) > 0 && has(self.labelSelector))",
        "name and labelSelector exclude each other",
    ),
    (
        "spec.policy",
        "self.placementType != 'PickFixed' || !(has(self.affinity) || has(self.numberOfClusters) || \
         has(self.topologySpreadConstraints) || has(self.tolerations))",
        "PickFixed takes clusterNames only",
    ),
    (
        "spec.policy",
        "self.placementType != 'PickAll' || !(has(self.clusterNames) || has(self.numberOfClusters) || \
         has(self.topologySpreadConstraints))",
        "PickAll takes no clusterNames, numberOfClusters or topologySpreadConstraints",
    ),
    (
        "spec.policy",
        "self.placementType != 'PickN' || (!has(self.clusterNames) && has(self.numberOfClusters))",
        "PickN needs numberOfClusters and takes no clusterNames",
    ),
];

const PLACEMENT_RULES: &[Rule] = match CLUSTER_PLACEMENT_RULES {
    [_, both @ ..] => both,
    [] => &[],
};

const STRATEGY_RULES: &[Rule] = &[
    ("spec.stages[].beforeStageTasks[]", "self.type != 'TimedWait'", "a task before a stage cannot be TimedWait"),
    ("spec.stages[].afterStageTasks[]", "self.type != 'Approval' || !has(self.waitTime)", "Approval takes no waitTime"),
    ("spec.stages[].afterStageTasks[]", "self.type != 'TimedWait' || has(self.waitTime)", "TimedWait needs waitTime"),
];

const BUDGET_RULES: &[Rule] = &[(
    "spec",
    "!(has(self.maxUnavailable) && has(self.minAvailable))",
    "maxUnavailable and minAvailable exclude each other",
)];

const CLUSTER_OVERRIDE_RULES: &[Rule] = &[(
    "spec.placement",
    "self.scope != 'Namespaced'",
    "a ClusterResourceOverride is for ClusterResourcePlacements only",
)];

const fn definition(kind: &'static str, schema: fn() -> Value) -> Definition {
    Definition { group: PLACEMENT_GROUP, kind, unserved: &[], has_status: true, columns: &[], rules: &[], schema }
}

const DEFINITIONS: &[Definition] = &[
    Definition {
        columns: placement_columns!(
            "ClusterResourcePlacementScheduled",
            "ClusterResourcePlacementWorkSynchronized",
            "ClusterResourcePlacementAvailable"
        ),
        rules: CLUSTER_PLACEMENT_RULES,
        ..definition("ClusterResourcePlacement", spec::<PlacementSpec>)
    },
    Definition {
        columns: placement_columns!(
            "ResourcePlacementScheduled",
            "ResourcePlacementWorkSynchronized",
            "ResourcePlacementAvailable"
        ),
        rules: PLACEMENT_RULES,
        ..definition("ResourcePlacement", spec::<PlacementSpec>)
    },
    Definition { rules: STRATEGY_RULES, ..definition("ClusterStagedUpdateStrategy", spec::<StagedUpdateStrategySpec>) },
    Definition {
        unserved: NOT_ALPHA,
        has_status: false,
        rules: STRATEGY_RULES,
        ..definition("StagedUpdateStrategy", spec::<StagedUpdateStrategySpec>)
    },
    Definition { columns: RUN_COLUMNS, ..definition("ClusterStagedUpdateRun", spec::<StagedUpdateRunSpec>) },
    Definition {
        unserved: NOT_ALPHA,
        columns: RUN_COLUMNS,
        ..definition("StagedUpdateRun", spec::<StagedUpdateRunSpec>)
    },
    Definition { columns: APPROVAL_COLUMNS, ..definition("ClusterApprovalRequest", spec::<ApprovalRequestSpec>) },
    Definition {
        unserved: NOT_ALPHA,
        columns: APPROVAL_COLUMNS,
        ..definition("ApprovalRequest", spec::<ApprovalRequestSpec>)
    },
    Definition {
        has_status: false,
        rules: CLUSTER_OVERRIDE_RULES,
        ..definition("ClusterResourceOverride", spec::<ClusterResourceOverrideSpec>)
    },
    Definition { has_status: false, ..definition("ResourceOverride", spec::<ResourceOverrideSpec>) },
    Definition { unserved: NOT_ALPHA, has_status: false, ..definition("ClusterResourceEnvelope", envelope) },
    Definition { unserved: NOT_ALPHA, has_status: false, ..definition("ResourceEnvelope", envelope) },
    Definition { columns: EVICTION_COLUMNS, ..definition("ClusterResourcePlacementEviction", spec::<EvictionSpec>) },
    Definition {
        has_status: false,
        rules: BUDGET_RULES,
        ..definition("ClusterResourcePlacementDisruptionBudget", spec::<DisruptionBudgetSpec>)
    },
    Definition {
        group: CLUSTER_GROUP,
        columns: MEMBER_COLUMNS,
        ..definition("MemberCluster", spec::<MemberClusterSpec>)
    },
];

/// Returns the CustomResourceDefinition of every kind of KubeFleet's groups that people or the hub write.
///
/// OCM's kinds have OCM's own definitions; snapshots, bindings and works live in our store.
pub fn crds() -> Vec<Value> {
    DEFINITIONS.iter().map(crd).collect()
}

fn crd(definition: &Definition) -> Value {
    let kind = table::lookup(definition.group, definition.kind).expect("every definition is of a kind in the table");
    let singular = kind.kind.to_lowercase();
    let categories: &[&str] =
        if kind.group == CLUSTER_GROUP { &["fleet", "fleet-cluster"] } else { &["fleet", "fleet-placement"] };
    let mut schema = (definition.schema)();
    for (path, rule, message) in definition.rules {
        add_rule(&mut schema, path, rule, message);
    }
    if definition.has_status {
        schema["properties"]["status"] = json!({
            "description": "What was seen; written by controllers.",
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        });
    }
    let served = kind.versions.iter().filter(|v| !definition.unserved.contains(v));
    let versions: Vec<Value> = served.map(|version| self::version(definition, version, &schema)).collect();
    let mut names = json!({
        "kind": kind.kind, "listKind": format!("{}List", kind.kind), "plural": kind.plural, "singular": singular,
        "categories": categories,
    });
    if let Some(short) = kind.short {
        names["shortNames"] = json!([short]);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", kind.plural, kind.group)},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": if kind.scope == Scope::Cluster { "Cluster" } else { "Namespaced" },
            "versions": versions,
        },
    })
}

fn version(definition: &Definition, version: &str, schema: &Value) -> Value {
    let columns = definition.columns.iter().map(|(name, type_, path, priority)| {
        let mut column = json!({"name": name, "type": type_, "jsonPath": path});
        if *priority > 0 {
            column["priority"] = json!(priority);
        }
        column
    });
    let mut value = json!({
        "name": version,
        "served": true,
        "storage": version == STORAGE_VERSION,
        "schema": {"openAPIV3Schema": schema},
    });
    if !definition.columns.is_empty() {
        value["additionalPrinterColumns"] = columns.collect();
    }
    if definition.has_status {
        value["subresources"] = json!({"status": {}});
    }
    value
}

fn generated<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    structural(settings.into_generator().into_root_schema_for::<T>().to_value())
}

fn object(mut properties: Map<String, Value>, required: &[&str]) -> Value {
    properties.insert("apiVersion".to_owned(), text("Group and version of the object."));
    properties.insert("kind".to_owned(), text("Kind of the object."));
    properties.insert("metadata".to_owned(), json!({"type": "object"}));
    json!({"type": "object", "properties": properties, "required": required})
}

fn text(description: &str) -> Value {
    json!({"description": description, "type": "string"})
}

fn spec<T: JsonSchema>() -> Value {
    object(Map::from_iter([("spec".to_owned(), generated::<T>())]), &["spec"])
}

fn envelope() -> Value {
    let mut data = generated::<EnvelopeData>()["properties"]["data"].take();
    // Schemars counts the entries of a map as it does those of a list.
    for (ours, theirs) in [("minItems", "minProperties"), ("maxItems", "maxProperties")] {
        if let Some(limit) = data.as_object_mut().and_then(|map| map.remove(ours)) {
            data[theirs] = limit;
        }
    }
    data["additionalProperties"] = json!({
        "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
    });
    object(Map::from_iter([("data".to_owned(), data)]), &["data"])
}

/// Returns a schema as Kubernetes wants it: one type, no references, no alternatives, nothing forbidden by name.
///
/// Source: Kubernetes, "structural schemas".
fn structural(schema: Value) -> Value {
    let Value::Object(mut map) = schema else { return schema };
    for key in ["$schema", "title", "definitions"] {
        map.remove(key);
    }
    // API servers refuse `false` here, and drop what a schema does not name anyway.
    if map.get("additionalProperties") == Some(&Value::Bool(false)) {
        map.remove("additionalProperties");
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(branches)) = map.remove(key) {
            merge_branches(&mut map, branches);
        }
    }
    if let Some(Value::Array(types)) = map.get("type") {
        let single = types.iter().find(|t| *t != "null").cloned().unwrap_or_default();
        map.insert("type".to_owned(), single);
    }
    // A field that is not nullable may not have the null that schemars writes for an absent option.
    if map.get("default").is_some_and(Value::is_null) {
        map.remove("default");
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        for value in properties.values_mut() {
            *value = structural(value.take());
        }
        // Serde's other name of a field; a schema has to spell it out.
        if let Some(sorter) = properties.get("propertySorter").cloned() {
            properties.insert("metricSorter".to_owned(), sorter);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(value) = map.get_mut(key) {
            *value = structural(value.take());
        }
    }
    Value::Object(map)
}

/// Folds alternatives into one schema: optional values, enums with a description for each value, numbers or text.
fn merge_branches(map: &mut Map<String, Value>, branches: Vec<Value>) {
    let branches: Vec<Value> =
        // To schemars an option is a value or null; a schema says it by not requiring the field.
        branches.into_iter().filter(|b| b.get("type") != Some(&json!("null"))).map(structural).collect();
    let types: Vec<&str> = branches.iter().filter_map(|branch| branch.get("type")?.as_str()).collect();
    if types.contains(&"integer") && types.contains(&"string") {
        // Beside this mark an API server allows no type.
        map.insert("x-kubernetes-int-or-string".to_owned(), true.into());
        return;
    }
    let mut values = Vec::new();
    for branch in branches {
        let Value::Object(branch) = branch else { continue };
        for (key, value) in branch {
            match key.as_str() {
                "const" => values.push(value),
                "enum" => values.extend(value.as_array().cloned().unwrap_or_default()),
                // What the field says of itself goes before what its type says.
                _ => {
                    map.entry(key).or_insert(value);
                }
            }
        }
    }
    if !values.is_empty() {
        map.insert("enum".to_owned(), Value::Array(values));
    }
}

fn add_rule(schema: &mut Value, path: &str, rule: &str, message: &str) {
    let mut at = schema;
    for part in path.split('.') {
        let (name, is_list) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
        at = &mut at["properties"][name];
        if is_list {
            at = &mut at["items"];
        }
    }
    let rules = at.as_object_mut().expect("every rule stands at a part of the schema");
    let rules = rules.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
    let new = json!({"rule": rule, "message": message});
    rules.as_array_mut().expect("rules are a list, made above").push(new);
}

#[cfg(test)]
mod tests;
