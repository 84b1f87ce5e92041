//! Every field that is read has its row in docs/fields.md, and what a row calls a warning or an error is one.
//!
//! The list of fields comes from the types that read them: serde asks for each field by its name.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use model::api::cluster::MemberClusterSpec;
use model::api::envelope::Envelope;
use model::api::eviction::{DisruptionBudgetSpec, EvictionSpec};
use model::api::object::Object;
use model::api::ocm::{
    AddOnPlacementScore, ManagedClusterSetBindingSpec, ManagedClusterSetSpec, ManagedClusterSpec, ManagedClusterStatus,
    OcmPlacementSpec, PlacementDecision,
};
use model::api::overrides::{ClusterResourceOverrideSpec, ResourceOverrideSpec};
use model::api::placement::{LabelSelector, PlacementSpec};
use model::api::staged::{ApprovalRequestSpec, StagedUpdateRunSpec, StagedUpdateStrategySpec};
use model::api::table::{KINDS, lookup};
use model::api::unused::UNUSED;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};
use source::{assemble, parse_blob, select};

use super::text::root;

const PAGE: &str = "docs/fields.md";
/// Sections that are about parts that many kinds have.
const EVERY_OBJECT: &str = "Every object";
const LABEL_SELECTORS: &str = "Label selectors";
/// Older names of fields: asked for beside the newer one, and not to be given twice.
const OLDER_NAMES: &[&str] = &["metricSorter"];

/// The types that read the specs of kinds, and where in the object.
type Reads = (&'static [&'static str], &'static str, fn(&str) -> BTreeSet<String>);

const READS: &[Reads] = &[
    (&["ClusterResourcePlacement", "ResourcePlacement"], "spec", fields::<PlacementSpec>),
    (&["ClusterStagedUpdateStrategy", "StagedUpdateStrategy"], "spec", fields::<StagedUpdateStrategySpec>),
    (&["ClusterStagedUpdateRun", "StagedUpdateRun"], "spec", fields::<StagedUpdateRunSpec>),
    (&["ClusterResourceOverride"], "spec", fields::<ClusterResourceOverrideSpec>),
    (&["ResourceOverride"], "spec", fields::<ResourceOverrideSpec>),
    (&["ClusterResourceEnvelope", "ResourceEnvelope"], "", fields::<Envelope>),
    (&["ClusterResourcePlacementEviction"], "spec", fields::<EvictionSpec>),
    (&["ClusterResourcePlacementDisruptionBudget"], "spec", fields::<DisruptionBudgetSpec>),
    (&["MemberCluster"], "spec", fields::<MemberClusterSpec>),
    (&["ManagedCluster"], "spec", fields::<ManagedClusterSpec>),
    (&["ManagedCluster"], "status", fields::<ManagedClusterStatus>),
    (&["ManagedClusterSet"], "spec", fields::<ManagedClusterSetSpec>),
    (&["ManagedClusterSetBinding"], "spec", fields::<ManagedClusterSetBindingSpec>),
    (&["Placement"], "spec", fields::<OcmPlacementSpec>),
    (&["PlacementDecision"], "", fields::<PlacementDecision>),
    (&["AddOnPlacementScore"], "", fields::<AddOnPlacementScore>),
    (&["ClusterApprovalRequest", "ApprovalRequest"], "spec", fields::<ApprovalRequestSpec>),
];

/// What a field does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Effect,
    Warning,
    Error,
    /// A server writes it; nobody declares anything with it.
    Written,
}

/// Returns the rows of each section, by path.
fn page() -> BTreeMap<String, BTreeMap<String, Does>> {
    let text = fs::read_to_string(root().join(PAGE)).unwrap();
    let mut sections: BTreeMap<String, BTreeMap<String, Does>> = BTreeMap::new();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            title.clone_into(&mut section);
        }
        let Some((path, rest)) = line.strip_prefix("| `").and_then(|rest| rest.split_once("` | ")) else { continue };
        let (does, sentence) = rest.split_once(" | ").unwrap();
        let does = match does {
            "effect" => Does::Effect,
            "**warning**" => Does::Warning,
            "**error**" => Does::Error,
            "written" => Does::Written,
            other => panic!("{PAGE}: {section}: {path}: {other:?} is not effect, **warning**, **error** or written"),
        };
        assert!(sentence.len() > " |".len() + 5, "{PAGE}: {section}: {path} says nothing");
        let is_new = sections.entry(section.clone()).or_default().insert(path.to_owned(), does).is_none();
        assert!(is_new, "{PAGE}: {section}: {path} is listed twice");
    }
    sections
}

