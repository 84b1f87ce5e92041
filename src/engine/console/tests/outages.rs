//! A forge that does not answer delays words, and no rollout.

use super::world::{Beginning, World, commit};
use crate::forge::fake::Failure;
use crate::model::forge::StatusState;

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
        let last = world.fake.statuses_of(&commit('1')).into_iter().rfind(|status| status.context == "gitfleet/p");
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
        let last = world.fake.statuses_of(&commit('1')).into_iter().rfind(|status| status.context == "gitfleet/p");
        assert_eq!(last.map(|status| status.state), Some(StatusState::Success));
    }
}
