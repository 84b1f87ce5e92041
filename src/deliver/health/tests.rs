use serde_json::json;

use super::*;

#[test]
fn availability_by_kind() {
    use Availability::{Available, ManifestNotAvailableYet, NotTrackable};
    let deployment = |generation: i64, observed: i64, replicas: i64, available: i64, updated: i64, gone: i64| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "generation": generation},
            "spec": {"replicas": replicas},
            "status": {"observedGeneration": observed, "availableReplicas": available, "updatedReplicas": updated,
                "unavailableReplicas": gone}})
    };
    let service = |spec: Value, status: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec, "status": status});
    let rows = [
        ("deployment ready", deployment(2, 2, 3, 3, 3, 0), Available),
        ("deployment not observed", deployment(2, 1, 3, 3, 3, 0), ManifestNotAvailableYet),
        ("deployment not updated", deployment(2, 2, 3, 3, 2, 0), ManifestNotAvailableYet),
        ("deployment with one unavailable", deployment(2, 2, 3, 3, 3, 1), ManifestNotAvailableYet),
        ("deployment of zero", deployment(1, 1, 0, 0, 0, 0), Available),
        (
            "replicas default to one",
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "generation": 1},
                "status": {"observedGeneration": 1, "availableReplicas": 1, "updatedReplicas": 1}}),
            Available,
        ),
        ("headless service", service(json!({"clusterIPs": ["None"]}), json!({})), Available),
        ("service without address", service(json!({}), json!({})), ManifestNotAvailableYet),
        ("load balancer waiting", service(json!({"type": "LoadBalancer"}), json!({})), ManifestNotAvailableYet),
        (
            "load balancer by name",
            service(
                json!({"type": "LoadBalancer"}),
                json!({"loadBalancer": {"ingress": [{"hostname": "lb.example"}]}}),
            ),
            Available,
        ),
        ("external name", service(json!({"type": "ExternalName"}), json!({})), NotTrackable),
        ("config map", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}), Available),
        (
            "definition not established",
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "w"}, "status": {"conditions": [{"type": "NamesAccepted", "status": "True"}]}}),
            ManifestNotAvailableYet,
        ),
        (
            "stateful set mid-update",
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s", "generation": 1},
                "spec": {"replicas": 1}, "status": {"observedGeneration": 1, "availableReplicas": 1,
                "currentReplicas": 1, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"}}),
            ManifestNotAvailableYet,
        ),
        (
            "daemon set ready",
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "s", "generation": 1},
                "status": {"observedGeneration": 1, "numberAvailable": 2, "desiredNumberScheduled": 2,
                "currentNumberScheduled": 2, "updatedNumberScheduled": 2}}),
            Available,
        ),
    ];
    for (name, object, expected) in rows {
        let id = ObjectId::of(&object).expect("the row is an object");
        assert_eq!(health(&id, &object, &HealthRules::default()).availability, expected, "{name}");
    }
}

fn object(api_version: &str, kind: &str, status: &Value) -> Value {
    let mut object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "o", "namespace": "n", "generation": 2}});
    if !status.is_null() {
        object["status"] = status.clone();
    }
    object
}

fn of(object: &Value) -> (Availability, String) {
    let ObjectHealth { availability, why } =
        health(&ObjectId::of(object).expect("it is an object"), object, &HealthRules::default());
    (availability, why.as_deref().unwrap_or_default().to_owned())
}

#[test]
fn kinds_without_a_rule_tell_by_their_conditions() {
    use Availability::{Available, Failed, ManifestNotAvailableYet as NotYet, NotTrackable};
    let ready = |status: &str| json!({"type": "Ready", "status": status, "reason": "R", "message": "changes often"});
    let stalled =
        json!({"type": "Stalled", "status": "True", "reason": "RetriesExceeded", "message": "install failed"});
    let reconciling = json!({"type": "Reconciling", "status": "True", "reason": "Progressing"});
    let of_generation = |generation: i64| json!({"type": "Ready", "status": "True", "observedGeneration": generation});
    let rows = [
        ("no status", Value::Null, NotTrackable, ""),
        ("an empty status", json!({}), NotTrackable, ""),
        ("a status of another form", json!({"phase": "Running"}), NotTrackable, ""),
        (
            "conditions of other types",
            json!({"conditions": [{"type": "Accepted", "status": "True"}]}),
            NotTrackable,
            "",
        ),
        ("a generation that is no number", json!({"observedGeneration": "2"}), NotTrackable, ""),
        ("observed, nothing else", json!({"observedGeneration": 2}), Available, ""),
        (
            "observed before",
            json!({"observedGeneration": 1, "conditions": [ready("True"), stalled]}),
            NotYet,
            "its controller has not seen its latest generation",
        ),
        (
            "never observed, as Flux says it",
            json!({"observedGeneration": -1}),
            NotYet,
            "its controller has not seen its latest generation",
        ),
        ("ready", json!({"observedGeneration": 2, "conditions": [ready("True")]}), Available, ""),
        ("ready, without a generation", json!({"conditions": [ready("True")]}), Available, ""),
        ("ready in an earlier generation", json!({"conditions": [of_generation(1)]}), NotYet, "Ready is True"),
        ("ready in this generation", json!({"conditions": [of_generation(2)]}), Available, ""),
        ("not ready", json!({"observedGeneration": 2, "conditions": [ready("False")]}), NotYet, "Ready is False: R"),
        (
            "not known",
            json!({"observedGeneration": 2, "conditions": [ready("Unknown")]}),
            NotYet,
            "Ready is Unknown: R",
        ),
        (
            "reconciling",
            json!({"conditions": [ready("True"), reconciling]}),
            NotYet,
            "Reconciling is True: Progressing",
        ),
        (
            "stalled",
            json!({"observedGeneration": 2, "conditions": [ready("False"), stalled]}),
            Failed,
            "Stalled is True: RetriesExceeded: install failed",
        ),
    ];
    for (name, status, availability, why) in rows {
        let found = of(&object("example.org/v1", "Widget", &status));
        assert_eq!(found, (availability, why.to_owned()), "{name}");
    }
    // Until the controller of such a kind has spoken, the object is new, and not one of a kind that never speaks.
    for (api_version, kind) in [("cert-manager.io/v1", "Certificate"), ("helm.toolkit.fluxcd.io/v2", "HelmRelease")] {
        assert_eq!(of(&object(api_version, kind, &Value::Null)).0, NotYet, "{kind}");
        assert_eq!(of(&object(api_version, kind, &json!({"conditions": [ready("True")]}))).0, Available, "{kind}");
    }
}

