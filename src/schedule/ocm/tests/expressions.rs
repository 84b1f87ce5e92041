//! Expressions: what they can do, and what becomes of those that fail or cost too much.

use super::*;

fn matches(hub: &Hub, expression: &str) -> Result<bool, String> {
    let outcome = run(
        hub,
        json!({"predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": [expression]}}}]}),
    );
    outcome.misconfigured.map_or_else(|| Ok(outcome.selected.contains(0)), |notice| Err(notice.message))
}

#[test]
fn expressions_read_the_cluster_whole() {
    let status =
        json!({"allocatable": {"cpu": "3500m"}, "clusterClaims": [{"name": "facts", "value": "{\"nodes\": 3}"}]});
    let mut hub = hub([member("c1", json!({"env": "prod"}), json!({"status": status}))]);
    score(&mut hub, "c1", 42, None);
    for (expression, wanted) in [
        ("true", true),
        ("1", false),
        ("managedCluster.metadata.labels['env'] == 'prod'", true),
        ("has(managedCluster.metadata.labels.zone)", false),
        ("managedCluster.metadata.labels.zone == 'a'", false),
        ("managedCluster.metadata.labels.exists(k, k == 'env')", true),
        ("managedCluster.status.clusterClaims.filter(c, c.name == 'facts')[0].value.parseJSON().nodes == 3", true),
        ("managedCluster.scores('demo')[0].value == 42", true),
        ("managedCluster.scores('none')[0].value == 42", false),
        ("quantity(managedCluster.status.allocatable.cpu).isGreaterThan(quantity('3'))", true),
        ("semver('v1.30', true).isLessThan(semver('1.31.0')) && 'a-b'.split('-').join('+') == 'a+b'", true),
        ("[1, 2].sum() == 3 && ['a'].indexOf('a') == 0 && 'abc'.find('b.') == 'bc'", true),
    ] {
        assert_eq!(matches(&hub, expression), Ok(wanted), "{expression}");
    }
}

#[test]
fn expressions_that_do_not_compile_say_why() {
    let deep = format!("{}1", "1+".repeat(300));
    let nested = "[1,2,3,4,5,6,7,8,9,10].all(a, ".repeat(7) + "true" + &")".repeat(7);
    for (expression, wanted) in [
        ("cluster.metadata == 1", "undeclared reference to 'cluster'"),
        ("sets.contains([1], [1])", "undeclared reference to 'sets'"),
        (&deep, "compilation failed: ERROR: <input>:"),
        (&nested, "the limit is 1000000"),
    ] {
        let message = matches(&plain(["c1"]), expression).unwrap_err();
        assert!(message.starts_with("compilation failed: ") && message.contains(wanted), "{message}");
    }
}

/// Without the budget these would not end, or fill the memory.
#[test]
fn costly_expressions_match_nothing() {
    let items: Vec<Value> = (0..200).map(|n| json!({"name": format!("c{n}"), "value": "v"})).collect();
    let hub = hub([member("c1", json!({}), json!({"status": {"clusterClaims": items}}))]);
    let claims = "managedCluster.status.clusterClaims";
    let loops = format!("{claims}.all(a, {claims}.all(b, {claims}.all(c, a != b || true)))");
    let doubled = "['0123456789']".to_owned() + &".map(x, x + x)".repeat(60) + ".size() == 1";
    let replaced = "'aaaaaaaaaa'".to_owned() + &".replace('a', 'aaaaaaaaaa')".repeat(40) + " != ''";
    for expression in [loops, doubled, replaced] {
        assert_eq!(matches(&hub, &expression), Ok(false), "{expression}");
    }
}

/// What nests so deep, from what puts parts before and after another so many times.
type Shape = fn(&dyn Fn(&str, &str, &str, usize) -> String, usize) -> String;

/// Neither reading nor evaluating what nests deeply takes more stack than there is.
#[test]
fn expressions_nest_as_deep_as_is_allowed_and_no_deeper() {
    let hub = plain(["c1"]);
    let around = |open: &str, inner: &str, close: &str, depth: usize| open.repeat(depth) + inner + &close.repeat(depth);
    let table: [(&str, Shape, usize); 8] = [
        ("parentheses", |around, n| around("(", "true", ")", n), 90),
        ("choices", |around, n| around("(true ? ", "true", " : false)", n), 60),
        ("lists", |around, n| around("[", "", "]", n) + " != []", 90),
        ("loops", |around, n| around("[1].all(a, ", "true", ")", n), 40),
        ("inner maps", |around, n| around("[1].map(a, ", "1", ")", n) + ".size() == 1", 30),
        ("maps in a row", |around, n| around("", "['0']", ".map(x, x)", n) + ".size() == 1", 90),
        ("replacements", |around, n| around("", "'a'", ".replace('a', 'b')", n) + " != ''", 90),
        ("sums", |around, n| around("1+", "1 > 0", "", n), 90),
    ];
    for (case, shape, depth) in table {
        assert_eq!(matches(&hub, &shape(&around, depth)), Ok(true), "{case}");
        let message = matches(&hub, &shape(&around, depth * 3)).unwrap_err();
        assert!(message.starts_with("compilation failed: "), "{case}: {message}");
    }
}
