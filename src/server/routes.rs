//! Every path that the daemon answers, with who may ask. The router is made from this table, and `docs/reference/http-api.md` too.

use std::fmt;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use axum::middleware::{from_fn, from_fn_with_state, map_request};
use axum::routing::{MethodFilter, MethodRouter, on};

use super::api::{
    BINDINGS_PATH, CLUSTERS_PATH, EVENTS_PATH, EVENTS_SEARCHED_MAX, PLACEMENT_PATH, PLACEMENTS_PATH, SUMMARY_PATH,
    WORKS_PATH,
};
use super::backup::BACKUP_PATH;
use super::commands::{COMMAND_BYTES_MAX, COMMANDS_PATH, PREVIEW_PATH};
use super::getparams::{GETPARAMS_PATH, QUESTION_BYTES_MAX};
use super::journal::{JOURNAL_PAGE, JOURNAL_PATH};
use super::pushes::{PROPERTIES_PATH, PUSH_BYTES_MAX, SCORES_PATH};
use super::stream::{STREAM_PATH, STREAM_TIME};
use super::webhooks::{GITEA_PATH, GITHUB_PATH};
use super::{
    CHANGES_PATH, CHANGES_WAIT, EXPLAIN_PATH, RECORDS_PATH, Shared, access, api, backup, commands, getparams, journal,
    page, pushes, stream, turns, webhooks,
};
use forge::webhook::BODY_BYTES_MAX;
use views::lists::PAGE_ITEMS_MAX;

mod pages;

/// How a route is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`: nothing changes.
    Get,
    /// `POST`: something is sent.
    Post,
    /// `PUT`: something takes the place of what is there.
    Put,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
        })
    }
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Everybody, by any name of the daemon: probes know neither name nor token.
    Anybody,
    /// Everybody, by one of the daemon's names.
    Guest,
    /// Who may see the page.
    Visitor,
    /// Who may read.
    Reader,
    /// Who may send commands.
    Commander,
    /// Argo CD's plugin generator.
    Plugin,
    /// A machine that pushes scores and properties of clusters.
    Pusher,
    /// The git host, which signs what it sends.
    GitHost,
}

impl Caller {
    /// Every caller, in the order of the reference page.
    pub const ALL: [Self; 8] = [
        Self::Anybody,
        Self::Guest,
        Self::Visitor,
        Self::Reader,
        Self::Commander,
        Self::Plugin,
        Self::Pusher,
        Self::GitHost,
    ];

    /// Returns its name, and what it must show.
    pub fn description(self) -> (&'static str, &'static str) {
        match self {
            Self::Anybody => ("anybody", "Nothing."),
            Self::Guest => ("guest", "Nothing, and asks by a name that the daemon answers to."),
            Self::Visitor => (
                "visitor",
                "What a reader shows, a session that was opened at `/sign-in`, or the word of the proxy of `http.proxy`. A browser \
                 without any is led to `/sign-in`, and back.",
            ),
            Self::Reader => (
                "reader",
                "A token of `http.readTokens` or `http.tokens`; without any of the latter, the one in the store's folder; or what a \
                 visitor shows. Nothing where `http.read` is `open`, which is the default of a daemon that only its own machine reaches.",
            ),
            Self::Commander => (
                "commander",
                "A token of `http.tokens`; without any, the one in the store's folder. `may` and `placements` of the token say \
                 which commands it is for.",
            ),
            Self::Plugin => ("plugin", "The token of `decisions.tokenFile`, or one of a commander."),
            Self::Pusher => {
                ("pusher", "A token of `http.pushTokens`. It is for nothing else, and no other token is for this.")
            }
            Self::GitHost => ("git host", "A signature made with a secret of `forge.webhookSecretFile`."),
        }
    }
}

/// A limit of one route.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// Bytes of the body.
    Body(usize),
    /// Entries of the journal that one answer searches.
    Entries(usize),
    /// Items of one answer.
    Items(usize),
    /// How long the answer lasts.
    Lasts(Duration),
    /// How long the answer waits for something new.
    Wait(Duration),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(bytes) => write!(f, "a body of {} KiB", bytes / 1024),
            Self::Entries(count) => write!(f, "one answer searches {count} entries"),
            Self::Items(count) => write!(f, "a page has at most {count} items"),
            Self::Lasts(time) => write!(f, "lasts {} s", time.as_secs()),
            Self::Wait(time) => write!(f, "waits for {} s", time.as_secs()),
        }
    }
}

