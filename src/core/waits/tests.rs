use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("an instant")
}

fn reading(seconds: i64, boot: Option<&str>, up: u64) -> ClockReading {
    ClockReading { at: at(seconds), boot: boot.map(str::to_owned), up: Duration::from_secs(up) }
}

#[test]
fn d15_a_clock_that_was_set_moves_what_was_measured_by_it() {
    const YEAR: i64 = 365 * 24 * 3600;
    let (a, b) = (Some("a"), Some("b"));
    let hour = 3600;
    // name, before, now, the newest record, how far records are moved in seconds
    let rows = [
        ("nothing known", None, reading(0, a, 5), None, 0),
        ("nothing known, records behind", None, reading(0, a, 5), Some(at(-9)), 0),
        ("nothing known, records a year ahead", None, reading(0, a, 5), Some(at(YEAR)), -YEAR),
        ("a restart", Some(reading(0, a, 5)), reading(60, a, 65), None, 0),
        ("a clock that is led slowly", Some(reading(0, a, 5)), reading(61, a, 65), None, 0),
        ("set back by a year", Some(reading(YEAR, a, 5)), reading(60, a, 65), None, -YEAR),
        ("set ahead by a year", Some(reading(0, a, 5)), reading(YEAR + 60, a, 65), None, YEAR),
        ("the machine slept", Some(reading(0, a, 5)), reading(9 * hour, a, 5 + 9 * 3600), None, 0),
        ("another start of the machine", Some(reading(0, a, 900)), reading(600, b, 5), None, 0),
        ("another start long after", Some(reading(0, a, 900)), reading(3 * hour, b, 5), None, 2 * hour),
        ("another start, set back", Some(reading(0, a, 900)), reading(-hour, b, 5), None, -hour),
        ("nobody can tell", Some(reading(0, None, 0)), reading(3 * hour, None, 0), None, 2 * hour),
    ];
    for (name, seen, now, newest, wanted) in rows {
        let found = correction(seen.as_ref(), &now, newest);
        assert_eq!(found, SignedDuration::from_secs(wanted), "{name}");
    }
}

#[test]
fn a_step_is_said_in_words() {
    assert_eq!(format_step(SignedDuration::from_secs(-3661)), "1h 1m 1s back");
    assert_eq!(format_step(SignedDuration::from_secs(5)), "5s ahead");
}