#[test]
fn a_job_is_available_when_it_is_complete() {
    use Availability::{Available, Failed, ManifestNotAvailableYet as NotYet};
    let with = |type_: &str, status: &str| json!({"conditions": [{"type": type_, "status": status, "reason": "R", "message": "m"}]});
    let rows = [
        ("new", false, Value::Null, NotYet, ""),
        ("running", false, json!({"active": 1, "startTime": "2026-01-01T00:00:00Z"}), NotYet, ""),
        ("complete", false, with("Complete", "True"), Available, ""),
        ("failed", false, with("Failed", "True"), Failed, "Failed is True: R: m"),
        ("about to fail", false, with("FailureTarget", "True"), NotYet, ""),
        ("suspended", true, with("Suspended", "True"), Available, ""),
        ("about to be suspended", true, Value::Null, NotYet, ""),
        ("resumed just now", false, with("Suspended", "True"), NotYet, ""),
        ("resumed", false, with("Suspended", "False"), NotYet, ""),
    ];
    for (name, is_suspended, status, availability, why) in rows {
        let mut job = object("batch/v1", "Job", &status);
        job["spec"] = json!({"suspend": is_suspended});
        assert_eq!(of(&job), (availability, why.to_owned()), "{name}");
    }
}

#[test]
fn expressions_of_the_configuration_come_first() {
    use Availability::{Available, Failed, ManifestNotAvailableYet as NotYet};
    let compile = |text: &str| ObjectExpression::compile(text).expect("it compiles");
    let rule = |group: &str, kind: &str, available: Option<&str>, failed: Option<&str>| KindRule {
        group: group.to_owned(),
        kind: kind.to_owned(),
        available: available.map(compile),
        failed: failed.map(compile),
    };
    let late = "object.status.conditions.exists(c, c.type == 'Progressing' && c.reason == 'ProgressDeadlineExceeded')";
    let phase = |phase: &str| format!("object.status.phase == '{phase}'");
    let rules = HealthRules {
        kinds: vec![
            rule("example.org", "Widget", Some(&phase("Running")), Some(&phase("Broken"))),
            rule("", "ConfigMap", Some("1 + 1"), None),
            rule("apps", "Deployment", None, Some(late)),
        ],
        only_kubefleets: false,
        digest_key: DigestKey::default(),
    };
    let of = |api_version: &str, kind: &str, status: Value| {
        let object = object(api_version, kind, &status);
        health(&ObjectId::of(&object).expect("it is an object"), &object, &rules).availability
    };
    let widget = |status: Value| of("example.org/v1", "Widget", status);
    assert_eq!(widget(json!({"phase": "Running"})), Available);
    assert_eq!(widget(json!({"phase": "Broken"})), Failed);
    assert_eq!(widget(json!({"phase": "Starting"})), NotYet);
    assert_eq!(widget(Value::Null), NotYet, "a field that is not there");
    assert_eq!(widget(json!({"phase": "Running", "observedGeneration": 1})), NotYet, "of an earlier generation");
    assert_eq!(of("v1", "ConfigMap", Value::Null), NotYet, "a value that is no boolean");
    let progressing = |reason: &str| {
        json!({"observedGeneration": 2, "availableReplicas": 1, "updatedReplicas": 1,
            "conditions": [{"type": "Progressing", "status": "False", "reason": reason}]})
    };
    assert_eq!(of("apps/v1", "Deployment", progressing("ProgressDeadlineExceeded")), Failed);
    assert_eq!(of("apps/v1", "Deployment", progressing("NewReplicaSetAvailable")), Available, "its own rule");
}

#[test]
fn the_configuration_may_leave_other_kinds_untracked_as_kubefleet_does() {
    let rules = HealthRules { only_kubefleets: true, ..HealthRules::default() };
    let ready = json!({"conditions": [{"type": "Ready", "status": "False"}, {"type": "Failed", "status": "True"}]});
    for (api_version, kind) in [("example.org/v1", "Widget"), ("batch/v1", "Job"), ("cert-manager.io/v1", "Issuer")] {
        let object = object(api_version, kind, &ready);
        let found = health(&ObjectId::of(&object).expect("it is an object"), &object, &rules);
        assert_eq!(found, ObjectHealth::not_trackable(), "{kind}");
    }
}
