//! Tenants: what a commit asks for beyond the limits of its folders, and what is not delivered because of them. Pure.
//!
//! A commit that breaks a limit is refused whole ([`violations`]). The same limits are checked again before an order is made: the
//! configuration may have changed since the commit was accepted, and labels of clusters change without one.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Pass;
use crate::snapshot::{is_envelope, select, select_for};
use model::api::annotations::{DEFAULT_NAMESPACE, PATH, STAGED_UPDATE_STRATEGY};
use model::api::envelope;
use model::api::placement::PlacementType;
use model::folder::holds;
use model::id::{ClusterName, ObjectId, PlacementKey};
use model::kinds;
use model::manifest::{InputError, Manifest, Origin};
use model::records::Binding;
use model::rendering::InputFolder;
use model::tenants::{Tenant, Tenants};
use model::tree::{Placement, Scope, Tree};

/// What to do about every violation.
const HINT: &str = "change it, or ask whoever runs the fleet to allow it: tenants in gitfleet.yaml";

/// Returns what the files of tenants ask for beyond their limits, by path and line.
pub fn violations(tree: &Tree, tenants: &Tenants) -> Vec<InputError> {
    if tenants.is_empty() {
        return Vec::new();
    }
    let payload = tree.all_manifests();
    let payload = payload.filter_map(|manifest| Some((tenants.of(&manifest.origin.path)?, manifest)));
    let payload = payload.flat_map(|(tenant, manifest)| {
        let forbidden = forbidden_document(tree, tenant, manifest);
        forbidden.into_iter().map(move |(field, why)| violation(tenant, manifest, field, &why))
    });
    let given = GivenNamespaces::of(tree);
    let inputs = tree.inputs.iter().filter_map(|manifest| {
        let tenant = tenants.of(&manifest.origin.path)?;
        Some((TenantCheck { tree, tenants, given: &given, tenant }, manifest))
    });
    let inputs = inputs.flat_map(|(check, manifest)| {
        let broken = check.input(manifest);
        broken.into_iter().map(move |(field, why)| violation(check.tenant, manifest, Some(field), &why))
    });
    let built = tree.input_folders.iter().filter_map(|input| {
        let tenant = tenants.of(&input.marker)?;
        let why = foreign_input(tenants, tenant, input)?;
        Some(about_file(tenant, &input.marker, None, &why))
    });
    let members = tree.member_origins.iter().filter_map(|(cluster, origin)| {
        let tenant = tenants.of(&origin.path)?;
        let object = Some(format!("MemberCluster {cluster}"));
        let error = about_file(tenant, &origin.path, object, "a MemberCluster is for whoever runs the fleet");
        Some(InputError { line: origin.line, ..error })
    });
    let elsewhere = given_elsewhere(tree, tenants, &given);
    let mut all: Vec<InputError> = payload.chain(inputs).chain(built).chain(members).chain(elsewhere).collect();
    all.sort();
    // What is the same for several clusters is one violation.
    all.dedup();
    all
}

/// Returns the error about a file of a tenant as a whole.
fn about_file(tenant: &Tenant, path: &str, object: Option<String>, why: &str) -> InputError {
    InputError {
        path: path.to_owned(),
        line: 0,
        object,
        field: None,
        message: format!("tenant {}: {why}", tenant.name),
        hint: Some(HINT.to_owned()),
    }
}

/// Returns why a tenant may not take the files of a folder: what somebody else has there would be read by itself no more, and so be removed
/// from clusters.
fn foreign_input(tenants: &Tenants, tenant: &Tenant, input: &InputFolder) -> Option<String> {
    let folder = &input.folder;
    if tenant.may_build_on(folder) {
        return None;
    }
    if tenants.of(folder).is_none_or(|owner| owner.name != tenant.name) {
        let folder = if folder.is_empty() { "." } else { folder };
        return Some(format!("it builds on {folder}, which is neither in its folder nor in its bases"));
    }
    let inside = tenants.inside(folder).filter(|inside| inside.name != tenant.name)?;
    Some(format!("it takes the files of {}, which is the folder of tenant {}", inside.path, inside.name))
}

