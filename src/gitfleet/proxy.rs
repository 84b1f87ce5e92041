//! Proxy variables of the environment. The libraries for git hosts read the variables themselves, each different ones, so that
//! no setting of gitfleet could override them; a process without the variables can.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::Context as _;

use super::config_file::variable;
use config::Proxy;

/// The variables that name proxies; some tools know them in small letters only.
const VARIABLES: [&str; 6] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Continues without the proxies of the environment, unless the configuration wants them: where there are any, this process becomes
/// the same program with the same arguments once more, and without those variables.
///
/// # Errors
/// The program cannot be started again.
pub(crate) fn heed(proxy: Proxy) -> anyhow::Result<()> {
    let set: Vec<&str> = VARIABLES.into_iter().filter(|name| variable(name).is_some()).collect();
    if set.is_empty() {
        return Ok(());
    }
    let variables = set.join(", ");
    if proxy == Proxy::Environment {
        tracing::info!(variables, "requests to the git host go through the proxies of the environment");
        return Ok(());
    }
    tracing::info!(
        variables,
        "the proxies of the environment are not used; `proxy: environment` in gitfleet.yaml uses them"
    );
    let program =
        env::current_exe().context("finding this program, to continue without the proxies of the environment")?;
    let mut again = Command::new(program);
    again.args(env::args_os().skip(1));
    // Without any of them the program that starts again has nothing to remove, so this happens once.
    for name in VARIABLES {
        again.env_remove(name);
    }
    // Returns only where it failed.
    Err(again.exec()).context("starting this program again without the proxies of the environment; unset them")
}
