//! Names and identities: parsed once at the input, valid afterwards.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::shared::{Interned, Pool, Pooled};
use crate::api::RESERVED_NAMESPACE;
use crate::api::check::{is_dns_label, is_dns_subdomain};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident($text:ty)) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name($text);

        impl $name {
            /// Wraps a text that its producer already checked.
            pub fn new(text: impl Into<$text>) -> Self {
                Self(text.into())
            }

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

text_id!(
    /// The name of a member cluster, from its `MemberCluster` object: in memory once, so that comparing two names reads no text.
    #[derive(Hash)]
    ClusterName(Interned)
);
text_id!(
    /// A commit of the source, as lowercase hexadecimal.
    #[derive(Hash)]
    CommitId(Arc<str>)
);
text_id!(
    /// A git blob, as lowercase hexadecimal; equal ids are equal contents.
    BlobId(Arc<str>)
);
text_id!(
    /// A SHA-256 as lowercase hexadecimal.
    #[derive(Hash)]
    Digest(Arc<str>)
);

impl Pooled for ObjectKey {
    fn pool() -> &'static Pool<Self> {
        static POOL: Pool<ObjectKey> = Pool::new();
        &POOL
    }
}

/// Characters of a digest that people are shown.
const DIGEST_SHOWN: usize = 12;

impl Digest {
    /// Returns its first twelve characters, as text for users.
    pub fn short(&self) -> &str {
        self.0.get(..DIGEST_SHOWN).unwrap_or(&self.0)
    }
}

impl CommitId {
    /// Returns the first seven characters, as text for users.
    pub fn short(&self) -> &str {
        self.0.get(..7).unwrap_or(&self.0)
    }
}

/// Names a placement: `name` for a ClusterResourcePlacement, `namespace/name` for a ResourcePlacement, as KubeFleet keys
/// them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlacementKey {
    /// The namespace of a ResourcePlacement; `None` for a ClusterResourcePlacement.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

impl PlacementKey {
    /// Names a ClusterResourcePlacement.
    pub fn cluster_scoped(name: impl Into<String>) -> Self {
        Self { namespace: None, name: name.into() }
    }

    /// Names a ResourcePlacement.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// Names the placement of a namespace as objects have it: empty where they have none.
    pub fn of_namespace(namespace: &str, name: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()), name: name.into() }
    }

    /// Tells whether a placement can be called so. What git holds is checked when it is read; what a member says may be anything.
    pub fn is_wellformed(&self) -> bool {
        is_dns_subdomain(&self.name) && self.namespace.as_deref().is_none_or(is_dns_label)
    }

    /// Returns the word that names this placement alone in every command, whatever else has its name: `crp/NAME` or
    /// `rp/NAMESPACE/NAME`.
    pub fn qualified(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("rp/{namespace}/{}", self.name),
            None => format!("crp/{}", self.name),
        }
    }

    /// Returns the kind of the placement.
    pub fn kind(&self) -> &'static str {
        if self.namespace.is_some() { "ResourcePlacement" } else { "ClusterResourcePlacement" }
    }
}

impl fmt::Display for PlacementKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl FromStr for PlacementKey {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.split_once('/') {
            Some((namespace, name)) => Self::namespaced(namespace, name),
            None => Self::cluster_scoped(text),
        })
    }
}

impl Serialize for PlacementKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PlacementKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(text.parse().expect("parsing a placement key cannot fail"))
    }
}

/// Identifies one object like KubeFleet's `ResourceIdentifier`: with the version of its manifest.
///
/// The order is group, version, kind, namespace, name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectId {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version without the group, such as `v1`.
    pub version: String,
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl ObjectId {
    /// Returns `version` or `group/version`, as `apiVersion` spells it.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the identity without the version: what makes two documents the same object on a cluster.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            group: self.group.as_str().into(),
            kind: self.kind.as_str().into(),
            namespace: self.namespace.as_str().into(),
            name: self.name.as_str().into(),
        }
    }

    /// Tells whether the object belongs to gitfleet on every member: the namespace of the inventories, or something in it.
    pub fn is_reserved(&self) -> bool {
        is_reserved(&self.group, &self.kind, &self.namespace, &self.name)
    }

    /// Reads the identity of an object without checks, for objects from members. Objects from git get theirs from
    /// [`crate::api::identity::identify`]. `None` if `apiVersion`, `kind` or `metadata.name` is missing.
    pub fn of(object: &serde_json::Value) -> Option<Self> {
        let api_version = object.get("apiVersion")?.as_str()?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let metadata = object.get("metadata")?;
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: object.get("kind")?.as_str()?.to_owned(),
            namespace: metadata.get("namespace").and_then(|n| n.as_str()).unwrap_or_default().to_owned(),
            name: metadata.get("name")?.as_str()?.to_owned(),
        })
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_object(f, &self.group, &self.kind, &self.namespace, &self.name)
    }
}

