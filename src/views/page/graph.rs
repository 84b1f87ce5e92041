//! The stages of a rollout as a picture: gates and boxes from left to right, with what moves now and next.
//!
//! The colours stand in the picture as attributes, for readers without the page's style sheet, which has others for dark.

use maud::{Markup, html};

use super::badge::{Colours, Tone, shortened};
use crate::comments::style::state_text;
use model::progress::ProgressState;
use model::text::{lines, one_line};

/// Stages that are drawn; the rest is counted.
const STAGES_MAX: usize = 40;
/// Parts of a bar that are drawn one by one; in longer bars equal parts are one.
const BAR_PARTS_MAX: usize = 24;
/// Pixels around the picture.
const EDGE: usize = 10;
/// Pixels of the line between two things.
const GAP: usize = 16;
/// Pixels of a stage's box.
const BOX_WIDTH: usize = 164;
/// Pixels of the box of a stage that says which clusters move.
const MOVING_WIDTH: usize = 252;
/// Pixels of a box from top to bottom.
const BOX_HEIGHT: usize = 92;
/// Pixels that the names of clusters take below.
const NAMES_HEIGHT: usize = 40;
/// Pixels that a gate takes.
const GATE_WIDTH: usize = 88;
/// Pixels from a gate's middle to its corners.
const GATE_RADIUS: usize = 17;
/// Pixels that the budget takes below the boxes.
const BUDGET_HEIGHT: usize = 34;
/// Characters of a stage's name that fit.
const NAME_CHARS: usize = 16;
/// Characters of a gate's name, and of its words.
const GATE_CHARS: usize = 15;
/// Characters of a line of clusters' names.
const NAMES_CHARS: usize = 33;

/// The stages of one rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageGraph {
    /// What is rolled out, in a few words.
    pub title: String,
    /// The stages in order; a rolling update is one.
    pub stages: Vec<StageBox>,
    /// How many clusters may be unavailable; absent where nothing limits them.
    pub budget: Option<BudgetUse>,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageBox {
    /// Its name.
    pub name: String,
    /// Gates before its first cluster.
    pub before: Vec<GateMark>,
    /// Gates after its last cluster.
    pub after: Vec<GateMark>,
    /// Its state.
    pub state: ProgressState,
    /// Clusters that are done.
    pub done: usize,
    /// Clusters in all.
    pub total: usize,
    /// Clusters that may move at the same time; 0 where nothing limits them.
    pub at_once: usize,
    /// Clusters that failed.
    pub failed: usize,
    /// Clusters that may fail before the rollout halts.
    pub failures_allowed: usize,
    /// Clusters that move.
    pub now: Vec<String>,
    /// Clusters that move next, in order.
    pub next: Vec<String>,
}

/// One gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateMark {
    /// What it waits for, in a word: approval, 1h, checks.
    pub name: String,
    /// Who opened it, or for whom or what it waits.
    pub words: String,
    /// Its state: `Queued` before the rollout reaches it, `Done` when it is open.
    pub state: ProgressState,
}

/// How much of a budget is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetUse {
    /// What it counts, such as "clusters unavailable".
    pub words: String,
    /// What is used.
    pub used: usize,
    /// What is allowed.
    pub allowed: usize,
}

/// Returns the picture. It says everything in words too, for readers who do not see it.
pub fn stage_graph(view: &StageGraph) -> Markup {
    let names_height = if view.stages.iter().any(StageBox::has_names) { NAMES_HEIGHT } else { 0 };
    let mut lane = Lane { x: EDGE, height: BOX_HEIGHT + names_height, drawn: Vec::new() };
    for stage in view.stages.iter().take(STAGES_MAX) {
        stage.before.iter().for_each(|gate| lane.gate(gate));
        lane.stage(stage);
        stage.after.iter().for_each(|gate| lane.gate(gate));
    }
    let width = lane.x + EDGE;
    let boxes_end = EDGE + lane.height;
    let height = boxes_end + EDGE + view.budget.as_ref().map_or(0, |_| BUDGET_HEIGHT);
    html! {
        svg.picture.graph xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="graph-title" aria-describedby="graph-words" width=(width)
            height=(height) viewBox=(format!("0 0 {width} {height}")) font-family="system-ui, sans-serif" font-size="12" {
            title id="graph-title" { (one_line(&view.title)) }
            desc id="graph-words" { (one_line(&view.words())) }
            rect.paper width=(width) height=(height) rx="8" fill="#ffffff" {}
            @for part in &lane.drawn { (part) }
            @if let Some(budget) = &view.budget { (budget_bar(budget, boxes_end + 24)) }
        }
    }
}

