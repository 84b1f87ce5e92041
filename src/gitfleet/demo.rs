//! `gitfleet demo`: the example in a folder of its own, with a daemon, and changes made one after the other.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context as _;
use tempfile::TempDir;

use super::exit::Exit;
use super::{output, proxy, run};
use config::{Configuration, Proxy};
use daemon::configuration::ConfigurationFile;

mod changes;
mod example;
mod script;

use changes::{CHANGES, DemoChange};
use script::{DemoRepository, DemoScript};

/// What is logged where nothing is asked for: the demo says itself what happens, a refused commit included.
pub(super) const LOG_FILTER: &str = "error,gitfleet_engine::source=off";

/// The port of the daemon's address by default, if nobody listens there.
const PORT_DEFAULT: u16 = 8080;
/// Pause before each change, by default: time to read what came of the one before.
const PAUSE_DEFAULT: &str = "4s";
/// How long the first commit takes, until it is everywhere: a stage of the example waits for five seconds.
const FIRST_LASTS: Duration = Duration::from_secs(8);
/// What the estimate is rounded up to, in seconds.
const ESTIMATE_STEP_SECONDS: u64 = 5;

/// Options of `demo`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Needs no cluster, no git and no network. Exit codes: 0 ended by Ctrl-C or --once, 2 error, 64 wrong usage.\n\n\
                  Examples:\n  gitfleet demo\n  gitfleet demo --keep --port 9000\n  gitfleet demo --changes 0   # only the example, to try things out yourself"
)]
pub(crate) struct Args {
    /// Keep the folder; else it is removed at the end.
    #[arg(long)]
    keep: bool,
    /// The port of the page and the API, on this machine only; 0 for one that is free. Default: 8080, or a free one where that is taken.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// How many of the three changes to make.
    #[arg(long, value_name = "N", default_value_t = CHANGES, value_parser = clap::value_parser!(u8).range(0..=i64::from(CHANGES)))]
    changes: u8,
    /// Pause before each change.
    #[arg(long, value_name = "DURATION", default_value = PAUSE_DEFAULT, value_parser = run::duration)]
    pause: Duration,
    /// End after the last change, instead of waiting for Ctrl-C.
    #[arg(long)]
    once: bool,
}

/// Runs the command, until Ctrl-C or, with `--once`, until the last change was shown.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    // Before the folder is made: this may begin the program again.
    proxy::heed(Proxy::None)?;
    let folder = tempfile::Builder::new().prefix("gitfleet-demo-").disable_cleanup(args.keep).tempdir();
    let folder = folder.context("making a temporary folder for the demo")?;
    let file =
        ConfigurationFile { path: folder.path().join(example::CONFIGURATION), overrides: std::iter::empty().collect() };
    let address = address(args.port)?;
    std::fs::write(&file.path, example::configuration(address))
        .with_context(|| format!("writing {}", file.path.display()))?;
    let configuration = file.load()?;
    output::print(&introduction(args, &folder, address))?;
    // Before the daemon reads it: a folder without a repository is a source of another kind.
    let repository = DemoRepository::create(folder.path())?;
    play(args, repository, configuration, file)?;
    output::print(&farewell(args, folder.path()))
}

