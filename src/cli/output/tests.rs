use serde_json::json;

use super::*;
use crate::views::tree::Span;

fn sample() -> Table {
    Table {
        headers: ["NAME", "AVAILABLE", "AGE"].map(str::to_owned).to_vec(),
        rows: vec![
            ["web", "True", "5m"].map(str::to_owned).to_vec(),
            ["a-rather-long-placement-name", "", "3h12m"].map(str::to_owned).to_vec(),
        ],
    }
}

#[test]
fn tables_look_like_kubectl() {
    insta::assert_snapshot!(render_table(&sample(), Terminal::plain()), @r#"
        NAME                           AVAILABLE   AGE
        web                            True        5m
        a-rather-long-placement-name               3h12m
        "#);
}

#[test]
fn tables_fold_to_the_width() {
    let mut long = sample();
    long.rows[0][1] = "a long explanation that does not fit into one line".to_owned();
    let folded = render_table(&long, Terminal { width: Some(60), colour: false });
    assert!(folded.lines().all(|line| line.chars().count() <= 60), "{folded}");
    assert!(folded.lines().count() > 3, "{folded}");
}

#[test]
fn ux1b_12_no_word_of_a_line_is_broken() {
    let line = Line::default()
        .with(Style::Plain, "    waits for approval before the next stage since 4m, digest e02da7e57359");
    let text = render_lines(&[line], Terminal { width: Some(60), colour: false });
    assert!(text.lines().all(|line| line.len() <= 60) && text.contains("e02da7e57359"), "{text}");
}

#[test]
fn one_object_or_a_list() {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "on"}});
    insta::assert_snapshot!(render_yaml(std::slice::from_ref(&object)), @r#"
        apiVersion: v1
        kind: Namespace
        metadata:
          name: "on"
        "#);
    let list: Value = serde_json::from_str(&render_json(&[object.clone(), object.clone()])).expect("JSON");
    assert_eq!((list["kind"].as_str(), list["items"].as_array().map(Vec::len)), (Some("List"), Some(2)));
    assert_eq!(render_names(&[object]), "namespace/on\n");
}

#[test]
fn colour_only_where_wanted() {
    let line = Line {
        spans: vec![Span { style: Style::Ok, text: "fine".into() }, Span { style: Style::Plain, text: " x ".into() }],
    };
    let coloured = Terminal { width: None, colour: true };
    assert_eq!(render_lines(std::slice::from_ref(&line), coloured), "\x1b[32mfine\x1b[0m x\n");
    assert_eq!(render_lines(&[line], Terminal::plain()), "fine x\n");
    let hostile = Line { spans: vec![Span { style: Style::Plain, text: "a\x1b[2Jb\nc".into() }] };
    assert_eq!(render_lines(&[hostile], coloured), "a [2Jb c\n");
}
