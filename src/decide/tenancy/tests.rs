//! What tenants ask for beyond their limits, row by row.

mod encrypted;

use std::sync::Arc;

use super::*;
use model::api::placement::LabelSelector;
use testkit::trees::{member, tree};

/// A tenant with a namespace, in the folder `shop/`.
fn shop() -> Tenant {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let clusters: LabelSelector =
        serde_json::from_value(serde_json::json!({"matchLabels": {"env": "dev"}})).expect("a selector");
    Tenant {
        name: "shop".to_owned(),
        path: "shop".to_owned(),
        namespaces: names(&["shop", "shop-*"]),
        clusters: Some(clusters),
        overrides: names(&["ResourceOverride", "ClusterResourceOverride"]),
        strategies: names(&["slow"]),
        ..Tenant::default()
    }
}

fn tenants() -> Tenants {
    let other = Tenant {
        name: "bank".into(),
        path: "bank".into(),
        namespaces: vec!["bank".into(), "shop-and-bank".into()],
        ..shop()
    };
    let open = Tenant { name: "open".into(), path: "open".into(), cluster_kinds: vec!["*".into()], ..shop() };
    Tenants::new(vec![shop(), other, open])
}

/// What the platform and the other tenant have.
fn others() -> Vec<(&'static str, String)> {
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: shop}\n---\n";
    let namespaces = ["shop", "bank", "shop-and-bank"]
        .map(|name| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n---\n"));
    let shared = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: rates, namespace: NS}\n---\n";
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: viewer, labels: {team: shop}}\n---\n";
    let strategies = ["slow", "fast"].map(|name| {
        format!(
            "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterStagedUpdateStrategy\nmetadata: {{name: {name}}}\n\
             spec: {{stages: [{{name: all, labelSelector: {{}}}}]}}\n---\n"
        )
    });
    let crp = |name: &str, namespace: &str| {
        placement(name, &format!("group: '', version: v1, kind: Namespace, name: {namespace}"))
    };
    vec![
        ("platform/a.yaml", [quota, role].concat() + &namespaces.concat() + &strategies.concat()),
        ("platform/members.yaml", member("dev", "labels: {env: dev}") + &member("prod", "labels: {env: prod}")),
        ("bank/a.yaml", shared.replace("NS", "bank") + &shared.replace("NS", "shop-and-bank") + &crp("bank", "bank")),
    ]
}

fn tree_of(files: &[(&'static str, String)]) -> Arc<Tree> {
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    tree(&files)
}

fn placement(name: &str, selector: &str) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {{name: {name}}}\n\
         spec: {{resourceSelectors: [{{{selector}}}]}}\n---\n"
    )
}

/// An object without a namespace, and a placement of the tenant's folder that gives it one.
fn default_namespace(namespace: &str) -> String {
    let annotations =
        format!("{{name: p, annotations: {{gitfleet.io/path: shop, gitfleet.io/default-namespace: {namespace}}}}}");
    let selector = format!("group: '', version: v1, kind: Namespace, name: {namespace}");
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\n---\n".to_owned()
        + &placement("p", &selector).replace("{name: p}", &annotations)
}

const PLACEMENT: &str = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ";
const BETA: &str = "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ";

