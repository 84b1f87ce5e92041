//! What `gitfleet status` shows first: what needs a person, what is wrong with the source and clusters, and one line for each placement,
//! those in trouble first.

use jiff::Timestamp;

use super::layout::{columns, cut};
use super::summary::{Summary, tally_text};
use super::table::age;
use super::tree::{Line, PlacementRow, Span, Style};
use super::waiting::Waiting;
use decide::status::rollout::{Failure, RolloutState, StateKind};
use decide::status::work::counted;

/// Entries that need a person and are shown before everything else; `--waiting` shows all.
const WAITING_SHOWN_MAX: usize = 10;
/// Failed clusters of one placement that are named.
const CLUSTERS_SHOWN_MAX: usize = 3;

/// Returns what to show of a fleet at a moment. A line of a placement is cut at `width` columns; without a width nothing is cut.
pub fn overview(summary: &Summary, now: Timestamp, width: Option<usize>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    lines.extend(summary.complaint.iter().map(|text| Line::default().with(Style::Progressing, format!("! {text}"))));
    lines.extend(waiting_lines(summary, now));
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    lines.extend(summary.source.iter().map(|line| line.at(now)));
    lines.push(Line::default());
    lines.push(Line::default().with(Style::Muted, tally(summary)));
    let mut rows: Vec<&PlacementRow> = summary.placements.iter().collect();
    rows.sort_by_key(|row| urgency(row.state.kind()));
    let columns = Columns::of(&rows);
    for row in rows {
        let line = columns.line(row, now);
        lines.push(width.map_or_else(|| line.clone(), |width| cut(&line, width)));
        lines.extend(trouble_lines(row, now));
    }
    lines.extend(summary.unlisted_line());
    if !summary.ocm.is_empty() {
        lines.push(Line::default());
    }
    lines.extend(summary.ocm.iter().map(|line| line.at(now)));
    lines
}

fn waiting_lines(summary: &Summary, now: Timestamp) -> Vec<Line> {
    let shown = summary.waiting.iter().take(WAITING_SHOWN_MAX);
    let mut lines: Vec<Line> = shown.flat_map(Waiting::lines).map(|line| line.at(now)).collect();
    let more = summary.waiting.len().saturating_sub(WAITING_SHOWN_MAX) + summary.waiting_unlisted;
    if more > 0 {
        lines.push(Line::default().with(Style::Muted, format!("and {more} more; gitfleet get approvals")));
    }
    lines
}

fn tally(summary: &Summary) -> String {
    let count: usize = summary.states.values().sum();
    match count {
        0 => "no placements".to_owned(),
        _ => format!("{}: {}", counted(count, "placement"), tally_text(&summary.states)),
    }
}

/// Returns the place of a state: what needs somebody comes first.
fn urgency(kind: StateKind) -> u8 {
    match kind {
        StateKind::Failed => 0,
        StateKind::WaitingForPerson => 1,
        StateKind::Unreachable => 2,
        StateKind::Progressing => 3,
        StateKind::WaitingForTime => 4,
        StateKind::AtTarget => 5,
    }
}

/// Columns that the lines of placements have in common.
struct Columns {
    name: usize,
    count: usize,
    commit: usize,
    since: usize,
}

impl Columns {
    fn of(rows: &[&PlacementRow]) -> Self {
        Self {
            name: widest(rows.iter().map(|row| row.placement.to_string())),
            count: widest(rows.iter().map(|row| count(row))),
            commit: widest(rows.iter().map(|row| commit(row))),
            // As long as kubectl's ages become.
            since: "10h59m".len(),
        }
    }

    fn line(&self, row: &PlacementRow, now: Timestamp) -> Line {
        let (style, glyph, description) = row.standing(now);
        let since = row.since.map(|since| age(since, now)).unwrap_or_default();
        let Self { name, count: count_width, commit: commit_width, since: since_width } = *self;
        let line = Line::default()
            .with(Style::Strong, format!("{:name$}  ", row.placement.to_string()))
            .with(style, format!("{glyph} {:count_width$}  ", count(row)))
            .with(Style::Muted, format!("{:commit_width$}  {since:since_width$}", commit(row)));
        if row.stages.is_empty() {
            // What is wrong has lines of its own.
            let is_told = matches!(row.state, RolloutState::Failed(_) | RolloutState::Unreachable(_));
            return if is_told { line } else { line.with(style, format!("  {description}")) };
        }
        row.stages.iter().fold(line, |line, stage| {
            let (style, glyph) = &stage.state;
            let is_current = matches!(style, Style::Progressing | Style::Bad);
            let count = if is_current { format!(" {}/{}", stage.done, stage.total) } else { String::new() };
            line.with(*style, format!("  {glyph} {}{count}", stage.name))
        })
    }
}

