//! The way to GitHub through octocrab, which implements the sign-in of Apps.
//!
//! octocrab's models are not used: they require every field of every answer. It is built without retries and without redirects,
//! because both repeat writes.

use async_trait::async_trait;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Limited};
use octocrab::Octocrab;
use octocrab::models::{AppId, InstallationId};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use tokio::sync::OnceCell;

use super::APP_ROUTE;
use crate::client::{ANSWER_BYTES_MAX, At, CONNECT_TIMEOUT, Call, READ_TIMEOUT, RestAnswer, Wire, checked, parsed};
use crate::http_client::USER_AGENT;
use crate::{Auth, Error, Result, Settings};

/// The version of the API that the shapes are of.
const API_VERSION: &str = "2022-11-28";

/// The way through octocrab.
pub(crate) struct Crab {
    account: Account,
    /// What the route for GraphQL follows, where that is not the base of the API: GitHub Enterprise Server.
    graphql: Option<String>,
}

enum Account {
    Token { crab: Octocrab, token: SecretString },
    App { app: Octocrab, installation: Box<OnceCell<Octocrab>>, repository: String },
}

impl Crab {
    /// Acts with a token. `base` is that of the API, without a slash at its end.
    pub(crate) fn with_token(base: &str, token: &SecretString) -> Result<Self> {
        let builder = builder(base)?.personal_token(token.expose_secret().to_owned());
        let crab = builder.build().map_err(|error| unreachable("prepare", &error))?;
        Ok(Self { account: Account::Token { crab, token: token.clone() }, graphql: graphql_base(base) })
    }

    /// Acts as an App, in the installation that has the repository, `OWNER/NAME`.
    pub(crate) fn with_app(base: &str, id: u64, pem: &SecretString, repository: String) -> Result<Self> {
        let builder =
            builder(base)?.app_from_rsa_pem(AppId(id), pem.expose_secret().as_bytes()).map_err(|_| Error::Refused {
                what: "read the private key of the GitHub App".to_owned(),
                why: "it is no RSA key in PEM form".to_owned(),
            })?;
        let app = builder.build().map_err(|error| unreachable("prepare", &error))?;
        let account = Account::App { app, installation: Box::default(), repository };
        Ok(Self { account, graphql: graphql_base(base) })
    }

    /// Returns whom to ask by.
    async fn crab(&self, path: &str) -> Result<&Octocrab> {
        match &self.account {
            Account::Token { crab, .. } => Ok(crab),
            Account::App { app, .. } if path == APP_ROUTE => Ok(app),
            Account::App { app, installation, repository } => {
                // Asked once: an installation keeps its id, and octocrab renews the token that belongs to it.
                installation.get_or_try_init(|| installed(app, repository)).await
            }
        }
    }
}

/// Gets tokens with which an App reads a repository over git.
pub struct InstallationTokens {
    crab: Crab,
    location: String,
}

impl InstallationTokens {
    /// Takes the repository and the App; sends nothing. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// `Refused`: the key is none, or the address is none.
    pub fn new(settings: &Settings) -> Result<Self> {
        let Auth::App { id, pem } = &settings.auth else {
            let what = "get a token of a GitHub App".to_owned();
            return Err(Error::Refused { what, why: "no App is named".to_owned() });
        };
        let repository = format!("{}/{}", settings.owner, settings.name);
        let crab = Crab::with_app(&settings.base(), *id, pem, repository)?;
        Ok(Self { crab, location: settings.web() })
    }

    /// Returns a token that is valid for a fetch, and asks for a new one where the last is not.
    ///
    /// # Errors
    /// `Unauthenticated` where the App is not installed there or its key does not count, `Unreachable`.
    ///
    /// # Cancel safety
    /// May be dropped at any point: a token that was just made is lost, and the next call asks for another.
    pub async fn token(&self) -> Result<SecretString> {
        let what = format!("get a token of the GitHub App for {}", self.location);
        let token = async {
            let crab = self.crab.crab("").await?;
            crab.installation_token().await.map_err(|error| unreachable(&what, &error))
        };
        tokio::time::timeout(READ_TIMEOUT + CONNECT_TIMEOUT, token).await.map_err(|_| late(&what))?
    }
}