/// The documents that name no namespace, and what placements make of them.
struct GivenNamespaces<'a> {
    documents: BTreeSet<&'a Origin>,
    /// Each object that a placement selects and gives its namespace, with the placement.
    objects: Vec<(&'a Placement, Manifest)>,
}

impl<'a> GivenNamespaces<'a> {
    fn of(tree: &'a Tree) -> Self {
        let documents = tree.all_manifests().filter(|document| tree.lacks_namespace(document));
        let documents: BTreeSet<&Origin> = documents.map(|document| &document.origin).collect();
        let mut given = Self { documents, objects: Vec::new() };
        let giving = tree.placements.values().filter(|placement| placement.default_namespace().is_some());
        if given.documents.is_empty() {
            return given;
        }
        for placement in giving {
            let selected = selected_anywhere(tree, placement).into_iter();
            let objects: Vec<_> =
                selected.filter(|object| given.has(object)).map(|object| (placement, object)).collect();
            given.objects.extend(objects);
        }
        given
    }

    /// Tells whether the document of a selected object names no namespace.
    fn has(&self, selected: &Manifest) -> bool {
        self.documents.contains(&selected.origin)
    }
}

/// Returns the errors of objects of tenants to which a placement of whoever runs the fleet gives a namespace that is not the tenant's: the
/// first of each tenant and placement.
fn given_elsewhere(tree: &Tree, tenants: &Tenants, given: &GivenNamespaces<'_>) -> Vec<InputError> {
    let mut told = BTreeSet::new();
    let of_nobody = given.objects.iter().filter(|(placement, _)| tenants.of(&placement.origin.path).is_none());
    let errors = of_nobody.filter_map(|(placement, object)| {
        let owner = tenants.of(&object.origin.path)?;
        let (field, why) = forbidden_in(owner, object).into_iter().next()?;
        if is_forbidden(tree, tenants, object) || !told.insert((&placement.key, &owner.name)) {
            return None;
        }
        let kind = placement.key.kind();
        let key = &placement.key;
        let path = &placement.origin.path;
        let why = format!("the {kind} {key} ({path}) selects it, and {why}");
        let hint = format!("name the namespace in the object, or the folder of the {kind} by {PATH}");
        Some(InputError { hint: Some(hint), ..violation(owner, object, field, &why) })
    });
    errors.collect()
}

/// Returns what a placement selects, with values of any cluster too. Selectors that cannot be evaluated are the placement's own error, and
/// it delivers nothing.
fn selected_anywhere(tree: &Tree, placement: &Placement) -> Vec<Manifest> {
    let mut selected = select(tree, placement).unwrap_or_default();
    let of_clusters = tree.inputs_for(placement);
    selected.extend(of_clusters.iter().filter_map(|inputs| select_for(tree, placement, inputs)?.ok()).flatten());
    selected
}

/// Tells whether the document of an object is beyond the limits of its folder: that is said there, and no fault of who selects it.
fn is_forbidden(tree: &Tree, tenants: &Tenants, selected: &Manifest) -> bool {
    let Some(owner) = tenants.of(&selected.origin.path) else { return false };
    let bare = ObjectId { namespace: String::new(), ..selected.id.clone() };
    let of_clusters = tree.of_clusters().filter(|one| one.id == selected.id || one.id == bare);
    let documents = tree.at(&selected.id).iter().chain(tree.at(&bare)).chain(of_clusters);
    let mut own = documents.filter(|document| document.origin == selected.origin);
    own.any(|document| !forbidden_document(tree, owner, document).is_empty())
}

