//! Requests that change objects.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use super::answer::{
    Answer, Status, already_exists, bad_request, conflict, invalid, invalid_options, modified, not_found,
};
use super::body::{Body, Name, Object, Pen, Times};
use super::cluster::{Cluster, Shared, State};
use super::kinds::Kind;
use super::manifest::{Author, Manifest, Sent, apply, update};
use super::memo::{Made, Memo, Named, Question};
use super::names::check_name;
use super::request::{Objects, Patch, Query, Verb};

/// A request that changes an object, and what it works on.
pub(super) struct Write<'a> {
    pub cluster: &'a Cluster,
    pub shared: &'a Shared,
    pub memo: &'a Memo,
    pub pen: Pen,
    pub verb: Verb,
    pub objects: &'a Objects,
    pub query: &'a Query,
    pub body: Bytes,
    pub user_agent: &'a str,
    pub now: u32,
}

/// What a deletion says.
struct DeleteOptions {
    uid: Option<String>,
    version: Option<String>,
    is_dry: bool,
}

impl Write<'_> {
    /// Does what is asked; returns also how many versions that made.
    pub(super) fn perform(&self) -> Result<(Answer, u64), Status> {
        let mut state = self.cluster.lock();
        let before = state.version;
        let answer = if self.verb == Verb::Delete { self.delete(&mut state) } else { self.store(&mut state) };
        Ok((answer?, state.version - before))
    }

    fn kind(&self) -> &Arc<Kind> {
        &self.pen.kind
    }

    fn answer(&self, code: u16, object: &Object) -> Answer {
        let mut out = Vec::with_capacity(1024);
        self.pen.write(&mut out, object, false);
        Answer::bytes(code, out)
    }

    fn name(&self) -> Result<Name, Status> {
        let name = if let Some(name) = &self.objects.name {
            name.clone()
        } else {
            let sent = Sent::read(self.parse()?, self.kind(), &self.pen.api_version)?;
            sent.name.ok_or_else(|| invalid(self.kind(), "", "metadata.name", "Required value: name is required"))?
        };
        Ok(Name::new(&self.objects.namespace, &name))
    }

    fn store(&self, state: &mut State) -> Result<Answer, Status> {
        let kind = self.kind();
        let author = self.author()?;
        let name = self.name()?;
        let live = state.table(kind).objects.get(&name).cloned();
        match (&live, self.verb) {
            (Some(_), Verb::Create) => return Err(already_exists(kind, &name.name)),
            (None, Verb::Update | Verb::Patch(_)) => return Err(not_found(kind, &name.name)),
            (None, _) => state.check_namespace(kind, &name)?,
            (Some(_), _) => {}
        }
        let made = self.made(&author, &name, live.as_ref())?;
        self.check_made(&made, &name, live.as_ref())?;
        let (mut object, code) = match &live {
            Some(live) if Arc::ptr_eq(&live.body, &made.body) => return Ok(self.answer(200, live)),
            Some(live) => (self.changed(live, &made), 200),
            None => {
                let times = vec![self.now; made.kept_times.len()];
                (state.new_object(Arc::clone(&made.body), Times::of(&times), self.now), 201)
            }
        };
        if self.query.is_dry() {
            return Ok(self.answer(code, &object));
        }
        let name = self.shared.names.keep(name);
        if object.deleted > 0 && !object.body.has_finalizers {
            // Its last finalizer went: it is gone as it was.
            state.remove(kind, &name);
        } else {
            object = state.put(kind, name, object);
        }
        Ok(self.answer(code, &object))
    }

    fn author(&self) -> Result<Author, Status> {
        let manager = match (self.query.get("fieldManager"), self.verb) {
            (Some(manager), _) => manager,
            (None, Verb::Apply) => {
                let why = "Required value: is required for apply patch";
                return Err(invalid_options("PatchOptions", "fieldManager", why));
            }
            (None, _) => self.user_agent.split('/').next().unwrap_or_default(),
        };
        Ok(Author {
            manager: manager.to_owned(),
            applies: self.verb == Verb::Apply,
            api_version: self.pen.api_version.clone(),
            subresource: self.objects.subresource.clone(),
        })
    }

    /// Returns what the request makes of the live object.
    fn made(&self, author: &Author, name: &Name, live: Option<&Object>) -> Result<Arc<Made>, Status> {
        let question = Question::new(
            self.kind(),
            live.map(|object| &object.body),
            (self.verb, author.clone(), self.query.is("force"), name.clone(), self.body.clone()),
        );
        // A JSON patch may test the version, which is each cluster's own.
        let memo = (self.verb != Verb::Patch(Patch::Json)).then_some(self.memo);
        if let Some(known) = memo.and_then(|memo| memo.get(&question)) {
            return Ok(known);
        }
        let before = live.map(|object| object.body.manifest());
        let (manifest, named) = self.manifest(author, name, live, before.as_ref())?;
        let before = before.unwrap_or_default();
        let is_changed = manifest.content != before.content;
        let kept_times = manifest.managers.iter().map(|manager| {
            let at = before.managers.iter().position(|old| old.author == manager.author)?;
            let is_new = manager.author == *author
                && (before.managers[at].fields != manager.fields || author.applies && is_changed);
            (!is_new).then_some(at)
        });
        let spec = |content: &Value| {
            let fields = content.as_object().into_iter().flatten();
            let of_spec = fields.filter(|(name, _)| !["metadata", "status"].contains(&name.as_str()));
            of_spec.map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<_>>()
        };
        let made = Made {
            kept_times: kept_times.collect(),
            is_generation: spec(&before.content) != spec(&manifest.content),
            body: self.shared.bodies.keep(Body::of(&manifest)),
            named,
        };
        Ok(memo.map_or_else(|| Arc::new(made.clone()), |memo| memo.put(question, made.clone())))
    }

    /// Returns the manifest that the request makes, and what it names.
    fn manifest(
        &self,
        author: &Author,
        name: &Name,
        live: Option<&Object>,
        before: Option<&Manifest>,
    ) -> Result<(Manifest, Named), Status> {
        let kind = self.kind();
        let body = self.parse()?;
        let mut sent = match self.verb {
            Verb::Patch(patch) => self.patched(patch, &body, live, before)?,
            _ => Sent::read(body, kind, &self.pen.api_version)?,
        };
        if let Some(other) = sent.name.as_ref().filter(|sent| **sent != *name.name) {
            let path = &name.name;
            return Err(bad_request(format!(
                "the name of the object ({other}) does not match the name on the URL ({path})"
            )));
        }
        let namespace = sent.content.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        if !namespace.is_empty() && *namespace != *name.namespace {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(bad_request(why));
        }
        check_data(kind, name, &sent.content)?;
        sent.content["metadata"]["name"] = json!(name.name);
        if kind.is_namespaced {
            sent.content["metadata"]["namespace"] = json!(name.namespace);
        }
        if live.is_none() {
            check_name(kind, &name.name)?;
        }
        let manifest = if self.verb == Verb::Apply {
            if sent.managed_fields.is_some() {
                return Err(bad_request("metadata.managedFields must be nil"));
            }
            apply(kind, before, sent.content, author, self.query.is("force"))?
        } else {
            drop_hollow(kind, &mut sent.content);
            update(kind, before, sent.content, sent.managed_fields.as_ref(), author)
        };
        Ok((manifest, Named { uid: sent.uid, version: sent.version }))
    }

    fn patched(
        &self,
        patch: Patch,
        body: &Value,
        live: Option<&Object>,
        before: Option<&Manifest>,
    ) -> Result<Sent, Status> {
        let mut document = before.map(|before| before.content.clone()).unwrap_or_default();
        match patch {
            Patch::Merge => json_patch::merge(&mut document, body),
            Patch::Json => {
                if let Some(live) = live {
                    document["metadata"]["uid"] = json!(self.pen.uid(live.uid));
                    document["metadata"]["resourceVersion"] = json!(live.version.to_string());
                }
                let steps: json_patch::Patch =
                    serde_json::from_value(body.clone()).map_err(|error| bad_request(error.to_string()))?;
                let failed = |error: json_patch::PatchError| {
                    Status::new(422, "Invalid", format!("the server rejected our request: {error}"))
                };
                json_patch::patch(&mut document, &steps).map_err(failed)?;
            }
        }
        Ok(Sent::of(document))
    }

    /// Checks uid and version, which are each cluster's own.
    fn check_made(&self, made: &Made, name: &Name, live: Option<&Object>) -> Result<(), Status> {
        let kind = self.kind();
        let Some(live) = live else {
            return made.named.uid.as_ref().map_or(Ok(()), |uid| {
                let why =
                    format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
                Err(conflict(&kind.resource(), kind, &name.name, &why))
            });
        };
        let uid = self.pen.uid(live.uid);
        if let Some(other) = made.named.uid.as_ref().filter(|other| **other != uid) {
            return Err(if self.verb == Verb::Update {
                let why = format!("Precondition failed: UID in precondition: {other}, UID in object meta: {uid}");
                conflict(&kind.resource(), kind, &name.name, &why)
            } else {
                invalid(kind, &name.name, "metadata.uid", &format!("Invalid value: {other:?}: field is immutable"))
            });
        }
        match &made.named.version {
            Some(version) if *version != live.version.to_string() => Err(modified(kind, &name.name)),
            _ => Ok(()),
        }
    }

    /// Returns the live object with what was made of it.
    fn changed(&self, live: &Object, made: &Made) -> Object {
        let times = made.kept_times.iter().map(|kept| kept.map_or(self.now, |at| live.times.get(at)));
        Object {
            body: Arc::clone(&made.body),
            times: Times::of(&times.collect::<Vec<_>>()),
            generation: live.generation + u32::from(made.is_generation),
            ..live.clone()
        }
    }

    fn parse(&self) -> Result<Value, Status> {
        let parsed = serde_json::from_slice(&self.body);
        let why = |error: String| bad_request(format!("the body cannot be read: {error}"));
        match (parsed, self.verb) {
            (Ok(value), _) => Ok(value),
            (Err(_), Verb::Apply) => {
                let text = std::str::from_utf8(&self.body).map_err(|error| why(error.to_string()))?;
                serde_yaml::from_str(text).map_err(|error| why(error.to_string()))
            }
            (Err(error), _) => Err(why(error.to_string())),
        }
    }

    fn delete(&self, state: &mut State) -> Result<Answer, Status> {
        let kind = self.kind();
        let name = self.name()?;
        let Some((name, live)) = state.table(kind).objects.get_key_value(&name) else {
            return Err(not_found(kind, &name.name));
        };
        let (name, live) = (Arc::clone(name), live.clone());
        let options = self.delete_options()?;
        let uid = self.pen.uid(live.uid);
        let version = live.version.to_string();
        for (what, wanted, found, lesson) in [
            ("UID", &options.uid, &uid, "deleted and then recreated"),
            ("ResourceVersion", &options.version, &version, "modified"),
        ] {
            if let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != found) {
                let why = format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). \
                     The object might have been {lesson}"
                );
                return Err(conflict(&kind.name, kind, &name.name, &why));
            }
        }
        let is_namespace = kind.is_core("Namespace");
        if !options.is_dry {
            if is_namespace {
                return Ok(self.end_namespace(state, &name, &live));
            }
            if live.body.has_finalizers {
                let marked = state.mark(kind, &name, self.now).unwrap_or(live);
                return Ok(self.answer(200, &marked));
            }
            state.remove(kind, &name);
        } else if is_namespace || live.body.has_finalizers {
            return Ok(self.answer(200, &live));
        }
        let mut details = json!({"name": name.name, "kind": kind.plural, "uid": uid});
        if !kind.group.is_empty() {
            details["group"] = json!(kind.group);
        }
        Ok(Answer::json(&json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
        })))
    }

    /// Answers that the namespace is going, as if its controller were only a moment later.
    fn end_namespace(&self, state: &mut State, name: &Arc<Name>, live: &Object) -> Answer {
        let mut manifest = live.body.manifest();
        manifest.content["status"]["phase"] = json!("Terminating");
        let body = self.shared.bodies.keep(Body::of(&manifest));
        let going = state.put(self.kind(), Arc::clone(name), Object { body, deleted: self.now.max(1), ..live.clone() });
        let answer = self.answer(200, &going);
        state.empty_namespace(&name.name, self.now);
        answer
    }

    fn delete_options(&self) -> Result<DeleteOptions, Status> {
        // Where there is a body, API servers read the options from it alone.
        let has_body = !self.body.is_empty();
        let options = if has_body { self.parse()? } else { Value::Null };
        let text = |pointer: &str| options.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Ok(DeleteOptions {
            uid: text("/preconditions/uid"),
            version: text("/preconditions/resourceVersion"),
            is_dry: !has_body && self.query.is_dry() || options["dryRun"].as_array().is_some_and(|all| !all.is_empty()),
        })
    }
}

