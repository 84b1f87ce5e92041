//! The section of the file about tenants: what the files of folders may ask for.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use schemars::JsonSchema;
use serde::Deserialize;

use super::{complaint, no_label};
use model::api::check::{FieldError, is_dns_label, is_dns_subdomain};
use model::api::placement::LabelSelector;
use model::api::selector::check_selector;
use model::manifest::InputError;
use model::tenants::{Tenant, Tenants};

/// The kinds of overrides that a tenant may be allowed.
const OVERRIDE_KINDS: [&str; 2] = ["ResourceOverride", "ClusterResourceOverride"];

/// Limits for the files of one folder. Files in no folder of a tenant are of whoever runs the fleet, whom nothing restricts.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantSection {
    /// Its name, for messages.
    pub name: String,
    /// The folder, relative to `source.path`. A file in several of them belongs to the deepest.
    pub path: String,
    /// The namespaces that its files may use, with `*` for any text.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// The namespaced kinds that it may deliver, as `Kind` or `Kind.group`, with `*` for any text. Absent means all of them but those of
    /// `rbac.authorization.k8s.io`, which grant rights.
    #[serde(default)]
    pub kinds: Option<Vec<String>>,
    /// The cluster-scoped kinds that it may deliver, as `Kind` or `Kind.group`. A `Namespace` must also be one of `namespaces`.
    #[serde(default)]
    pub cluster_kinds: Vec<String>,
    /// The clusters that its placements may go to, by label; absent means all of them.
    #[serde(default)]
    pub clusters: Option<LabelSelector>,
    /// The kinds of overrides that it may write. They may only change objects of its own folder.
    #[serde(default = "overrides_default")]
    pub overrides: Vec<String>,
    /// The ClusterStagedUpdateStrategies that it may use, with `*` for any text; it can write none. Absent means all of them.
    #[serde(default = "strategies_default")]
    pub strategies: Vec<String>,
    /// The folders outside its own that its kustomizations may build on, relative to `source.path`, each with all below it. A folder that one
    /// names is rendered no more by itself, so name none whose objects are delivered. Absent means none.
    #[serde(default)]
    pub bases: Vec<String>,
    /// Who may approve its rollouts by comment, instead of `forge.approvals.approvers`: `user:NAME`, `team:ORG/NAME`.
    #[serde(default)]
    pub approvers: Vec<String>,
    /// Whom its objects are written as on members, so that their RBAC decides. Absent means gitfleet's own account.
    #[serde(default)]
    pub impersonate: Option<Impersonate>,
}

/// An account of members: one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Impersonate {
    /// The name of a user.
    #[serde(default)]
    pub user: Option<String>,
    /// A service account.
    #[serde(default)]
    pub service_account: Option<ServiceAccountName>,
}

/// Names a service account.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceAccountName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Impersonate {
    /// Returns the name of the user.
    fn user_name(&self) -> Option<String> {
        let account = self.service_account.as_ref();
        let account = account.map(|account| format!("system:serviceaccount:{}:{}", account.namespace, account.name));
        account.or_else(|| self.user.clone())
    }

    fn problem(&self) -> Option<&'static str> {
        match (&self.user, &self.service_account) {
            (Some(_), Some(_)) | (None, None) => Some("needs exactly one of `user` and `serviceAccount`"),
            (Some(user), None) if user.is_empty() || !user.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Some("`user` must be printable ASCII without spaces")
            }
            // Whoever may write a tenant's files could do anything then.
            (Some(user), None) if user.starts_with("system:") => {
                Some("`user` must not begin with `system:`; name a service account as `serviceAccount`")
            }
            (None, Some(account)) if !is_dns_label(&account.namespace) || !is_dns_subdomain(&account.name) => {
                Some("`serviceAccount` must be the namespace and the name of one")
            }
            _ => None,
        }
    }
}