/// What a row says of one document of the tenant: the document, and a part of the complaint; an empty one where it is allowed.
fn rows() -> Vec<(&'static str, String, &'static str)> {
    let own = |text: &str| format!("{PLACEMENT}{text}");
    let beta = |text: &str| format!("{BETA}{text}");
    let envelope = |kind: &str, namespace: &str, object: &str| {
        beta(&format!("{kind}\nmetadata: {{name: e{namespace}}}\ndata: {{x: {object}}}\n"))
    };
    let patch = "policy: {overrideRules: [{clusterSelector: {clusterSelectorTerms: []}, jsonPatchOverrides: [{op: add, path: /data, value: {}}]}]}";
    let rp = |more: &str| {
        own(&format!(
            "ResourcePlacement\nmetadata: {{name: p, namespace: shop}}\nspec: {{resourceSelectors: [{{group: '', version: v1, kind: ConfigMap, name: a}}]{more}}}\n"
        ))
    };
    vec![
        ("an object of its own", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n".into(), ""),
        ("a namespace by a pattern", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop-eu}\n".into(), ""),
        ("another's namespace", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: bank}\n".into(), "it is in the namespace bank"),
        ("a name that begins alike", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shopping}\n".into(), "namespace shopping"),
        ("the platform's namespace", "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: kube-system}\n".into(), "namespace kube-system"),
        ("a Namespace", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop-x}\n".into(), "it is cluster-scoped"),
        ("a ClusterRole", "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n".into(), "do not list ClusterRole.rbac"),
        (
            "an aggregated ClusterRole",
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a, labels: {rbac.authorization.k8s.io/aggregate-to-admin: 'true'}}\nrules: []\n".into(),
            "it is cluster-scoped",
        ),
        ("a ClusterRoleBinding", "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: a}\n".into(), "it is cluster-scoped"),
        ("a RoleBinding", "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: a, namespace: shop}\n".into(), "which grants rights"),
        ("a Role", "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a, namespace: shop}\n".into(), "which grants rights"),
        (
            "a definition",
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: xs.e.com}\nspec: {group: e.com, scope: Namespaced, names: {kind: X, plural: xs}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n".into(),
            "it is cluster-scoped",
        ),
        ("an admission webhook", "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: a}\n".into(), "it is cluster-scoped"),
        ("a volume", "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: a}\n".into(), "it is cluster-scoped"),
        ("an API service", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.a}\n".into(), "it is cluster-scoped"),
        ("a kind that nobody knows, without a namespace", "apiVersion: e.com/v1\nkind: Thing\nmetadata: {name: a}\n".into(), "do not list Thing.e.com"),
        ("a kind that nobody knows, in its namespace", "apiVersion: e.com/v1\nkind: Thing\nmetadata: {name: a, namespace: shop}\n".into(), ""),
        (
            "a List with a foreign object",
            "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: bank}}]\n".into(),
            "namespace bank",
        ),
        (
            "an envelope of its own",
            envelope("ResourceEnvelope", ", namespace: shop", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: shop}}"),
            "",
        ),
        (
            "an envelope with a binding",
            envelope("ResourceEnvelope", ", namespace: shop", "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b, namespace: shop}}"),
            "data.x: tenant shop: RoleBinding",
        ),
        (
            "an envelope in another's namespace",
            envelope("ResourceEnvelope", ", namespace: bank", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: bank}}"),
            "it is in the namespace bank",
        ),
        (
            "an envelope of the cluster",
            envelope("ClusterResourceEnvelope", "", "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: b}}"),
            "data.x: tenant shop: ClusterRole",
        ),
        (
            "a ConfigMap that is an envelope",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: e, namespace: shop, annotations: {kubernetes-fleet.io/envelope-configmap: 'true'}}\n\
             data: {x: '{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: b}}'}\n".into(),
            "data.x: tenant shop: ClusterRole",
        ),
        ("a placement of its namespace", placement("p", "group: '', version: v1, kind: Namespace, name: shop"), ""),
        ("a placement of another's namespace", placement("p", "group: '', version: v1, kind: Namespace, name: bank"), "it selects Namespace bank"),
        (
            "a placement of a shared namespace",
            placement("p", "group: '', version: v1, kind: Namespace, name: shop-and-bank"),
            "it selects ConfigMap shop-and-bank/rates (bank/a.yaml), which is of tenant bank",
        ),
        (
            "a placement of the platform's objects by label",
            placement("p", "group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole, labelSelector: {matchLabels: {team: shop}}"),
            "it selects ClusterRole.rbac.authorization.k8s.io viewer (platform/a.yaml), which is neither in its folder nor in its namespaces",
        ),
        ("a placement of all namespaces", placement("p", "group: '', version: v1, kind: Namespace"), "it selects Namespace bank"),
        ("a placement in its namespace", rp(""), ""),
        (
            "a placement in another's namespace",
            own("ResourcePlacement\nmetadata: {name: p, namespace: bank}\nspec: {resourceSelectors: [{group: '', version: v1, kind: ConfigMap, name: rates}]}\n"),
            "metadata.namespace: tenant shop: it is in the namespace bank",
        ),
        ("a cluster of its own by name", rp(", policy: {placementType: PickFixed, clusterNames: [dev]}"), ""),
        ("another's cluster by name", rp(", policy: {placementType: PickFixed, clusterNames: [dev, prod]}"), "spec.policy.clusterNames[1]: tenant shop: the cluster prod"),
        (
            "a strategy that it may use",
            placement("p", "group: '', version: v1, kind: Namespace, name: shop").replace("{name: p}", "{name: p, annotations: {gitfleet.io/staged-update-strategy: slow}}").replace("]}", "], strategy: {type: External}}"),
            "",
        ),
        (
            "a strategy that it may not use",
            placement("p", "group: '', version: v1, kind: Namespace, name: shop").replace("{name: p}", "{name: p, annotations: {gitfleet.io/staged-update-strategy: fast}}").replace("]}", "], strategy: {type: External}}"),
            "its strategies do not list the ClusterStagedUpdateStrategy fast",
        ),
        ("a strategy of the fleet", own("ClusterStagedUpdateStrategy\nmetadata: {name: s}\nspec: {stages: [{name: all, labelSelector: {}}]}\n"), "a ClusterStagedUpdateStrategy is for whoever"),
        ("a strategy in its namespace", own("StagedUpdateStrategy\nmetadata: {name: s, namespace: shop}\nspec: {stages: [{name: all, labelSelector: {}}]}\n"), ""),
        (
            "a run of another's placement",
            own("ClusterStagedUpdateRun\nmetadata: {name: r}\nspec: {placementName: bank, stagedRolloutStrategyName: slow}\n"),
            "spec.placementName: tenant shop: ClusterResourcePlacement bank (bank/a.yaml) is none of its placements",
        ),
        ("an eviction of another's placement", beta("ClusterResourcePlacementEviction\nmetadata: {name: e}\nspec: {placementName: bank, clusterName: dev}\n"), "is none of its placements"),
        (
            "a budget for another's placement",
            beta("ClusterResourcePlacementDisruptionBudget\nmetadata: {name: bank}\nspec: {minAvailable: 100%}\n"),
            "metadata.name: tenant shop: ClusterResourcePlacement bank",
        ),
        (
            "an override of its own object",
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: shop}}\n---\n{PLACEMENT}ResourceOverride\nmetadata: {{name: o, namespace: shop}}\nspec: {{resourceSelectors: [{{group: '', version: v1, kind: ConfigMap, name: a}}], {patch}}}\n").replace("v1\nkind: ResourceOverride", "v1beta1\nkind: ResourceOverride"),
            "",
        ),
        (
            "an override of the platform's object in its namespace",
            beta(&format!("ResourceOverride\nmetadata: {{name: o, namespace: shop}}\nspec: {{resourceSelectors: [{{group: '', version: v1, kind: ResourceQuota, name: q}}], {patch}}}\n")),
            "it changes ResourceQuota shop/q (platform/a.yaml), which is not in its folder",
        ),
        (
            "an override of a whole namespace",
            beta(&format!("ClusterResourceOverride\nmetadata: {{name: o}}\nspec: {{clusterResourceSelectors: [{{group: '', version: v1, kind: Namespace, name: bank}}], {patch}}}\n")),
            "which is not in its folder",
        ),
        (
            "an override of a whole namespace, for its folder",
            placement("p", "group: '', version: v1, kind: Namespace, name: shop").replace("{name: p}", "{name: p, annotations: {gitfleet.io/path: shop}}")
                + &beta(&format!("ClusterResourceOverride\nmetadata: {{name: o, annotations: {{gitfleet.io/path: shop}}}}\nspec: {{clusterResourceSelectors: [{{group: '', version: v1, kind: Namespace, name: shop}}], {patch}}}\n")),
            "it changes Namespace shop (platform/a.yaml)",
        ),
        (
            "a placement that closes the platform's folder to others",
            placement("p", "group: '', version: v1, kind: Namespace, name: shop").replace("{name: p}", "{name: p, annotations: {gitfleet.io/path: platform}}"),
            "metadata.annotations.gitfleet.io/path: tenant shop: platform is not in its folder",
        ),
        (
            "an override of a ClusterRole",
            beta(&format!("ClusterResourceOverride\nmetadata: {{name: o}}\nspec: {{clusterResourceSelectors: [{{group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole, name: viewer}}], {patch}}}\n")),
            "it changes ClusterRole.rbac.authorization.k8s.io viewer (platform/a.yaml)",
        ),
        (
            "a namespace of its own that its placement gives",
            default_namespace("shop"),
            "",
        ),
        (
            "another's namespace that its placement gives",
            default_namespace("bank"),
            "it selects Namespace bank (platform/a.yaml)",
        ),
        (
            "a binding without a namespace",
            default_namespace("shop").replace("v1\nkind: ConfigMap", "rbac.authorization.k8s.io/v1\nkind: RoleBinding"),
            "which grants rights",
        ),
        (
            "a cluster",
            member("mine", "labels: {env: dev}"),
            "shop/a.yaml:1: MemberCluster mine: tenant shop: a MemberCluster is for whoever runs the fleet",
        ),
        (
            "labels for a cluster",
            "apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {name: prod, labels: {env: dev}}\nspec: {}\n".into(),
            "a ManagedCluster is for whoever runs the fleet",
        ),
        (
            "a set of clusters",
            "apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSet\nmetadata: {name: all}\nspec: {clusterSelector: {selectorType: LabelSelector, labelSelector: {}}}\n".into(),
            "a ManagedClusterSet is for whoever",
        ),
        (
            "clusters bound to its namespace",
            "apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSetBinding\nmetadata: {name: all, namespace: shop}\nspec: {clusterSet: all}\n".into(),
            "a ManagedClusterSetBinding is for whoever",
        ),
        ("an approval", own("ClusterApprovalRequest\nmetadata: {name: a}\nspec: {parentStageRollout: r, targetStage: s}\n"), "a ClusterApprovalRequest is for whoever"),
    ]
}