fn widest(texts: impl Iterator<Item = String>) -> usize {
    texts.map(|text| columns(&Line::default().with(Style::Plain, text))).max().unwrap_or(0)
}

fn count(row: &PlacementRow) -> String {
    format!("{}/{}", row.up_to_date, row.clusters)
}

fn commit(row: &PlacementRow) -> String {
    row.commit.as_ref().map_or("-", |commit| commit.short()).to_owned()
}

/// Returns what is wrong with a placement, and the first clusters that failed.
fn trouble_lines(row: &PlacementRow, now: Timestamp) -> Vec<Line> {
    let failed: Vec<_> = row.below.listed().into_iter().filter(|cluster| cluster.state.0 == Style::Bad).collect();
    let mut lines = Vec::new();
    match &row.state {
        // A complaint, or a cluster's line, says it.
        RolloutState::Failed(Failure::Held(_)) => {}
        RolloutState::Failed(Failure::Clusters(_)) if !failed.is_empty() => {}
        RolloutState::Failed(failure) => lines.push(below(Style::Bad, &failure.to_string())),
        RolloutState::Unreachable(text) => {
            lines.push(below(Style::Progressing, &format!("waits for offline clusters: {text}")));
        }
        _ => {}
    }
    let complaints = row.below.complaints().map(|line| line.at(now));
    lines.extend(complaints.map(indented));
    for cluster in failed.iter().take(CLUSTERS_SHOWN_MAX) {
        let (style, glyph) = &cluster.state;
        lines.push(below(*style, &format!("{glyph} {}  {}", cluster.cluster, cluster.words.at(now))));
        lines.extend(cluster.objects.first().map(|object| indented(object.at(now))));
    }
    if let Some(more) = failed.len().checked_sub(CLUSTERS_SHOWN_MAX).filter(|more| *more > 0) {
        lines.push(below(Style::Muted, &format!("and {more} more; gitfleet status {}", row.placement)));
    }
    lines
}

fn below(style: Style, text: &str) -> Line {
    Line::default().with(style, format!("    {text}"))
}

