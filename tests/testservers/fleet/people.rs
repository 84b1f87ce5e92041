//! What people do on a Gitea: accounts, tokens, teams, pull requests, comments. Each call is made as whoever's token it is given.

use anyhow::{Context, Result, bail};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    gitea::Gitea,
    servers::READY,
    wait::{http, secret, until},
};

/// Everything a person does in these tests.
pub const PERSON_SCOPES: &[&str] =
    &["write:repository", "write:issue", "write:organization", "read:user", "write:notification"];

/// What gitfleet needs: reads git and permissions, writes statuses and hooks; comments; knows itself and teams.
pub const BOT_SCOPES: &[&str] = &["write:repository", "write:issue", "read:user", "read:organization"];

/// Somebody with an account.
#[derive(Clone, Debug)]
pub struct Account {
    /// Gitea's id of it.
    pub id: u64,
    /// The login.
    pub name: String,
    /// Its password.
    pub password: String,
}

/// How a pull request is merged, in the words of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeWay {
    /// A commit that joins both.
    Merge,
    /// One new commit.
    Squash,
    /// New commits on the base.
    Rebase,
    /// New commits, and one that joins both.
    RebaseMerge,
    /// The commits as they are.
    FastForwardOnly,
}

impl MergeWay {
    fn word(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Squash => "squash",
            Self::Rebase => "rebase",
            Self::RebaseMerge => "rebase-merge",
            Self::FastForwardOnly => "fast-forward-only",
        }
    }
}

impl Gitea {
    /// Asks the API with a token: `path` follows `/api/v1`. Returns the status code and the answer; an empty one is `null`.
    ///
    /// # Errors
    /// When Gitea cannot be asked or answers what is no JSON.
    pub fn ask(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        self.send(&format!("token {token}"), method, path, body)
    }

    /// The same, where anything but success is an error.
    ///
    /// # Errors
    /// When Gitea cannot be asked or refuses.
    pub fn api_as(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        self.call(&format!("token {token}"), method, path, body)
    }

    fn send(&self, authorization: &str, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        let headers = [("Authorization", authorization), ("Content-Type", "application/json")];
        let body = body.map(Value::to_string).unwrap_or_default();
        let (status, answer) = http(method, self.port, &format!("/api/v1{path}"), &headers, &body)?;
        // Refusals of the router itself are plain text.
        let value = match serde_json::from_str(&answer) {
            _ if answer.trim().is_empty() => Value::Null,
            Ok(value) => value,
            Err(_) if !(200..300).contains(&status) => Value::String(answer.trim().to_owned()),
            Err(error) => return Err(error).with_context(|| format!("{method} {path}: an answer that is no JSON")),
        };
        Ok((status, value))
    }

    fn call(&self, authorization: &str, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let (status, answer) = self.send(authorization, method, path, body)?;
        if !(200..300).contains(&status) {
            bail!("{method} {path}: Gitea answers {status}: {answer}");
        }
        Ok(answer)
    }

    /// Creates an account with a random password.
    ///
    /// # Errors
    /// When Gitea refuses, for example because the name is taken.
    pub fn user(&self, name: &str) -> Result<Account> {
        let password = secret();
        let wanted = json!({
            "username": name,
            "email": format!("{name}@example.test"),
            "password": password,
            "must_change_password": false,
        });
        let made = self.api("POST", "/admin/users", Some(&wanted))?;
        let id = made["id"].as_u64().context("an account without an id")?;
        Ok(Account { id, name: name.to_owned(), password })
    }

    /// Makes a token of an account that may do what its scopes say; see `PERSON_SCOPES` and `BOT_SCOPES`.
    ///
    /// # Errors
    /// When Gitea refuses, for example an unknown scope.
    pub fn token(&self, account: &Account, scopes: &[&str]) -> Result<String> {
        let Account { name, password, .. } = account;
        let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:{password}")));
        let wanted = json!({ "name": format!("fleet-{}", secret()), "scopes": scopes });
        let made = self.call(&basic, "POST", &format!("/users/{name}/tokens"), Some(&wanted))?;
        made["sha1"].as_str().map(str::to_owned).context("a token without its text")
    }