#[test]
fn what_a_tenant_asks_for_beyond_its_limits_is_refused() {
    for (name, text, wanted) in rows() {
        let mut files = others();
        files.push(("shop/a.yaml", text));
        let found: Vec<String> = violations(&tree_of(&files), &tenants()).iter().map(ToString::to_string).collect();
        let text = found.join("\n");
        assert_eq!(found.is_empty(), wanted.is_empty(), "{name}: {text}");
        assert!(text.contains(wanted), "{name}: {text}");
        assert!(found.iter().all(|line| line.starts_with("shop/a.yaml:")), "{name}: {text}");
    }
}

#[test]
fn nothing_restricts_whoever_runs_the_fleet() {
    let tree = tree_of(&others());
    assert_eq!(violations(&tree, &tenants()), []);
    assert_eq!(violations(&tree, &Tenants::default()), []);
}

#[test]
fn a_tenant_that_may_write_every_kind_still_has_its_namespaces() {
    let text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-public}\n---\n\
                apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n";
    let found = violations(&tree(&[("open/a.yaml", text)]), &tenants());
    let [only] = found.as_slice() else { panic!("{found:?}") };
    assert!(only.to_string().contains("is in the namespace kube-public"), "{only}");
}

/// Decides for a placement over the clusters of the files; returns the clusters with an order, the users of the orders, and the error.
fn ordered(
    files: &[(&'static str, String)],
    placement: &str,
    tenants: Vec<Tenant>,
) -> (Vec<String>, Vec<Option<String>>, Option<String>) {
    use crate::state::{FleetState, PlacementState, clusters};
    use jiff::Timestamp;
    use model::records::{ClusterRecord, MemberKind};

    let tree = tree_of(files);
    let now = Timestamp::UNIX_EPOCH;
    let records = tree.clusters.keys().map(|name| {
        let record =
            ClusterRecord { kind: MemberKind::Directory, online: true, ..ClusterRecord::new(name.clone(), now) };
        (name.clone(), record)
    });
    let records = records.collect();
    let fleet = FleetState {
        clusters: clusters(&tree, &records, now),
        records,
        tree: Arc::clone(&tree),
        tenants: Arc::new(Tenants::new(tenants)),
        ..FleetState::default()
    };
    let begun = PlacementState::begin(&tree.placements[&PlacementKey::cluster_scoped(placement)], now);
    let decision = crate::decide(begun, &fleet, now);
    let to = decision.orders.iter().map(|order| order.cluster.to_string()).collect();
    let users = decision.orders.iter().map(|order| order.user.clone()).collect();
    (to, users, decision.state.record.error)
}

/// A placement of a tenant that was accepted goes nowhere new once the configuration forbids it.
#[test]
fn what_the_configuration_forbids_since_is_not_delivered() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n---\n".to_owned()
        + &placement("p", "group: '', version: v1, kind: Namespace, name: shop");
    let mut files = others();
    files.push(("shop/a.yaml", text));
    let ordered = |tenants: Vec<Tenant>| ordered(&files, "p", tenants);
    let everywhere = Tenant { clusters: None, ..shop() };
    assert_eq!(ordered(Vec::new()).0, ["dev", "prod"]);
    assert_eq!(ordered(vec![everywhere.clone()]).0, ["dev", "prod"]);
    let as_user = Tenant { user: Some("shop".to_owned()), ..shop() };
    let (to, users, error) = ordered(vec![as_user]);
    assert_eq!((to, users, error), (vec!["dev".to_owned()], vec![Some("shop".to_owned())], None), "only its clusters");
    let narrowed = Tenant { namespaces: vec!["other".to_owned()], ..everywhere };
    let (to, _, error) = ordered(vec![narrowed]);
    assert!(to.is_empty(), "{to:?}");
    assert!(error.as_deref().unwrap_or_default().contains("tenant shop: it selects"), "{error:?}");
}

/// What a placement of whoever runs the fleet gives a namespace to is written as gitfleet's own account: it must not take a tenant's object
/// into a namespace that the tenant may not use.
#[test]
fn a_tenants_object_without_a_namespace_gets_no_foreign_one() {
    let bare = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\n";
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: NS}\n---\n";
    let files = |given: &str| {
        let annotations = format!("{{name: p, annotations: {{gitfleet.io/default-namespace: {given}}}}}");
        let placement = placement("p", &format!("group: '', version: v1, kind: Namespace, name: {given}"));
        let mut files = others();
        files.push(("platform/p.yaml", placement.replace("{name: p}", &annotations)));
        if given != "shop" {
            files.push(("platform/ns.yaml", namespace.replace("NS", given)));
        }
        files.push(("shop/a.yaml", bare.to_owned()));
        files
    };
    let found = violations(&tree_of(&files("infra")), &tenants());
    let [only] = found.as_slice() else { panic!("{found:?}") };
    let text = only.to_string();
    assert!(text.starts_with("shop/a.yaml:1: ConfigMap"), "{text}");
    assert!(text.contains("(platform/p.yaml) selects it, and it is in the namespace infra"), "{text}");
    assert_eq!(violations(&tree_of(&files("shop")), &tenants()), [], "its own namespace");
    let (to, _, error) = ordered(&files("infra"), "p", vec![shop()]);
    assert!(to.is_empty(), "{to:?}");
    let said = "it selects ConfigMap infra/plain of tenant shop, and it is in the namespace infra";
    assert!(error.as_deref().unwrap_or_default().contains(said), "{error:?}");
    assert_eq!(ordered(&files("infra"), "p", Vec::new()).0, ["dev", "prod"], "without tenants");
}

