//! How long a rollout took, stage by stage, over how long it takes by the simulation or took before.

use maud::{Markup, html};

use super::badge::{Colours, Tone, shortened};
use crate::comments::style::state_text;
use crate::simulation::Offset;
use model::progress::ProgressState;
use model::text::one_line;

/// Rows that are drawn; the rest is counted.
const ROWS_MAX: usize = 60;
/// Pixels that names take on the left.
const NAMES_WIDTH: usize = 130;
/// Pixels of the time axis.
const PLOT_WIDTH: usize = 420;
/// Pixels that durations take on the right.
const WORDS_WIDTH: usize = 260;
/// Pixels of a row from top to bottom.
const ROW_HEIGHT: usize = 30;
/// Pixels above the first row.
const TOP: usize = 24;
/// Marks on the axis, at most.
const TICKS_MAX: i64 = 8;
/// Seconds between two marks: the first that gives few enough.
const TICK_SECONDS: [i64; 18] =
    [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000];
/// Characters of a row's name that fit.
const NAME_CHARS: usize = 18;

/// A rollout in time. All times count from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// What is shown, in a few words.
    pub title: String,
    /// What the usual times are: "simulated", "last time".
    pub usual_words: String,
    /// What is shown in order.
    pub rows: Vec<TimelineRow>,
    /// The present; absent where the rollout is over.
    pub now: Option<Offset>,
}

/// A stage, or a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineRow {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: ProgressState,
    /// What happened, in order.
    pub spans: Vec<TimelineSpan>,
    /// What happens usually, in order, if that is known.
    pub usual: Vec<TimelineSpan>,
    /// How long it took last time, where the usual times are others.
    pub last: Option<Offset>,
}

/// A time in which one thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineSpan {
    /// It waits; else it moves.
    pub waits: bool,
    /// When it begins.
    pub from: Offset,
    /// When it ends; absent while it lasts.
    pub until: Option<Offset>,
}

/// Returns the picture: what happened as a thick bar, what is usual as a thin one beneath it; where it waits they are outlines.
pub fn timeline(view: &Timeline) -> Markup {
    let rows = &view.rows[..view.rows.len().min(ROWS_MAX)];
    let width = NAMES_WIDTH + PLOT_WIDTH + WORDS_WIDTH;
    let height = TOP + rows.len() * ROW_HEIGHT + 8;
    let scale = Scale { end: view.end() };
    html! {
        svg.picture.timeline xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="timeline-title" aria-describedby="timeline-words" width=(width)
            height=(height) viewBox=(format!("0 0 {width} {height}")) font-family="system-ui, sans-serif" font-size="12" {
            title id="timeline-title" { (one_line(&view.title)) }
            desc id="timeline-words" { (one_line(&view.words())) }
            rect.paper width=(width) height=(height) rx="8" fill="#ffffff" {}
            @for tick in scale.ticks() {
                path.rule d=(format!("M{} {TOP}V{height}", scale.x(tick))) stroke="#e3e6ea" fill="none" {}
                text.soft x=(scale.x(tick)) y="15" text-anchor="middle" font-size="11" fill="#5a6270" { (tick.text()) }
            }
            @for (number, row) in rows.iter().enumerate() { (drawn(view, row, TOP + number * ROW_HEIGHT, &scale)) }
            @if let Some(now) = view.now {
                path.line d=(format!("M{} {TOP}V{height}", scale.x(now))) stroke="#8a919c" stroke-dasharray="3 3" fill="none" {}
            }
        }
    }
}

impl Timeline {
    /// Returns the end of the axis.
    fn end(&self) -> Offset {
        let spans = self.rows.iter().flat_map(|row| row.spans.iter().chain(&row.usual));
        let ends = spans.map(|span| span.until.unwrap_or(span.from));
        ends.chain(self.now).max().unwrap_or_default().max(Offset(1000))
    }

    fn words(&self) -> String {
        let mut words: Vec<String> =
            self.rows.iter().take(ROWS_MAX).map(|row| format!("{}: {}.", row.name, row.words(self))).collect();
        if let Some(more) = self.rows.len().checked_sub(ROWS_MAX).filter(|more| *more > 0) {
            words.push(format!("{more} more."));
        }
        words.join(" ")
    }
}

