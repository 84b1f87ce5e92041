use serde_json::Value;

use super::rbac::{Grant, Resource, least, namespace};
use plan::needs::Needs;

/// Writes rules as `namespace or - / groups / resources [/ names]: verbs`.
fn rules(resources: &[&str], namespaces: &[&str], allow_rbac: bool, facts: bool) -> Vec<String> {
    let resources: Vec<Resource> = resources.iter().map(|text| Resource::parse(text).expect("a resource")).collect();
    let namespaces: Vec<String> = namespaces.iter().map(|text| (*text).to_owned()).collect();
    lines(&Grant { resources: &resources, namespaces: &namespaces, allow_rbac, facts, users: &[] }.objects())
}

fn lines(objects: &[Value]) -> Vec<String> {
    let words = |value: &Value| {
        let words = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        words.map(|word| if word.is_empty() { "core" } else { word }).collect::<Vec<_>>().join(",")
    };
    let line = |object: &Value, rule: &Value| {
        let place = object["metadata"]["namespace"].as_str().unwrap_or("-");
        let names =
            if rule["resourceNames"].is_null() { String::new() } else { format!("/{}", words(&rule["resourceNames"])) };
        format!("{place} {}/{}{names}: {}", words(&rule["apiGroups"]), words(&rule["resources"]), words(&rule["verbs"]))
    };
    let of = |object: &Value| {
        let rules = object["rules"].as_array().cloned().unwrap_or_default();
        rules.iter().map(|rule| line(object, rule)).collect::<Vec<_>>()
    };
    objects.iter().flat_map(of).collect()
}

#[test]
fn what_is_granted() {
    let inventory = "gitfleet-system core/configmaps: get,create,patch,delete,list,watch";
    let facts = "- core/namespaces,nodes,pods: list,watch";
    let claims = "- cluster.open-cluster-management.io/clusterclaims: list,watch";
    let rows: &[(&str, Vec<String>, &[&str])] = &[
        ("everything", rules(&[], &[], false, true), &["- */*: get,create,patch,delete,list,watch", inventory]),
        (
            "everything, and roles beyond its own",
            rules(&[], &[], true, true),
            &[
                "- */*: get,create,patch,delete,list,watch",
                "- rbac.authorization.k8s.io/roles,clusterroles: escalate,bind",
                inventory,
            ],
        ),
        (
            "some resources everywhere",
            rules(&["deployments.apps", "Service", "StatefulSet.apps", "namespaces"], &[], false, true),
            &[
                "- core/services,namespaces: get,create,patch,delete,list,watch",
                "- apps/deployments,statefulsets: get,create,patch,delete,list,watch",
                facts,
                claims,
                inventory,
            ],
        ),
        (
            "some resources in one namespace",
            rules(&["deployments.apps", "namespaces", "ClusterRole.rbac.authorization.k8s.io"], &["web"], false, false),
            &[
                "- apps/deployments: list,watch",
                "- rbac.authorization.k8s.io/clusterroles: get,create,patch,delete,list,watch",
                "- core/namespaces: list,watch",
                "- core/namespaces/web: get,create,patch,delete",
                "- core/namespaces/kube-system: list",
                inventory,
                "web apps/deployments: get,create,patch,delete",
            ],
        ),
        (
            "everything in one namespace",
            rules(&[], &["web"], true, true),
            &[
                "- */*: list,watch",
                "- core/namespaces: list,watch",
                "- core/namespaces/web: get,create,patch,delete",
                inventory,
                "web */*: get,create,patch,delete",
                "web rbac.authorization.k8s.io/roles: escalate,bind",
            ],
        ),
    ];
    for (name, found, wanted) in rows {
        assert_eq!(found, wanted, "{name}");
    }
}