impl TenantSection {
    fn tenant(&self) -> Tenant {
        Tenant {
            name: self.name.clone(),
            path: folder(&self.path),
            namespaces: self.namespaces.clone(),
            kinds: self.kinds.clone(),
            cluster_kinds: self.cluster_kinds.clone(),
            clusters: self.clusters.clone(),
            overrides: self.overrides.clone(),
            strategies: self.strategies.clone(),
            bases: self.bases.iter().map(|base| folder(base)).collect(),
            approvers: self.approvers.clone(),
            user: self.impersonate.as_ref().and_then(Impersonate::user_name),
        }
    }

    fn problems(&self, field: &str, errors: &mut Vec<InputError>) {
        let mut complain = |name: &str, message: String| errors.push(complaint(&format!("{field}.{name}"), message));
        if !is_dns_label(&self.name) {
            complain("name", no_label(&self.name));
        }
        if !is_folder(&self.path) {
            complain("path", format!("{:?} must be a folder below `source.path`, without `..`", self.path));
        }
        for base in self.bases.iter().filter(|base| !is_folder(base)) {
            complain("bases", format!("{base:?} must be a folder below `source.path`, without `..`"));
        }
        let lists = [
            ("namespaces", &self.namespaces),
            ("clusterKinds", &self.cluster_kinds),
            ("strategies", &self.strategies),
            ("approvers", &self.approvers),
        ];
        let kinds = self.kinds.iter().map(|kinds| ("kinds", kinds));
        for (name, list) in lists.into_iter().chain(kinds) {
            if list.iter().any(String::is_empty) {
                complain(name, "has an empty entry, which fits nothing".to_owned());
            }
        }
        for unknown in self.overrides.iter().filter(|kind| !OVERRIDE_KINDS.contains(&kind.as_str())) {
            complain("overrides", format!("{unknown:?} is none of {}", OVERRIDE_KINDS.join(", ")));
        }
        for approver in self.approvers.iter().filter(|approver| !approver.contains(':')) {
            complain("approvers", format!("{approver:?} is neither user:NAME nor team:ORG/NAME"));
        }
        if let Some(problem) = self.impersonate.as_ref().and_then(Impersonate::problem) {
            complain("impersonate", problem.to_owned());
        }
        let mut wrong: Vec<FieldError> = Vec::new();
        if let Some(selector) = &self.clusters {
            check_selector(&mut wrong, "clusters", selector);
        }
        for error in wrong {
            complain(&error.field, error.message);
        }
    }
}

/// Adds what is wrong with the tenants.
pub(super) fn check(tenants: &[TenantSection], errors: &mut Vec<InputError>) {
    let mut names = BTreeSet::new();
    let mut paths = BTreeSet::new();
    for (index, tenant) in tenants.iter().enumerate() {
        let field = format!("tenants[{index}]");
        tenant.problems(&field, errors);
        if !names.insert(&tenant.name) {
            errors.push(complaint(&format!("{field}.name"), format!("{:?} is another tenant's name too", tenant.name)));
        }
        if !paths.insert(folder(&tenant.path)) {
            errors
                .push(complaint(&format!("{field}.path"), format!("{:?} is another tenant's folder too", tenant.path)));
        }
    }
}

/// Returns the tenants as decisions read them.
pub(super) fn tenants(sections: &[TenantSection]) -> Tenants {
    Tenants::new(sections.iter().map(TenantSection::tenant).collect())
}

/// Tells whether a path is a folder below the one that is read.
pub(super) fn is_folder(path: &str) -> bool {
    let is_inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    is_inside && !folder(path).is_empty()
}

/// Returns a folder as paths of files begin with it.
pub(super) fn folder(path: &str) -> String {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/")
}

fn overrides_default() -> Vec<String> {
    vec!["ResourceOverride".to_owned()]
}

fn strategies_default() -> Vec<String> {
    vec!["*".to_owned()]
}

#[cfg(test)]
mod tests;