/// Drops empty maps and lists: objects of built-in kinds have none where they may be left out.
fn drop_hollow(kind: &Kind, content: &mut Value) {
    let is_hollow = |value: &Value| {
        value.is_null()
            || value.as_object().is_some_and(serde_json::Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty)
    };
    if let Some(metadata) = content["metadata"].as_object_mut() {
        metadata.retain(|_, value| !is_hollow(value));
    }
    if let Some(fields) = content.as_object_mut().filter(|_| !kind.is_custom) {
        fields.retain(|_, value| !is_hollow(value));
    }
}

/// The checks of types: values of a ConfigMap are texts, those of a Secret base64.
fn check_data(kind: &Kind, name: &Name, content: &Value) -> Result<(), Status> {
    let namespace = content.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let object = format!("{namespace}/{}", name.name);
    for (key, value) in content.get("data").and_then(Value::as_object).into_iter().flatten() {
        if kind.is_core("ConfigMap") && !value.is_string() {
            let message = format!(
                "failed to create typed patch object ({object}; /v1, Kind=ConfigMap): .data.{key}: expected string, \
                 got &value.valueUnstructured{{Value:{value}}}"
            );
            return Err(Status::new(500, "", message));
        }
        if kind.is_core("Secret") && value.as_str().is_some_and(|text| STANDARD.decode(text).is_err()) {
            let message = format!(
                "failed to convert new object ({object}; /v1, Kind=Secret) to proper version: unable to convert unstructured \
                 object to /v1, Kind=Secret: error decoding from json: illegal base64 data at input byte 0"
            );
            return Err(Status::new(500, "", message));
        }
    }
    Ok(())
}
