//! What tenants ask for beyond their limits, row by row.

use std::sync::Arc;

use super::*;
use crate::api::placement::LabelSelector;
use crate::decide::fixtures::{member, tree};

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
        ("a cluster", member("mine", "labels: {env: dev}"), "a MemberCluster is for whoever runs the fleet"),
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
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let found: Vec<String> = violations(&tree(&files), &tenants()).iter().map(ToString::to_string).collect();
        let text = found.join("\n");
        assert_eq!(found.is_empty(), wanted.is_empty(), "{name}: {text}");
        assert!(text.contains(wanted), "{name}: {text}");
        assert!(found.iter().all(|line| line.starts_with("shop/a.yaml:")), "{name}: {text}");
    }
}

#[test]
fn nothing_restricts_whoever_runs_the_fleet() {
    let files = others();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    assert_eq!(violations(&tree(&files), &tenants()), []);
    assert_eq!(violations(&tree(&files), &Tenants::default()), []);
}

#[test]
fn a_tenant_that_may_write_every_kind_still_has_its_namespaces() {
    let text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-public}\n---\n\
                apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n";
    let found = violations(&tree(&[("open/a.yaml", text)]), &tenants());
    let [only] = found.as_slice() else { panic!("{found:?}") };
    assert!(only.to_string().contains("is in the namespace kube-public"), "{only}");
}

/// A placement of a tenant that was accepted goes nowhere new once the configuration forbids it.
#[test]
fn what_the_configuration_forbids_since_is_not_delivered() {
    use crate::decide::state::{FleetState, PlacementState, clusters};
    use crate::model::records::{ClusterRecord, MemberKind};
    use jiff::Timestamp;

    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n---\n".to_owned()
        + &placement("p", "group: '', version: v1, kind: Namespace, name: shop");
    let mut files = others();
    files.push(("shop/a.yaml", text));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let tree = tree(&files);
    let now = Timestamp::UNIX_EPOCH;
    let records = tree.clusters.keys().map(|name| {
        let record =
            ClusterRecord { kind: MemberKind::Directory, online: true, ..ClusterRecord::new(name.clone(), now) };
        (name.clone(), record)
    });
    let records = records.collect();
    let fleet = |tenants: Tenants| FleetState {
        clusters: clusters(&tree, &records, now),
        records: records.clone(),
        tree: Arc::clone(&tree),
        tenants: Arc::new(tenants),
        ..FleetState::default()
    };
    let key = PlacementKey::cluster_scoped("p");
    let begun = || PlacementState::begin(&tree.placements[&key], now);
    let ordered = |tenants: Tenants| {
        let decision = crate::decide::decide(begun(), &fleet(tenants), now);
        let to: Vec<String> = decision.orders.iter().map(|order| order.cluster.to_string()).collect();
        let users: Vec<Option<String>> = decision.orders.iter().map(|order| order.user.clone()).collect();
        (to, users, decision.state.record.error)
    };
    let everywhere = Tenant { clusters: None, ..shop() };
    assert_eq!(ordered(Tenants::default()).0, ["dev", "prod"]);
    assert_eq!(ordered(Tenants::new(vec![everywhere.clone()])).0, ["dev", "prod"]);
    let as_user = Tenant { user: Some("shop".to_owned()), ..shop() };
    let (to, users, error) = ordered(Tenants::new(vec![as_user]));
    assert_eq!((to, users, error), (vec!["dev".to_owned()], vec![Some("shop".to_owned())], None), "only its clusters");
    let narrowed = Tenant { namespaces: vec!["other".to_owned()], ..everywhere };
    let (to, _, error) = ordered(Tenants::new(vec![narrowed]));
    assert!(to.is_empty(), "{to:?}");
    assert!(error.as_deref().unwrap_or_default().contains("tenant shop: it selects"), "{error:?}");
}

#[test]
fn approvers_of_a_tenant_stand_in_place_of_the_configured_ones() {
    use crate::decide::state::{FleetState, PlacementState};
    use jiff::Timestamp;

    let mut files = others();
    files.push(("shop/a.yaml", placement("p", "group: '', version: v1, kind: Namespace, name: shop")));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let tree = tree(&files);
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
        let decided = crate::decide::decide(state, &fleet, now).state;
        assert_eq!(decided.record.approvers.as_deref(), shown, "{name}");
    }
}