impl StageGraph {
    fn words(&self) -> String {
        let mut words: Vec<String> = self.stages.iter().take(STAGES_MAX).flat_map(StageBox::sentences).collect();
        if let Some(more) = self.stages.len().checked_sub(STAGES_MAX).filter(|more| *more > 0) {
            words.push(format!("{more} more stages."));
        }
        words.extend(self.budget.as_ref().map(|budget| format!("{}.", budget.sentence())));
        words.join(" ")
    }
}

impl BudgetUse {
    fn sentence(&self) -> String {
        format!("{}: {} of {} allowed", self.words, self.used, self.allowed)
    }
}

impl StageBox {
    fn has_names(&self) -> bool {
        !self.now.is_empty() || !self.next.is_empty()
    }

    fn state_words(&self) -> String {
        if self.total == 0 { "no clusters".to_owned() } else { state_text(&self.state) }
    }

    fn sentences(&self) -> Vec<String> {
        let gate =
            |side: &str, gate: &GateMark| format!("Gate {side} {}: {}, {}.", self.name, gate.name, gate.full_words());
        let state = format!("Stage {}: {}, {} of {} clusters", self.name, self.state_words(), self.done, self.total);
        let failures = (self.failed > 0 || self.failures_allowed > 0).then(|| self.failures());
        let mut words = [Some(state), failures].into_iter().flatten().collect::<Vec<_>>().join(", ");
        for (when, names) in [("now", &self.now), ("next", &self.next)] {
            if !names.is_empty() {
                words = format!("{words}; {when} {}", fitting(names, usize::MAX));
            }
        }
        let before = self.before.iter().map(|mark| gate("before", mark));
        let after = self.after.iter().map(|mark| gate("after", mark));
        before.chain([format!("{words}.")]).chain(after).collect()
    }

    fn failures(&self) -> String {
        format!("failures {}/{}", self.failed, self.failures_allowed)
    }

    fn bar(&self, x: usize, y: usize, width: usize) -> Markup {
        let moving = self.now.len().min(self.total.saturating_sub(self.done + self.failed));
        bar(
            x,
            y,
            width,
            &[(self.done, BarPart::Done), (self.failed, BarPart::Failed), (moving, BarPart::Now)],
            self.total,
        )
    }
}

impl GateMark {
    fn full_words(&self) -> String {
        if self.words.is_empty() { state_text(&self.state) } else { self.words.clone() }
    }
}

/// What was drawn so far, from left to right.
struct Lane {
    x: usize,
    /// Of the boxes.
    height: usize,
    drawn: Vec<Markup>,
}

impl Lane {
    fn middle(&self) -> usize {
        EDGE + self.height / 2
    }

    /// Makes room for the next thing, and draws the line to it.
    fn reserve(&mut self, width: usize) -> usize {
        if self.x > EDGE {
            let from = self.x;
            let middle = self.middle();
            self.x += GAP;
            self.drawn.push(html! {
                path.line d=(format!("M{from} {middle}H{}", self.x)) stroke="#8a919c" fill="none" {}
            });
        }
        let start = self.x;
        self.x += width;
        start
    }

    fn gate(&mut self, gate: &GateMark) {
        let x = self.reserve(GATE_WIDTH) + GATE_WIDTH / 2;
        let y = self.middle();
        let r = GATE_RADIUS;
        let left = x - GATE_WIDTH / 2;
        let right = x + GATE_WIDTH / 2;
        let tone = Tone::of(&gate.state);
        let Colours { ink, ground } = tone.colours();
        self.drawn.push(html! {
            g class=(format!("gate {}", tone.class())) text-anchor="middle" {
                title { (one_line(&gate.name)) ": " (one_line(&gate.full_words())) }
                path.line d=(format!("M{left} {y}H{}M{}H{right}", x - r, format_args!("{} {y}", x + r))) stroke="#8a919c" fill="none" {}
                path.box d=(format!("M{x} {}L{} {y}L{x} {}L{} {y}Z", y - r, x + r, y + r, x - r)) fill=(ground) stroke=(ink) {}
                text.ink x=(x) y=(y + 5) font-size="14" font-weight="700" fill=(ink) { (tone.sign()) }
                text.plain x=(x) y=(y - r - 8) font-weight="600" fill="#1d2129" { (shortened(&gate.name, GATE_CHARS)) }
                text.soft x=(x) y=(y + r + 16) font-size="11" fill="#5a6270" { (shortened(&gate.full_words(), GATE_CHARS)) }
            }
        });
    }

