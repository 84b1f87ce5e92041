use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn restarts(supervisor: &Supervisor, part: Part) -> u64 {
    supervisor.metrics.task_restarts.get_or_create(&ByPart { part }).get()
}

#[tokio::test]
async fn d17_a_task_that_panics_is_said_counted_and_begun_again() {
    let supervisor = Supervisor::without_pauses();
    let lives = AtomicUsize::new(0);
    supervisor
        .repeat(Part::Hub, || async {
            assert!(lives.fetch_add(1, Ordering::Relaxed) >= 2, "the trap snapped");
        })
        .await;
    assert_eq!((lives.into_inner(), restarts(&supervisor, Part::Hub)), (3, 2));
    let report = supervisor.health().report();
    assert!(report.is_ready && report.lines.len() == 1, "{report:?}");
    assert_eq!(report.lines, ["hub: was restarted; the log says why"]);
}

#[test]
fn d17_a_thread_that_panics_is_begun_again() {
    let supervisor = Supervisor::without_pauses();
    let mut lives = 0;
    let life = move || {
        lives += 1;
        assert!(lives > 2, "the trap snapped");
    };
    supervisor.thread(Part::Source, "test", life).expect("a thread").join().expect("it ends as it should");
    assert_eq!(restarts(&supervisor, Part::Source), 2);
}

#[test]
fn d17_while_it_waits_the_daemon_is_not_ready() {
    let supervisor = Supervisor::without_pauses();
    let mut watcher = supervisor.over(Part::Console, None);
    let end = watcher.live_blocking(|| panic!("no")).expect("it panicked");
    assert!(end.reason.contains("(no)"), "{end:?}");
    assert!(!supervisor.health().report().is_ready);
    watcher.begin_again();
    assert!(supervisor.health().report().is_ready);
    let mut member = supervisor.over(Part::Member, Some("c1"));
    member.live_blocking(|| panic!("no")).expect("it panicked");
    let report = supervisor.health().report();
    assert!(report.is_ready && report.lines[1].starts_with("members: 1 had"), "{report:?}");
}

#[test]
fn pauses_grow_up_to_a_limit() {
    let supervisor = Supervisor::new(Arc::default(), Arc::default());
    let mut watcher = supervisor.over(Part::Hub, None);
    for _ in 0..20 {
        let End { pause, .. } = watcher.live_blocking(|| panic!("no")).expect("it panicked");
        assert!(pause <= RESTART_MAX * 2, "{pause:?}");
    }
    assert_eq!(watcher.pause, RESTART_MAX);
}
