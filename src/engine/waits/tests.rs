use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("an instant")
}

fn reading(seconds: i64, boot: Option<&str>, up: u64) -> ClockReading {
    ClockReading { at: at(seconds), boot: boot.map(str::to_owned), up: Duration::from_secs(up), shared: None }
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

/// What a machine's clock shows at an instant of true time, and what the database says then.
fn on_machine(boot: &str, at: Timestamp, wrong_by: SignedDuration, said: Timestamp) -> ClockReading {
    ClockReading { at: at + wrong_by, boot: Some(boot.to_owned()), up: Duration::ZERO, shared: Some(said) }
}

#[test]
fn d15_on_another_machine_a_wait_lasts_as_long_as_it_was_to_whatever_the_clocks_show() {
    const WRONG_BY: [i64; 9] = [-31_536_000, -10_800, -1_800, -1, 0, 1, 1_800, 10_800, 31_536_000];
    let seconds = SignedDuration::from_secs;
    // The database's clock may be as wrong as the others: only what passes by it counts.
    let database = seconds(86_400);
    for (first, second) in WRONG_BY.iter().flat_map(|first| WRONG_BY.map(|second| (seconds(*first), seconds(second)))) {
        for (passed, asked) in [(0, 0), (5, 1), (600, 0), (600, 2), (259_200, 1)] {
            let (passed, asked) = (seconds(passed), seconds(asked));
            // Stored: the machine's clock is read before the database answers. At a start: after it.
            let seen = on_machine("a", at(0), first, at(0) + database + asked);
            let now = on_machine("b", at(0) + passed + asked * 2, second, at(0) + passed + asked + database);
            let step = correction(Some(&seen), &now, None);
            let waited = seconds(300);
            let since = at(0) + first - waited + step;
            let lost = (waited + passed + asked * 2) - now.at.duration_since(since);
            let case =
                format!("clocks wrong by {first:#} and {second:#}, {passed:#} passed, {asked:#} to ask: {lost:#}");
            assert!(lost > -STEP_MIN, "the wait got shorter: {case}");
            assert!(lost < asked * 2 + STEP_MIN, "the wait got longer: {case}");
        }
    }
}

#[test]
fn d15_the_database_counts_only_where_both_machines_asked_it() {
    let (minutes, hours) = (SignedDuration::from_mins, SignedDuration::from_hours);
    let seen = on_machine("a", at(0), SignedDuration::ZERO, at(0));
    let now = on_machine("b", at(0) + minutes(10), minutes(30), at(0) + minutes(10));
    assert_eq!(correction(Some(&seen), &now, None), minutes(30));
    // Earlier versions, and stores that moved, have no time of a database: as after a reboot.
    for (seen, now) in [
        (ClockReading { shared: None, ..seen.clone() }, now.clone()),
        (seen.clone(), ClockReading { shared: None, ..now.clone() }),
    ] {
        assert_eq!(correction(Some(&seen), &now, None), SignedDuration::ZERO, "an hour is trusted");
    }
    // It was set back, or another one answers: no time is known to have passed.
    let back = ClockReading { shared: Some(at(0) - hours(1)), ..now.clone() };
    assert_eq!(correction(Some(&seen), &back, None), minutes(40));
    // On one machine its own measure is better, whatever the database's clock was set to.
    let same = ClockReading { boot: seen.boot.clone(), up: Duration::from_mins(10), ..back };
    assert_eq!(correction(Some(&seen), &same, None), minutes(30));
}

#[test]
fn a_step_is_said_in_words() {
    assert_eq!(format_step(SignedDuration::from_secs(-3661)), "1h 1m 1s back");
    assert_eq!(format_step(SignedDuration::from_secs(5)), "5s ahead");
}
