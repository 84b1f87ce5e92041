use super::*;

#[test]
fn values_are_checked() {
    let table = [
        (ON_PLACEMENT, WHEN_SUPERSEDED, "Queue", ""),
        (ON_PLACEMENT, WHEN_SUPERSEDED, "queue", "not one of Replace, Queue"),
        (ON_PLACEMENT, PROGRESS_DEADLINE, "10m", ""),
        (ON_PLACEMENT, PROGRESS_DEADLINE, "0s", "not a duration"),
        (ON_PLACEMENT, MAX_FAILURES, "10%", ""),
        (ON_PLACEMENT, MAX_FAILURES, "-1", "not a number of clusters"),
        (ON_PLACEMENT, OCM_PLACEMENT, "ns/name", ""),
        (ON_PLACEMENT, OCM_PLACEMENT, "name", "not NAMESPACE/NAME"),
        (ON_PLACEMENT, "gitfleet.io/when-supersede", "Queue", "did you mean `gitfleet.io/when-superseded`?"),
        (ON_PLACEMENT, SUSPENDED, "true", "unknown annotation"),
        (ON_PLACEMENT, "example.com/x", "y", ""),
        (ON_PLACEMENT, PATH, "apps/production", ""),
        (ON_PLACEMENT, PATH, "production.yaml", ""),
        (ON_PLACEMENT, PATH, "", "not a folder as it is named"),
        (ON_PLACEMENT, PATH, ".", "not a folder as it is named"),
        (ON_PLACEMENT, PATH, "/apps", "not a folder as it is named"),
        (ON_PLACEMENT, PATH, "apps/", "not a folder as it is named"),
        (ON_PLACEMENT, PATH, "./apps", "not a folder as it is named"),
        (ON_PLACEMENT, PATH, "apps/../other", "not a folder as it is named"),
        (ON_PLACEMENT, PATH, "apps\\production", "not a folder as it is named"),
        (ON_PLACEMENT, DEFAULT_NAMESPACE, "shop", ""),
        (ON_PLACEMENT, DEFAULT_NAMESPACE, "", "not the name of a namespace"),
        (ON_PLACEMENT, DEFAULT_NAMESPACE, "Shop", "not the name of a namespace"),
        (ON_PLACEMENT, DEFAULT_NAMESPACE, "a.b", "not the name of a namespace"),
        (ON_PLACEMENT, RENDER_FOR, "cluster", ""),
        (ON_PLACEMENT, RENDER_FOR, "clusters", "not one of cluster"),
        (ON_OVERRIDE, RENDER_FOR, "cluster", "unknown annotation"),
        (ON_OVERRIDE, PATH, "apps/production", ""),
        (ON_OVERRIDE, PATH, "..", "not a folder as it is named"),
        (ON_OVERRIDE, DEFAULT_NAMESPACE, "shop", "unknown annotation"),
        (ON_STRATEGY, APPROVERS, "user:ann, team:org/ops,permission:write", ""),
        (ON_STRATEGY, APPROVERS, "ann", "comma list"),
        (ON_MEMBER, SUSPENDED, "yes", "not one of true, false"),
        (ON_MEMBER, PROPERTIES, "{\"a\": \"5\", \"b\": 2}", ""),
        (ON_MEMBER, PROPERTIES, "{\"a\": []}", "JSON map"),
        (ON_MEMBER, PROPERTIES, "a=5", "JSON map"),
    ];
    for (rules, key, value, expected) in table {
        let errors = validate(&BTreeMap::from([(key.to_owned(), value.to_owned())]), rules);
        match errors.as_slice() {
            [] => assert_eq!(expected, "", "{key}={value}"),
            [error] => {
                let text = error.to_string();
                assert!(!expected.is_empty() && text.contains(expected), "{key}={value}: {text}");
            }
            more => panic!("{more:?}"),
        }
    }
}