/// A path that the daemon answers.
pub struct Route {
    /// How it is asked.
    pub method: Method,
    /// Where.
    pub path: &'static str,
    /// By whom.
    pub caller: Caller,
    /// What is sent with it.
    pub parameters: &'static str,
    /// What is answered.
    pub answer: &'static str,
    /// How much of it there may be.
    pub limit: Option<Limit>,
    /// The size of the answer depends on the fleet: only some are made at a time.
    pub in_turn: bool,
    handler: fn(MethodFilter) -> MethodRouter<Shared>,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl Route {
    fn served(&self) -> MethodRouter<Shared> {
        (self.handler)(match self.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
        })
    }
}

const NONE: &str = "none";

/// Returns everything that the daemon answers.
pub fn routes() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().chain(pages::ROUTES)
}

/// What the daemon answers to machines.
const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/healthz",
        caller: Caller::Anybody,
        parameters: NONE,
        answer: "200 with `ok`, and a line for each part that ended by an error and was started again",
        limit: None,
        in_turn: false,
        handler: |method| on(method, super::healthy),
    },
    Route {
        method: Method::Get,
        path: "/readyz",
        caller: Caller::Anybody,
        parameters: NONE,
        answer: "200 with `ok` once the source was read and no part is missing that everybody needs; else 503 with the reason",
        limit: None,
        in_turn: false,
        handler: |method| on(method, super::ready),
    },
    Route {
        method: Method::Get,
        path: "/metrics",
        caller: Caller::Reader,
        parameters: NONE,
        answer: "the [metrics](metrics.md) in the OpenMetrics text format",
        limit: None,
        in_turn: false,
        handler: |method| on(method, super::metrics),
    },
    Route {
        method: Method::Get,
        path: SUMMARY_PATH,
        caller: Caller::Reader,
        parameters: NONE,
        answer: "what `gitfleet status` shows: what people are `waiting` for, the oldest first, `standing` and `states` of placements, `source`, `placements` with what is below each of them, and how many are `unlisted`",
        limit: None,
        in_turn: false,
        handler: |method| on(method, api::summary),
    },
    Route {
        method: Method::Get,
        path: PLACEMENTS_PATH,
        caller: Caller::Reader,
        parameters: "`name`, `namespace`, `state`, `cluster`: only those; `sort`: `name`, `state` or `age`; `limit`; `continue`",
        answer: "`items`, each with what `get placements` prints and its `rollout`; `continue`, to ask with for more, where there is more",
        limit: Some(Limit::Items(PAGE_ITEMS_MAX)),
        in_turn: false,
        handler: |method| on(method, api::placements),
    },
    Route {
        method: Method::Get,
        path: PLACEMENT_PATH,
        caller: Caller::Reader,
        parameters: "`name` in the path: `NAME` or `NAMESPACE/NAME`",
        answer: "its `object` with all conditions, its `rollout`, `stages` of the run that moves it, `clusters` by state, and those `unhealthy`; 404 where there is none",
        limit: None,
        in_turn: false,
        handler: |method| on(method, api::placement),
    },
    Route {
        method: Method::Get,
        path: CLUSTERS_PATH,
        caller: Caller::Reader,
        parameters: "`name`, `online`: only those; `limit`; `continue`",
        answer: "`items`, each with what `get clusters` prints; `continue`",
        limit: Some(Limit::Items(PAGE_ITEMS_MAX)),
        in_turn: false,
        handler: |method| on(method, api::clusters),
    },
    Route {
        method: Method::Get,
        path: BINDINGS_PATH,
        caller: Caller::Reader,
        parameters: "`placement`, `cluster`, `name`: only those; `limit`; `continue`",
        answer: "`items`, each with what `get bindings` prints; `continue`; 404 where there is no such placement or cluster",
        limit: Some(Limit::Items(PAGE_ITEMS_MAX)),
        in_turn: false,
        handler: |method| on(method, api::bindings),
    },
    Route {
        method: Method::Get,
        path: WORKS_PATH,
        caller: Caller::Reader,
        parameters: "`placement`, `cluster`, `name`, `namespace`: only those; `limit`; `continue`",
        answer: "`items`, each with what `get works` prints; `continue`; 404 where there is no such placement or cluster",
        limit: Some(Limit::Items(PAGE_ITEMS_MAX)),
        in_turn: false,
        handler: |method| on(method, api::works),
    },
    Route {
        method: Method::Get,
        path: EVENTS_PATH,
        caller: Caller::Reader,
        parameters: "`after`: only entries with a higher number; `placement`, `cluster`: only theirs; `limit`; `continue`",
        answer: "`items`: [entries](journal.md) with their `number`, oldest first; `continue`",
        limit: Some(Limit::Entries(EVENTS_SEARCHED_MAX)),
        in_turn: false,
        handler: |method| on(method, api::events),
    },
    Route {
        method: Method::Get,
        path: STREAM_PATH,
        caller: Caller::Reader,
        parameters: "the header `Last-Event-ID`, or `after`: the id of the event to continue after; `only=summary`: only that event; with \
                     that `placement`: only changes of this one",
        answer: "server-sent events: `placement` and `cluster` with an item of the lists above, `removed`, and `summary` with the totals, \
                 which ends each step and carries its id; without an id that is known `reset` first, and then everything",
        limit: Some(Limit::Lasts(STREAM_TIME)),
        in_turn: false,
        handler: |method| on(method, stream::follow),
    },
    Route {
        method: Method::Get,
        path: RECORDS_PATH,
        caller: Caller::Reader,
        parameters: "`prefix`, also several times: only records whose key begins with one of them",
        answer: "`version`, and `records` as pairs of key and record; what the bot keeps of the git host, and files of commits that the branch dropped, are left out",
        limit: None,
        in_turn: true,
        handler: |method| on(method, super::records::records),
    },
    Route {
        method: Method::Get,
        path: CHANGES_PATH,
        caller: Caller::Reader,
        parameters: "`after`: the version that the caller has",
        answer: "`version`, as soon as it is newer than `after`",
        limit: Some(Limit::Wait(CHANGES_WAIT)),
        in_turn: false,
        handler: |method| on(method, super::changes),
    },
    Route {
        method: Method::Get,
        path: EXPLAIN_PATH,
        caller: Caller::Reader,
        parameters: "`placement`: `NAME` or `NAMESPACE/NAME`; `kind`, where the name alone could mean two",
        answer: "why each cluster was picked or not, as `gitfleet explain -o json` prints it; 404 with the reason where there is no \
                 such placement",
        limit: None,
        in_turn: true,
        handler: |method| on(method, super::explain),
    },
    Route {
        method: Method::Get,
        path: JOURNAL_PATH,
        caller: Caller::Reader,
        parameters: "`placement`: only its entries; `after`: only entries with a higher number",
        answer: "`entries` as pairs of number and [entry](journal.md), oldest first; `next`, the number to ask with for more, where \
                 there is more",
        limit: Some(Limit::Entries(JOURNAL_PAGE)),
        in_turn: true,
        handler: |method| on(method, journal::read),
    },
    Route {
        method: Method::Get,
        path: BACKUP_PATH,
        caller: Caller::Commander,
        parameters: NONE,
        answer: "`backup`: everything the store holds, as `gitfleet store backup` writes it",
        limit: None,
        in_turn: true,
        handler: |method| on(method, backup::read),
    },
    Route {
        method: Method::Post,
        path: COMMANDS_PATH,
        caller: Caller::Commander,
        parameters: "a command as JSON: `verb`, `target`, and where they apply `stage`, `to`, `toCommit`, `digest`, \
                     `reason`, `message`",
        answer: "what was done; else `reason` and `message`: 403 not allowed, 404 not found, 409 the gate changed or waits no more, or it is so already, 422 \
                 not possible",
        limit: Some(Limit::Body(COMMAND_BYTES_MAX)),
        in_turn: false,
        handler: |method| on(method, commands::execute),
    },
    Route {
        method: Method::Post,
        path: PREVIEW_PATH,
        caller: Caller::Commander,
        parameters: "the command that is to be sent",
        answer: "what an approval would open, with its digest; nothing changes",
        limit: Some(Limit::Body(COMMAND_BYTES_MAX)),
        in_turn: false,
        handler: |method| on(method, commands::preview),
    },
    Route {
        method: Method::Post,
        path: GETPARAMS_PATH,
        caller: Caller::Plugin,
        parameters: "as Argo CD sends it: `input.parameters` with `placement`, and where the name alone could mean two `kind` and \
                     `namespace`",
        answer: "`output.parameters`: one object for each decided cluster; what is not known for sure is an error, because Argo CD \
                 deletes Applications on an empty answer",
        limit: Some(Limit::Body(QUESTION_BYTES_MAX)),
        in_turn: false,
        handler: |method| on(method, getparams::execute),
    },
    Route {
        method: Method::Put,
        path: SCORES_PATH,
        caller: Caller::Pusher,
        parameters: "`scores`: a list of `resourceName`, `scoreName` and `value`, as `scoreCoordinate.addOn` of OCM Placements names \
                     them; `validUntil`, after which they have expired. All of it takes the place of what the same token pushed",
        answer: "204 once it is stored; else `reason` and `message`: 404 no such cluster, 422 not possible",
        limit: Some(Limit::Body(PUSH_BYTES_MAX)),
        in_turn: false,
        handler: |method| on(method, pushes::scores),
    },
    Route {
        method: Method::Put,
        path: PROPERTIES_PATH,
        caller: Caller::Pusher,
        parameters: "`properties`: a map of name to quantity; `validUntil`, from which on they are not there. All of it takes the place of \
                     what the same token pushed",
        answer: "as for scores",
        limit: Some(Limit::Body(PUSH_BYTES_MAX)),
        in_turn: false,
        handler: |method| on(method, pushes::properties),
    },
    Route {
        method: Method::Post,
        path: GITEA_PATH,
        caller: Caller::GitHost,
        parameters: "a delivery of Gitea or Forgejo",
        answer: "202 with no body; 401 unsigned, 404 of another host or repository",
        limit: Some(Limit::Body(BODY_BYTES_MAX)),
        in_turn: false,
        handler: |method| on(method, webhooks::gitea),
    },
    Route {
        method: Method::Post,
        path: GITHUB_PATH,
        caller: Caller::GitHost,
        parameters: "a delivery of GitHub",
        answer: "202 with no body; 401 unsigned, 404 of another host or repository",
        limit: Some(Limit::Body(BODY_BYTES_MAX)),
        in_turn: false,
        handler: |method| on(method, webhooks::github),
    },
];