fn violation(tenant: &Tenant, manifest: &Manifest, field: Option<String>, why: &str) -> InputError {
    InputError {
        path: manifest.origin.path.to_string(),
        line: manifest.origin.line,
        object: Some(manifest.id.to_string()),
        field,
        message: format!("tenant {}: {why}", tenant.name),
        hint: Some(HINT.to_owned()),
    }
}

/// What is broken: the field, and the rule that forbids it.
type Broken = (String, String);

/// Returns what a tenant's own manifest holds that its limits forbid: the entry for the content of an envelope, and the rule.
fn forbidden_in(tenant: &Tenant, manifest: &Manifest) -> Vec<(Option<String>, String)> {
    if !is_envelope(manifest) {
        let why = tenant.forbids(&manifest.id).map(|why| (None, format!("it {why}")));
        return why.or_else(|| encrypted_elsewhere(tenant, manifest)).into_iter().collect();
    }
    let namespace = &manifest.id.namespace;
    let foreign = (!namespace.is_empty() && !tenant.may_use(namespace)).then(|| tenant.lacks_namespace(namespace));
    let mut all: Vec<_> = foreign.map(|why| (None, format!("it {why}"))).into_iter().collect();
    // One that cannot be read is an error of the placement that selects it, and is not delivered.
    for (entry, object) in envelope::entries(&manifest.object).unwrap_or_default() {
        let broken = ObjectId::of(&object).and_then(|id| Some((tenant.forbids(&id)?, id)));
        all.extend(broken.map(|(why, id)| (Some(format!("data.{entry}")), format!("{id} {why}"))));
    }
    all
}

/// As [`forbidden_in`], of a document of the tree, which may get its namespace from a placement only.
fn forbidden_document(tree: &Tree, tenant: &Tenant, document: &Manifest) -> Vec<(Option<String>, String)> {
    if !tree.lacks_namespace(document) {
        return forbidden_in(tenant, document);
    }
    let why = tenant.forbids_kind(&document.id).map(|why| (None, format!("it {why}")));
    why.or_else(|| encrypted_elsewhere(tenant, document)).into_iter().collect()
}

/// Returns why a tenant may not have an object that SOPS encrypted, by what its file says that it is: a copy of another's file could be
/// decrypted in a namespace of the tenant. SOPS does not authenticate the names of fields, so a file without a namespace may be such a copy.
fn encrypted_elsewhere(tenant: &Tenant, manifest: &Manifest) -> Option<(Option<String>, String)> {
    let encrypted = manifest.encrypted.as_ref()?;
    let of = encrypted.made_of.as_ref().map_or(&manifest.id, |of| &of.id);
    let why = if of.namespace.is_empty() && !is_cluster_scoped(of) {
        Some("names no namespace: name it in the encrypted file".to_owned())
    } else {
        tenant.forbids(of)
    };
    why.map(|why| (None, format!("SOPS encrypted it as {of}, which {why}")))
}

fn is_cluster_scoped(id: &ObjectId) -> bool {
    kinds::lookup(&id.group, &id.kind).is_some_and(|kind| kind.scope == Scope::Cluster)
}

/// Returns why a tenant's placement may not deliver an object that it selects; `None` where it may. The objects of whoever runs the
/// fleet count as the tenant's where they are in its namespaces: the Namespace itself, and quotas in it.
fn foreign(tenants: &Tenants, tenant: &Tenant, selected: &Manifest) -> Option<String> {
    let id = &selected.id;
    let path = &selected.origin.path;
    match tenants.of(path) {
        Some(owner) if owner.name == tenant.name => None,
        Some(owner) => Some(format!("selects {id} ({path}), which is of tenant {}", owner.name)),
        None => {
            let namespace = if is_namespace(id) { &id.name } else { &id.namespace };
            let is_own = !namespace.is_empty() && tenant.may_use(namespace);
            (!is_own).then(|| format!("selects {id} ({path}), which is neither in its folder nor in its namespaces"))
        }
    }
}

