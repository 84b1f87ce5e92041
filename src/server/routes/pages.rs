//! The paths of the page.

use axum::routing::on;

use super::{Caller, Limit, Method, NONE, Route};
use crate::commands::COMMAND_BYTES_MAX;
use crate::page;
use crate::page::EVENTS_PAGE_SEARCHED_MAX;
use views::page::query::ROWS_MAX;

/// What the daemon answers to people's browsers; nothing of it where `http.page` is off.
pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: page::PAGE_PATH,
        caller: Caller::Visitor,
        parameters: "`q`: placements whose name holds it; `state`: `failed`, `person`, `offline`, `paused`, `moving`, `waiting` or `done`; `trouble=1`; \
                     `sort`: `trouble`, `name` or `age`; `group`: `namespace`, `strategy` or `state`, and `in`: only the group of this name; `page`",
        answer: "HTML: how the fleet stands, what waits for a person, and placements by stages; with the header `Gitfleet-Fragment` only what \
                 changes",
        limit: Some(Limit::Items(ROWS_MAX)),
        in_turn: false,
        handler: |method| on(method, page::fleet),
    },
    Route {
        method: Method::Get,
        path: page::PAGE_PLACEMENT_PATH,
        caller: Caller::Visitor,
        parameters: "`name` in the path: `NAME` or `NAMESPACE/NAME`, or with `/graph.svg` its picture; `tab`: `diff` (with `from` and `to`; with `lines=1` the lines that differ, and with `cluster` those on it), `explain`, \
                     `events` or `history`; without it `group`: the key of the label by which clusters are grouped",
        answer: "HTML: one placement; or its stages as SVG",
        limit: None,
        in_turn: false,
        handler: |method| on(method, page::placement),
    },
    Route {
        method: Method::Get,
        path: page::PAGE_CLUSTERS_PATH,
        caller: Caller::Visitor,
        parameters: "`q`: clusters whose name or labels hold it; `state`: `online`, `offline`, `suspended`, `no-access` or `left`; `trouble`; `sort`; \
                     `page`",
        answer: "HTML: clusters",
        limit: Some(Limit::Items(ROWS_MAX)),
        in_turn: false,
        handler: |method| on(method, page::clusters),
    },
    Route {
        method: Method::Get,
        path: page::PAGE_CLUSTER_PATH,
        caller: Caller::Visitor,
        parameters: NONE,
        answer: "HTML: one cluster, and what is on it",
        limit: None,
        in_turn: false,
        handler: |method| on(method, page::cluster),
    },
    Route {
        method: Method::Get,
        path: page::PAGE_COMMIT_PATH,
        caller: Caller::Visitor,
        parameters: "`commit` in the path: at least 7 characters",
        answer: "HTML: what became of a commit",
        limit: Some(Limit::Items(ROWS_MAX)),
        in_turn: false,
        handler: |method| on(method, page::commit),
    },
    Route {
        method: Method::Get,
        path: page::PAGE_EVENTS_PATH,
        caller: Caller::Visitor,
        parameters: "`placement`, `cluster`, `trouble=1`: only those; `before`: only entries with a smaller number",
        answer: "HTML: entries of the journal, newest first",
        limit: Some(Limit::Entries(EVENTS_PAGE_SEARCHED_MAX)),
        in_turn: false,
        handler: |method| on(method, page::events),
    },
    Route {
        method: Method::Get,
        path: page::BADGE_PATH,
        caller: Caller::Visitor,
        parameters: "`name` in the path: `NAME.svg` or `NAMESPACE/NAME.svg`",
        answer: "SVG: the state of a placement in a word",
        limit: None,
        in_turn: false,
        handler: |method| on(method, page::badge),
    },
    Route {
        method: Method::Get,
        path: page::ACT_PATH,
        caller: Caller::Visitor,
        parameters: "a command: `verb`, `target`, `stage`, `digest`, `to`",
        answer: "HTML: what the command would do, and a form that sends it; 403 for whoever may not command",
        limit: None,
        in_turn: false,
        handler: |method| on(method, page::ask),
    },
    Route {
        method: Method::Post,
        path: page::ACT_PATH,
        caller: Caller::Visitor,
        parameters: "the fields of that form",
        answer: "HTML: what was done, or why not",
        limit: Some(Limit::Body(COMMAND_BYTES_MAX)),
        in_turn: false,
        handler: |method| on(method, page::act),
    },
    Route {
        method: Method::Post,
        path: page::SIGN_OUT_PATH,
        caller: Caller::Visitor,
        parameters: "the form of the page",
        answer: "303 to the fleet, without the session",
        limit: Some(Limit::Body(COMMAND_BYTES_MAX)),
        in_turn: false,
        handler: |method| on(method, page::sign_out),
    },
    Route {
        method: Method::Get,
        path: page::SIGN_IN_PATH,
        caller: Caller::Guest,
        parameters: "`to`: where to go after that",
        answer: "HTML: a form for a token",
        limit: None,
        in_turn: false,
        handler: |method| on(method, page::sign_in_form),
    },
    Route {
        method: Method::Post,
        path: page::SIGN_IN_PATH,
        caller: Caller::Guest,
        parameters: "`token`, `to`",
        answer: "303 with the cookie of a session; 403 where the token is not known",
        limit: Some(Limit::Body(COMMAND_BYTES_MAX)),
        in_turn: false,
        handler: |method| on(method, page::sign_in),
    },
    Route {
        method: Method::Get,
        path: page::ASSET_PATH,
        caller: Caller::Guest,
        parameters: "`v`: the version, with which browsers may keep the file",
        answer: "the style sheet, the scripts and the icon of the page",
        limit: None,
        in_turn: false,
        handler: |method| on(method, page::asset),
    },
];
