//! `agent token`: which agents may connect to the daemon.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::commands::CommandOptions;
use super::exit::Exit;
use super::{output, person};
use engine::store::records::AGENT_PREFIX;
use model::agent::AgentToken;
use model::commands::{Command, NewAgentToken, Verb};

/// What there is to do with tokens of agents.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token for an agent and print it, once: only its digest is stored. The agent's earlier token is then invalid.
    Create {
        /// The agent's name: lowercase letters, digits and dashes.
        name: String,
        /// A pool that the agent may join; may be given several times.
        #[arg(long = "pool", value_name = "POOL")]
        pools: Vec<String>,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// Make the token of an agent invalid. A session of the agent ends at once; what it delivered stays.
    Revoke {
        /// The agent's name.
        name: String,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// Show which agents have a token, their pools, and who made it. Tokens in files of the configuration are not listed.
    List {
        #[command(flatten)]
        options: CommandOptions,
    },
}

impl TokenCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// Neither the daemon nor its store accepts the command, or the system gives no random bytes.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Self::Create { name, pools, options } => create(name, &pools.iter().cloned().collect(), options),
            Self::Revoke { name, options } => options.send(Command::new(Verb::Revoke, name)),
            Self::List { options } => list(options),
        }
    }
}

/// The token is made here and only its digest is sent: neither the daemon nor a proxy in front of it learns the token.
fn create(name: &str, pools: &BTreeSet<String>, options: &CommandOptions) -> anyhow::Result<Exit> {
    let token = person::random_token()?;
    let sha256 = format!("{:x}", Sha256::digest(&token));
    let new = NewAgentToken { sha256, pools: pools.clone() };
    let command = Command { token: Some(Box::new(new)), ..Command::new(Verb::Enroll, name) };
    let done = match options.answer(command)? {
        Ok(done) => done,
        Err(exit) => return Ok(exit),
    };
    if options.is_json() {
        return output::print_json(&json!({
            "name": name, "token": token, "pools": pools, "message": done.message, "at": done.at,
        }));
    }
    eprintln!("{}; this is its token, which is shown this once:", done.message);
    output::print(&format!("{token}\n"))
}

fn list(options: &CommandOptions) -> anyhow::Result<Exit> {
    let records = options.source()?.read_under(&[AGENT_PREFIX.to_owned()])?;
    let tokens: Vec<AgentToken> = records.agent_tokens.into_values().map(AgentToken::without_digest).collect();
    if options.is_json() {
        return output::print_json(&tokens);
    }
    if tokens.is_empty() {
        return output::print("no agent has a token in the store; `gitfleet agent token create NAME` makes one\n");
    }
    let width = tokens.iter().map(|token| token.name.len()).max().unwrap_or_default().max(4);
    let mut text = format!("{:width$}  CREATED               BY        POOLS\n", "NAME");
    for token in &tokens {
        let pools: Vec<&str> = token.pools.iter().map(String::as_str).collect();
        let pools = if pools.is_empty() { "-".to_owned() } else { pools.join(",") };
        writeln!(text, "{:width$}  {:.0}  {:8}  {pools}", token.name, token.created_at, token.created_by)
            .expect("writing to a String cannot fail");
    }
    output::print(&text)
}
