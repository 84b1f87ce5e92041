//! What is asked before objects are applied for the first time.

use super::*;
use crate::Common;
use crate::apply::perform;

/// Applies so many objects for the first time, of which one is there; returns what was read and what was applied.
async fn first_applies(count: usize, strategy: WhenToTakeOver) -> (Vec<String>, usize) {
    let member = Memory::default();
    member.insert(map("c1", "of others"));
    let objects: Vec<Value> = (0..count).map(|number| map(&format!("c{number}"), "ours")).collect();
    let mut order = order(1, &objects);
    order.strategy.when_to_take_over = strategy;
    let order = Arc::new(order);
    let step = |position| Step::Apply { position, put_back: false, probe: true };
    let tasks: Vec<Task> =
        (0..count).map(|position| Task { order: Arc::clone(&order), step: step(position), before: None }).collect();
    let presence = Presence::of(&tasks);
    for task in tasks {
        perform(&member, &Common::default(), &presence, task).await;
    }
    let applied = member.take_requests().iter().filter(|request| request.starts_with("apply")).count();
    let reads = std::mem::take(&mut *member.reads.lock().unwrap());
    (reads, applied)
}

#[tokio::test]
async fn names_are_asked_for_once_and_what_is_there_is_read() {
    let namespace = map("c1", "")["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let names = format!("names of ConfigMap in {namespace}");
    assert_eq!(first_applies(5, WhenToTakeOver::Always).await, (vec![names, "get c1".to_owned()], 5));
}

#[tokio::test]
async fn few_objects_and_those_that_may_not_be_taken_over_are_read_one_by_one() {
    let gets = |count: usize| (0..count).map(|number| format!("get c{number}")).collect::<Vec<_>>();
    assert_eq!(first_applies(3, WhenToTakeOver::Always).await, (gets(3), 3));
    assert_eq!(first_applies(5, WhenToTakeOver::Never).await, (gets(5), 4), "what is there stays as it is");
}
