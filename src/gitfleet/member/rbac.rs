//! The rights of gitfleet on a member, as objects. The verbs are those of the requests that `cluster` makes, no others.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use model::api::check::is_dns_label;
use model::api::table::OCM_GROUP;
use model::kinds;
use model::kinds::BUILT_IN;
use model::tree::Scope;
use plan::needs::{Named, Needs};

/// Namespace of the account and of the inventory.
pub(super) const NAMESPACE: &str = deliver::inventory::NAMESPACE;
/// The account of the daemon on a member; its roles and bindings have the same name.
pub(super) const ACCOUNT: &str = "gitfleet";
/// The Secret that the cluster puts a lasting token in.
pub(super) const TOKEN_SECRET: &str = "gitfleet-token";

/// Deliver, look again, prune. Server-side apply is a patch, and needs `create` too where there is no object yet.
const WRITE: [&str; 4] = ["get", "create", "patch", "delete"];
/// Follow what was delivered. Watches span all namespaces: one for each kind, not one for each kind and namespace.
const WATCH: [&str; 2] = ["list", "watch"];
/// API group of roles and bindings.
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// A resource as RBAC names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    group: String,
    plural: String,
    scope: Scope,
}

impl Resource {
    /// Reads `plural[.group]`, or `Kind[.group]` of a kind that Kubernetes knows. What nobody knows counts as namespaced.
    ///
    /// # Errors
    /// It is neither.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, group) = text.split_once('.').unwrap_or((text, ""));
        let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.');
        if name.is_empty() || !is_plain || (text.contains('.') && group.is_empty()) {
            return Err("write a resource such as deployments.apps, or configmaps for the core group".to_owned());
        }
        let known = match kinds::lookup(group, name) {
            Some(known) => Some(known),
            None => BUILT_IN.iter().find(|known| known.group == group && known.plural == name),
        };
        match known {
            Some(known) => Ok(Self { group: group.to_owned(), plural: known.plural.to_owned(), scope: known.scope }),
            // A capital letter says that a kind is meant, and only a plural can be granted.
            None if name.bytes().any(|byte| byte.is_ascii_uppercase()) => Err(format!(
                "{name} is no kind of Kubernetes itself; write the resource's plural, as in its definition"
            )),
            None => Ok(Self { group: group.to_owned(), plural: name.to_owned(), scope: Scope::Namespaced }),
        }
    }
}

/// Reads the name of a namespace.
///
/// # Errors
/// It is no such name.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    if is_dns_label(text) { Ok(text.to_owned()) } else { Err("no name of a namespace".to_owned()) }
}

/// What is granted.
pub(super) struct Grant<'a> {
    /// Only these; all without any.
    pub resources: &'a [Resource],
    /// Writes only here; everywhere without any.
    pub namespaces: &'a [String],
    /// Roles and bindings may grant what the account does not have.
    pub allow_rbac: bool,
    /// Namespaces, nodes and pods are read.
    pub facts: bool,
    /// The accounts of tenants that objects are written as.
    pub users: &'a [&'a str],
}

