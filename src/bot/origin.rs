//! Whose text a comment has, and whether a comment of gitfleet still has our text: pure.
//!
//! On both hosts an account with push rights may change the comments of others, and the author's name stays. Timestamps of
//! whole seconds do not show a change within the second of creation. So a text counts as its author's if the signed delivery of
//! its creation had the same text, or if the host says that it was never changed.

use jiff::Timestamp;

use super::asked::Asked;
use forge::webhook::text_digest;
use model::forge::{Comment, ForgeUser, History, Said, ThreadNumber};
use model::id::Digest;

/// The author of a comment's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The comment's author.
    Own,
    /// Somebody changed it, perhaps its author.
    Changed,
    /// Unknown.
    Unknown,
}

/// Determines the author of a comment's text. `delivered` holds the conversation and the text at creation; `history` is the
/// host's answer after the comment was read.
pub fn origin(comment: &Comment, delivered: Option<(ThreadNumber, &Said)>, history: History) -> Origin {
    let now = (comment.thread, comment.author.id, &text_digest(&comment.body));
    match (history, delivered) {
        (History::Edited, _) => Origin::Changed,
        (_, Some((thread, said))) if (thread, said.author, &said.body) != now => Origin::Changed,
        (History::Untouched, _) | (History::Untold, Some(_)) => Origin::Own,
        (History::Untold, None) => Origin::Unknown,
    }
}

/// Tells whether a comment that asks for an approval belongs to gitfleet and still has our text.
pub(crate) fn is_as_written(asked: &Asked, comment: &Comment, me: &ForgeUser) -> bool {
    (comment.author.id, comment.id, &shown_digest(&comment.body)) == (me.id, asked.comment, &asked.text)
}

/// Returns the digest of a comment's text: hosts may change line ends, and drop those at the end.
pub(crate) fn shown_digest(text: &str) -> Digest {
    text_digest(text.replace("\r\n", "\n").trim_end())
}

/// Tells whether nobody edited the comment after us: then a person who reacted saw our text. An edit within the second of our
/// writing does not show in a timestamp, so nothing from that second counts ([`was_seen`]).
pub(crate) fn is_unchanged(asked: &Asked, comment: &Comment) -> bool {
    comment.updated_at == asked.written_at()
}

/// Tells whether a reaction or review was given after the comment showed the gate.
pub(crate) fn was_seen(asked: &Asked, given_at: Timestamp) -> bool {
    given_at.as_second() > asked.at.as_second()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::PlacementKey;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(100_000 + seconds).expect("a test's instant is one")
    }

    fn comment(body: &str) -> Comment {
        Comment {
            id: 3,
            thread: 7,
            author: ForgeUser { id: 2, login: "ann".into(), is_bot: false },
            body: body.into(),
            created_at: at(0),
            updated_at: at(0),
            via_app: false,
            url: String::new(),
        }
    }

    #[test]
    fn whose_text_it_is() {
        use History::{Edited, Untold, Untouched};
        let said = |author, text| Some((7, Said { author, body: text_digest(text) }));
        let elsewhere = Some((8, Said { author: 2, body: text_digest("/approve one") }));
        for (name, delivered, history, wanted) in [
            ("the host says so", None, Untouched, Origin::Own),
            ("its delivery had it", said(2, "/approve one"), Untold, Origin::Own),
            ("both", said(2, "/approve one"), Untouched, Origin::Own),
            ("nobody says anything", None, Untold, Origin::Unknown),
            ("the host knows of a change", None, Edited, Origin::Changed),
            ("changed and changed back", said(2, "/approve one"), Edited, Origin::Changed),
            ("another text", said(2, "I will look tomorrow"), Untold, Origin::Changed),
            ("another text, and a host that missed it", said(2, "I will look tomorrow"), Untouched, Origin::Changed),
            ("another author", said(4, "/approve one"), Untold, Origin::Changed),
            ("from another conversation", elsewhere, Untold, Origin::Changed),
        ] {
            let delivered = delivered.as_ref().map(|(thread, said)| (*thread, said));
            assert_eq!(origin(&comment("/approve one"), delivered, history), wanted, "{name}");
        }
    }

    #[test]
    fn a_comment_of_ours_counts_as_long_as_it_says_what_we_wrote() {
        let me = ForgeUser { id: 2, login: "gitfleet".into(), is_bot: false };
        let asked = Asked {
            placement: PlacementKey::cluster_scoped("web"),
            stage: "canary".into(),
            digest: Digest::new("d"),
            since: at(0),
            comment: 3,
            text: shown_digest("more\nwords\n"),
            at: at(0),
            edited_at: None,
            heard: [].into(),
        };
        for text in ["more\nwords\n", "more\nwords", "more\r\nwords\r\n"] {
            assert!(is_as_written(&asked, &comment(text), &me) && is_unchanged(&asked, &comment(text)), "{text:?}");
        }
        for text in ["other\nwords", "more words", " more\nwords", "more\nwords\n\nand more"] {
            assert!(!is_as_written(&asked, &comment(text), &me), "{text:?}");
        }
        let ours = comment("more\nwords");
        assert!(!is_as_written(&asked, &Comment { id: 4, ..ours.clone() }, &me));
        assert!(!is_as_written(&asked, &ours, &ForgeUser { id: 9, ..me }));
        let touched = Comment { updated_at: at(1), ..ours };
        assert!(!is_unchanged(&asked, &touched), "and changed back");
        assert!(is_unchanged(&Asked { edited_at: Some(at(1)), ..asked.clone() }, &touched), "it was us");
        assert!(!was_seen(&asked, at(0)), "the second of its writing proves nothing");
        assert!(was_seen(&asked, at(1)));
    }
}
