//! The form where people show their token.

use maud::html;

use super::{HtmlPage, Site};

/// Returns the page. `to` is where the visitor wanted to go, below the base path.
pub fn page(site: &Site, to: &str, problem: Option<&str>) -> HtmlPage {
    let main = html! {
        h1 { "Sign in" }
        @if let Some(problem) = problem { p.warning role="alert" { (problem) } }
        form.sign-in method="post" action=(format!("{}/sign-in", site.base)) {
            input type="hidden" name="to" value=(to);
            label for="token" { "A token of this daemon" }
            input #token type="password" name="token" autocomplete="current-password" required;
            button type="submit" { "Sign in" }
        }
        p { "Whoever runs the daemon finds a token in the store's folder; others get theirs from " code { "http.tokens" } " of its configuration." }
    };
    HtmlPage::still("Sign in", main)
}
