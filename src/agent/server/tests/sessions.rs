//! Who gets a session.

use super::*;

#[tokio::test]
async fn who_may_not_connect_is_told_why() {
    let agents = server("15s");
    let mut a = Agent::connect(&agents, "a").await;
    let old = Hello { protocol: Protocols { oldest: 90, newest: 91 }, ..hello("1", &[]) };
    let (status, body) = a.open(&old).await.expect_err("no common version");
    assert_eq!((status, body.protocol), (StatusCode::UPGRADE_REQUIRED, Some(Protocols::default())));
    let (status, body) = a.open(&hello("1", &["us"])).await.expect_err("a foreign pool");
    assert_eq!((status, body.message.as_str()), (StatusCode::FORBIDDEN, "the token does not allow pool us"));
    a.open(&hello("1", &[])).await.expect("it is open");
    let mut second = Agent::connect(&agents, "a").await;
    assert_eq!(second.open(&hello("2", &[])).await.expect_err("one lives").0, StatusCode::CONFLICT);
    second.open(&hello("1", &[])).await.expect("the same start of the agent, after a cut");
    let mut stranger = Agent::connect(&agents, "a").await;
    stranger.token = "token-b".to_owned();
    assert_eq!(stranger.open(&hello("3", &[])).await.expect_err("another's token").0, StatusCode::UNAUTHORIZED);
}

/// A process that ended with its machine says nothing, and the one after it asks more often than a lease lasts.
#[tokio::test]
async fn attempts_of_the_next_process_do_not_keep_the_session_of_a_dead_one() {
    let agents = server("3s");
    let mut dead = Agent::connect(&agents, "a").await;
    dead.open(&hello("1", &[])).await.expect("it is open");
    let mut next = Agent::connect(&agents, "a").await;
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while next.open(&hello("2", &[])).await.is_err() {
        assert!(std::time::Instant::now() < deadline, "the session of the dead process never ends");
        tokio::task::yield_now().await;
    }
}