/// Returns the base of the route for GraphQL, where it differs: `HOST/api` beside `HOST/api/v3`.
fn graphql_base(base: &str) -> Option<String> {
    base.strip_suffix("/v3").map(str::to_owned)
}

fn builder(
    base: &str,
) -> Result<
    octocrab::OctocrabBuilder<
        octocrab::NoSvc,
        octocrab::DefaultOctocrabBuilderConfig,
        octocrab::NoAuth,
        octocrab::NotLayerReady,
    >,
> {
    let builder = Octocrab::builder().base_uri(base).map_err(|_| Error::Refused {
        what: "read the address of the forge".to_owned(),
        why: format!("{base:?} is none"),
    })?;
    Ok(builder
        .set_connect_timeout(Some(CONNECT_TIMEOUT))
        .set_read_timeout(Some(READ_TIMEOUT))
        .set_write_timeout(Some(READ_TIMEOUT)))
}

#[derive(Deserialize)]
struct Installation {
    id: u64,
}

/// Returns the App as it is installed for a repository.
async fn installed(app: &Octocrab, repository: &str) -> Result<Octocrab> {
    let what = format!("look for the App's installation in {repository}");
    let path = format!("/repos/{repository}/installation");
    let call = Call { what: &what, method: Method::GET, at: At::Api, path: &path, body: None, known: None };
    let answer = exchange(app, call).await?;
    let Installation { id } = parsed(&what, &checked(&what, answer)?)?;
    app.installation(InstallationId(id)).map_err(|error| unreachable(&what, &error))
}

#[async_trait]
impl Wire for Crab {
    async fn send(&self, call: Call<'_>) -> Result<RestAnswer> {
        let crab = self.crab(call.path).await?;
        if call.at != At::GraphQl {
            return exchange(crab, call).await;
        }
        let call = Call { path: "/graphql", ..call };
        let Some(base) = &self.graphql else { return exchange(crab, call).await };
        // A client knows one base. Commands are rare enough for another client.
        let token = match &self.account {
            Account::Token { token, .. } => token.clone(),
            Account::App { .. } => crab.installation_token().await.map_err(|error| unreachable(call.what, &error))?,
        };
        let other = builder(base)?.personal_token(token).build().map_err(|error| unreachable(call.what, &error))?;
        exchange(&other, call).await
    }
}

async fn exchange(crab: &Octocrab, Call { what, method, path, body, known, .. }: Call<'_>) -> Result<RestAnswer> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::ACCEPT, "application/vnd.github+json")
        .header("x-github-api-version", API_VERSION);
    if let Some(known) = known {
        request = request.header(header::IF_NONE_MATCH, known);
    }
    if body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let request = request
        .body(body.unwrap_or_default())
        .map_err(|_| Error::Refused { what: what.to_owned(), why: format!("{path:?} is no route") })?;
    let call = async {
        let answer = crab.execute(request).await.map_err(|error| unreachable(what, &error))?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|error| Error::Unreachable {
            what: what.to_owned(),
            why: format!("the answer breaks off or is too large: {error}"),
        })?;
        Ok(RestAnswer { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    };
    // octocrab's own limits are for each read: a host that sends a little at a time would never reach them.
    tokio::time::timeout(READ_TIMEOUT + CONNECT_TIMEOUT, call).await.map_err(|_| late(what))?
}

fn late(what: &str) -> Error {
    Error::Unreachable { what: what.to_owned(), why: "no answer in time".to_owned() }
}

/// Says what happened on the way. An answer of the host to a sign-in of the App is one that can be told apart.
fn unreachable(what: &str, error: &octocrab::Error) -> Error {
    if let octocrab::Error::GitHub { source, .. } = error
        && matches!(source.status_code.as_u16(), 401 | 403 | 404)
    {
        return Error::Unauthenticated { what: what.to_owned() };
    }
    let mut why = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        why = inner.to_string();
        cause = inner.source();
    }
    Error::Unreachable { what: what.to_owned(), why }
}