impl TimelineRow {
    fn words(&self, view: &Timeline) -> String {
        [state_text(&self.state), self.durations(view, begin_words)]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Returns its duration, the usual one, and that of last time; `more` is said of the first two.
    fn durations(&self, view: &Timeline, more: impl Fn(&[TimelineSpan]) -> String) -> String {
        let lasts = if self.spans.iter().any(|span| span.until.is_none()) { " so far" } else { "" };
        let own = taken(&self.spans, view.now).map(|own| format!("{}{lasts}{}", own.text(), more(&self.spans)));
        let usual = taken(&self.usual, None);
        let usual = usual.map(|usual| format!("{} {}{}", view.usual_words, usual.text(), more(&self.usual)));
        let last = self.last.map(|last| format!("last time {}", last.text()));
        own.into_iter().chain(usual).chain(last).collect::<Vec<_>>().join(", ")
    }
}

fn begin_words(spans: &[TimelineSpan]) -> String {
    spans.first().map(|span| format!(" from {}", span.from.text())).unwrap_or_default()
}

/// Returns how long something took, or has taken until now.
pub(super) fn taken(spans: &[TimelineSpan], now: Option<Offset>) -> Option<Offset> {
    let begin = spans.first()?.from;
    let end = spans.iter().map(|span| span.until.or(now).unwrap_or(span.from)).max()?;
    Some(end.since(begin))
}

/// Turns times into places on the axis.
struct Scale {
    end: Offset,
}

impl Scale {
    fn x(&self, at: Offset) -> usize {
        let at = at.0.clamp(0, self.end.0);
        let width = i64::try_from(PLOT_WIDTH).unwrap_or_default();
        NAMES_WIDTH + usize::try_from(width * at / self.end.0).unwrap_or_default()
    }

    /// Returns where a span begins, and how wide it is: at least so wide that it is seen.
    fn place(&self, span: &TimelineSpan, now: Option<Offset>) -> (usize, usize) {
        let from = self.x(span.from);
        let until = self.x(span.until.or(now).unwrap_or(self.end));
        (from, until.saturating_sub(from).max(2))
    }

    fn ticks(&self) -> Vec<Offset> {
        let seconds = self.end.0 / 1000;
        let step = TICK_SECONDS.into_iter().find(|step| seconds / step < TICKS_MAX);
        let step = step.unwrap_or(seconds / TICKS_MAX).max(1);
        (0..=seconds / step).map(|tick| Offset(tick * step * 1000)).collect()
    }
}

fn drawn(view: &Timeline, row: &TimelineRow, y: usize, scale: &Scale) -> Markup {
    let tone = Tone::of(&row.state);
    let Colours { ink, ground } = tone.colours();

    html! {
        g class=(tone.class()) {
            title { (one_line(&row.name)) ": " (one_line(&row.words(view))) }
            text.ink x="8" y=(y + 20) font-weight="700" fill=(ink) { (tone.sign()) }
            text.plain x="24" y=(y + 20) fill="#1d2129" { (shortened(&row.name, NAME_CHARS)) }
            @for span in &row.spans {
                @let (from, width) = scale.place(span, view.now);
                @if span.waits {
                    rect.box x=(from) y=(y + 6) width=(width) height="10" rx="2" fill=(ground) stroke=(ink) stroke-dasharray="3 2" {}
                } @else {
                    rect.fill x=(from) y=(y + 6) width=(width) height="10" rx="2" fill=(ink) {}
                }
            }
            @for span in &row.usual {
                @let (from, width) = scale.place(span, view.now);
                @if span.waits {
                    rect.usual-wait x=(from) y=(y + 21) width=(width) height="4" rx="2" fill="none" stroke="#8a919c" {}
                } @else {
                    rect.usual x=(from) y=(y + 20) width=(width) height="6" rx="2" fill="#b4bbc5" {}
                }
            }
            text.soft x=(NAMES_WIDTH + PLOT_WIDTH + 12) y=(y + 20) font-size="11" fill="#5a6270" { (row.durations(view, |_| String::new())) }
        }
    }
}

#[cfg(test)]
mod tests;
