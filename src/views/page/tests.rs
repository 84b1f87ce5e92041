//! Pages as browsers get them, from small records.

mod grouped;
mod predicted;

use std::collections::BTreeSet;
use std::io::Write as _;

use super::act::{answer, command, question};
use super::changes::Contents;
use super::events::{EventsQuery, Listed};
use super::placement::TabContent;
use super::query::ListQuery;
use super::*;
use crate::fixtures::records;
use crate::fixtures::{Case, CaseStatus as _, at, run_at_approval, run_in_production};
use crate::fleet::{Changes, Placed};
use crate::subjects::Subjects;
use crate::tree::{Line, Style};
use model::commands::{Refusal, RefusalReason, Verb, WaitingGate};
use model::explanation::{ClusterExplanation, Explanation};
use model::forge::CommitPulls;
use model::id::{CommitId, Digest};
use model::manifest::InputError;
use model::records::{JournalEntry, SourceRecord};
use model::tree::JoinedSource;

/// A fleet in which `api` waits for a cluster that is offline, `web` waits at a gate, and `shop` moves its last stage.
fn fleet() -> FleetView {
    let clusters = ["east", "north", "south", "west"];
    let mut done = Case::healthy(&clusters);
    done.offline("west");
    done.binding("west").snapshot = Some(2);
    done.settle();
    let waiting = Case::healthy(&clusters).with_run(run_at_approval());
    let moving = Case::healthy(&clusters).with_run(run_in_production());
    let of = |case: &Case, name: &str| (PlacementKey::cluster_scoped(name), Some(records(case, name)));
    let source = SourceRecord {
        url: "https://git.example/platform/fleet".into(),
        accepted: Some(CommitId::new("1a2b3c4d5e6f")),
        accepted_at: Some(at(0)),
        approvers: Some("user:ann".into()),
        ..SourceRecord::default()
    };
    FleetView::whole(Changes {
        placements: [of(&done, "api"), of(&waiting, "web"), of(&moving, "shop")].into(),
        clusters: done.clusters.values().cloned().collect(),
        source: Some(source),
        ..Changes::default()
    })
}

fn links(source: &str, repository: &str, folder: &str) -> GitLinks {
    GitLinks { source: source.into(), repository: repository.into(), is_github: false, folder: folder.into() }
}

fn site() -> Site {
    let links = links("", "https://git.example/platform/fleet", "prod");
    let voice =
        CommandStyle { short: true, approvers: "user:ann".into(), comments_count: true, ..CommandStyle::default() };
    Site { base: "/tools".into(), links: vec![links], voice: Some(voice), commands: true }
}

/// Every commit is about the same, and means ill.
#[derive(Debug)]
struct AlwaysHostile;

impl Subjects for AlwaysHostile {
    fn subject(&self, _: &CommitId) -> Option<String> {
        Some(format!("<script>alert(1)</script>\u{202e}{}", "x".repeat(200)))
    }

    fn joined(&self, _: &CommitId) -> Vec<JoinedSource> {
        Vec::new()
    }
}

/// No pull request is known.
static NO_PULLS: BTreeMap<String, Arc<CommitPulls>> = BTreeMap::new();

/// A placement by stages, without a prediction.
const OVERVIEW: TabContent = TabContent::Overview { group: "", predicted: None };

fn visit<'a>(site: &'a Site, fleet: &'a FleetView, may_command: bool) -> Visit<'a> {
    let visitor = Visitor { name: Some("ann"), signed_in: true, may_command, form_token: "f0" };
    Visit { site, fleet, subjects: &AlwaysHostile, pulls: &NO_PULLS, now: at(600), visitor, change: "abc-1" }
}

/// Says which pull requests brought a commit of a source.
fn brought(source: &str, commit: &str, pulls: &[u64]) -> [(String, Arc<CommitPulls>); 1] {
    let pulls = CommitPulls::from([(CommitId::new(commit), pulls.iter().copied().collect())]);
    [(source.to_owned(), Arc::new(pulls))]
}

