use proptest::prelude::*;

use super::*;

fn parsed(body: &str) -> Chat {
    parse(body, "fleetbot", true)
}

fn approve(stage: &str) -> ChatCommand {
    ChatCommand { stage: Some(stage.into()), ..ChatCommand::bare(ChatVerb::Approve) }
}

fn is_mistake(chat: &Chat, part: &str) -> bool {
    matches!(chat, Chat::Mistake(why) if why.contains(part))
}

#[test]
fn what_is_no_command() {
    let rows = [
        ("nothing", ""),
        ("talk", "looks good to me"),
        ("within a line", "please say /approve canary"),
        ("a quote", "> /approve canary"),
        ("a quote's lazy line", "> as I said\n/approve canary"),
        ("a quote in a quote", "> > /approve canary"),
        ("a mail's reply", "On Monday, ann wrote:\n> /approve canary\n>\n> thanks"),
        ("an alert", "> [!NOTE]\n> /approve canary"),
        ("a fence", "```\n/approve canary\n```"),
        ("a fence of tildes", "~~~sh\n/approve canary\n~~~"),
        ("a fence that is not closed", "```\n/approve canary"),
        ("indented code", "    /approve canary"),
        ("code by a tab", "\t/approve canary"),
        ("a tab in a paragraph", "text\n\t/approve canary"),
        ("far to the right in a paragraph", "text\n     /approve canary"),
        ("a code span", "`/approve canary`"),
        ("half a code span", "/`approve` canary"),
        ("a list", "- /approve canary"),
        ("a numbered list", "1. /approve canary"),
        ("a list in a list", "- a\n  - b\n\n    /approve canary"),
        ("a list's paragraph", "- a\n\n  /approve canary"),
        ("a list's lazy line", "- a\n/approve canary"),
        ("a task", "- [x] /approve canary"),
        ("a heading", "# /approve canary"),
        ("a heading by a line", "/approve canary\n---"),
        ("a table", "| /approve canary |\n|---|\n| /approve canary |"),
        ("a footnote", "a[^1]\n\n[^1]: /approve canary"),
        ("a link", "[/approve canary](http://x)"),
        ("emphasis", "**/approve canary**"),
        ("struck out", "~~/approve canary~~"),
        ("an escape", "\\/approve canary"),
        ("an entity", "&#47;approve canary"),
        ("an HTML comment", "<!--\n/approve canary\n-->"),
        ("an HTML comment within a line", "<!-- a --> /approve canary"),
        ("HTML", "<div>\n/approve canary\n</div>"),
        ("folded away", "<details><summary>x</summary>\n\n/approve canary\n\n</details>"),
        ("folded away twice", "<details>\n\n<details>\n\n</details>\n\n/approve canary"),
        ("a quote in HTML", "<BLOCKQUOTE>\n\n/approve canary"),
        ("marked in HTML", "<sub>/approve canary</sub>"),
        ("D19: not shown by Gitea", "<noscript>\n\n/approve canary\n\n</noscript>"),
        ("D19: a title", "<title>\n\n/approve canary\n\n</title>"),
        ("D19: an object", "<object>\n\n/approve canary\n\n</object>"),
        ("D19: a frame", "<iframe>\n\n/approve canary\n\n</iframe>"),
        ("a hidden paragraph", "<p hidden>\n\n/approve canary\n\n</p>"),
        ("a dialog that is closed", "<dialog>\n\n/approve canary\n\n</dialog>"),
        ("an element of a page's own", "<x-y>\n\n/approve canary\n\n</x-y>"),
        ("an unknown element that is told to hide", "<thing hidden>\n\n/approve canary\n\n</thing>"),
        ("a form", "<form><select><option>\n\n/approve canary"),
        ("closed by another's end", "<noscript><b></noscript>\n\n/approve canary"),
        ("an end in a value", "<noscript><b title=\"</noscript>\">\n\n/approve canary"),
        ("ends in a value", "<noscript><b title=\"</b></noscript>\">\n\n/approve canary"),
        ("an end in a value with blanks", "x <noscript><b title='</b> </noscript>'> y\n\n/approve canary"),
        ("an empty element with a slash", "x <noscript/>\n\n/approve canary"),
        ("in a comment that ends at once", "<!--><noscript>-->\n\n/approve canary"),
        ("in a comment that ends soon", "<!---><noscript>-->\n\n/approve canary"),
        ("in a comment that ends otherwise", "<!-- a --!><noscript>-->\n\n/approve canary"),
        ("in what HTML takes for a comment", "<![CDATA[><noscript>]]>\n\n/approve canary"),
        ("in an instruction", "<?x><noscript>?>\n\n/approve canary"),
        ("in a declaration", "<!X><noscript>\n\n/approve canary"),
        ("in upper case", "<NoScript>\n\n/approve canary"),
        ("a formula", "$$\n/approve canary\n$$"),
        ("HTML over lines", "x <del>\n/approve canary\n</del>"),
        ("another word", "/approved canary"),
        ("another sign", "/approve: canary"),
        ("another's command", "/lgtm"),
        ("a path", "/etc/passwd"),
        ("another's name", "@otherbot approve canary"),
        ("a word to us", "@fleetbot thanks!"),
        ("a Cyrillic letter", "/\u{430}pprove canary"),
        ("a joiner", "\u{2060}/approve canary"),
        ("two slashes", "//approve canary"),
        ("a blank after the slash", "/ approve canary"),
        ("a slash after our name", "@fleetbot /approve canary"),
    ];
    for (name, body) in rows {
        assert_eq!(parsed(body), Chat::Silence, "{name}");
    }
    let long = format!("/approve canary\n\n{}", "a".repeat(COMMENT_BYTES_MAX));
    assert_eq!(parsed(&long), Chat::Silence, "a long comment");
}