/// Returns the fields that are read of each kind beyond those of every object, by the section of the kind.
fn read(sections: &BTreeMap<String, BTreeMap<String, Does>>) -> BTreeMap<String, BTreeSet<String>> {
    let mut expected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for kind in KINDS {
        let named = |title: &&String| title.split(", ").any(|name| name == kind.kind);
        let found: Vec<&String> = sections.keys().filter(named).collect();
        let [section] = found[..] else { panic!("{PAGE} has {} sections of {}", found.len(), kind.kind) };
        let reads = READS.iter().filter(|(kinds, ..)| kinds.contains(&kind.kind));
        let of_types: BTreeSet<String> = reads.flat_map(|(_, prefix, fields)| fields(prefix)).collect();
        // The types of kinds without a spec name what every object has, too.
        let own = |path: &String| {
            !(matches!(path.as_str(), "apiVersion" | "kind" | "status") || path.starts_with("metadata."))
        };
        let mut own: BTreeSet<String> = of_types.into_iter().filter(own).collect();
        if own.is_empty() {
            own.insert("spec".to_owned());
        }
        let known = expected.entry(section.clone()).or_insert_with(|| own.clone());
        assert_eq!(*known, own, "{PAGE}: {section}: the kinds of one section have different fields");
    }
    let every = fields::<Object<Value>>("").into_iter().filter(|path| path != "spec").collect();
    expected.insert(EVERY_OBJECT.to_owned(), every);
    expected.insert(LABEL_SELECTORS.to_owned(), inside_label_selector());
    expected
}

#[test]
fn w09_every_field_that_is_read_has_a_row() {
    let sections = page();
    let expected = read(&sections);
    for (section, fields) in &expected {
        let rows: BTreeSet<String> = sections.get(section).into_iter().flat_map(BTreeMap::keys).cloned().collect();
        let missing: Vec<_> = fields.difference(&rows).collect();
        assert!(missing.is_empty(), "{PAGE}: {section}: say what these fields do: {missing:#?}");
        let more: Vec<_> = rows.difference(fields).collect();
        assert!(more.is_empty(), "{PAGE}: {section}: no such fields are read: {more:#?}");
    }
    let unknown: Vec<_> = sections.keys().filter(|section| !expected.contains_key(*section)).collect();
    assert!(unknown.is_empty(), "{PAGE}: no such kinds: {unknown:?}");
}

#[test]
fn w09_what_is_traced_is_what_the_parser_knows() {
    for (kinds, prefix, fields) in READS.iter().filter(|(_, prefix, _)| *prefix == "spec") {
        let traced: BTreeSet<String> = fields(prefix)
            .iter()
            .map(|path| path["spec.".len()..].split(['.', '[']).next().unwrap_or_default().to_owned())
            .collect();
        for kind in KINDS.iter().filter(|kind| kinds.contains(&kind.kind)) {
            let version = format!("{}/{}", kind.group, kind.versions[0]);
            let object =
                json!({"apiVersion": version, "kind": kind.kind, "metadata": {"name": "a"}, "spec": {"qqqqqqqq": 1}});
            let errors = kind.check(&object).expect_err(kind.kind);
            let hint = errors[0].hint.clone().unwrap_or_default();
            let known = hint.strip_prefix("known here: ").unwrap_or_else(|| panic!("{}: {errors:?}", kind.kind));
            assert_eq!(known.split(", ").map(str::to_owned).collect::<BTreeSet<_>>(), traced, "{}", kind.kind);
        }
    }
}