/// Breaks the lines of HTML, so that differences are short, and leaves out the versions of what pages load.
fn lines(markup: &Markup) -> String {
    let versions = regex::Regex::new(r"\?v=[0-9a-f]+").expect("an expression");
    versions.replace_all(&markup.0.replace("><", ">\n<"), "?v=VERSION").into_owned()
}

fn placed<'a>(fleet: &'a FleetView, name: &str) -> &'a Placed {
    &fleet.placements[&PlacementKey::cluster_scoped(name)]
}

#[test]
fn the_fleet_shows_what_needs_a_person_and_every_placement() {
    let (site, fleet) = (site(), fleet());
    let visit = visit(&site, &fleet, false);
    let page = super::fleet::page(&visit, &ListQuery::default());
    insta::assert_snapshot!("fleet", lines(&document(&visit, &page)));
    let text = fragment(&visit, &page).0;
    assert!(text.starts_with("<main id=\"main\""), "{text}");
    let place = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("{needle}: {text}"));
    assert!(place("Needs you") < place("id=\"placements\""), "what needs a person comes first");
    assert!(place("gitfleet approve web-3 canary --digest canary-0a1b2") > 0);
    assert!(place("/approve canary placement=web sha=1a2b3c4") > 0);
}

#[test]
fn what_is_only_paused_needs_a_person_too() {
    let mut case = Case::healthy(&["east", "west"]);
    case.binding("west").snapshot = Some(2);
    case.record.paused = Some(model::records::Pause { by: "ann".into(), at: at(9), reason: Some("a freeze".into()) });
    case.settle();
    let fleet = FleetView::whole(Changes {
        placements: [(PlacementKey::cluster_scoped("web"), Some(records(&case, "web")))].into(),
        clusters: case.clusters.values().cloned().collect(),
        ..Changes::default()
    });
    let site = site();
    for (may_command, presses) in [(false, 0), (true, 1)] {
        let visit = visit(&site, &fleet, may_command);
        let text = fragment(&visit, &super::fleet::page(&visit, &ListQuery::default())).0;
        let needs =
            text.split("Needs you").nth(1).and_then(|rest| rest.split("id=\"placements\"").next()).expect("a list");
        assert_eq!(needs.matches("<li class=\"need\"").count(), 1, "{needs}");
        assert!(needs.contains("paused by ann (a freeze)") && needs.contains("gitfleet resume web"), "{needs}");
        assert_eq!(needs.matches("act-resume").count(), presses, "{needs}");
    }
}

