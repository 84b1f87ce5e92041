//! `gitfleet member`: prepares a member cluster for deliveries.

mod add;
mod rbac;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::json;

use super::exit::Exit;
use super::output;
use super::records::load_configuration;
use super::rendering;
use cluster::bootstrap::{Admin, TokenSource};
use config::Configuration;
use daemon::commit_reader::read_folder;
use plan::needs::Needs;
use rbac::{Grant, Resource};

/// Shortest life of a token that API servers grant.
const TOKEN_LIFETIME_MIN: Duration = Duration::from_mins(10);

/// What is done about members.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum MemberArgs {
    /// Add a cluster to the tree, as a commit, and say how the configuration reaches it.
    Add(add::Add),
    /// Print the RBAC a member cluster needs, or the kubeconfig made of it.
    Bootstrap(Bootstrap),
}

/// Options of `member bootstrap`.
#[derive(Debug, clap::Args)]
#[command(after_help = "First: gitfleet member bootstrap NAME --repo DIR | kubectl --context NAME apply -f -
Then:  gitfleet member bootstrap NAME -o kubeconfig --kubeconfig ADMIN --context NAME >NAME.kubeconfig
docs/deploy.md says what narrowing costs.")]
pub(crate) struct Bootstrap {
    /// The member's name; the context of the kubeconfig is called so.
    name: String,
    /// What to print.
    #[arg(short, long, value_enum, default_value = "rbac")]
    output: Print,
    /// The folder with the tree: grants what its placements deliver, each resource where it goes, and nothing else.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["resources", "namespaces", "all_kinds"])]
    repo: Option<PathBuf>,
    /// The daemon's configuration, where its source is a folder or repository on this machine: stands for --repo. Beside --resources,
    /// --namespaces or --all-kinds only its tenants count: gitfleet may write as their accounts.
    #[arg(short, long, value_name = "FILE", conflicts_with = "repo")]
    config: Option<PathBuf>,
    /// Grant every kind, also those that no placement delivers yet. Whoever has the kubeconfig is an administrator then.
    #[arg(long, conflicts_with = "resources")]
    all_kinds: bool,
    /// Only these resources, as RBAC names them: `deployments.apps,services,widgets.example.com`. Kinds that Kubernetes knows
    /// may be given as `Deployment.apps`.
    #[arg(long, value_name = "RESOURCE[.GROUP]", value_delimiter = ',', value_parser = Resource::parse)]
    resources: Vec<Resource>,
    /// Write only in these namespaces; they are made if they are missing.
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', value_parser = rbac::namespace)]
    namespaces: Vec<String>,
    /// Let it deliver roles and bindings that grant more than it has itself. It can then make itself anything.
    #[arg(long)]
    allow_rbac: bool,
    /// Do not let it read nodes, pods and ClusterClaims: placements that compare capacity or claims then skip this member.
    #[arg(long)]
    no_facts: bool,
    /// With -o kubeconfig: the kubeconfig of somebody who may read the token.
    #[arg(long, value_name = "FILE", required_if_eq("output", "kubeconfig"))]
    kubeconfig: Option<PathBuf>,
    /// With -o kubeconfig: the context in that file; absent means its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// With -o kubeconfig: the address of the API server as the daemon reaches it, where it is another than that file's.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// With -o kubeconfig: request a token that ends after this time, instead of reading the lasting one from its Secret.
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    token_lifetime: Option<Duration>,
}

/// What `member bootstrap` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Print {
    /// Manifests for `kubectl apply`.
    Rbac,
    /// The kubeconfig for `members:` of gitfleet.yaml. It holds a token: send it to a file that only you can read.
    Kubeconfig,
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = super::run::duration(text)?;
    if lifetime < TOKEN_LIFETIME_MIN {
        return Err(format!("API servers grant no token for less than {} s", TOKEN_LIFETIME_MIN.as_secs()));
    }
    Ok(lifetime)
}

/// Runs the command.
pub(crate) fn run(what: &MemberArgs) -> anyhow::Result<Exit> {
    let args = match what {
        MemberArgs::Add(args) => return args.run(),
        MemberArgs::Bootstrap(args) => args,
    };
    match args.output {
        Print::Rbac => output::print(&args.manifests()?),
        Print::Kubeconfig => output::print(&args.kubeconfig()?),
    }
}