#[test]
fn nobody_is_let_impersonate() {
    for allow_rbac in [false, true] {
        for line in rules(&[], &[], allow_rbac, true) {
            let verbs = line.split_once(": ").map_or("", |(_, verbs)| verbs);
            let bad =
                |verb: &str| matches!(verb, "*" | "impersonate" | "update" | "deletecollection" | "use" | "approve");
            assert!(!verbs.split(',').any(bad), "{line}");
            assert_eq!(verbs.contains("escalate"), verbs.contains("bind"), "{line}");
            assert!(allow_rbac || !verbs.contains("escalate"), "{line}");
        }
    }
}

#[test]
fn accounts_of_tenants_are_granted_by_name_and_their_namespaces_made() {
    let users = ["system:serviceaccount:shop:deployer", "somebody"];
    let grant = Grant { resources: &[], namespaces: &[], allow_rbac: false, facts: true, users: &users };
    let objects = grant.objects();
    let wanted = [
        "- */*: get,create,patch,delete,list,watch",
        "- core/users/somebody: impersonate",
        "gitfleet-system core/configmaps: get,create,patch,delete,list,watch",
        "shop core/serviceaccounts/deployer: impersonate",
    ];
    assert_eq!(lines(&objects), wanted);
    let made = objects.iter().filter(|object| object["kind"] == "Namespace");
    let made: Vec<&Value> = made.map(|object| &object["metadata"]["name"]).collect();
    assert_eq!(made, ["gitfleet-system", "shop"]);
}

#[test]
fn names() {
    for wrong in ["", ".apps", "deployments.", "Widget.example.com", "a/b", "pods/exec", "*"] {
        assert!(Resource::parse(wrong).is_err(), "{wrong:?}");
    }
    for right in ["widgets.example.com", "configmaps", "ConfigMap", "Deployment.apps"] {
        assert!(Resource::parse(right).is_ok(), "{right:?}");
    }
    assert!(namespace("Not A Name").is_err());
}

#[test]
fn c14_least_rights_are_those_of_what_is_delivered() {
    let named = |list: &[(&str, &str)]| list.iter().map(|(g, p)| ((*g).to_owned(), (*p).to_owned())).collect();
    let rbac = "rbac.authorization.k8s.io";
    let needs = Needs {
        in_namespaces: [
            ("web".to_owned(), named(&[("", "configmaps"), ("apps", "deployments")])),
            ("shop".to_owned(), named(&[("", "configmaps"), (rbac, "rolebindings")])),
        ]
        .into(),
        cluster_wide: named(&[(rbac, "clusterroles")]),
        namespaces: ["web".to_owned()].into(),
    };
    let inventory = "gitfleet-system core/configmaps: get,create,patch,delete,list,watch";
    let cluster = [
        "- core/configmaps: list,watch",
        "- apps/deployments: list,watch",
        "- rbac.authorization.k8s.io/rolebindings: list,watch",
        "- rbac.authorization.k8s.io/clusterroles: get,create,patch,delete,list,watch",
        "- core/namespaces: list,watch",
        "- core/namespaces/web: get,create,patch,delete",
        "- core/namespaces,nodes,pods: list,watch",
        "- cluster.open-cluster-management.io/clusterclaims: list,watch",
    ];
    let shop = [
        "shop core/configmaps: get,create,patch,delete",
        "shop rbac.authorization.k8s.io/rolebindings: get,create,patch,delete",
    ];
    let web = ["web core/configmaps: get,create,patch,delete", "web apps/deployments: get,create,patch,delete"];
    assert_eq!(lines(&least(&needs, false, true, &[])), [cluster.as_slice(), &[inventory], &shop, &web].concat());
    let all = [
        cluster.as_slice(),
        &["- rbac.authorization.k8s.io/clusterroles: escalate,bind", inventory],
        &shop,
        &["shop rbac.authorization.k8s.io/roles: escalate,bind"],
        &web,
    ];
    assert_eq!(lines(&least(&needs, true, true, &[])), all.concat());
    let nothing = lines(&least(&Needs::default(), true, false, &[]));
    assert_eq!(nothing, ["- core/namespaces/kube-system: list", inventory], "nothing is delivered");
    for line in lines(&least(&needs, true, true, &[])) {
        assert!(!line.contains('*'), "{line}");
    }
}