/// An override names an object by the namespace that it has on clusters.
#[test]
fn an_override_changes_no_foreign_object_that_a_placement_gives_a_namespace() {
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: limits}\n---\n";
    let annotations = "{name: limits, annotations: {gitfleet.io/path: limits, gitfleet.io/default-namespace: shop}}";
    let limits = quota.to_owned()
        + &placement("limits", "group: '', version: v1, kind: Namespace, name: shop")
            .replace("{name: limits}\nspec", &format!("{annotations}\nspec"));
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let rules = "policy: {overrideRules: [{clusterSelector: {clusterSelectorTerms: []}, overrideType: Delete}]}";
    let of_object = format!(
        "{BETA}ResourceOverride\nmetadata: {{name: o, namespace: shop}}\n\
         spec: {{resourceSelectors: [{{group: '', version: v1, kind: ResourceQuota, name: limits}}], {rules}}}\n"
    );
    let of_namespace = format!(
        "{BETA}ClusterResourceOverride\nmetadata: {{name: o}}\n\
         spec: {{clusterResourceSelectors: [{{group: '', version: v1, kind: Namespace, name: shop}}], {rules}}}\n"
    );
    for (text, of) in [(of_object, "ResourceOverride"), (of_namespace, "ClusterResourceOverride")] {
        let mut files = others();
        // The other objects in the namespace would be named first.
        files.retain(|(path, _)| *path != "platform/a.yaml");
        files.push(("limits/a.yaml", limits.clone()));
        files.push(("open/namespace.yaml", namespace.to_owned()));
        files.push(("open/o.yaml", text));
        let found: Vec<String> = violations(&tree_of(&files), &tenants()).iter().map(ToString::to_string).collect();
        let [only] = found.as_slice() else { panic!("{of}: {found:?}") };
        assert!(
            only.contains("it changes ResourceQuota shop/limits (limits/a.yaml), which is not in its folder"),
            "{only}"
        );
    }
}