/// Kind, a spec (or, for what is not below it, parts of the object), and the fields that are said.
const WARNED: &[(&str, &str, &[&str])] = &[
    ("ClusterResourcePlacement", PLACEMENT_WARNED, &PLACEMENT_FIELDS),
    ("ResourcePlacement", PLACEMENT_WARNED, &PLACEMENT_FIELDS),
    (
        "ClusterResourceOverride",
        "{clusterResourceSelectors: [{group: '', version: v1, kind: Namespace, name: a, selectionScope: NamespaceOnly}], \
         policy: {overrideRules: [{overrideType: Delete}]}}",
        &["spec.clusterResourceSelectors[0].selectionScope"],
    ),
    (
        "MemberCluster",
        "{identity: {kind: User, name: a}, heartbeatPeriodSeconds: 60, deleteOptions: {validationMode: Skip}}",
        &["spec.deleteOptions", "spec.heartbeatPeriodSeconds", "spec.identity"],
    ),
    (
        "ManagedCluster",
        "{hubAcceptsClient: false, leaseDurationSeconds: 60, managedClusterClientConfigs: [{url: 'https://a'}]}",
        &["spec.hubAcceptsClient", "spec.leaseDurationSeconds", "spec.managedClusterClientConfigs"],
    ),
    ("ManagedClusterSet", "{managedNamespaces: [{name: a}]}", &["spec.managedNamespaces"]),
    (
        "Placement",
        "{sortBy: Score, scoreRateLimit: 1m, spreadPolicy: {spreadConstraints: [{topologyKey: a, topologyKeyType: Label}]}}",
        &["spec.scoreRateLimit", "spec.sortBy", "spec.spreadPolicy"],
    ),
    ("ClusterApprovalRequest", "{parentStageRollout: a, targetStage: b}", &["spec"]),
    ("ApprovalRequest", "{parentStageRollout: a, targetStage: b}", &["spec"]),
    ("ClusterSchedulingPolicySnapshot", "{a: b}", &["spec"]),
    ("SchedulingPolicySnapshot", "{a: b}", &["spec"]),
    ("ClusterResourceSnapshot", "{a: b}", &["spec"]),
    ("ResourceSnapshot", "{a: b}", &["spec"]),
    ("ClusterResourceBinding", "{a: b}", &["spec"]),
    ("ResourceBinding", "{a: b}", &["spec"]),
    ("ClusterResourceOverrideSnapshot", "{a: b}", &["spec"]),
    ("ResourceOverrideSnapshot", "{a: b}", &["spec"]),
    ("Work", "{a: b}", &["spec"]),
    ("AppliedWork", "{a: b}", &["spec"]),
    ("InternalMemberCluster", "{a: b}", &["spec"]),
];
const PLACEMENT_WARNED: &str = "{resourceSelectors: [{group: '', version: v1, kind: Namespace, name: a}], \
    statusReportingScope: NamespaceAccessible, strategy: {reportBackStrategy: {type: Mirror, destination: WorkAPI}}}";
const PLACEMENT_FIELDS: [&str; 3] = [
    "spec.statusReportingScope",
    "spec.strategy.reportBackStrategy.destination",
    "spec.strategy.reportBackStrategy.type",
];

/// What asks for what happens anyway, of which nothing is said.
const QUIET: &[(&str, &str)] = &[
    (
        "ClusterResourcePlacement",
        "{resourceSelectors: [{group: '', version: v1, kind: Namespace, name: a}], \
         statusReportingScope: ClusterScopeOnly, strategy: {reportBackStrategy: {type: Disabled}}}",
    ),
    ("ManagedCluster", "{hubAcceptsClient: true, managedClusterClientConfigs: []}"),
    ("Placement", "{sortBy: ClusterName}"),
];

/// Kind, a part of the paths it is about, a spec, and what is said of it.
const REFUSED: &[(&str, &str, &str, &str)] = &[
    (
        "ClusterResourceOverride",
        "spec.clusterResourceSelectors[].labelSelector",
        "{clusterResourceSelectors: [{group: '', version: v1, kind: Namespace, name: a, labelSelector: {}}], \
         policy: {overrideRules: [{overrideType: Delete}]}}",
        "spec.clusterResourceSelectors[0].labelSelector: an override selects by name only",
    ),
    (
        "ClusterResourcePlacement",
        "requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms[].propertySorter",
        "{resourceSelectors: [{group: '', version: v1, kind: Namespace, name: a}], policy: {affinity: {clusterAffinity: \
         {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: \
         [{propertySorter: {name: a/b, sortOrder: Ascending}}]}}}}}",
        ".clusterSelectorTerms[0].propertySorter: a required term cannot rank",
    ),
    (
        "ClusterResourcePlacement",
        "requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms[].metricSorter",
        "{resourceSelectors: [{group: '', version: v1, kind: Namespace, name: a}], policy: {affinity: {clusterAffinity: \
         {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: \
         [{metricSorter: {name: a/b, sortOrder: Ascending}}]}}}}}",
        ".clusterSelectorTerms[0].propertySorter: a required term cannot rank",
    ),
    (
        "ClusterResourcePlacement",
        "preferredDuringSchedulingIgnoredDuringExecution[].preference.propertySelector",
        "{resourceSelectors: [{group: '', version: v1, kind: Namespace, name: a}], policy: {placementType: PickN, \
         numberOfClusters: 1, affinity: {clusterAffinity: {preferredDuringSchedulingIgnoredDuringExecution: \
         [{weight: 1, preference: {propertySelector: {matchExpressions: [{name: a/b, operator: Gt, values: ['1']}]}}}]}}}}",
        "[0].preference.propertySelector: a preferred term cannot filter",
    ),
    (
        "ClusterStagedUpdateStrategy",
        "spec.stages[].beforeStageTasks[].waitTime",
        "{stages: [{name: a, beforeStageTasks: [{type: TimedWait, waitTime: 1h}]}]}",
        "spec.stages[0].beforeStageTasks[0].type: a task before a stage cannot be TimedWait",
    ),
];

