//! Reads a request: which cluster, which objects, what to do with them.

use http::request::Parts;
use http::{Method, header};

use super::answer::{Status, bad_request, method_not_allowed, not_served};
use super::body::Form;

/// What stands before a cluster's name in paths.
const CLUSTERS: &str = "clusters";

/// What a request is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// `/version`, `/api` and the like, without a slash at the end.
    Fixed(String),
    /// Objects.
    Objects(Objects),
}

/// The objects of a path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Objects {
    pub group: String,
    pub version: String,
    pub plural: String,
    /// Empty for all namespaces, and in kinds without.
    pub namespace: String,
    pub name: Option<String>,
    pub subresource: String,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Apply,
    Patch(Patch),
    Delete,
}

/// The other kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Patch {
    Merge,
    Json,
}

impl Verb {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Apply => "apply",
            Self::Patch(_) => "patch",
            Self::Delete => "delete",
        }
    }
}

/// The parameters after the question mark.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(parts: &Parts) -> Self {
        let text = parts.uri.query().unwrap_or_default();
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// Returns a parameter that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1"))
    }

    /// Returns a parameter that is a number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Status> {
        let read = |text: &str| text.parse().map_err(|_| bad_request(format!("invalid {name}: {text:?}")));
        self.get(name).map(read).transpose()
    }

    pub(super) fn is_dry(&self) -> bool {
        self.get("dryRun").is_some()
    }
}

/// Takes the name of a cluster off a path.
pub(super) fn cluster(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix('/')?.strip_prefix(CLUSTERS)?.strip_prefix('/')?;
    Some(rest.split_at(rest.find('/').unwrap_or(rest.len())))
}

/// Reads a path below a cluster.
pub(super) fn subject(path: &str) -> Result<Subject, Status> {
    let path = path.trim_end_matches('/');
    let segments: Option<Vec<String>> = path.split('/').skip(1).map(decoded).collect();
    let segments = segments.ok_or_else(|| bad_request("the path is not UTF-8"))?;
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match words.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return Ok(Subject::Fixed(path.to_owned())),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, plural, ..] if !["status", "finalize"].contains(plural) => (*namespace, &rest[2..]),
        rest => ("", rest),
    };
    let mut objects = Objects {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        ..Objects::default()
    };
    match rest {
        [plural] => (*plural).clone_into(&mut objects.plural),
        [plural, name] | [plural, name, "status"] => {
            (*plural).clone_into(&mut objects.plural);
            objects.name = Some((*name).to_owned());
            objects.subresource = rest.get(2).map(|part| (*part).to_owned()).unwrap_or_default();
        }
        _ => return Err(not_served()),
    }
    Ok(Subject::Objects(objects))
}

/// Returns what a request for objects wants.
pub(super) fn verb(parts: &Parts, query: &Query, has_name: bool) -> Result<Verb, Status> {
    match (&parts.method, has_name) {
        (&Method::GET, true) => Ok(Verb::Get),
        (&Method::GET, false) if query.is("watch") => Ok(Verb::Watch),
        (&Method::GET, false) => Ok(Verb::List),
        (&Method::POST, false) => Ok(Verb::Create),
        (&Method::PUT, true) => Ok(Verb::Update),
        (&Method::DELETE, true) => Ok(Verb::Delete),
        (&Method::PATCH, true) => match header(parts, header::CONTENT_TYPE) {
            "application/apply-patch+yaml" | "application/apply-patch+json" => Ok(Verb::Apply),
            "application/merge-patch+json" => Ok(Verb::Patch(Patch::Merge)),
            "application/json-patch+json" => Ok(Verb::Patch(Patch::Json)),
            _ => Err(Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")),
        },
        _ => Err(method_not_allowed()),
    }
}

/// Returns a header's text, empty where there is none.
pub(super) fn header(parts: &Parts, name: header::HeaderName) -> &str {
    parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns the form in which objects are wanted; the first that is known counts.
pub(super) fn form(parts: &Parts) -> Form {
    let accepted = header(parts, header::ACCEPT);
    let is_metadata = accepted.split(',').next().is_some_and(|first| first.contains("as=PartialObjectMetadata"));
    if is_metadata { Form::Metadata } else { Form::Whole }
}

/// Returns a segment of a path without its escapes; `None` where it is not UTF-8.
fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment;
    while let Some(at) = rest.find('%') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        bytes.push(u8::from_str_radix(rest.get(at + 1..at + 3)?, 16).ok()?);
        rest = &rest[at + 3..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_objects() {
        let objects = |path: &str| match subject(path) {
            Ok(Subject::Objects(o)) => {
                format!(
                    "{}|{}|{}|{}|{}|{}",
                    o.group,
                    o.version,
                    o.plural,
                    o.namespace,
                    o.name.unwrap_or_default(),
                    o.subresource
                )
            }
            Ok(Subject::Fixed(path)) => path,
            Err(status) => status.code.to_string(),
        };
        for (path, wanted) in [
            ("/version", "/version"),
            ("/api/v1/", "/api/v1"),
            ("/apis/apps", "/apis/apps"),
            ("/api/v1/namespaces", "|v1|namespaces|||"),
            ("/api/v1/namespaces/a", "|v1|namespaces||a|"),
            ("/api/v1/namespaces/a/status", "|v1|namespaces||a|status"),
            ("/api/v1/namespaces/a/configmaps", "|v1|configmaps|a||"),
            ("/apis/x.io/v2/namespaces/a/roles/b%3Ac%20d%3Fe+f", "x.io|v2|roles|a|b:c d?e+f|"),
            ("/apis/apps/v1/deployments", "apps|v1|deployments|||"),
            ("/api/v1/namespaces/a/pods/b/exec", "404"),
        ] {
            assert_eq!(objects(path), wanted, "{path}");
        }
        assert_eq!(cluster("/clusters/a/api/v1"), Some(("a", "/api/v1")));
        assert_eq!(cluster("/clusters/a"), Some(("a", "")));
        assert_eq!(cluster("/counters"), None);
    }
}
