//! What a state looks like on the page, and a state as a small picture for places outside it.

use maud::{Markup, html};

use model::progress::ProgressState;
use model::text::one_line;

/// Characters of a badge's message; the rest is left out.
const BADGE_CHARS_MAX: usize = 60;

/// How a state is to be taken. Each has a sign and a colour, and stands beside words: the colour is never alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    /// As it is to be.
    Ok,
    /// Under way.
    Moving,
    /// A person must act.
    Person,
    /// It waits for time or for clusters, or somebody paused it.
    Waiting,
    /// Wrong.
    Bad,
    /// Of less interest: not begun, skipped, superseded.
    Quiet,
}

/// The colours of a tone where no style sheet applies: on a light ground.
pub(super) struct Colours {
    /// Of text and edges, readable on `ground`.
    pub(super) ink: &'static str,
    /// Of surfaces.
    pub(super) ground: &'static str,
}

impl Tone {
    /// Returns the tone of a state.
    pub fn of(state: &ProgressState) -> Self {
        match state {
            ProgressState::Done => Self::Ok,
            ProgressState::Moving => Self::Moving,
            ProgressState::WaitingForPerson => Self::Person,
            ProgressState::Waiting | ProgressState::Paused => Self::Waiting,
            ProgressState::Failed | ProgressState::Error | ProgressState::Rejected => Self::Bad,
            ProgressState::Queued
            | ProgressState::Skipped
            | ProgressState::Superseded { .. }
            | ProgressState::RolledBack { .. } => Self::Quiet,
        }
    }

    /// Returns its sign; `status` has the same ones.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Ok => "✓",
            Self::Moving => "↻",
            Self::Person => "!",
            Self::Waiting => "…",
            Self::Bad => "✗",
            Self::Quiet => "·",
        }
    }

    /// Returns its class in the style sheet, which has colours for light and dark.
    pub fn class(self) -> &'static str {
        match self {
            Self::Ok => "tone-ok",
            Self::Moving => "tone-moving",
            Self::Person => "tone-person",
            Self::Waiting => "tone-waiting",
            Self::Bad => "tone-bad",
            Self::Quiet => "tone-quiet",
        }
    }

    pub(super) fn colours(self) -> Colours {
        let (ink, ground) = match self {
            Self::Ok => ("#17663a", "#e4f4e9"),
            Self::Moving => ("#1a57a8", "#e4eefb"),
            Self::Person => ("#854a00", "#fdf0d2"),
            Self::Waiting => ("#5b4a9c", "#eeeafa"),
            Self::Bad => ("#a8211f", "#fce8e6"),
            Self::Quiet => ("#5a6270", "#f1f2f4"),
        };
        Colours { ink, ground }
    }
}

/// Returns the picture of a state: a label, and a message in the colours of a tone. It needs no style sheet, font or script, and
/// stands in READMEs, comments and dashboards.
pub fn badge(label: &str, message: &str, tone: Tone) -> Markup {
    let label = shortened(label, BADGE_CHARS_MAX);
    let message = format!("{} {}", tone.sign(), shortened(message, BADGE_CHARS_MAX));
    let left = text_width(&label) + 14;
    let right = text_width(&message) + 14;
    let width = left + right;
    let words = format!("{label}: {message}");
    let Colours { ink, ground } = tone.colours();
    html! {
        svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label=(words) width=(width) height="20"
            viewBox=(format!("0 0 {width} 20")) font-family="Verdana, DejaVu Sans, sans-serif" font-size="11" text-anchor="middle" {
            title { (words) }
            rect x="0.5" y="0.5" width=(width - 1) height="19" rx="4" fill=(ground) stroke=(ink) {}
            path d=(format!("M4.5 0.5H{left}V19.5H4.5A4 4 0 0 1 0.5 15.5V4.5A4 4 0 0 1 4.5 0.5Z")) fill=(ink) {}
            text x=(left / 2) y="14" fill="#ffffff" { (label) }
            text x=(left + right / 2) y="14" fill=(ink) { (message) }
        }
    }
}

/// Returns a text as one line of at most so many characters.
pub(super) fn shortened(text: &str, chars: usize) -> String {
    let text = one_line(text);
    if text.chars().count() <= chars {
        return text.into_owned();
    }
    text.chars().take(chars.saturating_sub(1)).chain(['…']).collect()
}

/// Estimates the width of a text of 11 pixels in Verdana, rather too wide than too narrow: whoever draws it has fonts of its own.
fn text_width(text: &str) -> usize {
    text.chars().map(tenths).sum::<usize>().div_ceil(10)
}

/// Returns the width of a character in tenths of a pixel.
fn tenths(c: char) -> usize {
    match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | '·' => 42,
        'f' | 'r' | 't' | '(' | ')' | '/' | '-' => 50,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 110,
        c if c.is_ascii_uppercase() => 82,
        c if c.is_ascii() => 70,
        _ => 110,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_badge_says_its_state_in_words_and_with_a_sign() {
        insta::assert_snapshot!(badge("web", "3 of 3 clusters", Tone::Ok).into_string());
    }

    #[test]
    fn foreign_text_stays_text_and_short() {
        let hostile = "</text><script>alert(1)</script>\u{1b}\n\u{202e}".repeat(9);
        let picture = badge(&hostile, &hostile, Tone::Bad).into_string();
        assert!(!picture.contains("<script") && !picture.contains(['\n', '\u{1b}', '\u{202e}']), "{picture}");
        assert!(picture.len() < 2000, "{}", picture.len());
    }

    #[test]
    fn every_tone_has_a_sign_and_colours_of_its_own() {
        let tones = [Tone::Ok, Tone::Moving, Tone::Person, Tone::Waiting, Tone::Bad, Tone::Quiet];
        let of =
            |what: fn(Tone) -> &'static str| tones.iter().map(|t| what(*t)).collect::<std::collections::BTreeSet<_>>();
        for count in [of(Tone::sign).len(), of(Tone::class).len(), of(|tone| tone.colours().ink).len()] {
            assert_eq!(count, tones.len());
        }
    }
}