/// As [`foreign`], also of a tenant's own objects, by what they are once a placement of the tenant, or of whoever runs the fleet, selected them.
fn refused_object(tenants: &Tenants, tenant: Option<&Tenant>, selected: &Manifest) -> Option<String> {
    let owner = tenants.of(&selected.origin.path);
    match (owner, tenant) {
        (Some(owner), tenant) if tenant.is_none_or(|tenant| tenant.name == owner.name) => {
            let (_, why) = forbidden_in(owner, selected).into_iter().next()?;
            let of = if tenant.is_none() { format!(" of tenant {}", owner.name) } else { String::new() };
            Some(format!("selects {}{of}, and {why}", selected.id))
        }
        (_, Some(tenant)) => foreign(tenants, tenant, selected),
        (_, None) => None,
    }
}

/// One document of a tenant, and what it is checked against.
#[derive(Clone, Copy)]
struct TenantCheck<'a> {
    tree: &'a Tree,
    tenants: &'a Tenants,
    given: &'a GivenNamespaces<'a>,
    tenant: &'a Tenant,
}

impl TenantCheck<'_> {
    /// Returns what a document of gitfleet's own kinds asks for beyond the limits.
    fn input(&self, document: &Manifest) -> Vec<Broken> {
        let id = &document.id;
        let tenant = self.tenant;
        if !id.namespace.is_empty() && !tenant.may_use(&id.namespace) {
            return vec![("metadata.namespace".to_owned(), format!("it {}", tenant.lacks_namespace(&id.namespace)))];
        }
        match id.kind.as_str() {
            "ClusterResourcePlacement" | "ResourcePlacement" => self.placement(id),
            "ClusterResourceOverride" => self.overrides(document, "clusterResourceSelectors"),
            "ResourceOverride" => self.overrides(document, "resourceSelectors"),
            // In a namespace of its own, and for its own placements there.
            "StagedUpdateStrategy" | "Placement" => Vec::new(),
            "ClusterStagedUpdateRun" | "StagedUpdateRun" => self.run(document),
            "ClusterResourcePlacementEviction" => self.about_placement(document, "spec.placementName"),
            "ClusterResourcePlacementDisruptionBudget" => self.about_placement(document, "metadata.name"),
            kind => vec![("kind".to_owned(), format!("a {kind} is for whoever runs the fleet"))],
        }
    }

    fn placement(&self, id: &ObjectId) -> Vec<Broken> {
        let key = PlacementKey::of_namespace(&id.namespace, &id.name);
        let Some(placement) = self.tree.placements.get(&key) else { return Vec::new() };
        let selected = selected_anywhere(self.tree, placement);
        let foreign = selected.iter().find_map(|manifest| {
            let refused = refused_object(self.tenants, Some(self.tenant), manifest);
            let why = refused.or_else(|| self.foreign_given(manifest))?;
            (!is_forbidden(self.tree, self.tenants, manifest)).then_some(why)
        });
        let mut broken: Vec<Broken> =
            foreign.map(|why| ("spec.resourceSelectors".to_owned(), format!("it {why}"))).into_iter().collect();
        // A folder that a placement names is closed to others, which then find no Namespace there.
        let elsewhere = placement.folder().filter(|folder| !self.is_own(folder));
        broken.extend(
            elsewhere.map(|folder| (format!("metadata.annotations.{PATH}"), format!("{folder} is not in its folder"))),
        );
        broken.extend(self.fixed_clusters(placement));
        if let Some(name) = placement.annotations.get(STAGED_UPDATE_STRATEGY)
            && key.namespace.is_none()
        {
            broken.extend(self.strategy(name, format!("metadata.annotations.{STAGED_UPDATE_STRATEGY}")));
        }
        broken
    }

    /// Returns why a tenant's placement may not deliver an object to which it gives its namespace: whoever runs the fleet put it into none of the
    /// tenant's.
    fn foreign_given(&self, selected: &Manifest) -> Option<String> {
        let id = &selected.id;
        let path = &selected.origin.path;
        let is_given = self.given.has(selected) && !self.is_own(path);
        is_given.then(|| format!("selects {id} ({path}), which names no namespace and is not in its folder"))
    }

    /// Returns the clusters that a policy names and the tenant may not use. Others are left out when the placement is scheduled.
    fn fixed_clusters(&self, placement: &Placement) -> Vec<Broken> {
        let policy = placement.spec.policy.as_ref().filter(|policy| policy.placement_type == PlacementType::PickFixed);
        let names = policy.into_iter().flat_map(|policy| policy.cluster_names.iter().enumerate());
        let foreign = names.filter(|(_, name)| {
            let cluster = self.tree.clusters.get(name.as_str());
            cluster.is_some_and(|cluster| !self.tenant.may_place_on(&cluster.labels))
        });
        let broken = foreign.map(|(index, name)| {
            let field = format!("spec.policy.clusterNames[{index}]");
            (field, format!("the cluster {name} is none of its clusters"))
        });
        broken.collect()
    }

    fn strategy(&self, name: &str, field: String) -> Option<Broken> {
        if self.tenant.may_follow(name) {
            return None;
        }
        Some((field, format!("its strategies do not list the ClusterStagedUpdateStrategy {name}")))
    }

    fn run(&self, document: &Manifest) -> Vec<Broken> {
        let mut broken = self.about_placement(document, "spec.placementName");
        if document.id.namespace.is_empty() {
            let field = "spec.stagedRolloutStrategyName";
            broken.extend(self.strategy(text_at(document, field), field.to_owned()));
        }
        broken
    }

    /// Returns the violation of a document about a placement that is not the tenant's.
    fn about_placement(&self, document: &Manifest, field: &str) -> Vec<Broken> {
        let name = text_at(document, field);
        let key = PlacementKey::of_namespace(&document.id.namespace, name);
        let Some(placement) = self.tree.placements.get(&key) else { return Vec::new() };
        if self.is_own(&placement.origin.path) {
            return Vec::new();
        }
        vec![(field.to_owned(), format!("{} {key} ({}) is none of its placements", key.kind(), placement.origin.path))]
    }

    fn overrides(&self, document: &Manifest, list: &str) -> Vec<Broken> {
        let kind = &document.id.kind;
        let namespace = &document.id.namespace;
        if !self.tenant.overrides.contains(kind) {
            return vec![("kind".to_owned(), format!("its overrides do not list {kind}"))];
        }
        let selectors = document.object.pointer(&format!("/spec/{list}")).and_then(Value::as_array);
        let mut broken = Vec::new();
        for (index, selector) in selectors.into_iter().flatten().enumerate() {
            let group = text_in(selector, "group");
            let kind = text_in(selector, "kind");
            let name = text_in(selector, "name");
            let is_meant = |id: &ObjectId| {
                (&*id.group, &*id.kind, &*id.namespace, &*id.name) == (group, kind, namespace, name)
                    // An override of a Namespace changes everything in it.
                    || (group.is_empty() && kind == "Namespace" && namespace.is_empty() && id.namespace == name)
            };
            // An override of a folder is for placements that see that folder, or less, and the Namespaces around it.
            let folder = document.annotation(PATH);
            let given = self.given.objects.iter().map(|(_, object)| object);
            let seen = self.tree.all_manifests().chain(given).filter(|manifest| {
                folder.is_none_or(|folder| holds(folder, &manifest.origin.path)) || is_namespace(&manifest.id)
            });
            let mut others = seen.filter(|manifest| !self.is_own(&manifest.origin.path));
            let changed = others.find(|manifest| is_meant(&manifest.id) || contains(manifest, is_meant));
            broken.extend(changed.map(|Manifest { id, origin, .. }| {
                let why = format!("it changes {id} ({}), which is not in its folder", origin.path);
                (format!("spec.{list}[{index}]"), why)
            }));
        }
        broken
    }

    fn is_own(&self, path: &str) -> bool {
        self.tenants.of(path).is_some_and(|owner| owner.name == self.tenant.name)
    }
}