#[test]
fn one_mistyped_letter_of_a_command() {
    let rows = [
        ("a letter is missing", "/aprove staging", Chat::Misspelt),
        ("one too many", "/approove", Chat::Misspelt),
        ("another", "/approvr staging", Chat::Misspelt),
        ("exchanged", "/paues", Chat::Misspelt),
        ("after our name", "@fleetbot rolback", Chat::Misspelt),
        ("two letters", "/aprov staging", Chat::Silence),
        ("a form of the word", "/approved", Chat::Silence),
        ("another's command", "/retest", Chat::Silence),
        ("in a quote", "> /aprove staging", Chat::Silence),
        ("beside a command", "/aprove staging\n/approve canary", Chat::Commands(vec![approve("canary")])),
    ];
    for (name, body, wanted) in rows {
        assert_eq!(parsed(body), wanted, "{name}");
    }
    assert_eq!(parse("/aprove staging", "fleetbot", false), Chat::Silence, "the long form is asked for");
}

#[test]
fn what_is_one() {
    let bare = ChatCommand::bare;
    let rows: Vec<(&str, &str, Vec<ChatCommand>)> = vec![
        ("a stage", "/approve canary", vec![approve("canary")]),
        ("in any case", "/Approve canary", vec![approve("canary")]),
        ("blanks before", "   /approve canary", vec![approve("canary")]),
        ("blanks and tabs", "/approve \t canary  ", vec![approve("canary")]),
        ("among text", "fine by me\n/approve canary\nthanks", vec![approve("canary")]),
        ("after a quote", "> /approve prod\n\n/approve canary", vec![approve("canary")]),
        (
            "after something folded away",
            "<details>\n\n/reject a\n\n</details>\n\n/approve canary",
            vec![approve("canary")],
        ),
        ("CRLF", "hello\r\n/approve canary\r\n/status\r\n", vec![approve("canary"), bare(ChatVerb::Status)]),
        ("the long word", "/gitfleet approve canary", vec![approve("canary")]),
        ("the long word in any case", "/GitFleet Approve canary", vec![approve("canary")]),
        ("our name", "@FleetBot approve canary", vec![approve("canary")]),
        ("signs of a copy", "\u{feff}\u{200b}/approve\u{200b} canary\u{200e}", vec![approve("canary")]),
        ("a stage that nobody knows", "/approve no-such-1", vec![approve("no-such-1")]),
        ("no stage", "/approve", vec![bare(ChatVerb::Approve)]),
        ("after a closed element within another", "<p><b>x</b></p>\n\n/approve canary", vec![approve("canary")]),
        ("after a picture", "<img src=\"x.png\">\n\n/approve canary", vec![approve("canary")]),
        ("after a note of the template", "<!-- tell us -->\n\n/approve canary", vec![approve("canary")]),
        ("a type in angle brackets before", "Vec<String> is fine\n\n/approve canary", vec![approve("canary")]),
        (
            "everything",
            "/approve canary sha=ABCDEF1 placement=shop/web -- looks `good`, **really**",
            vec![ChatCommand {
                sha: Some("abcdef1".into()),
                placement: Some("shop/web".into()),
                reason: Some("looks good, really".into()),
                ..approve("canary")
            }],
        ),
        ("all", "/approve --all", vec![ChatCommand { all: true, ..bare(ChatVerb::Approve) }]),
        (
            "a fleet",
            "/reject canary fleet=web --",
            vec![ChatCommand { stage: Some("canary".into()), placement: Some("web".into()), ..bare(ChatVerb::Reject) }],
        ),
        ("pause", "/pause -- a freeze", vec![ChatCommand { reason: Some("a freeze".into()), ..bare(ChatVerb::Pause) }]),
        (
            "roll back",
            "/rollback to=1234567",
            vec![ChatCommand { to: Some("1234567".into()), ..bare(ChatVerb::Rollback) }],
        ),
        (
            "retry",
            "/retry cluster=eu-1.prod",
            vec![ChatCommand { cluster: Some("eu-1.prod".into()), ..bare(ChatVerb::Retry) }],
        ),
        ("help", "/help", vec![bare(ChatVerb::Help)]),
    ];
    for (name, body, wanted) in rows {
        assert_eq!(parsed(body), Chat::Commands(wanted), "{name}");
    }
}

