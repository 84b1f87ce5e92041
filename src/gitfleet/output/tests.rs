use serde_json::json;

use super::*;
use views::tree::Span;

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
fn only_free_text_at_the_end_of_a_row_is_folded() {
    let mut long = sample();
    let at = |width| Terminal { width: Some(width), colour: false };
    assert_eq!(render_table(&long, at(20)), render_table(&long, Terminal::plain()), "names are never folded");
    long.rows[0][2] = "a long explanation that does not fit into one line".to_owned();
    insta::assert_snapshot!(render_table(&long, at(70)), @r"
    NAME                           AVAILABLE   AGE
    web                            True        a long explanation that
                                               does not fit into one line
    a-rather-long-placement-name               3h12m
    ");
    assert_eq!(render_table(&long, at(50)), render_table(&long, Terminal::plain()), "too little room");
    long.rows[0][2] = "https://forge.example/acme/fleet/a-word-that-is-too-long-for-it".to_owned();
    assert_eq!(render_table(&long, at(70)), render_table(&long, Terminal::plain()), "a word is never folded");
}

#[test]
fn ux1b_12_no_word_of_a_line_is_broken() {
    let line =
        Line::default().with(Style::Plain, "    waits for approval before the next stage, for 4m, digest e02da7e57359");
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
