//! A forge that does not answer delays words, and no rollout.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;

use super::world::{Beginning, World, commit, now};
use crate::inbox::Message;
use crate::task::supervise;
use model::forge::StatusState;
use system::supervise::Supervisor;
use system::telemetry::metrics::Part;
use testservers::doubles::forge::Failure;

const BOTH: [Beginning; 2] = [
    Beginning { hooked: true, required: 1, approvers: "", open: true },
    Beginning { hooked: false, required: 1, approvers: "", open: true },
];

#[tokio::test]
async fn a_forge_that_is_down_for_ten_minutes_hears_everything_after() {
    for beginning in BOTH {
        let mut world = World::begin(beginning);
        world.slow();
        let pull = world.merge('1');
        world.later(30).await;
        assert!(world.work());
        world.later(30).await;
        world.fake.outage(Some(Failure::Unreachable));
        let before = world.fake.calls().len();
        while world.work() {
            world.later(60).await;
        }
        assert_eq!(world.fleet(), "p-0 Succeeded", "the fleet does not wait for it");
        world.later(600).await;
        let tries = world.fake.calls().len() - before;
        assert!(tries < 60, "{tries} calls to a forge that is down");
        world.fake.outage(None);
        world.later(180).await;
        assert_eq!(world.rollouts(pull).len(), 1);
        assert!(world.rollouts(pull)[0].body.contains("3/3"), "{}", world.rollouts(pull)[0].body);
        let last = world.fake.statuses_of(&commit('1')).into_iter().rfind(|status| status.context == "gitfleet");
        assert_eq!(last.map(|status| status.state), Some(StatusState::Success));
    }
}

#[tokio::test]
async fn a_revoked_token_is_tried_now_and_then() {
    for beginning in BOTH {
        let mut world = World::begin(beginning);
        world.settle().await;
        world.slow();
        world.fake.outage(Some(Failure::Unauthenticated));
        let before = world.fake.calls().len();
        let pull = world.merge('1');
        while world.work() {
            world.later(60).await;
        }
        world.later(3600).await;
        assert_eq!(world.fleet(), "p-0 Succeeded");
        let tries = world.fake.calls().len() - before;
        assert!(tries < 100, "{tries} calls with a token that is not taken");
        world.fake.outage(None);
        world.later(900).await;
        assert_eq!(world.rollouts(pull).len(), 1, "a new token is found");
        let last = world.fake.statuses_of(&commit('1')).into_iter().rfind(|status| status.context == "gitfleet");
        assert_eq!(last.map(|status| status.state), Some(StatusState::Success));
    }
}

thread_local! {
    /// Looks at the clock before it is as it should be.
    static BROKEN_LOOKS: Cell<u32> = const { Cell::new(1) };
}

/// A clock that panics the first time.
fn broken_clock() -> Timestamp {
    let left = BROKEN_LOOKS.get();
    BROKEN_LOOKS.set(left.saturating_sub(1));
    assert!(left == 0, "the clock is broken");
    now()
}

#[tokio::test]
async fn d17_a_console_that_panics_is_begun_again() {
    let world = World::begin(BOTH[1]);
    let fake = Arc::clone(&world.fake);
    let (mut bot, messages) = world.into_bot();
    bot.handles.clock = broken_clock;
    let supervisor = Supervisor::without_pauses();
    let task = tokio::spawn(supervise(bot, supervisor.over(Part::Console, None)));
    // What a life had taken in when it ended is lost with it.
    let (lost, _) = oneshot::channel();
    messages.send(Message::Finish(lost)).expect("it listens");
    let (done, finished) = oneshot::channel();
    messages.send(Message::Finish(done)).expect("it listens");
    tokio::time::timeout(Duration::from_secs(20), finished).await.expect("it continues").expect("it says so");
    assert!(fake.count("whoami") > 0, "it talks with the forge");
    let report = supervisor.health().report();
    assert!(report.is_ready && report.lines[0].starts_with("console: was restarted"), "{report:?}");
    task.abort();
}