/// Returns what is served at `http.listen`: everything, webhooks too unless they have an address of their own.
pub fn router(shared: Shared, with_webhooks: bool) -> Router {
    let routes = |wanted: fn(&Route) -> bool| {
        let wanted = routes().filter(|route| wanted(route));
        wanted.fold(Router::new(), |router, route| router.route(route.path, route.served()))
    };
    // A layer covers the routes that are there when it comes, and one that is added later is passed earlier: the daemon's name,
    // then the token, then the turn. So nobody without a token takes a turn.
    let in_turn = routes(|route| route.in_turn).route_layer(from_fn_with_state(shared.clone(), turns::in_turn));
    let pages = routes(|route| route.caller == Caller::Visitor)
        .route_layer(from_fn_with_state(shared.clone(), page::may_visit))
        .merge(routes(|route| route.caller == Caller::Guest).route_layer(from_fn(page::anybody)));
    let guarded = in_turn
        .merge(routes(|route| route.caller == Caller::Reader && !route.in_turn))
        .route_layer(from_fn_with_state(shared.clone(), access::may_read))
        // These ask for their own token, before a byte of the body is read.
        .merge(routes(|route| {
            matches!(route.caller, Caller::Commander | Caller::Plugin | Caller::Pusher) && !route.in_turn
        }))
        .merge(if shared.page.is_some() { pages } else { Router::new() })
        .route_layer(from_fn_with_state(shared.clone(), access::names_us));
    let all = routes(|route| route.caller == Caller::Anybody).merge(guarded).with_state(shared.clone());
    let base = shared.page.as_ref().map(|page| page.site.base.clone()).unwrap_or_default();
    below(base, if with_webhooks { all.merge(webhook_router(shared)) } else { all })
}

/// Answers below a base path as without it: a proxy may take it away, or not.
fn below(base: String, router: Router) -> Router {
    if base.is_empty() {
        return router;
    }
    // Before the router: a path is chosen by what is left.
    let without = map_request(move |request: Request| std::future::ready(without_base(&base, request)));
    Router::new().fallback_service(router).layer(without)
}

fn without_base(base: &str, mut request: Request) -> Request {
    let whole = request.uri().path_and_query().map(PathAndQuery::as_str).unwrap_or_default();
    let rest = whole.strip_prefix(base).filter(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
    let rest = rest.map(|rest| if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") });
    if let Some(uri) = rest.and_then(|rest| rest.parse().ok()) {
        *request.uri_mut() = uri;
    }
    request
}

/// Returns what is served at `http.webhookListen`: deliveries of the git host, which are signed.
pub fn webhook_router(shared: Shared) -> Router {
    let of_hosts = routes().filter(|route| route.caller == Caller::GitHost);
    of_hosts.fold(Router::new(), |router, route| router.route(route.path, route.served())).with_state(shared)
}