/// Identifies one object on a cluster, whatever version its manifest has. Members have thousands of them, so their parts are interned.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectKey {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "Interned::is_empty")]
    pub group: Interned,
    /// Kind, such as `Deployment`.
    pub kind: Interned,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Interned::is_empty")]
    pub namespace: Interned,
    /// `metadata.name`.
    pub name: Interned,
}

impl ObjectKey {
    /// Returns the one copy of it that all members share.
    #[must_use]
    pub fn shared(self) -> Arc<Self> {
        Self::pool().share(self)
    }

    /// Tells whether the object belongs to gitfleet on every member: the namespace of the inventories, or something in it.
    pub fn is_reserved(&self) -> bool {
        is_reserved(&self.group, &self.kind, &self.namespace, &self.name)
    }

    /// Tells whether it is a Namespace or a CustomResourceDefinition: its deletion deletes what is inside.
    pub fn is_container(&self) -> bool {
        self.is_namespace() || self.is_definition()
    }

    /// Tells whether it is a Namespace.
    pub fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.kind == "Namespace"
    }

    fn is_definition(&self) -> bool {
        self.group == "apiextensions.k8s.io" && self.kind == "CustomResourceDefinition"
    }

    /// Tells whether the deletion of another object deletes this one: of its Namespace, or of its definition, whose name is the plural of the
    /// kind and the group. A plural that is not formed by the rules is not recognised.
    ///
    /// Source: Kubernetes, `meta.UnsafeGuessKindToResource`, and plurals that keep a `y`.
    pub fn is_inside(&self, container: &Self) -> bool {
        if container.is_namespace() {
            return !self.namespace.is_empty() && *self.namespace == *container.name;
        }
        if !container.is_definition() {
            return false;
        }
        let plural = container.name.strip_suffix(&*self.group).and_then(|rest| rest.strip_suffix('.'));
        let Some(plural) = plural else { return false };
        let kind = self.kind.to_lowercase();
        matches!(plural.strip_prefix(&*kind), Some("" | "s" | "es"))
            || kind.strip_suffix('y').is_some_and(|stem| plural.strip_prefix(stem) == Some("ies"))
    }
}

fn is_reserved(group: &str, kind: &str, namespace: &str, name: &str) -> bool {
    namespace == RESERVED_NAMESPACE || (group.is_empty() && kind == "Namespace" && name == RESERVED_NAMESPACE)
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_object(f, &self.group, &self.kind, &self.namespace, &self.name)
    }
}

/// Writes `Kind.group namespace/name`, the way kubectl names objects.
fn write_object(f: &mut fmt::Formatter<'_>, group: &str, kind: &str, namespace: &str, name: &str) -> fmt::Result {
    f.write_str(kind)?;
    if !group.is_empty() {
        write!(f, ".{group}")?;
    }
    f.write_str(" ")?;
    if !namespace.is_empty() {
        write!(f, "{namespace}/")?;
    }
    f.write_str(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_with_a_namespace_or_a_definition() {
        let key = |group: &str, kind: &str, namespace: &str, name: &str| ObjectKey {
            group: group.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        let definition = |name: &str| key("apiextensions.k8s.io", "CustomResourceDefinition", "", name);
        let namespace = key("", "Namespace", "", "n");
        let secret = key("", "Secret", "n", "s");
        let custom = |kind: &str| key("example.com", kind, "n", "x");
        let rows = [
            ("in the Namespace", secret.clone(), &namespace, true),
            ("in another one", key("", "Secret", "m", "n"), &namespace, false),
            ("in none", key("", "Node", "", "n"), &namespace, false),
            ("of the definition", custom("Widget"), &definition("widgets.example.com"), true),
            ("of one with another ending", custom("Policy"), &definition("policies.example.com"), true),
            ("of one that keeps its y", custom("Gateway"), &definition("gateways.example.com"), true),
            ("of one with an s", custom("Bus"), &definition("buses.example.com"), true),
            ("of another kind", custom("WidgetSet"), &definition("widgets.example.com"), false),
            ("of another group", custom("Widget"), &definition("widgets.com"), false),
            ("a name alone", secret, &key("", "ConfigMap", "", "n"), false),
        ];
        for (name, object, container, expected) in rows {
            assert_eq!(object.is_inside(container), expected, "{name}");
        }
    }
}
