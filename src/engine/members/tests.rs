use super::*;
use decide::state::silent_since;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("an instant")
}

fn record(online: bool, message: Option<&str>, since: i64) -> ClusterRecord {
    ClusterRecord { online, message: message.map(str::to_owned), ..ClusterRecord::new("a".into(), at(since)) }
}

#[test]
fn how_long_a_cluster_has_stood_so() {
    let rows = [
        ("it stops answering, or is suspended", record(true, None, 0), false, Some("no route"), Some(1000)),
        ("another reason for the same", record(false, Some("suspended"), 0), false, Some("no route"), None),
        ("it answers", record(false, Some("no route"), 0), true, None, Some(1000)),
        ("it answers still", record(true, None, 0), true, None, None),
    ];
    for (name, mut record, online, message, since) in rows {
        assert_eq!(
            record_answering(&mut record, online, message.map(str::to_owned), at(1000)),
            since.is_some(),
            "{name}"
        );
        assert_eq!(record.since, at(since.unwrap_or(0)), "{name}");
        assert_eq!((record.online, record.message.as_deref()), (online, message), "{name}");
    }
}

#[test]
fn a_restart_is_no_silence() {
    let mut answered = record(true, None, 0);
    await_answer(&mut answered, at(10_000));
    assert_eq!((answered.online, silent_since(&answered, at(10_015))), (false, None));
    let mut silent = record(false, Some("no route"), 0);
    await_answer(&mut silent, at(10_000));
    assert_eq!(silent_since(&silent, at(10_015)), Some(at(0)), "it was silent before");
}
