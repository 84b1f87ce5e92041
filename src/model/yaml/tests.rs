use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::*;

fn one(text: &str) -> Result<Value, YamlError> {
    let mut documents = parse_documents(text);
    assert_eq!(documents.len(), 1, "{text}");
    documents.remove(0).map(|d| d.value)
}

/// The measured table: what kubectl 1.36 makes of a scalar.
#[test]
fn scalars_mean_what_kubectl_reads() {
    let table: &[(&str, Value)] = &[
        ("on", json!(true)),
        ("off", json!(false)),
        ("yes", json!(true)),
        ("no", json!(false)),
        ("y", json!(true)),
        ("n", json!(false)),
        ("Off", json!(false)),
        ("True", json!(true)),
        ("TRUE", json!(true)),
        ("tRue", json!("tRue")),
        ("0755", json!(493)),
        ("0_7", json!(7)),
        ("0o755", json!(493)),
        ("0x1F", json!(31)),
        ("0b11", json!(3)),
        ("1_000", json!(1000)),
        ("1__0", json!(10)),
        ("0888", json!(888)),
        ("08", json!(8)),
        ("1e3", json!(1000)),
        ("1.0", json!(1)),
        ("3.", json!(3)),
        ("1.", json!(1)),
        ("0e1", json!(0)),
        (".5", json!(0.5)),
        ("1.10", json!(1.1)),
        ("0.1", json!(0.1)),
        ("-1.5e-3", json!(-0.0015)),
        ("+12", json!(12)),
        ("-0", json!(0)),
        ("-0755", json!(-493)),
        ("9223372036854775807", json!(i64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("12345678901234567890", json!(12_345_678_901_234_567_890_u64)),
        ("1e400", json!("1e400")),
        ("123e4567", json!("123e4567")),
        ("~", json!(null)),
        ("null", json!(null)),
        ("Null", json!(null)),
        ("", json!(null)),
        ("nUll", json!("nUll")),
        ("12:30:45", json!("12:30:45")),
        ("2026-11-21", json!("2026-11-21")),
        ("2026-11-21T08:39:46Z", json!("2026-11-21T08:39:46Z")),
        ("\"0755\"", json!("0755")),
        ("'1'", json!("1")),
        ("!!str 1", json!("1")),
        ("100m", json!("100m")),
        ("1Gi", json!("1Gi")),
        ("1,000", json!("1,000")),
        ("=", json!("=")),
        ("0x", json!("0x")),
        ("0o8", json!("0o8")),
        ("0b2", json!("0b2")),
        ("-", json!([null])),
        ("+-5", json!("+-5")),
        ("0x+5", json!("0x+5")),
        (".", json!(".")),
        ("1.2.3", json!("1.2.3")),
        ("1e", json!("1e")),
        ("v1", json!("v1")),
        ("inf", json!("inf")),
        ("!!binary aGVsbG8=", json!("hello")),
        ("!foo bar", json!("bar")),
        ("!!int \"7\"", json!(7)),
        ("{<<: {p: 1}, q: 2}", json!({"p": 1, "q": 2})),
        ("{p: 3, <<: [{p: 1, r: 1}, {r: 2}]}", json!({"p": 1, "r": 1})),
        ("{<<: {p: 1}, p: 3}", json!({"p": 3})),
        ("{on: a, 0755: b, 1e3: c, 2026-11-21: d}", json!({"true": "a", "493": "b", "1000": "c", "2026-11-21": "d"})),
        ("[1_, _1, 0x_1F, +.5, ._5, -0o17, 0., !x 12]", json!([1, "_1", 31, 0.5, "._5", -15, 0, "12"])),
        ("{1: a, true: b, 1.5: c}", json!({"1": "a", "true": "b", "1.5": "c"})),
    ];
    for (text, expected) in table {
        // `- ` opens a list only at the start of a line.
        let text = if *text == "-" { "\n  -".to_owned() } else { format!(" {text}") };
        assert_eq!(one(&format!("v:{text}\n")).unwrap(), json!({"v": expected}), "{text}");
    }
}

#[test]
fn what_cannot_be_read_names_its_line() {
    let deep = format!("a: {}1{}", "[".repeat(300), "]".repeat(300));
    let table: &[(&str, &str, u32, &str)] = &[
        ("infinity", "a: 1\nb: .inf\n", 2, "not a number"),
        ("not a number", "a: .nan\n", 1, "not a number"),
        ("duplicate key", "a: 1\nb: 2\na: 3\n", 3, "\"a\" stands here and on line 1"),
        ("duplicate key in another spelling", "{1: a,\n \"1\": b}", 2, "on line 1"),
        ("unclosed flow", "a: [1\nb: 2\n", 2, "not YAML"),
        ("tab", "a:\n\tb: 1\n", 2, "not YAML"),
        ("too deep", &deep, 1, "nest"),
        ("unknown alias", "a: *b\n", 1, "anchor"),
        ("alias of itself", "a: &a [*a]\n", 1, "alias"),
        ("null key", "~: 1\n", 1, "key"),
        ("list key", "? [1]\n: 1\n", 1, "key"),
        ("merge of a scalar", "<<: 1\n", 1, "merges mappings"),
        ("not the tag's type", "a: !!int x\n", 1, "!!int"),
        ("duplicate key in JSON", "{\"a\": 1,\n\t\"a\": 2}", 2, "on line 1"),
    ];
    for (name, text, line, message) in table {
        let error = one(text).expect_err(name);
        assert!(error.message.contains(message), "{name}: {error}");
        assert_eq!(error.line, *line, "{name}: {error}");
    }
}

#[test]
fn alias_bombs_do_not_explode() {
    let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(",");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert!(one(&text).unwrap_err().message.contains("aliases expand"));
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(10_000), vec!["*a"; 1000].join(","));
    assert!(one(&long).unwrap_err().message.contains("aliases expand"));
    assert_eq!(one("a: &a {x: 1}\nb: *a\n").unwrap(), json!({"a": {"x": 1}, "b": {"x": 1}}));
}

#[test]
fn documents_stand_alone() {
    let text = "# head\n\n---\n# nothing\n---\na: 1\n--- # comment\nb: [\n---\nc: |\n  ---\n  x\n...\n---\r\nd: 4\r\n";
    let documents: Vec<_> =
        parse_documents(text).into_iter().map(|d| d.map(|d| (d.line, d.value)).map_err(|e| e.line)).collect();
    insta::assert_debug_snapshot!(documents, @r#"
    [
        Ok(
            (
                6,
                Object {
                    "a": Number(1),
                },
            ),
        ),
        Err(
            8,
        ),
        Ok(
            (
                10,
                Object {
                    "c": String("---\nx\n"),
                },
            ),
        ),
        Ok(
            (
                15,
                Object {
                    "d": Number(4),
                },
            ),
        ),
    ]
    "#);
}

#[test]
fn json_is_read_too() {
    let text = "{\n\t\"a\": [1.0, \"\\ud83d\\ude00\"],\n\t\"b\": null\n}\n";
    assert_eq!(one(text).unwrap()["a"][1], json!("😀"));
    assert_eq!(one("\u{feff}{\"a\": 1}").unwrap(), json!({"a": 1}));
    assert_eq!(one("%YAML 1.2\n---\na: 1\n").unwrap(), json!({"a": 1}));
}

/// What kubectl 1.36 makes of quoted scalars that are indented less than YAML wants (`kubectl annotate --local -o json`).
#[test]
fn w14_quoted_lines_may_be_indented_less_than_their_key() {
    let table: &[(&str, Value)] = &[
        ("data:\n    text: 'hello\n  world'\n    y1: z\n", json!({"data": {"text": "hello world", "y1": "z"}})),
        ("d:\n    x: \"a\nb\"\n    y1: 'it''s\n\nfine'\n", json!({"d": {"x": "a b", "y1": "it's\nfine"}})),
        ("l:\n  - - a: \"x\\\"\\\n    y\n z\\n\"\n      b: 1\n", json!({"l": [[{"a": "x\"y z\n", "b": 1}]]})),
        ("a:\n  b: 'ünï\ncode' # it's\n", json!({"a": {"b": "ünï code"}})),
        ("a: 'x\ny'\n", json!({"a": "x y"})),
    ];
    for (text, expected) in table {
        assert_eq!(one(text).unwrap(), *expected, "{text}");
    }
    let many = (0..60).map(|n| format!("  k{n}: 'a\nb'\n")).collect::<Vec<_>>().concat();
    assert_eq!(one(&format!("a:\n{many}")).unwrap()["a"]["k59"], json!("a b"));
    assert_eq!(line_of("a:\n  b: 'x\ny'\n  c: 1\n", 1, "a.c"), 4);
    for refused in [
        "a:\n  b: 'x\n---\ny'\n",
        "a:\n  b: 'x\n...\ny'\n",
        "a:\n  b: 'x\ny' z\n",
        "a:\n  b: 'x\ny\n",
        "a:\n  'x\ny': 1\n",
    ] {
        assert!(parse_documents(refused).iter().any(Result::is_err), "{refused}");
    }
}

#[test]
fn keys_that_are_truth_values_are_named() {
    let text = "y: {a: 1}\n\"n\": 1\nlist:\n  - 1\n  - {x.y: {off: {True: no}}}\n!!bool on: 1\ntRue: 1\nok: {n: 1}\n";
    let text = text.replace("!!bool on: 1\n", "");
    let document = parse_documents(&text).remove(0).unwrap();
    let found: Vec<_> =
        document.truth_keys.iter().map(|k| (k.path.join("/"), k.written.as_str(), k.read, k.line)).collect();
    let expected = [
        (String::new(), "y", true, 1),
        ("list/[1]/x.y".to_owned(), "off", false, 5),
        ("list/[1]/x.y/false".to_owned(), "True", true, 5),
        ("ok".to_owned(), "n", false, 7),
    ];
    assert_eq!(found, expected);
}

#[test]
fn keys_that_aliases_bring_are_named_where_they_are_used() {
    let text = "spec: &all {a: &inner {n: 1}}\nmetadata: {labels: *inner}\ncopy: [*all]\nmerged: {<<: *inner, y: 1}\nlist: {<<: [{x: 1}, *inner]}\n";
    let document = parse_documents(text).remove(0).unwrap();
    let found: Vec<_> = document.truth_keys.iter().map(|k| (k.path.join("/"), k.written.as_str(), k.line)).collect();
    let expected = [
        ("spec/a".to_owned(), "n", 1),
        ("metadata/labels".to_owned(), "n", 1),
        ("copy/[0]/a".to_owned(), "n", 1),
        ("merged".to_owned(), "n", 1),
        ("merged".to_owned(), "y", 4),
        ("list".to_owned(), "n", 1),
    ];
    assert_eq!(found, expected);
}

#[test]
fn lines_of_fields() {
    let text = "a: 1\n---\nkind: X\nspec:\n  list:\n    - one: 1\n    - two:\n        x.y/z: 2\n";
    for (path, line) in [
        ("kind", 3),
        ("spec", 4),
        ("spec.list", 5),
        ("spec.list[1]", 7),
        ("spec.list[1].two.x.y/z", 8),
        ("spec.missing", 5),
        ("", 3),
    ] {
        assert_eq!(line_of(text, 3, path), line, "{path}");
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Outer {
    #[allow(dead_code)]
    items: Vec<Inner>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code)]
struct Inner {
    max_unavailable: i32,
    #[serde(default)]
    mode: Option<Mode>,
}

#[derive(Debug, Deserialize)]
enum Mode {
    PickAll,
    PickN,
}

#[test]
fn types_name_the_field_that_does_not_fit() {
    let table = [
        (json!({"items": [{"maxUnavailable": 1, "mode": "PickN"}]}), vec![]),
        (
            json!({"items": [{"maxUnavailable": 1}, {"maxUnavailabel": 1, "maxUnavailable": 2}], "zzz": 1}),
            vec![
                "items[1].maxUnavailabel: unknown field (did you mean `maxUnavailable`?)",
                "zzz: unknown field (known here: items)",
            ],
        ),
        (json!({"items": [{}]}), vec!["items[0].maxUnavailable: required and missing"]),
        (
            json!({"items": [{"maxUnavailable": "x"}]}),
            vec!["items[0].maxUnavailable: invalid type: string \"x\", expected i32"],
        ),
        (
            json!({"items": [{"maxUnavailable": 1, "mode": "pickall"}]}),
            vec!["items[0].mode: \"pickall\" is not one of PickAll, PickN (did you mean `PickAll`?)"],
        ),
        (json!([]), vec!["items: required and missing"]),
    ];
    for (value, expected) in table {
        let errors: Vec<String> = typed::<Outer>(&value).err().into_iter().flatten().map(|e| e.to_string()).collect();
        if value.is_array() {
            assert_eq!(errors.len(), 1);
        } else {
            assert_eq!(errors, expected);
        }
    }
}

fn values() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[ -~]{0,12}",
        "[0-9._+xobe-]{1,8}",
        proptest::sample::select(vec![
            "yes", "~", "0755", "1e3", "1e400", "- a", "a: b", "#", "\n", "a\nb\n", " x", "x\t"
        ])
        .prop_map(str::to_owned),
        "\\PC{0,8}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z0-9./ -]{1,6}", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(value in values()) {
        let wrapped = json!({"v": value});
        let text = to_string(&wrapped);
        prop_assert_eq!(one(&text).unwrap(), wrapped, "{}", text);
    }

    #[test]
    fn any_text_is_read_without_panic(text in "[-a-c0-9:{}\\[\\]&*!|>'\"#%,? \n\t.<]{0,60}") {
        parse_documents(&text);
        line_of(&text, 1, "a.b[0]");
    }
}