    fn stage(&mut self, stage: &StageBox) {
        let width = if stage.has_names() { MOVING_WIDTH } else { BOX_WIDTH };
        let x = self.reserve(width);
        let height = if stage.has_names() { self.height } else { BOX_HEIGHT };
        let y = self.middle() - height / 2;
        let left = x + 12;
        let right = x + width - 12;
        let tone = Tone::of(&stage.state);
        let Colours { ink, ground } = tone.colours();
        let names = [("now", &stage.now, y + 103), ("next", &stage.next, y + 121)];
        self.drawn.push(html! {
            g class=(format!("stage {}", tone.class())) {
                title { (lines(&stage.sentences().join("\n"))) }
                rect.box x=(x) y=(y) width=(width) height=(height) rx="8" fill=(ground) stroke=(ink) {}
                text.plain x=(left) y=(y + 22) font-size="13" font-weight="600" fill="#1d2129" { (shortened(&stage.name, NAME_CHARS)) }
                text.plain x=(right) y=(y + 22) font-size="13" font-weight="600" text-anchor="end" fill="#1d2129" {
                    (stage.done) "/" (stage.total)
                }
                text.ink x=(left) y=(y + 42) fill=(ink) { (tone.sign()) " " (shortened(&stage.state_words(), NAME_CHARS + 6)) }
                (stage.bar(left, y + 52, right - left))
                @if stage.at_once > 0 {
                    text.soft x=(left) y=(y + 81) font-size="11" fill="#5a6270" { (stage.at_once) " at once" }
                }
                text.soft x=(right) y=(y + 81) font-size="11" text-anchor="end" fill="#5a6270" { (stage.failures()) }
                @for (when, clusters, at) in names {
                    @if !clusters.is_empty() {
                        text.soft x=(left) y=(at) font-size="11" fill="#5a6270" { (when) }
                        text.plain x=(left + 34) y=(at) font-size="11" fill="#1d2129" { (fitting(clusters, NAMES_CHARS)) }
                    }
                }
            }
        });
    }
}

/// What a part of a bar stands for. Their heights differ too.
#[derive(Clone, Copy)]
enum BarPart {
    Done,
    Failed,
    Now,
    Rest,
}

impl BarPart {
    /// Returns class, colour, and what is left free above it.
    fn look(self) -> (&'static str, &'static str, usize) {
        match self {
            Self::Done => ("part-done", "#2e8b57", 0),
            Self::Failed => ("part-failed", "#c9302c", 0),
            Self::Now => ("part-now", "#3b7dd8", 3),
            Self::Rest => ("part-rest", "#c3c9d1", 6),
        }
    }
}

/// Draws how much of a whole is what; what is left is still to come.
fn bar(x: usize, y: usize, width: usize, parts: &[(usize, BarPart)], total: usize) -> Markup {
    const HEIGHT: usize = 10;
    let total = total.max(1);
    let rest = total.saturating_sub(parts.iter().map(|(count, _)| count).sum());
    let mut drawn = Vec::new();
    let mut at = 0;
    for (count, part) in parts.iter().copied().chain([(rest, BarPart::Rest)]) {
        let count = count.min(total - at);
        let step = if total <= BAR_PARTS_MAX { 1 } else { count.max(1) };
        for _ in 0..count / step {
            let from = x + width * at / total;
            let to = x + width * (at + step) / total;
            at += step;
            let (class, colour, free) = part.look();
            let gap = usize::from(at < total) * 2;
            let width = to.saturating_sub(from + gap).max(1);
            drawn.push(html! { rect class=(class) x=(from) y=(y + free) width=(width) height=(HEIGHT - free) fill=(colour) {} });
        }
    }
    html! { @for part in &drawn { (part) } }
}

fn budget_bar(budget: &BudgetUse, y: usize) -> Markup {
    let is_used_up = budget.used >= budget.allowed;
    let part = if is_used_up { BarPart::Failed } else { BarPart::Now };
    let total = budget.allowed.max(budget.used);
    html! {
        g.budget {
            (bar(EDGE, y - 9, BOX_WIDTH, &[(budget.used, part)], total))
            text.plain x=(EDGE + BOX_WIDTH + 10) y=(y) fill="#1d2129" { (one_line(&budget.sentence())) }
        }
    }
}

/// Returns as many names as fit, and how many more there are; at least one.
fn fitting(names: &[String], chars: usize) -> String {
    let mut text = String::new();
    for (number, name) in names.iter().enumerate() {
        let more = format!(" +{}", names.len() - number);
        if number > 0 && text.chars().count() + name.chars().count() + 2 + more.len() > chars {
            return text + &more;
        }
        if number > 0 {
            text.push_str(", ");
        }
        text.push_str(&shortened(name, chars));
    }
    text
}

#[cfg(test)]
mod tests;
