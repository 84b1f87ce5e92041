use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag};

use super::*;

/// Texts that would do something if they were let through.
const HOSTILE: [&str; 20] = [
    "</details>",
    "```\n# out\n```",
    "~~~\nout",
    "@org/all",
    "/approve prod",
    "![](http://x/beacon.png)",
    "[a](javascript:x)",
    "<!-- gitfleet:v1 -->",
    "\u{202e}evorppa/",
    "see #123, GH-7 and !9",
    "www.evil.example https://evil.example",
    "- item",
    "1. item",
    "2) item",
    "> quote",
    "a | b\n--|--",
    "`a``b```c",
    "\\",
    "&lt;b&gt; **b** _i_ ~~s~~ $x$",
    "    indented\n\n===\n",
];

fn events(text: &str) -> Vec<Event<'_>> {
    Parser::new_ext(text, Options::all() - Options::ENABLE_SMART_PUNCTUATION).collect()
}

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        proptest::sample::select(HOSTILE.to_vec()).prop_map(str::to_owned),
        "[`~<>@#/|!*_&:.\\[\\]()\\\\ \n\r\t0-9a-z-]{0,12}",
        "\\PC{0,6}",
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// What no output holds, whatever it stands in.
fn has_nothing_hidden(text: &str) {
    let bidi =
        |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!text.chars().any(bidi), "{text:?}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with('/')), "{text:?}");
    for (at, _) in text.match_indices('@') {
        assert!(text[at + 1..].starts_with(BREAK) || text[at..].starts_with(DIGEST_MARK), "{text:?}");
    }
}

fn is_plain(text: &str) {
    has_nothing_hidden(text);
    for part in ["<", ">", "://", "www.", "[", "`", "|", "*", "\n"] {
        assert!(!text.contains(part), "{part:?} in {text:?}");
    }
    for (at, _) in text.match_indices('#') {
        assert!(text[..at].ends_with('&'), "{text:?}");
    }
    let (mut seen, mut told) = (false, String::new());
    for event in events(text) {
        match event {
            Event::Start(Tag::Paragraph) => assert!(!std::mem::replace(&mut seen, true), "{text:?}"),
            Event::End(_) => {}
            Event::Text(part) => told.push_str(&part),
            other => unreachable!("{other:?} in {text:?}"),
        }
    }
    let wanted: String = told.chars().filter(|c| *c != BREAK && *c != JOINER).collect();
    assert_eq!(wanted.is_empty(), !seen);
}

proptest! {
    #[test]
    fn prose_is_text_and_nothing_else(text in hostile()) {
        is_plain(&prose(&text));
        is_plain(&cell(&text));
        let told: String = events(&prose(&text)).iter().filter_map(|e| if let Event::Text(t) = e { Some(&**t) } else { None }).collect();
        let told: String = told.chars().filter(|c| *c != BREAK && *c != JOINER).collect();
        prop_assert_eq!(told, shorten(&one_line(&text), PROSE_CHARS_MAX), "it says what was said");
    }

    #[test]
    fn code_is_one_span(text in hostile()) {
        for (span, wanted) in [(code(&text), line(&text)), (code_cell(&text), line(&text).replace('|', "¦"))] {
            has_nothing_hidden(&span);
            prop_assert!(!span.contains('\n'));
            let events = events(&span);
            prop_assert_eq!(events.len(), 3, "{:?}", &events);
            let Event::Code(told) = &events[1] else { unreachable!("{events:?}") };
            let told: String = told.chars().filter(|c| *c != BREAK).collect();
            prop_assert_eq!(told.trim(), wanted.trim());
        }
    }

    #[test]
    fn a_fence_is_one_block(text in hostile(), before in prop_oneof![Just(""), Just("words\n\n"), Just("<details>\n\n")]) {
        let fenced = fenced("diff", &text);
        has_nothing_hidden(&fenced);
        let whole = format!("{before}{fenced}\nafter");
        let blocks = events(&whole);
        let codes = blocks.iter().filter(|event| matches!(event, Event::Start(Tag::CodeBlock(_)))).count();
        prop_assert_eq!(codes, 1);
        prop_assert!(matches!(&blocks[blocks.len() - 2], Event::Text(last) if &**last == "after"), "{:?}", blocks);
        let inside = blocks.iter().skip_while(|e| !matches!(e, Event::Start(Tag::CodeBlock(_)))).skip(1);
        prop_assert!(inside.take_while(|e| !matches!(e, Event::End(_))).all(|event| matches!(event, Event::Text(_))));
    }

    #[test]
    fn a_row_stays_a_row(a in hostile(), b in hostile()) {
        let table = format!("| x | y |\n|---|---|\n| {} | {} |\n", cell(&a), code_cell(&b));
        let events = events(&table);
        let cells = events.iter().filter(|event| matches!(event, Event::Start(Tag::TableCell))).count();
        prop_assert_eq!(cells, 4);
        let acts = |event: &Event| {
            matches!(event, Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::Link { .. } | Tag::Image { .. }))
        };
        prop_assert_eq!(events.iter().find(|event| acts(event)), None);
    }

    #[test]
    fn shortening_keeps_its_word(text in "\\PC{0,40}", chars in 0_usize..50) {
        let short = shorten(&text, chars);
        prop_assert!(short.chars().count() <= chars);
        prop_assert!(short == text || short.is_empty() || short.ends_with('…'));
    }
}

#[test]
fn what_comes_of_texts() {
    let rows = [
        ("plain words stay", "hello, world (twice)", "hello, world (twice)"),
        ("lines become one", " a\r\n\tb ", "a b"),
        ("markup", "**b** <i>", "&#42;&#42;b&#42;&#42; &lt;i&gt;"),
        ("a mention", "ask @org/all", "ask @\u{200b}org/all"),
        ("an issue", "fixes #12", "fixes &#35;\u{200b}12"),
        ("a page", "https://x.example", "https:\u{200b}//x.example"),
        ("a command", "/approve prod", "\u{2060}/approve prod"),
        ("a list", "1. a", "1&#46; a"),
        ("an entity", "&lt;", "&amp;lt;"),
        ("turned around", "\u{202e}abc\u{202c}", "abc"),
        ("nothing", "\u{200b}\u{7}", ""),
    ];
    for (name, text, wanted) in rows {
        assert_eq!(prose(text), wanted, "{name}");
    }
    assert_eq!(code("a`b"), "``a`b``");
    assert_eq!(code("`"), "`` ` ``");
    assert_eq!(code(""), "` `");
    assert_eq!(code("nginx@sha256:0a ann@x"), "`nginx@sha256:0a ann@\u{200b}x`");
    assert_eq!(fenced("diff", "-a\n+```\n/x"), "````diff\n-a\n+```\n\u{2060}/x\n````\n");
    assert_eq!(fenced("a b`", ""), "```\n\n```\n");
}

#[test]
fn shortening() {
    let family = "👨‍👩‍👧";
    let rows = [
        ("fits", "abc", 3, "abc"),
        ("cut", "abcd", 3, "ab…"),
        ("no blank at the end", "ab cd", 4, "ab…"),
        ("nothing fits", "abcd", 1, "…"),
        ("no room", "abcd", 0, ""),
        ("kept together", "a\u{301}\u{302}bc", 4, "a\u{301}\u{302}…"),
        ("dropped together", family, 4, "…"),
    ];
    for (name, text, chars, wanted) in rows {
        assert_eq!(shorten(text, chars), wanted, "{name}");
    }
}
