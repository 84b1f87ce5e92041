//! Tenants: what the files of a folder may ask for, from the configuration and never from the repository.

use std::collections::BTreeMap;

use super::folder::holds;
use super::glob::glob_matches;
use super::id::ObjectId;
use super::kinds;
use crate::api::placement::LabelSelector;

/// The API group of roles and bindings: a tenant that may write them grants rights, so they are never among the kinds by default.
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// One tenant: a folder of the source with the limits of what its files may ask for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tenant {
    /// The name that messages use.
    pub name: String,
    /// The folder, relative to the root of the source's subtree, without a slash at the end.
    pub path: String,
    /// Patterns of the namespaces that it may use.
    pub namespaces: Vec<String>,
    /// Patterns of namespaced kinds, as `Kind.group`; `None` means all of them without roles and their bindings.
    pub kinds: Option<Vec<String>>,
    /// Patterns of cluster-scoped kinds, as `Kind.group`.
    pub cluster_kinds: Vec<String>,
    /// The clusters that its placements may go to, by their labels; `None` means all of them.
    pub clusters: Option<LabelSelector>,
    /// The kinds of overrides that it may write.
    pub overrides: Vec<String>,
    /// Patterns of the cluster-scoped strategies that its placements and runs may use.
    pub strategies: Vec<String>,
    /// Folders outside its own that its kustomizations may build on, relative to the root of the source's subtree.
    pub bases: Vec<String>,
    /// Who may approve its rollouts by comment; empty leaves it to the configuration.
    pub approvers: Vec<String>,
    /// The user under which its objects are written on members; `None` means gitfleet's own.
    pub user: Option<String>,
}

impl Tenant {
    /// Tells whether it may use a namespace.
    pub fn may_use(&self, namespace: &str) -> bool {
        fits(&self.namespaces, namespace)
    }

    /// Tells whether its placements may go to a cluster with these labels.
    pub fn may_place_on(&self, labels: &BTreeMap<String, String>) -> bool {
        self.clusters.as_ref().is_none_or(|selector| selector.matches(labels))
    }

    /// Tells whether it may use a cluster-scoped strategy.
    pub fn may_follow(&self, strategy: &str) -> bool {
        fits(&self.strategies, strategy)
    }

    /// Tells whether its kustomizations may build on a folder that is not its own.
    pub fn may_build_on(&self, folder: &str) -> bool {
        self.bases.iter().any(|base| holds(base, folder))
    }

    /// Returns the rule that forbids an object in its files, as the end of a sentence that begins with the object; `None` where it is
    /// allowed.
    pub fn forbids(&self, id: &ObjectId) -> Option<String> {
        let kind = kinds::qualified(&id.group, &id.kind);
        if id.namespace.is_empty() {
            if !fits(&self.cluster_kinds, &kind) {
                return Some(format!("is cluster-scoped, and its clusterKinds do not list {kind}"));
            }
            // A Namespace is the one cluster-scoped object that belongs to a namespace.
            let is_foreign = id.group.is_empty() && id.kind == "Namespace" && !self.may_use(&id.name);
            return is_foreign.then(|| self.lacks_namespace(&id.name));
        }
        if !self.may_use(&id.namespace) {
            return Some(self.lacks_namespace(&id.namespace));
        }
        self.forbids_kind(id)
    }

    /// As [`Self::forbids`], of a namespaced object whose placement gives it a namespace.
    pub fn forbids_kind(&self, id: &ObjectId) -> Option<String> {
        let kind = kinds::qualified(&id.group, &id.kind);
        match &self.kinds {
            Some(kinds) => (!fits(kinds, &kind)).then(|| format!("is a {kind}, and its kinds do not list it")),
            None => {
                (id.group == RBAC_GROUP).then(|| format!("is a {kind}, which grants rights: its kinds must list it"))
            }
        }
    }

    /// Says that a namespace is none of its own.
    pub fn lacks_namespace(&self, namespace: &str) -> String {
        match self.namespaces.as_slice() {
            [] => format!("is in the namespace {namespace}, and it has none"),
            own => format!("is in the namespace {namespace}, and its namespaces are {}", own.join(", ")),
        }
    }
}