impl Bootstrap {
    fn manifests(&self) -> anyhow::Result<String> {
        let mut head =
            vec![format!("# What gitfleet may do on the member {}; docs/deploy.md explains each line.\n", self.name)];
        let configuration = self.config.as_deref().map(load_configuration).transpose()?;
        let tenants = configuration.as_ref().map(Configuration::tenants).unwrap_or_default();
        let objects = if let Some(folder) = self.tree(configuration.as_ref())? {
            let needs = needs(&folder, configuration.as_ref())?;
            let folder = folder.display();
            head.push(format!("# For what the placements of {folder} deliver: run it again when they deliver more.\n"));
            if needs.has_rbac() && !self.allow_rbac {
                let advice = "the placements deliver roles or bindings: Kubernetes lets gitfleet grant only what it has \
                              itself; --allow-rbac lets it grant anything, docs/deploy.md says what that means";
                // In the file for those who keep it, and on standard error because the output mostly goes to kubectl.
                head.push(format!("# NOTE: {advice}.\n"));
                eprintln!("note: {advice}");
            }
            rbac::least(&needs, self.allow_rbac, !self.no_facts, &tenants.users())
        } else {
            ensure!(
                self.all_kinds || !self.resources.is_empty(),
                "what shall {} allow? Name the repository with --repo DIR, so that it is what its placements need; \
                 or the resources with --resources; or everything with --all-kinds",
                self.name
            );
            let grant = Grant {
                resources: &self.resources,
                namespaces: &self.namespaces,
                allow_rbac: self.allow_rbac,
                facts: !self.no_facts,
                users: &tenants.users(),
            };
            grant.objects()
        };
        let documents = objects.iter().map(|object| format!("---\n{}", model::yaml::to_string(object)));
        Ok(head.into_iter().chain(documents).collect())
    }

    /// Returns the folder with the tree, where one is named.
    fn tree(&self, configuration: Option<&Configuration>) -> anyhow::Result<Option<PathBuf>> {
        let Some(configuration) = configuration else { return Ok(self.repo.clone()) };
        if self.all_kinds || !self.resources.is_empty() || !self.namespaces.is_empty() {
            return Ok(None);
        }
        // What all of them deliver together is in none of them.
        ensure!(
            configuration.sources.is_empty(),
            "the configuration names several sources; name what {} shall allow with --resources, or everything with --all-kinds, beside -c",
            self.name
        );
        let source = &configuration.source;
        let folder = source.local().with_context(|| {
            format!(
                "the source {} is on no disk of this machine: name a clone of it with --repo in the place of -c, or, so that the accounts of tenants count, \
                 name what {} shall allow with --resources, or everything with --all-kinds, beside -c",
                source.url, self.name
            )
        })?;
        Ok(Some(folder.join(&source.path)))
    }

    fn kubeconfig(&self) -> anyhow::Result<String> {
        let path = self.kubeconfig.as_deref().context("--kubeconfig is required with -o kubeconfig")?;
        let admin = Admin::read(&self.name, path, self.context.as_deref())?;
        let cluster = admin.cluster(self.server.as_deref())?;
        let source = match self.token_lifetime {
            None => TokenSource::Secret(rbac::TOKEN_SECRET),
            Some(lifetime) => TokenSource::Request(lifetime),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let token = runtime.block_on(admin.token(rbac::NAMESPACE, rbac::ACCOUNT, source))?;
        ensure!(!token.is_empty(), "the cluster gave an empty token for {}/{}", rbac::NAMESPACE, rbac::ACCOUNT);
        let name = &self.name;
        Ok(model::yaml::to_string(&json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": rbac::ACCOUNT, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": rbac::ACCOUNT}}],
            "current-context": name,
        })))
    }
}

/// Returns what the placements of a folder deliver.
fn needs(folder: &Path, configuration: Option<&Configuration>) -> anyhow::Result<Needs> {
    let tree = match read_folder(folder, &rendering::of_tree(folder, configuration)?) {
        Ok(tree) => tree,
        Err(error) => {
            let lines: Vec<String> = error.refused()?.iter().map(|error| format!("  {error}")).collect();
            bail!("{} has errors, so what it delivers is unknown:\n{}", folder.display(), lines.join("\n"))
        }
    };
    Needs::of(&tree).map_err(|errors| {
        anyhow::anyhow!("what all placements of {} deliver is unknown:\n  {}", folder.display(), errors.join("\n  "))
    })
}

#[cfg(test)]
mod tests;
