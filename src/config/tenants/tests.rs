use std::collections::BTreeMap;
use std::path::Path;

use crate::Configuration;

fn parse(tenants: &str) -> Result<Configuration, String> {
    let text =
        format!("apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: fleet}}\ntenants:\n{tenants}");
    let parsed = Configuration::parse(&text, Path::new("/etc/fleet"), &BTreeMap::new());
    parsed.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_tenant_is_read_with_its_defaults() {
    let configuration = parse(
        "- {name: shop, path: ./teams//shop/, namespaces: [shop], impersonate: {serviceAccount: {namespace: shop, name: deployer}}}\n\
         - {name: web, path: teams/web, impersonate: {user: web}, clusters: {matchLabels: {env: dev}}}\n",
    )
    .expect("they are right");
    let tenants = configuration.tenants();
    let shop = tenants.of("teams/shop/app.yaml").expect("it is of the tenant");
    assert_eq!(shop.user.as_deref(), Some("system:serviceaccount:shop:deployer"));
    assert_eq!((shop.kinds.clone(), shop.overrides.clone()), (None, vec!["ResourceOverride".to_owned()]));
    assert!(shop.may_follow("canary") && shop.may_place_on(&BTreeMap::new()));
    let web = tenants.of("teams/web/app.yaml").expect("it is of the tenant");
    assert!(!web.may_place_on(&BTreeMap::new()));
    assert_eq!(tenants.users(), ["system:serviceaccount:shop:deployer", "web"]);
}

#[test]
fn what_is_wrong_with_a_tenant_is_said() {
    let rows = [
        ("- {name: Shop, path: a}", "tenants[0].name: \"Shop\" is not 1 to 63 lowercase letters"),
        ("- {name: shop, path: .}", "tenants[0].path: \".\" must be a folder below"),
        ("- {name: shop, path: ../a}", "tenants[0].path: \"../a\" must be a folder below"),
        ("- {name: shop, path: a, namespaces: ['']}", "tenants[0].namespaces: has an empty entry"),
        ("- {name: shop, path: a, kinds: ['']}", "tenants[0].kinds: has an empty entry"),
        ("- {name: shop, path: a, overrides: [All]}", "tenants[0].overrides: \"All\" is none of ResourceOverride"),
        ("- {name: shop, path: a, approvers: [ann]}", "tenants[0].approvers: \"ann\" is neither user:NAME nor"),
        ("- {name: shop, path: a, impersonate: {}}", "tenants[0].impersonate: needs exactly one of"),
        ("- {name: shop, path: a, impersonate: {user: 'system:admin'}}", "`user` must not begin with `system:`"),
        ("- {name: shop, path: a, impersonate: {user: 'a b'}}", "must be printable ASCII"),
        (
            "- {name: shop, path: a, impersonate: {serviceAccount: {namespace: 'a/b', name: x}}}",
            "`serviceAccount` must be the namespace and the name",
        ),
        (
            "- {name: shop, path: a, clusters: {matchExpressions: [{key: '!', operator: In, values: [x]}]}}",
            "tenants[0].clusters.matchExpressions[0].key",
        ),
        ("- {name: shop, path: a}\n- {name: shop, path: b}", "tenants[1].name: \"shop\" is another tenant's name too"),
        ("- {name: a, path: a/}\n- {name: b, path: ./a}", "tenants[1].path: \"./a\" is another tenant's folder too"),
        ("- {name: shop, path: a, cluster: {}}", "cluster"),
    ];
    for (tenants, wanted) in rows {
        let error = parse(tenants).expect_err(tenants);
        assert!(error.contains(wanted), "{tenants}: {error}");
    }
}