/// Returns the commit of a file with one object: what is warned of, or what is refused.
fn commit(kind: &str, name: &str, spec: &str) -> Result<Vec<String>, Vec<String>> {
    let found = KINDS.iter().find(|other| other.kind == kind).unwrap();
    let namespace = match found.scope {
        model::tree::Scope::Namespaced => ", namespace: ns",
        model::tree::Scope::Cluster => "",
    };
    let (group, version) = (found.group, found.versions[0]);
    let text = format!("apiVersion: {group}/{version}\nkind: {kind}\nmetadata: {{{name}{namespace}}}\nspec: {spec}\n");
    let blob = Arc::new(parse_blob(text.as_bytes()));
    let tree = assemble(None, &select(["a.yaml"], None), [("a.yaml".into(), "blob".into(), blob)]);
    let text = |errors: Vec<model::manifest::InputError>| {
        let said = |error: model::manifest::InputError| {
            assert!(error.line > 0 && error.object.is_some(), "{error}");
            format!("{}: {}", error.field.unwrap_or_default(), error.message)
        };
        errors.into_iter().map(said).collect::<Vec<_>>()
    };
    tree.map(|tree| text(tree.warnings)).map_err(text)
}

#[test]
fn w09_what_changes_nothing_is_a_warning() {
    let sections = page();
    let warned = |kind: &str| -> Vec<(String, Does)> {
        let section = sections.iter().find(|(title, _)| title.split(", ").any(|name| name == kind)).unwrap();
        section.1.iter().map(|(path, does)| (path.clone(), *does)).collect()
    };
    for row in UNUSED {
        for kind in row.kinds {
            assert!(lookup(row.group, kind).is_some(), "{kind} is no kind of {}", row.group);
            let below =
                |path: &str| path == row.path || path.strip_prefix(row.path).is_some_and(|r| r.starts_with(['.', '[']));
            let rows: Vec<_> = warned(kind).into_iter().filter(|(path, _)| below(path)).collect();
            assert!(!rows.is_empty(), "{PAGE} has no {} of {kind}", row.path);
            for (path, does) in rows {
                assert_eq!(does, Does::Warning, "{PAGE}: {kind}: {path} changes nothing");
            }
        }
    }
    for (kind, spec, fields) in WARNED {
        let mut said = commit(kind, "name: a", spec).unwrap_or_else(|errors| panic!("{kind}: {errors:?}"));
        said.sort();
        let named: Vec<&str> =
            said.iter().filter_map(|line| line.split_once(": changes nothing: ")).map(|(f, _)| f).collect();
        assert_eq!(named, *fields, "{kind}: {said:?}");
        let tried = |path: &str| {
            let plain = |field: &str| field.replace("[0]", "[]");
            fields.iter().any(|field| {
                path == plain(field)
                    || path.starts_with(&format!("{}.", plain(field)))
                    || path.starts_with(&format!("{}[", plain(field)))
            })
        };
        for (path, _) in warned(kind).iter().filter(|(_, does)| *does == Does::Warning) {
            assert!(tried(path), "{kind}: no example shows the warning of {path}");
        }
    }
    let exampled: BTreeSet<&str> = WARNED.iter().map(|(kind, ..)| *kind).collect();
    assert!(UNUSED.iter().flat_map(|row| row.kinds).all(|kind| exampled.contains(kind)), "a kind has no example");
    for (kind, spec) in QUIET {
        assert_eq!(commit(kind, "name: a", spec), Ok(Vec::new()), "{kind}: {spec}");
    }
}

#[test]
fn w09_what_is_refused_says_why() {
    let refused = |title: &str| title.split(", ").next().unwrap().to_owned();
    let rows = page().into_iter().flat_map(|(title, rows)| {
        let errors = rows.into_iter().filter(|(_, does)| *does == Does::Error);
        errors.map(move |(path, _)| (refused(&title), path)).collect::<Vec<_>>()
    });
    for (kind, path) in rows {
        if kind == EVERY_OBJECT {
            assert_eq!(path, "metadata.generateName", "an error without an example");
            let said = commit("MemberCluster", "generateName: a-", "{}").expect_err("no name");
            assert!(said[0].contains("metadata.generateName: a name that changes with every apply"), "{said:?}");
            continue;
        }
        let row = REFUSED.iter().find(|row| row.0 == kind && path.contains(row.1));
        let (.., spec, text) = row.unwrap_or_else(|| panic!("{kind}: no example shows the error of {path}"));
        let said = commit(&kind, "name: a", spec).expect_err(&kind);
        assert!(said.iter().any(|line| line.contains(text)), "{path}: {said:?}");
    }
}

