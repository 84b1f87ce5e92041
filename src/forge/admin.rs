//! Setup of a git host: checks the token's permissions, and creates the webhook.

use http::{Method, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{checked, parsed};
use super::rest::Rest;
use super::shapes::Hook;
use super::{Error, Forge, Kind, Result, Settings};
use model::forge::Permission;

/// A permission that the token needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Set statuses on commits.
    Statuses,
    /// Write comments and issues.
    Comments,
}

/// The result of a check without side effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// It works.
    Yes,
    /// It does not, for this reason.
    No(String),
    /// Only a real call would tell.
    Unclear,
}

/// The differences between a webhook and the required one; empty if there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRepair {
    /// The hook, where there is one with our address.
    pub id: Option<u64>,
    /// What is wrong with it, as text for users.
    pub wrong: Vec<String>,
}

/// A repository with its settings.
pub struct Admin(Rest);

#[derive(Deserialize)]
struct Version {
    version: String,
}

impl Admin {
    /// Returns the repository; see [`super::connect`].
    pub fn connect(settings: &Settings) -> Result<Self> {
        super::rest(settings, None).map(Self)
    }

    /// Returns the repository as the daemon sees it.
    pub fn forge(&self) -> &dyn Forge {
        &self.0
    }

    /// Returns what the host says that it is.
    ///
    /// # Cancel safety
    /// May be dropped at any point: only the answer is lost.
    pub async fn server(&self) -> Result<String> {
        match self.0.kind {
            Kind::Gitea => {
                let Version { version } = self.0.client.get("ask for the version", "/version").await?;
                // Forgejo adds the version of Gitea that its API follows, such as `11.0.1+gitea-1.22.0`.
                let is_forgejo = version.contains("+gitea-");
                Ok(format!("{} {version}", if is_forgejo { "Forgejo" } else { "Gitea" }))
            }
            Kind::GitHub => {
                let meta: Value = self.0.client.get("ask for the version", "/meta").await?;
                Ok(meta["installed_version"].as_str().map_or("github.com".into(), |v| format!("GitHub Enterprise {v}")))
            }
        }
    }

    /// Returns what the token's account may do with the repository, as the repository itself says.
    ///
    /// # Cancel safety
    /// May be dropped at any point: only the answer is lost.
    pub async fn own_permission(&self) -> Result<Permission> {
        let may = self.0.repository().await?.permissions;
        // Each includes those below it.
        Ok(if may.admin {
            Permission::Admin
        } else if may.maintain {
            Permission::Maintain
        } else if may.push {
            Permission::Write
        } else if may.pull {
            Permission::Read
        } else {
            Permission::None
        })
    }

    /// Tells whether the token has a permission, by a call about something that does not exist: hosts check permissions first.
    ///
    /// # Cancel safety
    /// May be dropped at any point: only the answer is lost, and the call changes nothing.
    pub async fn may(&self, ability: Ability) -> Result<Known> {
        let (method, path, what) = match ability {
            Ability::Statuses => (Method::POST, format!("/statuses/{}", "0".repeat(40)), "try to set a status"),
            Ability::Comments => (Method::PATCH, "/issues/comments/0".to_owned(), "try to change a comment"),
        };
        let body = match ability {
            Ability::Statuses => json!({"state": "pending", "context": "gitfleet/check"}),
            Ability::Comments => json!({"body": "gitfleet check"}),
        };
        let answer = self.0.client.try_write(what, method, &self.0.route(&path), &body).await?;
        let status = answer.status;
        match checked(what, answer) {
            Ok(_) => Ok(Known::Yes),
            Err(Error::Forbidden { why, .. }) => Ok(Known::No(why)),
            // Gitea checks scopes and rights before anything else, and fails on a commit that is not there.
            Err(_) if self.0.kind == Kind::Gitea && matches!(status.as_u16(), 404 | 422 | 500) => Ok(Known::Yes),
            // GitHub does not know the commit, and reports that only to accounts that may write.
            Err(Error::Refused { .. }) if status == StatusCode::UNPROCESSABLE_ENTITY => Ok(Known::Yes),
            // It answers the same to accounts that may not.
            Err(Error::NotFound { .. }) => Ok(Known::Unclear),
            Err(error) => Err(error),
        }
    }

