//! Fuzz target: whatever is done to a comment after it was written, a command in it counts only where its author wrote it; and what
//! stands in an element of HTML is none.

use bot::origin::{Origin, origin};
use forge::webhook::text_digest;
use model::chat::Chat;
use model::chat::grammar::parse;
use model::forge::{Comment, ForgeUser, History, Said};

/// Elements whose content hosts fold away, drop or show otherwise.
const ELEMENTS: [&str; 24] = [
    "noscript",
    "title",
    "object",
    "iframe",
    "template",
    "textarea",
    "style",
    "script",
    "select",
    "math",
    "svg",
    "details",
    "audio",
    "video",
    "canvas",
    "xmp",
    "noembed",
    "noframes",
    "applet",
    "dialog",
    "p",
    "div",
    "blockquote",
    "x-y",
];
/// The author, and somebody else who may write.
const PEOPLE: [u64; 2] = [2, 3];

pub(super) fn run(input: &[u8]) {
    let [steps @ .., which] = input else { return };
    comment_with_edits(steps);

    // Hidden: opened before, and closed by nothing that is in the text itself.
    let text = String::from_utf8_lossy(steps);
    let name = ELEMENTS[usize::from(*which) % ELEMENTS.len()];
    if !text.to_ascii_lowercase().contains(&format!("</{name}")) {
        for hidden in [format!("<{name}>\n\n{text}"), format!("x <{name} a=b>\n{text}")] {
            assert!(!matches!(parse(&hidden, "gitfleet", true), Chat::Commands(_)), "{hidden:?}");
        }
    }
}

/// Plays what a host, its people and its deliveries do, a step for each byte.
fn comment_with_edits(steps: &[u8]) {
    let texts = ["hello", "/approve one", "/approve one\n", "> /approve one"];
    let at = jiff::Timestamp::UNIX_EPOCH;
    let author = ForgeUser { id: PEOPLE[0], login: "ann".into(), is_bot: false };
    let mut written = String::from(texts[0]);
    let mut comment = Comment {
        id: 1,
        thread: 7,
        author,
        body: written.clone(),
        created_at: at,
        updated_at: at,
        via_app: false,
        url: String::new(),
    };
    let mut touched = false;
    let mut delivered: Option<(u64, Said)> = None;
    for step in steps {
        let text = texts[usize::from(step >> 3) % texts.len()];
        match step % 6 {
            // Written again, as another comment.
            0 => {
                text.clone_into(&mut written);
                text.clone_into(&mut comment.body);
                (touched, delivered) = (false, None);
                comment.id += 1;
            }
            // Changed, by whomever, within the same second.
            1 | 2 => {
                touched |= comment.body != text;
                text.clone_into(&mut comment.body);
            }
            // Its delivery comes; only the first counts.
            3 => {
                let said = Said { author: PEOPLE[0], body: text_digest(&written) };
                delivered.get_or_insert((7, said));
            }
            // It is read: by a host that tells, or by one that does not.
            step => {
                let told = if touched { History::Edited } else { History::Untouched };
                let history = if step == 4 { told } else { History::Untold };
                let vouched = delivered.as_ref().map(|(thread, said)| (*thread, said));
                match origin(&comment, vouched, history) {
                    Origin::Own => assert_eq!(comment.body, written, "a text that its author did not write"),
                    Origin::Changed => assert!(touched, "a text that nobody touched"),
                    Origin::Unknown => assert!(vouched.is_none() && history == History::Untold),
                }
            }
        }
    }
}