#[test]
fn w09_of_what_every_cluster_has_one_warning_is_enough() {
    let member = |name: &str| {
        format!(
            "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: {name}}}\nspec: {{identity: {{name: {name}}}}}\n---\n"
        )
    };
    let blob = Arc::new(parse_blob([member("a"), member("b")].concat().as_bytes()));
    let tree = assemble(None, &select(["a.yaml"], None), [("a.yaml".into(), "blob".into(), blob)]).unwrap();
    let said: Vec<String> = tree.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "a.yaml:1: MemberCluster.cluster.kubernetes-fleet.io a: spec.identity: changes nothing: it is the account of KubeFleet's agent on the cluster, and \
          gitfleet has none; `members:` says how clusters are reached"
        ]
    );
}

/// Returns the paths of all fields that a type reads and that have no fields themselves.
fn fields<T: DeserializeOwned>(prefix: &str) -> BTreeSet<String> {
    trace::<T>(prefix, Some("LabelSelector"))
}

fn inside_label_selector() -> BTreeSet<String> {
    trace::<LabelSelector>("", None)
}

fn trace<T: DeserializeOwned>(prefix: &str, stop: Option<&'static str>) -> BTreeSet<String> {
    let found = RefCell::new(BTreeSet::new());
    let at = At { found: Some(&found), path: prefix.to_owned(), stop };
    T::deserialize(at).unwrap_or_else(|error| panic!("{}: {error}", std::any::type_name::<T>()));
    found.into_inner()
}

/// A value that is whatever it is asked for, and notes the fields that it is asked for.
#[derive(Clone)]
struct At<'f> {
    found: Option<&'f RefCell<BTreeSet<String>>>,
    path: String,
    /// The type whose fields are not noted.
    stop: Option<&'static str>,
}

impl At<'_> {
    fn field(&self, name: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { path: format!("{}{dot}{name}", self.path), ..self.clone() }
    }

    /// Notes the place as one that has no fields.
    fn leaf(&self) {
        if let Some(found) = self.found {
            found.borrow_mut().insert(self.path.trim_end_matches("[]").to_owned());
        }
    }

    fn unnoted(self) -> Self {
        Self { found: None, ..self }
    }
}

macro_rules! scalars {
    ($($method:ident => $visit:ident($value:expr)),* $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.leaf();
            visitor.$visit($value)
        })*
    };
}

impl<'de> Deserializer<'de> for At<'_> {
    type Error = Error;

    scalars! {
        deserialize_any => visit_str("1"),
        deserialize_str => visit_str("2020-01-01T00:00:00Z"),
        deserialize_string => visit_str("2020-01-01T00:00:00Z"),
        deserialize_bool => visit_bool(true),
        deserialize_i32 => visit_i32(1),
        deserialize_i64 => visit_i64(1),
        deserialize_u32 => visit_u32(1),
        deserialize_u64 => visit_u64(1),
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(One(Some(Self { path: format!("{}[]", self.path), ..self })))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.leaf();
        visitor.visit_map(Fields { parent: self.unnoted(), names: &["x"], next: 0 })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let is_known = self.stop == Some(name);
        if is_known {
            self.leaf();
        }
        for older in fields.iter().filter(|field| OLDER_NAMES.contains(field)) {
            self.field(older).leaf();
        }
        let parent = if is_known { self.unnoted() } else { self };
        visitor.visit_map(Fields { parent, names: fields, next: 0 })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.leaf();
        visitor.visit_enum(IntoDeserializer::<Error>::into_deserializer(variants[0]))
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

struct One<'f>(Option<At<'f>>);

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.0.take().map(|at| seed.deserialize(at)).transpose()
    }
}

struct Fields<'f> {
    parent: At<'f>,
    names: &'static [&'static str],
    next: usize,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        while self.names.get(self.next).is_some_and(|name| OLDER_NAMES.contains(name)) {
            self.next += 1;
        }
        let Some(name) = self.names.get(self.next) else { return Ok(None) };
        let key: StrDeserializer<'_, Error> = (*name).into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let at = self.parent.field(self.names[self.next]);
        self.next += 1;
        seed.deserialize(at)
    }
}