    /// Revokes every token of an account.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn revoke_tokens(&self, account: &Account) -> Result<()> {
        let Account { name, password, .. } = account;
        let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:{password}")));
        let path = format!("/users/{name}/tokens");
        let tokens = self.call(&basic, "GET", &path, None)?;
        for token in tokens.as_array().into_iter().flatten() {
            self.call(&basic, "DELETE", &format!("{path}/{}", token["id"]), None)?;
        }
        Ok(())
    }

    /// Creates an organisation of the administrator.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn organisation(&self, name: &str) -> Result<()> {
        self.api("POST", "/orgs", Some(&json!({ "username": name, "visibility": "public" }))).map(drop)
    }

    /// Creates an empty repository of an organisation and returns its full name, `ORGANISATION/NAME`.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn organisation_repo(&self, organisation: &str, name: &str) -> Result<String> {
        let wanted = json!({ "name": name, "default_branch": "main", "auto_init": false });
        self.api("POST", &format!("/orgs/{organisation}/repos"), Some(&wanted))?;
        Ok(format!("{organisation}/{name}"))
    }

    /// Creates a team with these people and returns its id. The team may read the organisation's repositories.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn team(&self, organisation: &str, name: &str, members: &[&str]) -> Result<u64> {
        let wanted = json!({
            "name": name,
            "permission": "read",
            "includes_all_repositories": true,
            "units_map": { "repo.code": "read", "repo.issues": "read", "repo.pulls": "read" },
        });
        let made = self.api("POST", &format!("/orgs/{organisation}/teams"), Some(&wanted))?;
        let id = made["id"].as_u64().context("a team without an id")?;
        for member in members {
            self.api("PUT", &format!("/teams/{id}/members/{member}"), None)?;
        }
        Ok(id)
    }

    /// Lets a user do something with a repository (`OWNER/NAME`): `read`, `write` or `admin`.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn collaborator(&self, repo: &str, user: &str, permission: &str) -> Result<()> {
        let wanted = json!({ "permission": permission });
        self.api("PUT", &format!("/repos/{repo}/collaborators/{user}"), Some(&wanted)).map(drop)
    }

    /// Returns a repository's address with credentials in it, to push to.
    pub fn address_for(&self, repo: &str, user: &str, token: &str) -> String {
        format!("http://{user}:{token}@127.0.0.1:{}/{repo}.git", self.port)
    }

    /// Opens a pull request and returns its number. `head` is a branch, or `USER:BRANCH` of a fork.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn open_pull(&self, token: &str, repo: &str, head: &str, base: &str, title: &str) -> Result<u64> {
        let wanted = json!({ "head": head, "base": base, "title": title });
        let made = self.api_as(token, "POST", &format!("/repos/{repo}/pulls"), Some(&wanted))?;
        made["number"].as_u64().context("a pull request without a number")
    }

    /// Returns a pull request.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn pull(&self, repo: &str, number: u64) -> Result<Value> {
        self.api("GET", &format!("/repos/{repo}/pulls/{number}"), None)
    }

    /// Merges a pull request as soon as Gitea has found it mergeable, and returns the commit that its base is at then.
    ///
    /// # Errors
    /// When Gitea refuses for another reason, or does not get there in time.
    pub fn merge(&self, token: &str, repo: &str, number: u64, way: MergeWay) -> Result<String> {
        let path = format!("/repos/{repo}/pulls/{number}");
        let wanted = json!({ "Do": way.word() });
        until(&format!("pull request {number} of {repo} to be merged"), READY, || {
            if self.pull(repo, number)?["mergeable"] != true {
                return Ok(None);
            }
            match self.ask(token, "POST", &format!("{path}/merge"), Some(&wanted))? {
                (200, _) => Ok(Some(())),
                // It is still looking whether the merge is possible.
                (405, _) => Ok(None),
                (status, answer) => bail!("merge of {repo} #{number}: Gitea answers {status}: {answer}"),
            }
        })?;
        until(&format!("the merge commit of pull request {number}"), READY, || {
            Ok(self.pull(repo, number)?["merge_commit_sha"].as_str().map(str::to_owned))
        })
    }

    /// Writes a comment on a pull request or issue and returns its id.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn comment(&self, token: &str, repo: &str, number: u64, body: &str) -> Result<u64> {
        let path = format!("/repos/{repo}/issues/{number}/comments");
        let made = self.api_as(token, "POST", &path, Some(&json!({ "body": body })))?;
        made["id"].as_u64().context("a comment without an id")
    }

    /// Changes a comment's text.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn edit_comment(&self, token: &str, repo: &str, id: u64, body: &str) -> Result<()> {
        let path = format!("/repos/{repo}/issues/comments/{id}");
        self.api_as(token, "PATCH", &path, Some(&json!({ "body": body }))).map(drop)
    }

    /// Deletes a comment.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn delete_comment(&self, token: &str, repo: &str, id: u64) -> Result<()> {
        self.api_as(token, "DELETE", &format!("/repos/{repo}/issues/comments/{id}"), None).map(drop)
    }

    /// Returns the comments of a pull request or issue, oldest first.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn comments(&self, repo: &str, number: u64) -> Result<Vec<Value>> {
        list(self.api("GET", &format!("/repos/{repo}/issues/{number}/comments"), None)?)
    }

    /// Gives a comment a reaction.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn react(&self, token: &str, repo: &str, comment: u64, reaction: &str) -> Result<()> {
        let path = format!("/repos/{repo}/issues/comments/{comment}/reactions");
        self.api_as(token, "POST", &path, Some(&json!({ "content": reaction }))).map(drop)
    }

    /// Lets only those with a permission read a repository.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn make_private(&self, repo: &str) -> Result<()> {
        self.api("PATCH", &format!("/repos/{repo}"), Some(&json!({ "private": true }))).map(drop)
    }

    /// Returns the words of the reactions to a comment.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn reactions(&self, repo: &str, comment: u64) -> Result<Vec<String>> {
        let found = list(self.api("GET", &format!("/repos/{repo}/issues/comments/{comment}/reactions"), None)?)?;
        Ok(found.iter().filter_map(|reaction| reaction["content"].as_str().map(str::to_owned)).collect())
    }

    /// Returns the newest status of each context of a commit, by context.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn statuses(&self, repo: &str, commit: &str) -> Result<Vec<Value>> {
        let found = self.api("GET", &format!("/repos/{repo}/commits/{commit}/status?limit=50"), None)?;
        let mut statuses = list(found["statuses"].clone())?;
        statuses.sort_by_key(|status| status["context"].to_string());
        Ok(statuses)
    }

    /// Returns how often a status was written to a commit, over all contexts.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn status_writes(&self, repo: &str, commit: &str) -> Result<usize> {
        let mut count = 0;
        for page in 1.. {
            let path = format!("/repos/{repo}/statuses/{commit}?limit=50&page={page}");
            let found = list(self.api("GET", &path, None)?)?.len();
            count += found;
            if found < 50 {
                break;
            }
        }
        Ok(count)
    }

    /// Returns the issues of a repository that are no pull requests, newest first.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn issues(&self, repo: &str) -> Result<Vec<Value>> {
        list(self.api("GET", &format!("/repos/{repo}/issues?type=issues&state=all&limit=50"), None)?)
    }

    /// Returns the webhooks of a repository.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub fn hooks(&self, repo: &str) -> Result<Vec<Value>> {
        list(self.api("GET", &format!("/repos/{repo}/hooks"), None)?)
    }
}

/// Gitea answers `null` for some empty lists.
fn list(answer: Value) -> Result<Vec<Value>> {
    match answer {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => Ok(items),
        other => bail!("expected a list, got {other}"),
    }
}
