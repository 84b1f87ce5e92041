//! Placements and clusters in groups, by the address alone.

use super::*;

/// The fleet with placements in two namespaces: those of `pay` are done, and one of `shop` waits at a gate.
fn with_namespaces() -> FleetView {
    let clusters = ["east", "north", "south", "west"];
    let of = |case: &Case, name: &str| {
        let mut records = records(case, "web");
        let Ok(key) = name.parse::<PlacementKey>();
        records.record.key = key.clone();
        (key, Some(records))
    };
    let (done, waiting) = (Case::healthy(&clusters), Case::healthy(&clusters).with_run(run_at_approval()));
    let mut regions: Vec<_> = fleet().clusters.values().cloned().collect();
    for cluster in &mut regions {
        let is_eu = ["east", "north"].contains(&cluster.name.as_str());
        cluster.labels.insert("region".into(), if is_eu { "eu" } else { "us" }.into());
        cluster.labels.insert("number".into(), cluster.name.to_string());
        if cluster.name.as_str() == "west" {
            cluster.labels.insert("example.org/tier".into(), "edge".into());
        }
    }
    fleet().with(Changes {
        placements: [of(&done, "pay/ledger"), of(&done, "pay/rates"), of(&waiting, "shop/cart")].into(),
        clusters: regions,
        ..Changes::default()
    })
}

/// Returns what people read of a page.
fn words(page: &HtmlPage) -> String {
    let tags = regex::Regex::new("<[^>]*>").expect("an expression");
    tags.replace_all(&page.main.0, "").into_owned()
}

fn shown(fleet: &FleetView, query: &str) -> (HtmlPage, String) {
    let site = site();
    let page = super::super::fleet::page(&visit(&site, fleet, false), &ListQuery::read(query));
    let words = words(&page);
    (page, words)
}

#[test]
fn placements_stand_in_groups_and_one_that_is_done_is_one_line() {
    let fleet = with_namespaces();
    let (page, text) = shown(&fleet, "group=namespace");
    let place = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("{needle}: {text}"));
    assert!(place("no namespace: 3 placements") < place("pay: 2 placements, ✓ all up to date"), "{text}");
    assert!(place("pay: 2 placements") < place("shop: 1 placement, ! 1 waiting for a person"), "{text}");
    let row = |name: &str| page.main.0.contains(&format!("id=\"placement-{name}\""));
    assert!(row("api") && row("shop.cart") && !row("pay.ledger") && !row("pay.rates"), "{text}");
    assert!(page.main.0.contains("href=\"/tools/?group=namespace&amp;in=pay\""), "{}", page.main.0);
    let (page, text) = shown(&fleet, "group=namespace&in=pay");
    assert!(text.contains("2 placements of 6") && text.contains("shown: namespace pay"), "{text}");
    assert!(page.main.0.contains("id=\"placement-pay.ledger\""), "what is asked for alone is open: {text}");
}

#[test]
fn every_grouping_has_its_names() {
    let fleet = with_namespaces();
    for (query, wanted) in [
        ("group=state", &["waiting for a person: 2 placements", "up to date: 2 placements, ✓ all up to date"][..]),
        ("group=strategy", &["rolling update: 3 placements", "runs of documents: 3 placements"]),
        ("group=namespace&in=gone", &["0 placements of 6"]),
        ("group=unknown&in=pay", &["6 placements"]),
        ("group=namespace&trouble=1", &["no namespace: ", "shop: 1 placement"]),
    ] {
        let (_, text) = shown(&fleet, query);
        for words in wanted {
            assert!(text.contains(words), "{query}, {words}: {text}");
        }
    }
    let alike = FleetView::whole(Changes {
        placements: [(PlacementKey::cluster_scoped("web"), Some(records(&Case::healthy(&["east"]), "web")))].into(),
        ..Changes::default()
    });
    assert!(!shown(&alike, "").1.contains("groups:"), "one group is none");
}

#[test]
fn closed_groups_take_the_place_of_a_row() {
    let case = Case::healthy(&["east"]);
    let spaces = crate::page::query::ROWS_MAX + 1;
    let placements = (0..2 * spaces).map(|number| {
        let mut records = records(&case, "web");
        records.record.key.namespace = Some(format!("team-{:03}", number / 2));
        records.record.key.name = format!("app-{number}");
        (records.record.key.clone(), Some(records))
    });
    let fleet = FleetView::whole(Changes { placements: placements.collect(), ..Changes::default() });
    let (page, text) = shown(&fleet, "group=namespace");
    assert!(text.contains("page 1 of 2") && text.contains("team-099: 2 placements"), "{text}");
    assert!(!text.contains("team-100") && !page.main.0.contains("id=\"placement-"), "{text}");
    assert!(shown(&fleet, "group=namespace&page=2").1.contains("team-100: 2 placements"));
}

#[test]
fn clusters_stand_in_groups_by_a_label() {
    let (site, fleet) = (site(), with_namespaces());
    let visit = visit(&site, &fleet, false);
    let shown = |group: &str| {
        let page = placement::page(&visit, placed(&fleet, "shop"), &TabContent::Overview { group, predicted: None });
        (words(&page), page.main.0)
    };
    let (text, html) = shown("");
    assert!(text.contains("stage canary, 2 clusters"), "{text}");
    assert!(html.contains("href=\"/tools/placements/shop?group=region\""), "{html}");
    assert!(html.contains("href=\"/tools/placements/shop?group=example.org%2Ftier\""), "{html}");
    assert!(!html.contains("?group=number"), "each cluster has another: {html}");
    assert!(!html.contains("member-name"), "and its own name: {html}");
    for (group, wanted) in [
        ("region", &["region=eu, 2 clusters", "region=us, 2 clusters"][..]),
        ("example.org/tier", &["without example.org/tier, 3 clusters", "example.org/tier=edge, 1 cluster"]),
    ] {
        let (text, _) = shown(group);
        for words in wanted {
            assert!(text.contains(words), "{group}, {words}: {text}");
        }
        assert!(!text.contains("stage canary, "), "{text}");
    }
    let (_, html) = shown("<script>");
    assert!(html.contains("&lt;script&gt;") && !html.contains("<script>"), "{html}");
}