/// All tenants. The default has none, and forbids nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tenants(Vec<Tenant>);

impl Tenants {
    /// Takes the tenants of the configuration.
    pub fn new(mut tenants: Vec<Tenant>) -> Self {
        // The deepest folder first: it is the one that a file belongs to.
        tenants.sort_by(|a, b| (b.path.len(), &a.path).cmp(&(a.path.len(), &b.path)));
        Self(tenants)
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the tenant that a file belongs to: the one with the deepest folder around it. `None` is whoever runs the fleet, whom
    /// nothing restricts.
    pub fn of(&self, path: &str) -> Option<&Tenant> {
        self.0.iter().find(|tenant| holds(&tenant.path, path))
    }

    /// Returns a tenant whose folder is inside another folder.
    pub fn inside(&self, folder: &str) -> Option<&Tenant> {
        self.0.iter().find(|tenant| tenant.path != folder && holds(folder, &tenant.path))
    }

    /// Returns the users under which objects are written, each once.
    pub fn users(&self) -> Vec<&str> {
        let mut users: Vec<&str> = self.0.iter().filter_map(|tenant| tenant.user.as_deref()).collect();
        users.sort_unstable();
        users.dedup();
        users
    }
}

fn fits(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| glob_matches(pattern, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_file_belongs_to_the_deepest_folder() {
        let tenant = |name: &str, path: &str| Tenant { name: name.into(), path: path.into(), ..Tenant::default() };
        let tenants = Tenants::new(vec![tenant("all", "teams"), tenant("shop", "teams/shop"), tenant("x", "x")]);
        let rows = [
            ("teams/shop/app.yaml", Some("shop")),
            ("teams/shop/a/b.yaml", Some("shop")),
            ("teams/shopping/app.yaml", Some("all")),
            ("teams/app.yaml", Some("all")),
            ("platform/app.yaml", None),
            ("teams", Some("all")),
            ("teams/shop", Some("shop")),
            ("xy/app.yaml", None),
        ];
        for (path, wanted) in rows {
            assert_eq!(tenants.of(path).map(|tenant| tenant.name.as_str()), wanted, "{path}");
        }
    }

    #[test]
    fn what_a_tenant_may_write() {
        let id = |group: &str, kind: &str, namespace: &str, name: &str| ObjectId {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        let default = Tenant { namespaces: names(&["shop", "shop-*"]), ..Tenant::default() };
        let listed = Tenant {
            kinds: Some(names(&["ConfigMap", "*.apps"])),
            cluster_kinds: names(&["Namespace", "*.example.com"]),
            ..default.clone()
        };
        let rows = [
            (&default, id("", "ConfigMap", "shop", "a"), None),
            (&default, id("apps", "Deployment", "shop-eu", "a"), None),
            (&default, id("", "ConfigMap", "shopping", "a"), Some("is in the namespace shopping")),
            (&default, id("", "Namespace", "", "shop"), Some("is cluster-scoped")),
            (&default, id("rbac.authorization.k8s.io", "RoleBinding", "shop", "a"), Some("grants rights")),
            (&default, id("rbac.authorization.k8s.io", "ClusterRole", "", "a"), Some("is cluster-scoped")),
            (&listed, id("apps", "Deployment", "shop", "a"), None),
            (&listed, id("", "Secret", "shop", "a"), Some("its kinds do not list it")),
            (&listed, id("", "Namespace", "", "shop"), None),
            (&listed, id("", "Namespace", "", "other"), Some("is in the namespace other")),
            (&listed, id("example.com", "Widget", "", "a"), None),
            (&listed, id("evil.com", "Widget", "", "a"), Some("clusterKinds do not list Widget.evil.com")),
        ];
        for (tenant, id, wanted) in rows {
            let found = tenant.forbids(&id);
            assert_eq!(found.is_some(), wanted.is_some(), "{id}: {found:?}");
            assert!(found.unwrap_or_default().contains(wanted.unwrap_or_default()), "{id}: {wanted:?}");
        }
    }
}
