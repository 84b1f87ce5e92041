//! The kinds that are built into Kubernetes, and their scope.
//!
//! Generated from the types of k8s-openapi, so that decisions need no discovery.

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope, Resource};

use super::tree::Scope;

/// A kind that every API server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version of the type.
    pub version: &'static str,
    /// Kind, such as `Deployment`.
    pub kind: &'static str,
    /// The name in URLs, such as `deployments`.
    pub plural: &'static str,
    /// Its scope.
    pub scope: Scope,
    /// Whether every release of Kubernetes that the table knows has it in this version. Which one a member serves of another, only the
    /// member knows.
    pub is_settled: bool,
}

/// A kind to watch. The version is that of its manifests; `None` lets the member choose.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchedKind {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
}

trait HasScope {
    const SCOPE: Scope;
}

impl HasScope for ClusterResourceScope {
    const SCOPE: Scope = Scope::Cluster;
}

impl HasScope for NamespaceResourceScope {
    const SCOPE: Scope = Scope::Namespaced;
}

const fn built_in<T: Resource>(is_settled: bool) -> BuiltIn
where
    T::Scope: HasScope,
{
    BuiltIn {
        group: T::GROUP,
        version: T::VERSION,
        kind: T::KIND,
        plural: T::URL_PATH_SEGMENT,
        scope: <T::Scope as HasScope>::SCOPE,
        is_settled,
    }
}

macro_rules! table {
    ($($settled:literal: { $($path:path: $($kind:ident)+;)+ })+) => {
        &[$($($({
            use $path as version;
            built_in::<version::$kind>($settled)
        },)+)+)+]
    };
}

/// The kinds of Kubernetes 1.33 to 1.37; of each, its most stable version is first.
///
/// Members are of several releases, and k8s-openapi has the types of one at a time, the newest here. No kind has left since 1.33; versions
/// have, such as `storage.k8s.io/v1beta1`, and are not listed: they change neither scope nor URL of a kind, and a version that is not
/// listed first is asked for at the member. `tests/tidy/kinds.rs` compares all this with every release.
pub const BUILT_IN: &[BuiltIn] = table! {
    // Settled: every release has them in this version.
    true: {
        k8s_openapi::api::core::v1:
            Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
            PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount;
        k8s_openapi::api::apps::v1: ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet;
        k8s_openapi::api::batch::v1: CronJob Job;
        k8s_openapi::api::autoscaling::v2: HorizontalPodAutoscaler;
        k8s_openapi::api::autoscaling::v1: HorizontalPodAutoscaler;
        k8s_openapi::api::networking::v1: IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR;
        k8s_openapi::api::policy::v1: PodDisruptionBudget;
        k8s_openapi::api::rbac::v1: ClusterRole ClusterRoleBinding Role RoleBinding;
        k8s_openapi::api::storage::v1: CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment;
        k8s_openapi::api::admissionregistration::v1:
            MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
            ValidatingWebhookConfiguration;
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1: CustomResourceDefinition;
        k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1: APIService;
        k8s_openapi::api::certificates::v1: CertificateSigningRequest;
        k8s_openapi::api::coordination::v1: Lease;
        k8s_openapi::api::discovery::v1: EndpointSlice;
        k8s_openapi::api::events::v1: Event;
        k8s_openapi::api::flowcontrol::v1: FlowSchema PriorityLevelConfiguration;
        k8s_openapi::api::node::v1: RuntimeClass;
        k8s_openapi::api::scheduling::v1: PriorityClass;
        k8s_openapi::api::authentication::v1: SelfSubjectReview TokenReview;
        k8s_openapi::api::authorization::v1:
            LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview;
        k8s_openapi::api::apiserverinternal::v1alpha1: StorageVersion;
        k8s_openapi::api::coordination::v1beta1: LeaseCandidate;
    }
    // Not settled.
    false: {
        k8s_openapi::api::admissionregistration::v1: MutatingAdmissionPolicy MutatingAdmissionPolicyBinding;
        k8s_openapi::api::certificates::v1: ClusterTrustBundle PodCertificateRequest;
        k8s_openapi::api::resource::v1: DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice;
        k8s_openapi::api::resource::v1alpha3: ResourcePoolStatusRequest;
        k8s_openapi::api::scheduling::v1beta1: PodGroup Workload;
        k8s_openapi::api::scheduling::v1alpha3: CompositePodGroup;
        k8s_openapi::api::storage::v1: VolumeAttributesClass;
        k8s_openapi::api::storagemigration::v1: StorageVersionMigration;
        k8s_openapi::api::lifecycle::v1alpha1: Eviction EvictionRequest;
    }
};

/// Returns `Kind.group`, as kubectl names kinds; the kind alone in the core group.
pub fn qualified(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

/// Returns the built-in kind, in its most stable version.
pub fn lookup(group: &str, kind: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|k| k.kind == kind && k.group == group)
}

/// Returns the name of a kind in URLs.
///
/// For other kinds it guesses like kubectl; callers with the CRD or discovery know better.
pub fn plural(group: &str, version: &str, kind: &str) -> String {
    let same_version = BUILT_IN.iter().find(|k| k.kind == kind && k.group == group && k.version == version);
    match same_version.or_else(|| lookup(group, kind)) {
        Some(known) => known.plural.to_owned(),
        None => guess_plural(&kind.to_lowercase()),
    }
}

/// Source: Kubernetes apimachinery, `UnsafeGuessKindToResource`.
fn guess_plural(singular: &str) -> String {
    if singular.ends_with("endpoints") {
        return singular.to_owned();
    }
    match singular.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if singular.ends_with('s') => format!("{singular}es"),
        None => format!("{singular}s"),
    }
}

#[cfg(test)]
mod tests;