/// Returns where the daemon is to listen: at the wanted port, else at the default one, else at any that is free.
fn address(wanted: Option<u16>) -> anyhow::Result<SocketAddr> {
    match wanted {
        Some(port) => free(port).with_context(|| format!("listening on {}; choose another --port", local(port))),
        None => free(PORT_DEFAULT).or_else(|_| free(0)).context("finding a free port on this machine"),
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Returns the address of a port, where it is free; that of any free one for 0. The daemon listens again a moment later. That somebody else
/// takes the port meanwhile is an error as of `gitfleet run`.
fn free(port: u16) -> std::io::Result<SocketAddr> {
    TcpListener::bind(local(port))?.local_addr()
}

/// Runs the daemon, and the script beside it as soon as the daemon listens.
fn play(
    args: &Args,
    repository: DemoRepository,
    configuration: Configuration,
    file: ConfigurationFile,
) -> anyhow::Result<()> {
    let changes: Vec<&'static DemoChange> = changes::first(args.changes).collect();
    let pause = args.pause;
    let once = args.once;
    // The script, which may be in a pause, ends when the other side is dropped.
    let (running, ended) = mpsc::channel::<()>();
    let (sender, outcome) = mpsc::channel();
    let shown = configuration.clone();
    let invitation = invitation(&file.path, args.changes);
    let end = async move {
        let script =
            tokio::task::spawn_blocking(move || DemoScript::open(&shown, repository, pause, ended)?.play(&changes));
        let played = async {
            let played = script.await.map_err(anyhow::Error::from).flatten();
            let stays = played.is_ok() && !once;
            // The receiver goes only when the process ends.
            let _ = sender.send(played);
            if stays {
                say(&invitation);
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = run::wait_for_signal() => {}
            () = played => {}
        }
        drop(running);
    };
    run::daemon(configuration, Some(file), None, end)?;
    // Ctrl-C before the last change is an end like any other.
    outcome.try_recv().unwrap_or(Ok(()))
}

/// Says what comes, how long it takes, and where it can be watched.
fn introduction(args: &Args, folder: &TempDir, address: SocketAddr) -> String {
    let path = folder.path().display();
    let removed = if args.keep { "it is kept" } else { "removed at the end; --keep keeps it" };
    let then = if args.once { "then ends" } else { "then runs until Ctrl-C" };
    let seconds = estimate(args.changes, args.pause);
    format!(
        "A fleet of five clusters, each a folder; a git repository with five placements; and a\n\
         daemon that follows it. {}\n\
         It takes about {seconds} seconds, {then}.\n\n  \
         page      http://{address}/\n  \
         folder    {path} ({removed})\n  \
         watch     {} status -w -c {path}/{}\n\n",
        match args.changes {
            0 => "No change is made: that is for you.".to_owned(),
            1 => "One change is made.".to_owned(),
            n => format!("{n} changes are made, one after the other."),
        },
        program(),
        example::CONFIGURATION,
    )
}

/// Returns about how many seconds it takes.
fn estimate(changes: u8, pause: Duration) -> u64 {
    let lasts = changes::first(changes).map(|change| pause + change.lasts).sum::<Duration>() + FIRST_LASTS;
    lasts.as_secs().div_ceil(ESTIMATE_STEP_SECONDS) * ESTIMATE_STEP_SECONDS
}

fn farewell(args: &Args, folder: &Path) -> String {
    let path = folder.display();
    if args.keep { format!("\nended; the folder is {path}\n") } else { format!("\nended; {path} is removed\n") }
}

/// Says what a person can try now.
fn invitation(configuration: &Path, changes: u8) -> String {
    let program = program();
    let folder = configuration.parent().unwrap_or(Path::new(".")).display();
    let gate = if changes >= changes::GATE {
        format!("  {program} approve {} {}\n", changes::GATE_RUN, changes::GATE_STAGE)
    } else {
        String::new()
    };
    format!(
        "\nThe daemon still runs. In a second terminal:\n\n  \
         export GITFLEET_CONFIG={}\n  \
         {program} status\n\
         {gate}  \
         cd {folder} && sed -i 's/page-size: .*/page-size: \"50\"/' apps/shop.yaml && git commit -am 'Longer pages'\n  \
         ls {folder}/rendered/prod-eu-1\n  \
         {program} explain shop\n\n\
         Ctrl-C ends it.\n",
        configuration.display(),
    )
}

/// Returns how this program is called again: by its name, or by its path where it was called so.
fn program() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let by_path = Path::new(&called).components().count() > 1;
    let path = by_path.then(|| std::env::current_exe().ok()).flatten();
    path.map_or_else(|| "gitfleet".to_owned(), |path| path.display().to_string())
}

/// Writes what happens at once, also to a pipe. That nobody reads it is no reason to end.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // The daemon of a demo that nobody reads still answers.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_grows_with_the_changes_and_their_pauses() {
        for (changes, pause, seconds) in [(0, 4, 10), (1, 4, 15), (2, 4, 25), (3, 4, 35), (3, 0, 20)] {
            assert_eq!(estimate(changes, Duration::from_secs(pause)), seconds, "{changes} changes, {pause} s each");
        }
    }

    #[test]
    fn what_can_be_tried_names_the_gate_that_waits() {
        let path = Path::new("/demo/gitfleet.yaml");
        let none = invitation(path, 0);
        let all = invitation(path, CHANGES);
        assert!(all.contains("export GITFLEET_CONFIG=/demo/gitfleet.yaml\n"), "{all}");
        assert!(all.contains(" approve search-1 staging\n") && !none.contains(" approve "), "{all}{none}");
    }

    #[test]
    fn a_port_that_is_taken_is_said_or_another_one_is_found() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = taken.local_addr().expect("an address").port();
        let error = address(Some(port)).expect_err("somebody listens there");
        assert_eq!(error.to_string(), format!("listening on 127.0.0.1:{port}; choose another --port"));
        assert_ne!(address(None).expect("some port is free").port(), port);
    }
}