/// A tenant's placement gives its namespace to documents of its own folder only.
#[test]
fn a_tenant_gives_no_namespace_to_documents_of_others() {
    for (more, wanted) in [("", true), ("gitfleet.io/path: shop, ", false)] {
        let annotations = format!("{{name: p, annotations: {{{more}gitfleet.io/default-namespace: shop}}}}");
        let own = placement("p", "group: '', version: v1, kind: Namespace, name: shop");
        let mut files = others();
        let system = "{name: system, annotations: {gitfleet.io/path: platform, gitfleet.io/default-namespace: bank}}";
        let of_platform = placement("system", "group: '', version: v1, kind: Namespace, name: bank");
        let bare = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bare}\n---\n".to_owned();
        files.push(("platform/bare.yaml", bare + &of_platform.replace("{name: system}", system)));
        files.push(("shop/a.yaml", own.replace("{name: p}", &annotations)));
        files.push(("shop/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own}\n".to_owned()));
        let found: Vec<String> = violations(&tree_of(&files), &tenants()).iter().map(ToString::to_string).collect();
        let said =
            "it selects ConfigMap shop/bare (platform/bare.yaml), which names no namespace and is not in its folder";
        assert_eq!(found.iter().any(|line| line.contains(said)), wanted, "{more}: {found:?}");
        assert_eq!(found.len(), usize::from(wanted), "{more}: {found:?}");
    }
}