impl Grant<'_> {
    /// Returns the objects to apply, in an order that can be applied.
    pub(super) fn objects(&self) -> Vec<Value> {
        let mut cluster = self.cluster_rules();
        let mut rules = self.namespace_rules();
        impersonation(self.users, &mut cluster, &mut rules);
        let named: BTreeSet<String> = self.namespaces.iter().chain(rules.keys()).cloned().collect();
        objects(named.iter().map(String::as_str), &cluster, rules)
    }

    fn cluster_rules(&self) -> Vec<Value> {
        let all = [WRITE.as_slice(), &WATCH].concat();
        let mut rules = if self.namespaces.is_empty() {
            self.of(&all, |_| true)
        } else {
            let mut rules = self.of(&WATCH, |resource| resource.scope == Scope::Namespaced);
            // Without named resources this would be a `*` over the cluster, and namespaces would narrow nothing.
            if !self.resources.is_empty() {
                // Namespaces are not among them: those that are named are granted below, by name.
                rules.extend(self.of(&all, |it| it.scope == Scope::Cluster && it.plural != "namespaces"));
            }
            if self.delivers_namespaces() {
                // A watch is of all namespaces; only what is written can be told by name.
                rules.push(rule(&[""], &["namespaces"], &WATCH));
                let mut own = rule(&[""], &["namespaces"], &WRITE);
                own["resourceNames"] = json!(self.namespaces);
                rules.push(own);
            }
            rules
        };
        // Where no resources are named the `*` holds them.
        if !self.resources.is_empty() {
            rules.extend(reading_rules(self.facts));
        }
        // Not where namespaces narrow it: who may bind a ClusterRole can grant anything anywhere.
        if self.allow_rbac && self.namespaces.is_empty() {
            rules.push(rule(&[RBAC_GROUP], &["roles", "clusterroles"], &["escalate", "bind"]));
        }
        rules
    }

    /// Namespaces among the resources, or all resources: their objects may be delivered too.
    fn delivers_namespaces(&self) -> bool {
        self.resources.is_empty() || self.resources.iter().any(|r| r.group.is_empty() && r.plural == "namespaces")
    }

    fn namespace_rules(&self) -> BTreeMap<String, Vec<Value>> {
        let mut rules = BTreeMap::new();
        for namespace in self.namespaces {
            let own: &mut Vec<Value> = rules.entry(namespace.clone()).or_default();
            own.extend(self.of(&WRITE, |resource| resource.scope == Scope::Namespaced));
            if self.allow_rbac {
                own.push(rule(&[RBAC_GROUP], &["roles"], &["escalate", "bind"]));
            }
        }
        rules
    }

    /// Returns rules for the resources that are wanted, one for each API group; one for everything where none are named.
    fn of(&self, verbs: &[&str], wanted: impl Fn(&Resource) -> bool) -> Vec<Value> {
        if self.resources.is_empty() {
            return vec![rule(&["*"], &["*"], verbs)];
        }
        let named: Vec<Named> = self
            .resources
            .iter()
            .filter(|resource| wanted(resource))
            .map(|resource| (resource.group.clone(), resource.plural.clone()))
            .collect();
        by_group(&named, verbs)
    }
}

/// Returns the objects that grant exactly what is needed: each resource is written where it is delivered, and nowhere else.
/// `allow_rbac` and `facts` are as in [`Grant`]; `users` are the accounts of tenants that objects are written as.
pub(super) fn least(needs: &Needs, allow_rbac: bool, facts: bool, users: &[&str]) -> Vec<Value> {
    let all = [WRITE.as_slice(), &WATCH].concat();
    let namespaced = needs.namespaced();
    let mut cluster = by_group(namespaced.iter().copied(), &WATCH);
    cluster.extend(by_group(&needs.cluster_wide, &all));
    if !needs.namespaces.is_empty() {
        cluster.push(rule(&[""], &["namespaces"], &WATCH));
        let mut own = rule(&[""], &["namespaces"], &WRITE);
        own["resourceNames"] = json!(needs.namespaces);
        cluster.push(own);
    }
    cluster.extend(reading_rules(facts));
    // A binding in a namespace may name a role of the cluster.
    if allow_rbac && needs.has_rbac() {
        cluster.push(rule(&[RBAC_GROUP], &["clusterroles"], &["escalate", "bind"]));
    }
    let mut rules = BTreeMap::new();
    for (namespace, resources) in &needs.in_namespaces {
        let mut own = by_group(resources, &WRITE);
        if allow_rbac && resources.iter().any(|(group, _)| group == RBAC_GROUP) {
            own.push(rule(&[RBAC_GROUP], &["roles"], &["escalate", "bind"]));
        }
        rules.insert(namespace.clone(), own);
    }
    impersonation(users, &mut cluster, &mut rules);
    let named: BTreeSet<&str> = needs.in_namespaces.keys().chain(&needs.namespaces).map(String::as_str).collect();
    let named: BTreeSet<&str> = named.into_iter().chain(rules.keys().map(String::as_str)).collect();
    let named: Vec<String> = named.into_iter().map(str::to_owned).collect();
    objects(named.iter().map(String::as_str), &cluster, rules)
}

