//! Tenants on real API servers: their objects are written as their account, with exactly the rights that `member bootstrap` prints, and
//! the member's RBAC has the last word.

use serde_json::json;

use crate::e2e::daemon::{World, config_map, member_clusters, namespace, value};
use crate::e2e::deploy::bootstrap;
use crate::e2e::shared;

const NAME: &str = "tenancy";

/// What whoever runs the member gives the tenant's account: ConfigMaps in its namespace, and nothing else.
fn rights() -> String {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "deployer", "namespace": NAME},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "delete"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "deployer", "namespace": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": NAME}],
    });
    [role, binding].map(|object| format!("---\n{object}\n")).concat()
}

fn secret() -> String {
    format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: key, namespace: {NAME}}}\nstringData: {{a: b}}\n")
}

fn resource_placement() -> String {
    format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ResourcePlacement\nmetadata: {{name: {NAME}, namespace: {NAME}}}\n\
         spec:\n  resourceSelectors:\n  - {{group: '', version: v1, kind: ConfigMap, labelSelector: {{}}}}\n  \
         - {{group: '', version: v1, kind: Secret, name: key}}\n"
    )
}

#[test]
fn a_tenant_writes_as_its_own_account_and_only_what_that_may() {
    let member = &shared().members[2];
    let world = World::new(None, &[]);
    let tenants = format!(
        "tenants:\n- name: shop\n  path: shop\n  namespaces: [{NAME}]\n  impersonate: {{serviceAccount: {{namespace: {NAME}, name: deployer}}}}\n"
    );
    world.configure_with(None, &[(&member.name, &member.kubeconfig)], &tenants);
    world.write("fleet.yaml", &member_clusters([member.name.as_str()]));
    world.write("shop/placement.yaml", &resource_placement());
    world.write("shop/app.yaml", &[config_map(NAME, "settings", "first"), secret()].concat());
    world.commit("Deliver");
    member.kubectl_apply(&[namespace(NAME), rights()].concat()).expect("the platform prepares the member");
    let config = world.config();
    let kubeconfig = bootstrap(&world, member, &["--config", config.to_str().expect("a path")], &[]);
    world.configure_with(None, &[(&member.name, &kubeconfig)], &tenants);
    let daemon = world.start();
    daemon.until("the ConfigMap is there", || value(member, NAME, "settings") == "first");
    let is_refused = || daemon.get("works").iter().any(|work| work.to_string().contains("(403 Forbidden)"));
    daemon.until("the Secret is refused", is_refused);
    assert!(member.get(NAME, "secret", "key").expect("the member answers").is_none(), "RBAC has the last word");

    // Removed as that account, too.
    world.write("shop/app.yaml", &config_map(NAME, "other", "second"));
    world.write("shop/placement.yaml", &resource_placement().replace("name: key", "name: none"));
    world.commit("Change and prune");
    daemon.until("the new ConfigMap is there", || {
        member.get(NAME, "configmap", "other").is_ok_and(|found| found.is_some())
    });
    daemon.until("the old ConfigMap is pruned", || {
        member.get(NAME, "configmap", "settings").is_ok_and(|found| found.is_none())
    });
}