/// What a kustomization takes as its input is no more read by itself: a tenant could remove what others have.
#[test]
fn a_tenant_builds_on_its_own_folder_and_its_bases() {
    let based = Tenant { bases: vec!["platform/bases".to_owned()], ..shop() };
    let inner = Tenant { name: "inner".into(), path: "shop/inner".into(), ..Tenant::default() };
    let tenants = Tenants::new(vec![based, inner]);
    let rows = [
        ("shop/kustomization.yaml", "shop/web", None),
        ("shop/web/kustomization.yaml", "shop/web", None),
        ("shop/web/kustomization.yaml", "platform/bases/web", None),
        ("shop/web/kustomization.yaml", "platform/bases", None),
        ("platform/kustomization.yaml", "shop/web", None),
        ("platform/kustomization.yaml", "", None),
        ("shop/web/kustomization.yaml", "platform/quota", Some("it builds on platform/quota, which is neither")),
        ("shop/web/kustomization.yaml", "platform", Some("it builds on platform, which is neither")),
        ("shop/web/kustomization.yaml", "platform/bases-not", Some("it builds on platform/bases-not")),
        ("shop/web/kustomization.yaml", "", Some("it builds on ., which is neither")),
        ("shop/web/kustomization.yaml", "shop/inner/web", Some("it builds on shop/inner/web")),
        ("shop/inner/kustomization.yaml", "shop/web", Some("tenant inner: it builds on shop/web")),
        ("shop/Chart.yaml", "shop", Some("it takes the files of shop/inner, which is the folder of tenant inner")),
        ("shop/inner/Chart.yaml", "shop/inner", None),
    ];
    for (marker, folder, wanted) in rows {
        let mut tree = (*tree(&[])).clone();
        tree.input_folders = [InputFolder { marker: marker.to_owned(), folder: folder.to_owned() }].into();
        let found: Vec<String> = violations(&tree, &tenants).iter().map(ToString::to_string).collect();
        assert_eq!(found.is_empty(), wanted.is_none(), "{marker} {folder}: {found:?}");
        assert!(found.join("").contains(wanted.unwrap_or_default()), "{marker} {folder}: {found:?}");
    }
}

#[test]
fn approvers_of_a_tenant_stand_in_place_of_the_configured_ones() {
    use crate::state::{FleetState, PlacementState};
    use jiff::Timestamp;

    let mut files = others();
    files.push(("shop/a.yaml", placement("p", "group: '', version: v1, kind: Namespace, name: shop")));
    let tree = tree_of(&files);
    let leads = Tenant { approvers: vec!["team:acme/shop".to_owned()], ..shop() };
    let fleet = FleetState {
        tree: Arc::clone(&tree),
        tenants: Arc::new(Tenants::new(vec![leads])),
        approvers: vec!["user:ops".to_owned()],
        ..FleetState::default()
    };
    let now = Timestamp::UNIX_EPOCH;
    for (name, wanted, shown) in [("p", "team:acme/shop", Some("team:acme/shop")), ("bank", "user:ops", None)] {
        let state = PlacementState::begin(&tree.placements[&PlacementKey::cluster_scoped(name)], now);
        assert_eq!(fleet.approvers_of(&state.record), [wanted], "{name}");
        let decided = crate::decide(state, &fleet, now).state;
        assert_eq!(decided.record.approvers.as_deref(), shown, "{name}");
    }
}
