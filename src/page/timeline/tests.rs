use super::*;

fn row(name: &str, state: ProgressState, spans: &[(bool, i64, Option<i64>)], usual: Option<(i64, i64)>) -> TimelineRow {
    let seconds = |seconds: i64| Offset(seconds * 1000);
    let span = |(waits, from, until): &(bool, i64, Option<i64>)| TimelineSpan {
        waits: *waits,
        from: seconds(*from),
        until: until.map(seconds),
    };
    let usual = usual.map(|(from, until)| (seconds(from), seconds(until)));
    TimelineRow { name: name.into(), state, spans: spans.iter().map(span).collect(), usual }
}

fn halfway() -> Timeline {
    Timeline {
        title: "web, snapshot 3".into(),
        usual_words: "simulated".into(),
        rows: vec![
            row("dev", ProgressState::Done, &[(false, 0, Some(95)), (true, 95, Some(300))], Some((0, 60))),
            row("staging", ProgressState::Moving, &[(false, 300, None)], Some((60, 240))),
            row("production", ProgressState::Queued, &[], Some((240, 900))),
        ],
        now: Some(Offset(425_000)),
    }
}

#[test]
fn what_happened_stands_below_what_is_usual() {
    insta::assert_snapshot!(timeline(&halfway()).into_string().replace("><", ">\n<"));
}

#[test]
fn everything_is_said_in_words() {
    insta::assert_snapshot!(halfway().words());
}

#[test]
fn marks_are_few_and_round() {
    for (seconds, last, count) in
        [(1, "1s", 2), (59, "50s", 6), (3600, "1h", 7), (86_400, "1d", 5), (864_000_000, "", 8)]
    {
        let ticks = Scale { end: Offset(seconds * 1000) }.ticks();
        assert!(ticks.len() <= 9, "{seconds}: {}", ticks.len());
        if !last.is_empty() {
            assert_eq!(
                (ticks.last().map(|tick| tick.text()), ticks.len()),
                (Some(last.to_owned()), count),
                "{seconds}"
            );
        }
    }
}

#[test]
fn nothing_and_odd_times_are_drawn_too() {
    let empty = Timeline { title: String::new(), usual_words: String::new(), rows: Vec::new(), now: None };
    assert!(timeline(&empty).into_string().starts_with("<svg"));
    let odd = row("<b>", ProgressState::Failed, &[(false, 50, Some(10)), (true, -5, None)], Some((9, 3)));
    let picture = timeline(&Timeline { rows: vec![odd; 100], ..empty }).into_string();
    assert!(!picture.contains("<b>") && picture.contains("40 more."), "{picture}");
}
