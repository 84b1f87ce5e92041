//! What all pages have in common.

use maud::{DOCTYPE, Markup, html};

use super::assets::address;
use super::{Follows, HtmlPage, Section, Visit};

/// Seconds after which a browser without script loads a page again.
const REFRESH_SECONDS: u32 = 30;
/// What keys do, for whoever asks with `?`.
const KEYS: [(&str, &str); 9] = [
    ("/", "search"),
    ("j, k", "next row, row before"),
    ("Enter", "open the row"),
    ("g then f, p", "fleet, its placements"),
    ("g then c", "clusters"),
    ("g then e", "events"),
    (".", "only trouble"),
    ("y", "copy the first command"),
    ("?", "these keys"),
];

/// Returns the content of a page alone.
pub fn fragment(visit: &Visit, page: &HtmlPage) -> Markup {
    html! { main #main tabindex="-1" data-title=(title(page)) data-version=(visit.change) { (page.main) } }
}

fn title(page: &HtmlPage) -> String {
    format!("{} · gitfleet", page.title)
}

/// Returns a whole page.
pub fn document(visit: &Visit, page: &HtmlPage) -> Markup {
    let base = &visit.site.base;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title(page)) }
                link rel="stylesheet" href=(address(base, "page.css"));
                link rel="icon" href=(format!("{base}/assets/icon.svg"));
                @if page.follows != Follows::Nothing { noscript { meta http-equiv="refresh" content=(REFRESH_SECONDS); } }
                script src=(address(base, "morph.js")) defer {}
                script src=(address(base, "page.js")) defer {}
            }
            body data-stream=[stream(visit, page)] {
                a.skip href="#main" { "Skip to the content" }
                header {
                    (navigation(visit, page))
                    (search(visit, page))
                    @if page.follows != Follows::Nothing {
                        p #connection role="status" { "live" }
                        button #pause type="button" aria-pressed="false" { "Pause updates" }
                    }
                    button #help type="button" { "Keys" }
                    (person(visit))
                }
                (fragment(visit, page))
                div #announce aria-live="polite" class="visually-hidden" {}
                (keys())
            }
        }
    }
}

/// Returns where changes of what a page shows are followed, from the last one on that it shows; `None` for one that stays as it is.
fn stream(visit: &Visit, page: &HtmlPage) -> Option<String> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("only", "summary").append_pair("after", visit.change);
    match &page.follows {
        Follows::Nothing => return None,
        Follows::Fleet => {}
        Follows::Placement(placement) => drop(query.append_pair("placement", &placement.to_string())),
    }
    Some(format!("{}/api/v1/stream?{}", visit.site.base, query.finish()))
}

fn navigation(visit: &Visit, page: &HtmlPage) -> Markup {
    let base = &visit.site.base;
    let links = [
        (Section::Fleet, "fleet", "f", format!("{base}/")),
        (Section::None, "placements", "p", format!("{base}/#placements")),
        (Section::Clusters, "clusters", "c", format!("{base}/clusters")),
        (Section::Events, "events", "e", format!("{base}/events")),
    ];
    html! {
        nav #pages aria-label="Pages" {
            a.home href=(format!("{base}/")) { "gitfleet" }
            @for (section, name, key, href) in links {
                " " a href=(href) data-key=(key) aria-current=[(section == page.section && section != Section::None).then_some("page")] { (name) }
            }
        }
    }
}

/// Searches the list that the page belongs to.
fn search(visit: &Visit, page: &HtmlPage) -> Markup {
    let (path, what) = match page.section {
        Section::Clusters => ("/clusters", "clusters"),
        Section::Events => ("/events", "events of a placement"),
        Section::Fleet | Section::None => ("/", "placements"),
    };
    let label = format!("Search {what}");
    html! {
        form role="search" action=(format!("{}{path}", visit.site.base)) method="get" {
            label.visually-hidden for="search" { (label) }
            input #search type="search" name="q" value=(page.searched) placeholder=(label) autocomplete="off";
            button type="submit" { "Search" }
        }
    }
}

fn person(visit: &Visit) -> Markup {
    let base = &visit.site.base;
    let visitor = &visit.visitor;
    html! {
        @if let Some(name) = visitor.name {
            div.person {
                span { (name) }
                @if visitor.signed_in {
                    form method="post" action=(format!("{base}/sign-out")) {
                        input type="hidden" name="form" value=(visitor.form_token);
                        button type="submit" { "Sign out" }
                    }
                }
            }
        } @else if visit.site.commands {
            a.person href=(format!("{base}/sign-in")) { "Sign in" }
        }
    }
}

fn keys() -> Markup {
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keys" }
            dl {
                @for (key, what) in KEYS { dt { kbd { (key) } } dd { (what) } }
            }
            p { label { input #keys-on type="checkbox" checked; " single keys do this" } }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}
