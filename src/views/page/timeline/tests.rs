use super::*;

type Spans<'a> = &'a [(bool, i64, Option<i64>)];

fn row(name: &str, state: ProgressState, spans: Spans, usual: Spans, last: Option<i64>) -> TimelineRow {
    let seconds = |seconds: i64| Offset(seconds * 1000);
    let all = |spans: Spans| -> Vec<TimelineSpan> {
        let span = |(waits, from, until): &(bool, i64, Option<i64>)| TimelineSpan {
            waits: *waits,
            from: seconds(*from),
            until: until.map(seconds),
        };
        spans.iter().map(span).collect()
    };
    TimelineRow { name: name.into(), state, spans: all(spans), usual: all(usual), last: last.map(seconds) }
}

fn halfway() -> Timeline {
    Timeline {
        title: "web, snapshot 3".into(),
        usual_words: "simulated".into(),
        rows: vec![
            row(
                "dev",
                ProgressState::Done,
                &[(false, 0, Some(95)), (true, 95, Some(300))],
                &[(false, 0, Some(60)), (true, 60, Some(180))],
                Some(70),
            ),
            row("staging", ProgressState::Moving, &[(false, 300, None)], &[(false, 180, Some(240))], None),
            row("production", ProgressState::Queued, &[], &[(false, 240, Some(900))], Some(800)),
        ],
        now: Some(Offset(425_000)),
    }
}

#[test]
fn what_happened_stands_over_what_is_usual() {
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
    let odd =
        row("<b>", ProgressState::Failed, &[(false, 50, Some(10)), (true, -5, None)], &[(true, 9, Some(3))], None);
    let picture = timeline(&Timeline { rows: vec![odd; 100], ..empty }).into_string();
    assert!(!picture.contains("<b>") && picture.contains("40 more."), "{picture}");
}