fn indented(mut line: Line) -> Line {
    line.spans.insert(0, Span { style: Style::Plain, text: "    ".to_owned() });
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::records;
    use crate::fixtures::{Case, CaseStatus as _, at, manifest, run_at_approval, run_in_production};
    use crate::fleet::{Changes, FleetView};
    use crate::layout::{plain, screen, wrapped};
    use crate::summary::StatusPart;
    use decide::status::records::PlacementRecords;
    use model::id::PlacementKey;
    use model::records::{ApplyOutcome, SourceRecord};
    use model::runs::{RunPhase, RunRecord};

    fn source() -> SourceRecord {
        SourceRecord {
            url: "https://git.example/platform/fleet.git".into(),
            accepted: Some("1a2b3c4d5e6f".into()),
            seen: Some("1a2b3c4d5e6f".into()),
            ..SourceRecord::default()
        }
    }

    fn named(mut case: Case, name: &str) -> (PlacementKey, Option<PlacementRecords>) {
        case.settle();
        let mut records = records(&case, name);
        records.runs.clear();
        for run in case.runs.values() {
            let mut run = run.clone();
            (run.name, run.placement) = (format!("{name}-3"), PlacementKey::cluster_scoped(name));
            records.runs.insert(run);
        }
        (PlacementKey::cluster_scoped(name), Some(records))
    }

    /// Twelve placements on forty clusters; eight of them wait at a gate.
    fn forty() -> Summary {
        let clusters: Vec<String> = (1..=36).map(|number| format!("prod-{number:02}")).collect();
        let four = ["east", "north", "south", "west"];
        let all: Vec<&str> = four.into_iter().chain(clusters.iter().map(String::as_str)).collect();
        let mut placements = Vec::new();
        for name in ["api", "billing", "cart", "dns", "edge", "feed", "geo", "hub"] {
            let mut run = run_at_approval();
            let west = run.stages[2].clusters[0].clone();
            run.stages[2].clusters.extend(clusters.iter().map(|name| {
                let mut cluster = west.clone();
                cluster.name = name.as_str().into();
                cluster
            }));
            placements.push(named(Case::healthy(&all).with_run(run), name));
        }
        let mut broken = Case::healthy(&all);
        for cluster in clusters.iter().take(5) {
            broken.work(cluster).manifests[1] = manifest("b", ApplyOutcome::ManifestApplyFailed, None);
        }
        placements.push(named(broken, "shop"));
        let mut offline = Case::healthy(&all);
        offline.binding("east").snapshot = Some(2);
        offline.offline("east");
        let known = offline.clusters.values().cloned().collect();
        placements.push(named(offline, "search"));
        placements.push(named(Case::healthy(&all), "web"));
        let halted = RunRecord { phase: RunPhase::Halted, message: "too many failed".into(), ..run_in_production() };
        placements.push(named(Case::healthy(&four).with_run(halted), "infra"));
        let fleet = FleetView::whole(Changes {
            placements: placements.into_iter().collect(),
            clusters: known,
            source: Some(source()),
            ..Changes::default()
        });
        Summary::of(&fleet, at(60))
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| plain(line).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn ux1b_11_forty_clusters_and_twelve_placements() {
        let lines = overview(&forty(), at(60), Some(80));
        insta::assert_snapshot!(text(&lines), @r#"
        ! 8 placements wait for approval after stage canary of 1a2b3c4, for 30s
            api, billing, cart, dns, edge, feed, geo, hub
            opens production: 296 clusters; by anybody who may command the daemon
            gitfleet approve --commit 1a2b3c4 --stage canary

        source https://git.example/platform/fleet.git
          accepted 1a2b3c4

        12 placements: 1 up to date, 8 waiting for a person, 1 waiting for clusters, 2 failed
        infra    ✗ 4/4    1a2b3c4  60s     ✓ staging  ✓ canary  ✗ production 0/1
            run infra-3 is halted: too many failed; gitfleet retry infra-3
        shop     ✗ 35/40  1a2b3c4  60s
            ✗ prod-01  1 of 2 objects applied
                ConfigMap web/b: ManifestApplyFailed: the API server refused the object
            ✗ prod-02  1 of 2 objects applied
                ConfigMap web/b: ManifestApplyFailed: the API server refused the object
            ✗ prod-03  1 of 2 objects applied
                ConfigMap web/b: ManifestApplyFailed: the API server refused the object
            and 2 more; gitfleet status shop
        api      ! 40/40  1a2b3c4  60s     ✓ staging  ! canary 2/2  · production
        billing  ! 40/40  1a2b3c4  60s     ✓ staging  ! canary 2/2  · production
        cart     ! 40/40  1a2b3c4  60s     ✓ staging  ! canary 2/2  · production
        dns      ! 40/40  1a2b3c4  60s     ✓ staging  ! canary 2/2  · production
        edge     ! 40/40  1a2b3c4  60s     ✓ staging  ! canary 2/2  · production
        feed     ! 40/40  1a2b3c4  60s     ✓ staging  ! canary 2/2  · production
        geo      ! 40/40  1a2b3c4  60s     ✓ staging  ! canary 2/2  · production
        hub      ! 40/40  1a2b3c4  60s     ✓ staging  ! canary 2/2  · production
        search   ! 39/40  1a2b3c4  60s
            waits for offline clusters: east (connection refused)
        web      ✓ 40/40  1a2b3c4  60s
        "#);
    }

    #[test]
    fn who_is_waited_for_is_seen_on_a_small_screen() {
        let lines = overview(&forty(), at(60), Some(80));
        let shown: Vec<Line> = lines.iter().flat_map(|line| wrapped(line, 80)).collect();
        assert!(shown.iter().all(|line| columns(line) <= 80), "{}", text(&shown));
        let first = text(&screen(shown, 10));
        assert!(first.contains("8 placements wait for approval after stage canary"), "{first}");
        assert!(first.contains("gitfleet approve") && first.ends_with("more lines"), "{first}");
    }

    #[test]
    fn a_question_about_a_part_leaves_the_rest_out() {
        let shown = |part| {
            let mut summary = forty();
            summary.keep(part);
            text(&overview(&summary, at(60), None))
        };
        let waiting = shown(StatusPart::Waiting);
        assert!(waiting.contains("\napi ") && !waiting.contains("\nweb ") && !waiting.contains("\nshop "), "{waiting}");
        let failed = shown(StatusPart::Failed);
        assert!(failed.contains("\nshop ") && failed.contains("\nsearch "), "{failed}");
        assert!(!failed.contains("approve") && !failed.contains("\napi "), "{failed}");
    }
}