#[test]
fn what_is_a_mistake() {
    let sha = |n: usize| format!("/approve canary sha={}", "a".repeat(n));
    let rows = [
        ("prose behind", "/approve canary please".to_owned(), "`please` is one word too many"),
        ("prose behind nothing", "/status now".to_owned(), "`now` is not known here"),
        ("a short commit", sha(6), "7 to 40"),
        ("a long commit", sha(41), "7 to 40"),
        ("no commit", "/approve canary sha=main123".to_owned(), "7 to 40"),
        ("an unknown key", "/approve canary confirm=1".to_owned(), "`confirm=1` is not known here"),
        ("a key of another", "/approve canary cluster=a".to_owned(), "`cluster=a` is not known here"),
        ("twice", "/retry cluster=a cluster=b".to_owned(), "given twice"),
        ("a stage in capitals", "/approve Canary".to_owned(), "no stage's name"),
        ("a word of markup", "/approve **canary**".to_owned(), "a word is no stage's name"),
        ("a mention", "/approve @org/all".to_owned(), "a word is no stage's name"),
        ("a stage and all", "/approve canary --all".to_owned(), "not both"),
        ("all of another", "/reject --all".to_owned(), "not known here"),
        ("one good, one bad", "/status\n/approve canary now".to_owned(), "one word too many"),
        ("six", "/status\n".repeat(6), "at most 5 commands; this one has 6"),
        ("our word and a slash", "/gitfleet /approve canary".to_owned(), "known are"),
        ("our word and no command", "/gitfleet".to_owned(), "known are"),
        ("our word and another command", "/gitfleet deploy".to_owned(), "known are"),
        ("turned around first", "\u{202e}/approve canary".to_owned(), "direction of reading"),
        ("turned around", "/approve canary \u{202e}".to_owned(), "direction of reading"),
    ];
    for (name, body, part) in rows {
        let chat = parsed(&body);
        assert!(is_mistake(&chat, part), "{name}: {chat:?}");
        if let Chat::Mistake(why) = chat {
            assert_eq!(parsed(&why), Chat::Silence, "{name}: what we answer commands nothing");
        }
    }
}

#[test]
fn a_mere_slash_can_be_switched_off() {
    let rows = [("/approve canary", false), ("/gitfleet approve canary", true), ("@fleetbot approve canary", true)];
    for (body, is_command) in rows {
        let wanted = if is_command { Chat::Commands(vec![approve("canary")]) } else { Chat::Silence };
        assert_eq!(parse(body, "fleetbot[bot]", false), wanted, "{body}");
    }
    assert_eq!(parse("@ approve canary", "", true), Chat::Silence, "no name of ours");
}

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => proptest::sample::select(vec![
            "/approve canary", "/reject a -- b", "/gitfleet ", "@fleetbot ", "<details>", "</details>", "<!--", "-->", "> ",
            "- ", "1. ", "```", "~~~", "    ", "\t", "# ", "`", "**", "[a](b)", "\\", "&#47;", "|--|", "\u{202e}", "\u{200b}",
        ]).prop_map(str::to_owned),
        3 => Just("\n".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => "\\PC{0,5}",
        1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn anything_can_be_read(body in hostile(), bot in "[a-z]{0,3}", short in any::<bool>()) {
        match parse(&body, &bot, short) {
            Chat::Commands(commands) => prop_assert!((1..=COMMANDS_MAX).contains(&commands.len())),
            Chat::Mistake(why) => prop_assert_eq!(parse(&why, &bot, true), Chat::Silence),
            Chat::Silence | Chat::Misspelt => {}
        }
    }

    #[test]
    fn what_is_quoted_or_code_commands_nothing(body in hostile()) {
        let lines = || body.split(['\n', '\r']);
        let quoted = lines().map(|line| format!("> {line}\n")).collect::<Vec<_>>().concat();
        prop_assert_eq!(parsed(&quoted), Chat::Silence);
        let indented = lines().map(|line| format!("    {line}\n")).collect::<Vec<_>>().concat();
        prop_assert_eq!(parsed(&indented), Chat::Silence);
        let fenced = format!("{0}\n{body}\n{0}\n", "`".repeat(200));
        prop_assert_eq!(parsed(&fenced), Chat::Silence);
    }
}
