//! Reads an API server's own count of the requests it served: how a test shows that something was *not* written.

/// Verbs, as API servers count them, that may change an object.
const WRITES: &[&str] = &["APPLY", "PATCH", "POST", "PUT", "DELETE"];

/// Tells whether a request removed all objects of a kind in a namespace. gitfleet never sends one, but the namespace controller does for
/// each kind whenever a namespace is removed, also one of another test. API servers count it as `DELETE` of that scope.
fn empties_namespace(series: &str) -> bool {
    label(series, "verb") == Some("DELETE") && label(series, "scope") == Some("namespace")
}

/// The counter of all requests, by verb, resource, status code and more.
const COUNTER: &str = "apiserver_request_total{";

/// The counter of decisions at the door, by result. A request that is refused there never comes to the other counter.
const AUTHORIZATIONS: &str = "authorization_attempts_total{";

/// Returns how many requests with that verb (`APPLY`, `PATCH`, `POST`, `PUT`, `DELETE`, `LIST`, `GET`, `WATCH`) for
/// that resource (plural, such as `deployments`) the API server served: of all users and API groups, dry runs and
/// subresources included.
pub fn request_count(metrics: &str, verb: &str, resource: &str) -> u64 {
    sum(metrics, |series| label(series, "verb") == Some(verb) && label(series, "resource") == Some(resource))
}

/// Returns how many requests were meant to change objects of that resource themselves: writes of any verb without dry
/// runs, without subresources (the status of workloads is one) and without what empties a namespace that is removed.
pub fn write_count(metrics: &str, resource: &str) -> u64 {
    sum(metrics, |series| writes(series, resource))
}

/// Returns how many of the requests that `write_count` counts the API server carried out. The others, such as an object with a
/// value that it refuses, changed nothing, and are tried again after a pause: how often depends on how long a test takes.
pub fn accepted_write_count(metrics: &str, resource: &str) -> u64 {
    let is_accepted = |series: &str| label(series, "code").is_some_and(|code| code.starts_with('2'));
    sum(metrics, |series| writes(series, resource) && is_accepted(series))
}

/// Tells whether a series counts requests meant to change objects of that resource themselves.
fn writes(series: &str, resource: &str) -> bool {
    label(series, "resource") == Some(resource)
        && label(series, "subresource").unwrap_or_default().is_empty()
        && label(series, "dry_run").unwrap_or_default().is_empty()
        && label(series, "verb").is_some_and(|verb| WRITES.contains(&verb))
        && !empties_namespace(series)
}

/// Returns how many requests the API server refused for lack of rights, of all users: at the door, and later where one is an
/// apply that would create, or a grant of more than its author has.
pub fn forbidden_count(metrics: &str) -> u64 {
    sum_of(AUTHORIZATIONS, metrics, |series| label(series, "result").is_some_and(|r| r != "allowed"))
        + sum(metrics, |series| label(series, "code") == Some("403"))
}

fn sum(metrics: &str, wanted: impl Fn(&str) -> bool) -> u64 {
    sum_of(COUNTER, metrics, wanted)
}

fn sum_of(counter: &str, metrics: &str, wanted: impl Fn(&str) -> bool) -> u64 {
    let series = metrics.lines().filter_map(|line| line.strip_prefix(counter)?.rsplit_once("} "));
    let values = series.filter(|(labels, _)| wanted(labels)).filter_map(|(_, value)| value.trim().parse::<f64>().ok());
    // Counts of requests: whole, never negative, far below what a float holds exactly; large ones come as 1e+06.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
    values.map(|value| value as u64).sum()
}

/// Returns the value of a label; the values of this counter never hold quotes or commas.
fn label<'a>(series: &'a str, name: &str) -> Option<&'a str> {
    series.split(',').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key == name).then(|| value.trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="apps",resource="deployments",scope="resource",subresource="",verb="APPLY",version="v1"} 3
apiserver_request_total{code="201",component="apiserver",dry_run="",group="apps",resource="deployments",scope="resource",subresource="",verb="APPLY",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="All",group="apps",resource="deployments",scope="resource",subresource="",verb="APPLY",version="v1"} 5
apiserver_request_total{code="200",component="apiserver",dry_run="",group="apps",resource="deployments",scope="resource",subresource="status",verb="PATCH",version="v1"} 7
apiserver_request_total{code="200",component="apiserver",dry_run="",group="apps",resource="deployments",scope="resource",subresource="",verb="DELETE",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="apps",resource="deployments",scope="namespace",subresource="",verb="DELETE",version="v1"} 2
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="secrets",scope="resource",subresource="",verb="APPLY",version="v1"} 3
apiserver_request_total{code="400",component="apiserver",dry_run="",group="",resource="secrets",scope="resource",subresource="",verb="APPLY",version="v1"} 4
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",subresource="",verb="LIST",version="v1"} 1.1e+06
"#;

    #[test]
    fn request_count_sums_every_matching_series() {
        assert_eq!(request_count(METRICS, "APPLY", "deployments"), 9);
        assert_eq!(request_count(METRICS, "PATCH", "deployments"), 7);
        assert_eq!(request_count(METRICS, "LIST", "configmaps"), 1_100_000);
        assert_eq!(request_count(METRICS, "APPLY", "configmaps"), 0);
    }

    #[test]
    fn write_count_leaves_out_dry_runs_subresources_and_emptied_namespaces() {
        assert_eq!(write_count(METRICS, "deployments"), 5);
        assert_eq!(write_count(METRICS, "configmaps"), 0);
    }

    #[test]
    fn accepted_write_count_leaves_out_what_was_refused() {
        assert_eq!(write_count(METRICS, "secrets"), 7);
        assert_eq!(accepted_write_count(METRICS, "secrets"), 3);
    }

    #[test]
    fn forbidden_count_takes_what_is_refused_at_the_door_and_later() {
        // Access control by roles alone never denies: it has no opinion, and then nobody allows it.
        let counted = r#"authorization_attempts_total{result="allowed"} 7
authorization_attempts_total{result="no-opinion"} 2
apiserver_request_total{code="403",dry_run="",resource="clusterroles",subresource="",verb="POST"} 1
"#;
        assert_eq!(forbidden_count(counted), 3);
        assert_eq!(forbidden_count(METRICS), 0);
    }
}