/// Adds the rights to write as other accounts: users by name, service accounts each in its namespace.
///
/// Source: Kubernetes, user impersonation.
fn impersonation(users: &[&str], cluster: &mut Vec<Value>, rules: &mut BTreeMap<String, Vec<Value>>) {
    for user in users {
        match user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':')) {
            Some((namespace, name)) => {
                rules.entry(namespace.to_owned()).or_default().push(impersonating("serviceaccounts", name));
            }
            None => cluster.push(impersonating("users", user)),
        }
    }
}

fn impersonating(resource: &str, name: &str) -> Value {
    let mut rule = rule(&[""], &[resource], &["impersonate"]);
    rule["resourceNames"] = json!([name]);
    rule
}

/// Returns the rules for what is only read: what a member has, and what it claims of itself.
fn reading_rules(facts: bool) -> Vec<Value> {
    if facts {
        return vec![
            rule(&[""], &["namespaces", "nodes", "pods"], &WATCH),
            rule(&[OCM_GROUP], &["clusterclaims"], &WATCH),
        ];
    }
    // Its uid tells whether two members are one server.
    let mut named = rule(&[""], &["namespaces"], &["list"]);
    named["resourceNames"] = json!(["kube-system"]);
    vec![named]
}

/// Returns one rule for each API group.
fn by_group<'a>(resources: impl IntoIterator<Item = &'a Named>, verbs: &[&str]) -> Vec<Value> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (group, plural) in resources {
        groups.entry(group).or_default().push(plural);
    }
    groups.into_iter().map(|(group, resources)| rule(&[group], &resources, verbs)).collect()
}

/// Returns the namespaces, the account with its token, and roles with their bindings; the inventory is always written.
fn objects<'a>(
    namespaces: impl Iterator<Item = &'a str>,
    cluster_rules: &[Value],
    mut namespace_rules: BTreeMap<String, Vec<Value>>,
) -> Vec<Value> {
    let account = json!({"name": ACCOUNT, "namespace": NAMESPACE});
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})];
    let named = namespaces.filter(|name| *name != NAMESPACE);
    objects.extend(named.map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})));
    objects.push(json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": account, "automountServiceAccountToken": false,
    }));
    objects.push(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        // Kubernetes makes no lasting token by itself: it fills a Secret that asks for one.
        "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": TOKEN_SECRET,
            "namespace": NAMESPACE,
            "annotations": {"kubernetes.io/service-account.name": ACCOUNT},
        },
    }));
    objects.push(role("ClusterRole", None, cluster_rules));
    objects.push(binding("ClusterRole", None));
    let inventory = rule(&[""], &["configmaps"], &[WRITE.as_slice(), &WATCH].concat());
    namespace_rules.entry(NAMESPACE.to_owned()).or_default().insert(0, inventory);
    for (namespace, rules) in namespace_rules {
        objects.push(role("Role", Some(&namespace), &rules));
        objects.push(binding("Role", Some(&namespace)));
    }
    objects
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

fn metadata(namespace: Option<&str>) -> Value {
    match namespace {
        None => json!({"name": ACCOUNT}),
        Some(namespace) => json!({"name": ACCOUNT, "namespace": namespace}),
    }
}

fn role(kind: &str, namespace: Option<&str>, rules: &[Value]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata(namespace), "rules": rules,
    })
}

fn binding(kind: &str, namespace: Option<&str>) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": format!("{kind}Binding"),
        "metadata": metadata(namespace),
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    })
}