    /// Returns the events that the hook must send.
    ///
    /// Gitea's `issue_comment` are those of issues alone, and its `pull_request` brings more than we read.
    pub fn events(&self) -> &'static [&'static str] {
        match self.0.kind {
            Kind::Gitea => &["push", "pull_request_only", "pull_request_comment", "pull_request_sync", "issue_comment"],
            Kind::GitHub => &["push", "pull_request", "issue_comment"],
        }
    }

    /// Returns what to change about the hook with this address; without one, every hook whose address ends with our path
    /// counts.
    ///
    /// # Cancel safety
    /// May be dropped at any point: only the answer is lost.
    pub async fn hook(&self, url: Option<&str>) -> Result<HookRepair> {
        let hooks: Vec<Hook> = self.0.client.list("list the webhooks", &self.0.route("/hooks")).await?;
        let path = self.path();
        let ours = hooks.iter().find(|hook| match url {
            Some(url) => hook.config.url == url,
            None => hook.config.url.ends_with(path),
        });
        let Some(hook) = ours else {
            return Ok(HookRepair { id: None, wrong: vec!["there is none".into()] });
        };
        let mut wrong = Vec::new();
        let missing: Vec<&str> = self.events().iter().filter(|event| !self.sends(hook, event)).copied().collect();
        if !missing.is_empty() {
            wrong.push(format!("it does not send {}", missing.join(", ")));
        }
        // Gitea makes a hook inactive unless it is told otherwise.
        if !hook.active {
            wrong.push("it is not active".into());
        }
        // Forms are refused here: Gitea signs the JSON in a form and not the bytes that are sent.
        if hook.config.content_type != "json" {
            wrong.push(format!("it sends {:?} instead of json", hook.config.content_type));
        }
        Ok(HookRepair { id: Some(hook.id), wrong })
    }

    /// Returns the path of the daemon that deliveries of this host go to.
    pub fn path(&self) -> &'static str {
        match self.0.kind {
            Kind::Gitea => "/webhooks/gitea",
            Kind::GitHub => "/webhooks/github",
        }
    }

    fn sends(&self, hook: &Hook, event: &str) -> bool {
        // Gitea's answer names this event by its older name.
        let older = if self.0.kind == Kind::Gitea && event == "pull_request_only" { "pull_request" } else { event };
        hook.events.iter().any(|sent| sent == event || sent == older)
    }

    /// Creates a hook, or updates one; the secret is always sent: nobody can read the old one.
    ///
    /// # Cancel safety
    /// The request may have been sent: [`Self::hook`] tells whether it was executed.
    pub async fn write_hook(&self, id: Option<u64>, url: &str, secret: &SecretString) -> Result<u64> {
        let config = json!({"url": url, "content_type": "json", "secret": secret.expose_secret()});
        let mut body = json!({"active": true, "events": self.events(), "config": config});
        match self.0.kind {
            // Its own kind of hook; Forgejo takes it too.
            Kind::Gitea => body["type"] = json!("gitea"),
            Kind::GitHub => {
                body["name"] = json!("web");
                body["config"]["insecure_ssl"] = json!("0");
            }
        }
        let (method, path, what) = match id {
            None => (Method::POST, "/hooks".to_owned(), "create the webhook"),
            Some(id) => (Method::PATCH, format!("/hooks/{id}"), "repair the webhook"),
        };
        let answer = self.0.client.write(what, method, &self.0.route(&path), &body).await?;
        Ok(parsed::<Hook>(what, &answer)?.id)
    }
}