#[test]
fn the_fleet_is_filtered_sorted_and_paged_by_its_address() {
    let (site, fleet) = (site(), fleet());
    let visit = visit(&site, &fleet, false);
    let rows = |query: &str| -> Vec<String> {
        let text = super::fleet::page(&visit, &ListQuery::read(query)).main.0;
        text.split("<tr id=\"placement-")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(rows(""), ["web", "api", "shop"], "trouble first");
    assert_eq!(rows("sort=name"), ["api", "shop", "web"]);
    assert_eq!(rows("state=person"), ["web"]);
    assert_eq!(rows("q=SH"), ["shop"]);
    assert_eq!(rows("q=nothing"), Vec::<String>::new());
    assert_eq!(rows("trouble=1").iter().map(String::as_str).collect::<BTreeSet<_>>(), ["api", "web"].into());
}

#[test]
fn a_refused_commit_says_its_first_errors() {
    let site = site();
    let mut source =
        SourceRecord { seen: Some(CommitId::new("9ab1c2d3e4f5")), seen_at: Some(at(60)), ..SourceRecord::default() };
    source.refused = (0..7)
        .map(|line| InputError {
            path: "web.yaml".into(),
            line,
            object: None,
            field: None,
            message: "no <kind>".into(),
            hint: None,
        })
        .collect();
    let fleet = FleetView::whole(Changes { source: Some(source), ..Changes::default() });
    let page = super::fleet::page(&visit(&site, &fleet, false), &ListQuery::default());
    insta::assert_snapshot!("refused", lines(&page.main));
}

#[test]
fn a_placement_has_stages_clusters_and_tabs() {
    let (site, fleet) = (site(), fleet());
    let visit = visit(&site, &fleet, true);
    for name in ["api", "shop", "web"] {
        let page = placement::page(&visit, placed(&fleet, name), &OVERVIEW);
        insta::assert_snapshot!(format!("placement_{name}"), lines(&page.main));
    }
    let history = placement::page(&visit, placed(&fleet, "shop"), &TabContent::History);
    insta::assert_snapshot!("history", lines(&history.main));
    let diff =
        placement::page(&visit, placed(&fleet, "web"), &TabContent::Diff { from: Some(2), to: None, contents: None });
    insta::assert_snapshot!("diff", lines(&diff.main));
}

#[test]
fn lines_that_differ_are_shown_as_far_as_a_page_holds_them() {
    let (site, fleet) = (site(), fleet());
    let visit = visit(&site, &fleet, false);
    let shown = |cluster: Option<&'static str>, lines: Result<&[Line], &'static str>| {
        let contents = Some(Contents { cluster, lines });
        let page =
            placement::page(&visit, placed(&fleet, "web"), &TabContent::Diff { from: Some(2), to: None, contents });
        assert_eq!(page.follows, Follows::Nothing, "snapshots stay as they are");
        page.main.0
    };
    let line = |style, text: &str| Line::default().with(style, text);
    let few =
        [line(Style::Strong, "~ ConfigMap web/a"), line(Style::Bad, "  -a: <b>"), line(Style::Ok, "  +a: \u{202e}c")];
    let text = shown(Some("east"), Ok(&few));
    assert!(text.contains("<span class=\"removed\">  -a: &lt;b&gt;</span>\n"), "{text}");
    assert!(text.contains("<span class=\"added\">  +a: \\u{202e}c</span>") && !text.contains('\u{202e}'), "{text}");
    assert!(!text.contains("more line"), "{text}");
    let many = vec![line(Style::Ok, "  +"); 1_500];
    let text = shown(None, Ok(&many));
    assert!(text.contains("and 500 more lines: ") && text.contains("data-copy=\"gitfleet diff web\""), "{text}");
    let long = vec![line(Style::Ok, &"+".repeat(30_000)); 3];
    let text = shown(Some("east"), Ok(&long));
    assert!(text.contains("and 2 more lines: ") && text.contains("gitfleet diff web --cluster east"), "{}", text.len());
    assert!(text.len() < 60_000, "{}", text.len());
    assert!(shown(None, Err("the commit is <gone>")).contains("the commit is &lt;gone&gt;"));
    assert!(shown(None, Ok(&[])).contains("No line differs."));
}

#[test]
fn an_explanation_says_what_is_and_what_was_wanted() {
    let (site, fleet) = (site(), fleet());
    let refused = model::explanation::Refusal {
        filter: "ClusterAffinity".into(),
        subject: "label region".into(),
        observed: Some("eu".into()),
        wanted: "In [us]".into(),
    };
    let cluster = |name: &str, rejected| ClusterExplanation {
        cluster_name: name.into(),
        picked: false,
        kept: false,
        picked_at: None,
        rejected,
        scores: vec![],
        decided_score: None,
        rank: None,
        tie_break: None,
        reason: "label region is \"eu\"".into(),
    };
    let explanation = Explanation {
        wanted: "every cluster that passes".into(),
        message: "picked 1".into(),
        clusters: vec![ClusterExplanation { picked: true, ..cluster("east", None) }, cluster("west", Some(refused))],
        ..Explanation::default()
    };
    let query = ListQuery::read("q=west");
    let tab = TabContent::Explain(Ok(&explanation), &query);
    let page = placement::page(&visit(&site, &fleet, false), placed(&fleet, "web"), &tab);
    insta::assert_snapshot!("explain", lines(&page.main));
    let tab = TabContent::Explain(Err("there is no such placement"), &query);
    let page = placement::page(&visit(&site, &fleet, false), placed(&fleet, "web"), &tab);
    assert!(page.main.0.contains("there is no such placement"));
}

#[test]
fn clusters_say_what_is_on_them() {
    let (site, fleet) = (site(), fleet());
    let visit = visit(&site, &fleet, false);
    insta::assert_snapshot!("clusters", lines(&super::clusters::page(&visit, &ListQuery::read("trouble=1")).main));
    insta::assert_snapshot!("cluster", lines(&super::cluster::page(&visit, &fleet.clusters["west"]).main));
}

#[test]
fn a_commit_says_what_became_of_it() {
    let (site, fleet) = (site(), fleet());
    let found = commit::found(&fleet, "1a2b3c4").expect("it is known");
    assert_eq!(commit::found(&fleet, "1a2b3"), None, "too short");
    assert_eq!(commit::found(&fleet, "fffffff"), None);
    insta::assert_snapshot!(
        "commit",
        lines(&commit::page(&visit(&site, &fleet, false), &found, &ListQuery::default()).main)
    );
}

#[test]
fn a_commit_is_linked_with_the_pull_requests_that_brought_it() {
    let (site, fleet) = (site(), fleet());
    let found = commit::found(&fleet, "1a2b3c4").expect("it is known");
    let pulls = brought("", found.as_str(), &[7, 8, 9, 12]).into();
    let visit = Visit { pulls: &pulls, ..visit(&site, &fleet, false) };
    let web = placed(&fleet, "web");
    for page in [
        super::fleet::page(&visit, &ListQuery::default()),
        commit::page(&visit, &found, &ListQuery::default()),
        placement::page(&visit, web, &OVERVIEW),
        placement::page(&visit, web, &TabContent::History),
    ] {
        let text = &page.main.0;
        assert!(text.contains("href=\"https://git.example/platform/fleet/pulls/12\""), "{}: {text}", page.title);
        assert!(text.contains("pull request #8</a> and 1 more"), "{}: {text}", page.title);
    }
    let elsewhere = GitLinks { is_github: true, ..site.links[0].clone() };
    assert_eq!(elsewhere.pull(12), "https://git.example/platform/fleet/pull/12");
}

/// Commits join a commit of `platform`, and one of `shop` with their own first digit.
#[derive(Debug)]
struct TwoSources;

impl Subjects for TwoSources {
    fn subject(&self, _: &CommitId) -> Option<String> {
        None
    }

    fn joined(&self, commit: &CommitId) -> Vec<JoinedSource> {
        let source = |name: &str, commit: String| JoinedSource { name: name.into(), commit: CommitId::new(commit) };
        vec![
            source("platform", "a".repeat(8)),
            source("shop", commit.as_str()[..1].repeat(8)),
            source("bare", "b".repeat(8)),
        ]
    }
}

#[test]
fn commits_of_several_sources_are_linked_each_in_its_repository() {
    let (mut site, fleet) = (site(), fleet());
    site.links = vec![
        links("platform", "https://git.example/acme/platform", "."),
        links("shop", "https://git.example/acme/shop", "deploy"),
    ];
    let one = CommitId::new("1a2b3c4d5e6f");
    let other = CommitId::new("2a2b3c4d5e6f");
    // A repository that was split off another one has its commits, and not its pull requests.
    let shared = "a".repeat(8);
    let pulls = brought("shop", &shared, &[7]).into_iter().chain(brought("platform", &shared, &[9])).collect();
    let visit = Visit { subjects: &TwoSources, pulls: &pulls, ..visit(&site, &fleet, false) };
    let text = git_host::host_link(&visit, &one).0;
    assert_eq!(
        text,
        "on the git host: <a class=\"outside\" href=\"https://git.example/acme/platform/commit/aaaaaaaa\" rel=\"noreferrer\">platform</a>, \
         <a class=\"outside\" href=\"https://git.example/acme/platform/pulls/9\" rel=\"noreferrer\">pull request #9</a>, \
         <a class=\"outside\" href=\"https://git.example/acme/shop/commit/11111111\" rel=\"noreferrer\">shop</a>"
    );
    let text = git_host::compare_link(&visit, &one, &other).0;
    assert!(text.contains("https://git.example/acme/shop/compare/11111111...22222222"), "{text}");
    assert_eq!(text.matches("<a").count(), 1, "what did not change is not compared: {text}");
    let files = git_host::HostedFiles::of(&visit, &one);
    for (path, wanted) in [
        ("shop/web/a.yaml", Some("https://git.example/acme/shop/src/commit/11111111/deploy/web/a.yaml#L3")),
        ("platform/a.yaml", Some("https://git.example/acme/platform/src/commit/aaaaaaaa/a.yaml#L3")),
        ("shopping/a.yaml", None),
        ("bare/a.yaml", None),
    ] {
        assert_eq!(files.line(path, 3).as_deref(), wanted, "{path}");
    }
}

#[test]
fn events_are_sentences() {
    let (site, fleet) = (site(), fleet());
    let entry = |event: &str, placement: &str, facts| JournalEntry {
        at: at(0),
        event: event.into(),
        placement: Some(PlacementKey::cluster_scoped(placement)),
        cluster: Some("east".into()),
        facts,
    };
    let entries = vec![
        (8, entry("ClusterFailed", "web", serde_json::json!({"stage": "canary", "message": "<b>\u{202e}crash"}))),
        (7, entry("ClusterPicked", "gone", serde_json::Value::Null)),
    ];
    let query = EventsQuery::read("placement=web&trouble=1");
    assert!(query.takes(&entries[0].1) && !query.takes(&entries[1].1));
    let found = Listed { entries, next: Some(7) };
    insta::assert_snapshot!("events", lines(&super::events::page(&visit(&site, &fleet, false), &query, &found).main));
}

#[test]
fn a_command_shows_its_digest_and_what_changes_before_it_is_sent() {
    let (site, fleet) = (site(), fleet());
    let visit = visit(&site, &fleet, true);
    let fields =
        |text: &str| -> Vec<(String, String)> { form_urlencoded::parse(text.as_bytes()).into_owned().collect() };
    let approve = command(&fields("verb=approve&target=web-3&stage=canary&digest=canary-0a1b2")).expect("a command");
    let gate = WaitingGate {
        name: "web-3".into(),
        stage: "canary".into(),
        digest: Digest::new("canary-0a1b2c3d4e5f60718293"),
        clusters: vec!["west".into()],
        opens: "stage production begins (1 cluster)".into(),
        snapshot: None,
    };
    insta::assert_snapshot!("approve", lines(&question(&visit, &approve, Some(&Ok(gate))).main));
    let refusal = Refusal { reason: RefusalReason::NotWaiting, message: "no approval is pending".into() };
    let refused = question(&visit, &approve, Some(&Err(refusal))).main.0;
    assert!(refused.contains("no approval is pending") && !refused.contains("<form"), "{refused}");
    let pause = command(&fields("verb=pause&target=web")).expect("a command");
    insta::assert_snapshot!("pause", lines(&question(&visit, &pause, None).main));
    assert!(answer(&visit, &pause, &Ok("web is paused".into())).main.0.contains("web is paused"));
    assert!(answer(&visit, &pause, &Err("not now".into())).main.0.contains("refused: not now"));
    for no in ["", "verb=adopt&target=web", "verb=destroy", "verb=rollback&target=web&to=soon"] {
        assert_eq!(command(&fields(no)), None, "{no}");
    }
    assert_eq!(
        command(&fields("verb=rollback&target=web&to=2")).map(|c| (c.verb, c.to)),
        Some((Verb::Rollback, Some(2)))
    );
}

#[test]
fn nothing_foreign_becomes_markup_and_nothing_stands_inline() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u{202e}";
    let site = site();
    let mut case = Case::healthy(&["east"]);
    case.record.error = Some(hostile.into());
    case.record.paused = Some(model::records::Pause { by: hostile.into(), at: at(0), reason: Some(hostile.into()) });
    let east = case.clusters.get_mut("east").expect("it is there");
    east.labels.insert(hostile.into(), hostile.into());
    east.message = Some(hostile.into());
    let source = SourceRecord { url: hostile.into(), failure: Some(hostile.into()), ..SourceRecord::default() };
    let fleet = FleetView::whole(Changes {
        placements: [(PlacementKey::cluster_scoped("web"), Some(records(&case, "web")))].into(),
        clusters: case.clusters.values().cloned().collect(),
        source: Some(source),
        ..Changes::default()
    });
    let visit = visit(&site, &fleet, true);
    let all = [
        super::fleet::page(&visit, &ListQuery { q: hostile.into(), ..ListQuery::default() }),
        super::fleet::page(&visit, &ListQuery::default()),
        super::clusters::page(&visit, &ListQuery::default()),
        super::cluster::page(&visit, &fleet.clusters["east"]),
        placement::page(&visit, placed(&fleet, "web"), &OVERVIEW),
        sign_in::page(&site, hostile, Some(hostile)),
    ];
    for page in &all {
        let text = document(&visit, page).0;
        assert!(!text.contains("<script>") && !text.contains("<img") && !text.contains(" style="), "{text}");
        let is_form = page.follows == Follows::Nothing;
        let text = fragment(&visit, page).0;
        let turned = text.find('\u{202e}').filter(|_| !is_form).map(|at| text.chars().take(at).collect::<String>());
        assert_eq!(turned, None, "{}", page.title);
        assert!(!text.contains("onclick") && !text.contains("javascript:"), "{text}");
    }
}