fn is_namespace(id: &ObjectId) -> bool {
    id.group.is_empty() && id.kind == "Namespace"
}

/// Tells whether an envelope holds an object that is meant.
fn contains(envelope: &Manifest, is_meant: impl Fn(&ObjectId) -> bool) -> bool {
    is_envelope(envelope)
        && envelope::entries(&envelope.object)
            .unwrap_or_default()
            .iter()
            .any(|(_, object)| ObjectId::of(object).is_some_and(|id| is_meant(&id)))
}

fn text_in<'a>(selector: &'a Value, field: &str) -> &'a str {
    selector[field].as_str().unwrap_or_default()
}

/// Returns the text at a field such as `spec.placementName`; empty where there is none.
fn text_at<'a>(document: &'a Manifest, field: &str) -> &'a str {
    document.object.pointer(&format!("/{}", field.replace('.', "/"))).and_then(Value::as_str).unwrap_or_default()
}

impl Pass<'_> {
    /// Returns what the placement selects, if its tenant may deliver all of it.
    ///
    /// # Errors
    /// Names the first object that it may not deliver.
    pub(super) fn permitted(&self, selected: Vec<Manifest>) -> Result<Vec<Manifest>, String> {
        match self.refused(self.fleet.tenant_of(&self.state.record), &selected) {
            Some(why) => Err(why),
            None => Ok(selected),
        }
    }

    /// Returns why nothing new is delivered to a binding's cluster: its tenant may not use the cluster, or may not deliver an object of
    /// the snapshot. What the cluster holds stays, and removals are no deliveries.
    pub(super) fn forbidden(&self, binding: &Binding) -> Option<String> {
        if binding.deleting {
            return None;
        }
        let tenant = self.fleet.tenant_of(&self.state.record);
        if let Some(tenant) = tenant.filter(|tenant| !self.may_place_on(tenant, &binding.cluster)) {
            let name = &tenant.name;
            let cluster = &binding.cluster;
            return Some(format!("tenant {name}: {cluster} is none of its clusters; it keeps what it has"));
        }
        let payload = binding.snapshot.and_then(|index| self.state.payloads.get(&index))?;
        // Without one for this cluster it gets no order in any case.
        let payload = payload.variant(binding.overrides.variant.as_ref()).ok()?;
        self.refused(tenant, &payload.manifests)
    }

    /// Tells whether a tenant's placements may go to a cluster. Of one that left the fleet nothing is known.
    pub(super) fn may_place_on(&self, tenant: &Tenant, cluster: &ClusterName) -> bool {
        self.fleet.clusters.get(cluster.as_str()).is_none_or(|cluster| tenant.may_place_on(&cluster.labels))
    }

    /// Returns why a placement of a tenant, or of whoever runs the fleet, may not deliver all of these.
    fn refused(&self, tenant: Option<&Tenant>, manifests: &[Manifest]) -> Option<String> {
        let tenants = &self.fleet.tenants;
        // Of whoever runs the fleet only a placement that gives a namespace can take an object beyond the limits of its folder.
        if tenant.is_none() && !self.state.record.annotations.contains_key(DEFAULT_NAMESPACE) || tenants.is_empty() {
            return None;
        }
        let why = manifests.iter().find_map(|manifest| refused_object(tenants, tenant, manifest))?;
        let of = tenant.map_or_else(String::new, |tenant| format!("tenant {}: ", tenant.name));
        Some(format!("{of}it {why}; {HINT}"))
    }
}

#[cfg(test)]
#[allow(clippy::too_many_lines, reason = "tables read better so")]
mod tests;
