use std::sync::{Arc, Mutex};

use super::*;

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logged(format: LogFormat, filter: &str, colour: bool) -> String {
    let sink = Sink::default();
    let writer = sink.clone();
    let subscriber = subscriber(format, filter, colour, move || writer.clone()).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        tracing::debug!(target: "gitfleet::store", "batch written");
        tracing::info!(target: "gitfleet::store", placement = "web", facts = %r#"{"index":3}"#, "snapshot created");
        tracing::info!(target: "hyper", "connected");
        tracing::warn!(target: "hyper", "connection lost");
    });
    let bytes = sink.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_default_shows_our_changes_and_others_warnings() {
    let text = logged(LogFormat::Text, FILTER_DEFAULT, false);
    for (line, shown) in
        [("batch written", false), ("snapshot created", true), ("connected", false), ("connection lost", true)]
    {
        assert_eq!(text.contains(line), shown, "{line}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(logged(LogFormat::Text, FILTER_DEFAULT, true).contains('\u{1b}'));
    assert!(logged(LogFormat::Text, "debug", false).contains("batch written"));
    let line = text.lines().next().unwrap_or_default();
    assert_eq!(line.get(8..), Some(" web  snapshot created"), "no date, no module, no details: {line}");
    assert!(logged(LogFormat::Text, "debug", false).contains(" web  snapshot created index=3\n"));
}

#[test]
fn d19_a_file_name_with_a_newline_forges_no_line() {
    let forged = "a.yaml\n2026-01-01T00:00:00Z  INFO gitfleet: Approved\u{2028}\u{1b}[2K\r";
    for colour in [false, true] {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = subscriber(LogFormat::Text, "info", colour, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "gitfleet::source", path = %forged, text = forged, "refused: {forged}");
        });
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text:?}");
        assert!(!text.contains(['\r', '\u{2028}']) && !text.contains("\u{1b}[2K"), "{text:?}");
        assert!(text.contains("a.yaml\\n2026") && text.ends_with('\n'), "{text:?}");
    }
}

#[test]
fn json_is_one_object_a_line_with_fields() {
    let text = logged(LogFormat::Json, FILTER_DEFAULT, true);
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&first["message"], &first["placement"]), (&"snapshot created".into(), &"web".into()));
    assert_eq!(first["facts"], serde_json::json!({"index": 3}), "an object, as in the journal");
    assert_eq!(text.lines().count(), 2);
}

/// Writes events in nested spans, as a member's task does.
fn in_spans(format: LogFormat, filter: &str) -> String {
    let sink = Sink::default();
    let writer = sink.clone();
    let subscriber = subscriber(format, filter, false, move || writer.clone()).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        let _member = tracing::error_span!(target: "gitfleet::member", "member", cluster = %"east").entered();
        let step = tracing::error_span!(target: "gitfleet::member", "step", placement = %"web", commit = %"1a2b3c4");
        let _step = step.entered();
        tracing::warn!(target: "gitfleet::member", object = %"v1 ConfigMap web/a", "changed by somebody else; put back");
        tracing::warn!(target: "gitfleet::member", placement = %"web", "said with its own field");
    });
    let bytes = sink.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn text_has_the_fields_of_the_spans() {
    // Spans say where something happened, whatever is logged of what happens.
    for filter in [FILTER_DEFAULT, "gitfleet=warn"] {
        let text = in_spans(LogFormat::Text, filter);
        let lines: Vec<&str> = text.lines().map(|line| line.split_once(" WARN ").unwrap().1).collect();
        let first = "web  east: changed by somebody else; put back object=v1 ConfigMap web/a (1a2b3c4)";
        assert_eq!(lines, [first, "web  east: said with its own field (1a2b3c4)"]);
    }
}

#[test]
fn json_lists_the_spans() {
    let text = in_spans(LogFormat::Json, FILTER_DEFAULT);
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["object"], "v1 ConfigMap web/a");
    let spans = serde_json::json!([
        {"name": "member", "cluster": "east"},
        {"name": "step", "placement": "web", "commit": "1a2b3c4"},
    ]);
    assert_eq!(first["spans"], spans);
}

#[test]
fn flag_beats_environment_beats_default() {
    for (flag, variable, expected) in [
        (None, None, FILTER_DEFAULT),
        (None, Some("debug"), "debug"),
        (Some("trace"), Some("debug"), "trace"),
        (Some(""), Some("debug"), "debug"),
        (Some(" "), Some(""), FILTER_DEFAULT),
    ] {
        assert_eq!(chosen_filter(flag, variable), expected, "{flag:?} {variable:?}");
    }
}

#[test]
fn colour_needs_a_terminal_and_no_objection() {
    for (terminal, no_color, expected) in
        [(true, None, true), (true, Some(""), true), (true, Some("1"), false), (false, None, false)]
    {
        assert_eq!(colour(terminal, no_color.map(OsStr::new)), expected, "{terminal} {no_color:?}");
    }
}

#[test]
fn a_bad_filter_is_named() {
    let error = subscriber(LogFormat::Text, "gitfleet=loud", false, io::sink).err().unwrap();
    assert!(error.to_string().contains("gitfleet=loud"), "{error}");
}
