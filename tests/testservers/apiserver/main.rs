//! The double of Kubernetes API servers as a process: starts it, says where it listens, and runs until its input ends.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use testservers::apiserver::faults::{Faults, duration};
use testservers::apiserver::{Options, Server};

const HELP: &str = "\
Doubles of Kubernetes API servers, all behind one port of 127.0.0.1; tests/testservers/apiserver/README.md says what they do.

Usage: apiserver --clusters N --directory DIR [OPTIONS]

  --clusters N      how many clusters: member-00000 and so on
  --directory DIR   where the kubeconfigs go: DIR/NAME.kubeconfig
  --port PORT       where to listen (default 0: any free port)
  --latency TIME    how long every request waits, such as 1ms
  --faults LIST     such as 429=100,500=200,drop=1000,watch=30s: one of so many requests fails, watches end after a time
  --seed N          which requests fail
  -h, --help        this text

Prints its port as soon as it listens, and ends when its standard input does.
";

/// Exit code for wrong usage.
const USAGE: u8 = 64;

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options> {
    let mut options = Options::clusters(0);
    options.threads = std::thread::available_parallelism().map_or(2, usize::from);
    let (mut latency, mut seed) = (std::time::Duration::ZERO, 0);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        let number = |text: String| text.parse::<u64>().with_context(|| format!("{text:?} is no number"));
        match word.as_str() {
            "--clusters" => options.clusters = number(value()?)?,
            "--directory" => options.folder = Some(PathBuf::from(value()?)),
            "--port" => options.port = u16::try_from(number(value()?)?)?,
            "--latency" => latency = duration(&value()?)?,
            "--faults" => options.faults = Faults::parse(&value()?)?,
            "--seed" => seed = number(value()?)?,
            other => bail!("unknown word `{other}`"),
        }
    }
    if options.clusters == 0 || options.folder.is_none() {
        bail!("--clusters and --directory are needed");
    }
    options.faults.latency = latency;
    options.faults.seed = seed;
    Ok(options)
}

fn run(options: &Options) -> Result<()> {
    let server = Server::start(options)?;
    println!("{}", server.port());
    std::io::stdout().flush()?;
    // Whoever started it holds the other end: it ends with them, however they end.
    std::io::stdin().read_to_end(&mut Vec::new()).context("wait for the end")?;
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match parse(words.into_iter()) {
        Err(error) => {
            eprintln!("error: {error:#}\n\n{HELP}");
            ExitCode::from(USAGE)
        }
        Ok(options) => match run(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}