#[test]
fn pictures_say_their_state() {
    let (site, fleet) = (site(), fleet());
    let visit = visit(&site, &fleet, false);
    let badge = placement::badge_picture(&visit, placed(&fleet, "web")).0;
    assert!(badge.contains("web: ") && badge.contains("waiting for a person, 4 of 4"), "{badge}");
    let graph = placement::graph_picture(&visit, placed(&fleet, "web")).expect("it has stages").0;
    for word in ["staging", "canary", "production", "approval"] {
        assert!(graph.contains(word), "{word}: {graph}");
    }
}

/// Returns bytes of a page as it is sent.
fn compressed(markup: &Markup) -> usize {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(markup.0.as_bytes()).expect("memory takes it");
    encoder.finish().expect("memory takes it").len()
}

#[test]
fn pages_of_a_large_fleet_fit_the_budget() {
    const BYTES_MAX: usize = 60 * 1024;
    let names: Vec<String> = (0..1000).map(|number| format!("cluster-eu-central-{number:04}")).collect();
    let many: Vec<&str> = names.iter().map(String::as_str).collect();
    let few = Case::healthy(&["east", "north", "south", "west"]).with_run(run_at_approval());
    let mut large = Case::healthy(&many);
    for name in many.iter().step_by(10) {
        large.offline(name);
    }
    large.settle();
    let key = |number: usize| PlacementKey::cluster_scoped(format!("placement-{number:03}"));
    let waiting = (0..100).map(|number| (key(number), Some(records(&few, &key(number).name))));
    let wide = PlacementKey::cluster_scoped("wide");
    let fleet = FleetView::whole(Changes {
        placements: waiting.chain([(wide.clone(), Some(records(&large, "wide")))]).collect(),
        clusters: large.clusters.values().cloned().collect(),
        ..Changes::default()
    });
    let (here, wanted) = (site(), &fleet.placements[&wide]);
    let seen = visit(&here, &fleet, true);
    for page in [
        super::fleet::page(&seen, &ListQuery::default()),
        super::clusters::page(&seen, &ListQuery::default()),
        placement::page(&seen, wanted, &OVERVIEW),
    ] {
        let bytes = compressed(&document(&seen, &page));
        assert!(bytes <= BYTES_MAX, "{}: {bytes} bytes", page.title);
    }
}
