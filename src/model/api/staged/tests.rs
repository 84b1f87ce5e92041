use serde_json::{Value, json};

use super::*;
use crate::api::object;

#[test]
fn stages_keep_kubefleets_rules() {
    let stage = |field: &str, value: Value| {
        let mut stage = json!({"name": "a"});
        stage[field] = value;
        stage
    };
    let after = |task: Value| stage("afterStageTasks", json!([task]));
    let table = [
        (stage("name", json!("canary1")), ""),
        (stage("name", json!("can-ary")), "lowercase letters"),
        (stage("maxConcurrency", json!(3)), ""),
        (stage("maxConcurrency", json!("50%")), ""),
        (stage("maxConcurrency", json!(0)), "neither a number from 1"),
        (stage("maxConcurrency", json!("0%")), "neither a number from 1"),
        (stage("maxConcurrency", json!("3")), "neither a number from 1"),
        (after(json!({"type": "TimedWait", "waitTime": "1h30m"})), ""),
        (after(json!({"type": "TimedWait", "waitTime": "1.5s"})), ""),
        (after(json!({"type": "TimedWait", "waitTime": "100ms"})), "not a duration"),
        (after(json!({"type": "TimedWait", "waitTime": "01h"})), "not a duration"),
        (after(json!({"type": "TimedWait", "waitTime": "-1h"})), "not a duration"),
        (after(json!({"type": "TimedWait"})), "TimedWait needs it"),
        (after(json!({"type": "Approval", "waitTime": "1h"})), "takes no waitTime"),
        (stage("beforeStageTasks", json!([{"type": "Approval"}])), ""),
        (stage("beforeStageTasks", json!([{"type": "TimedWait", "waitTime": "1h"}])), "cannot be TimedWait"),
        (stage("afterStageTasks", json!([{"type": "Approval"}, {"type": "Approval"}])), "a second Approval"),
    ];
    for (stage, expected) in table {
        let object = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": {"stages": [stage]}});
        let errors = object::read::<StagedUpdateStrategySpec>(&object).err().unwrap_or_default();
        match expected {
            "" => assert_eq!(errors, [], "{object}"),
            _ => assert!(errors.len() == 1 && errors[0].message.contains(expected), "{object}: {errors:?}"),
        }
    }
}
