use super::*;
use model::records::SUSPENDED_WORDS;

#[test]
fn the_member_that_is_offline_longest_is_told_and_no_suspended_or_former_one() {
    let at = |second| Timestamp::from_second(second).expect("it is an instant");
    let record = |name: &str, second, change: fn(&mut ClusterRecord)| {
        let mut record = ClusterRecord::new(ClusterName::new(name), at(second));
        record.kind = MemberKind::Live;
        change(&mut record);
        (record.name.clone(), record)
    };
    let mut records = BTreeMap::from([
        record("former", 1, |record| record.left = true),
        record("nowhere", 2, |record| record.kind = MemberKind::Unreachable),
        record("online", 3, |record| record.online = true),
        record("suspended", 4, |record| record.message = Some(SUSPENDED_WORDS.to_owned())),
        record("silent", 6, |_| {}),
        record("silent-first", 5, |_| {}),
    ]);
    let metrics = Metrics::new();
    set_members(&metrics, &records);
    assert_eq!(metrics.oldest_offline.get(), 5);
    assert_eq!(metrics.members.get_or_create(&ByMemberState { state: MemberState::Offline }).get(), 2);
    records.retain(|_, record| record.online);
    set_members(&metrics, &records);
    assert_eq!(metrics.oldest_offline.get(), 0, "none is offline");
}
