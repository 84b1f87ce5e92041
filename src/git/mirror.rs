//! A remote, mirrored into a bare repository below the state folder: ls-refs first, a pack only if the tip moved.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gix::bstr::ByteSlice;
use gix::credentials::{helper, protocol};
use gix::protocol::handshake::Ref;
use gix::remote::Direction;
use gix::remote::fetch::{Status, Tags, refs::update::Mode};
use gix::url::Scheme;
use secrecy::{ExposeSecret, SecretString};

use super::error::Secrets;
use super::fetch::{Bounds, Excess};
use super::pull::{pull_head, pull_ref};
use super::repository::{Reader, open_options};
use super::ssh::{Ssh, Transport};
use super::watchdog::{Stopped, watched};
use super::{Error, FETCH_TIME_MAX, PULL_FETCH_TIME_MAX, REF_TRACKING, SourceSpec, Tip, compact, durable, heal, ssh};
use model::id::CommitId;

/// The user name sent along with a token: forges take any with a personal token, GitHub Apps want this very one.
const TOKEN_USER: &str = "x-access-token";

/// One remote repository and our copy of it.
pub(super) struct Mirror {
    url: gix::Url,
    location: Arc<str>,
    pub dir: PathBuf,
    options: gix::open::Options,
    spec: SourceSpec,
    /// What connects to it, where it is reached over ssh.
    ssh: Option<Ssh>,
    secrets: Secrets,
    pub reader: Reader,
    /// What is wrong with it and makes it to be cloned again.
    damage: Option<String>,
    /// A tip that is too large: it is not fetched again.
    too_large: Option<(gix::ObjectId, Excess)>,
}

/// The server's present commit of the branch.
struct SeenBranch {
    /// The full name of the ref to fetch.
    name: String,
    id: gix::ObjectId,
}

impl Mirror {
    /// Checks the URL and the token against each other, and opens or creates the mirror. Does not use the network.
    pub(crate) fn open(spec: &SourceSpec, dir: PathBuf) -> Result<Self, Error> {
        // First: it says more about such a location.
        let ssh = ssh::is_ssh(&spec.location).then(|| Ssh::new(&spec.location, spec.ssh.as_ref())).transpose()?;
        let url = parse_url(spec)?;
        let mut overrides = Vec::new();
        // ssh is started here, and never by gix.
        if ssh.is_none() {
            overrides.push(format!("protocol.{}.allow=always", url.scheme.as_str()));
        }
        let mut secrets: Vec<SecretString> = spec.token.iter().cloned().collect();
        // gix asks for credentials over https alone, so over http a header is the one way to send the token.
        if let (Scheme::Http, Some(token)) = (&url.scheme, &spec.token) {
            let login = STANDARD.encode(format!("{TOKEN_USER}:{}", token.expose_secret()).as_bytes());
            overrides.push(format!("http.extraHeader=Authorization: Basic {login}"));
            secrets.push(login.into());
        }
        let options = open_options(overrides);
        let location: Arc<str> = spec.location.as_str().into();
        let (reader, damage) = heal::open(&dir, &options, &location, &spec.path)?;
        let spec = spec.clone();
        let secrets = Secrets::new(secrets);
        Ok(Self { url, location, dir, options, spec, ssh, secrets, reader, damage, too_large: None })
    }

    /// Uses another token from the next request on; tells whether it is another one.
    pub(crate) fn use_token(&mut self, token: SecretString) -> Result<bool, Error> {
        if self.spec.token.as_ref().map(ExposeSecret::expose_secret) == Some(token.expose_secret()) {
            return Ok(false);
        }
        // It is part of the options that the repository is opened with.
        let spec = SourceSpec { token: Some(token), ..self.spec.clone() };
        let opened = Self::open(&spec, self.dir.clone())?;
        let damage = self.damage.take();
        let too_large = self.too_large.take();
        *self = Self { damage: damage.or(opened.damage), too_large, ..opened };
        Ok(true)
    }

    /// Opens a second, empty mirror of the same remote.
    pub(crate) fn beside(&self, dir: PathBuf) -> Result<Self, Error> {
        Self::open(&self.spec, dir)
    }

    /// Opens the repository again: a store's room for packs is fixed when it is opened.
    pub(crate) fn reopen(&mut self) -> Result<(), Error> {
        self.reader = Reader::open(&self.dir, self.options.clone(), &self.location, &self.spec.path)?;
        Ok(())
    }

    /// Asks for the branch's commit and fetches it if it moved; clones a damaged mirror again first.
    pub(crate) fn poll(&mut self, interrupt: &AtomicBool) -> Result<Tip, Error> {
        self.guarded(FETCH_TIME_MAX, interrupt, |mirror| mirror.poll_unguarded(interrupt))
    }

    /// Runs what uses the network so that a connection over ssh ends with it.
    fn guarded<T>(
        &mut self,
        limit: Duration,
        interrupt: &AtomicBool,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Some(process) = self.ssh.as_ref().map(Ssh::process) else { return work(self) };
        let location = Arc::clone(&self.location);
        Ssh::guard(&process, &location, interrupt, limit, || work(self))
    }

    fn poll_unguarded(&mut self, interrupt: &AtomicBool) -> Result<Tip, Error> {
        if self.damage.is_none() {
            match self.ask(interrupt) {
                Err(error) if error.may_be_damage() => {
                    self.damage = heal::damage(&self.reader);
                    if self.damage.is_none() {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
        self.rebuild(interrupt)?;
        self.ask(interrupt)
    }

    /// Has the mirror cloned again with the next poll.
    pub(crate) fn doubt(&mut self, why: String) {
        self.damage = Some(why);
    }

    fn rebuild(&mut self, interrupt: &AtomicBool) -> Result<(), Error> {
        let damage = self.damage.clone().unwrap_or_default();
        tracing::warn!(mirror = %self.dir.display(), damage, "the mirror is damaged; cloning it again");
        let lost = rebuild(self, interrupt).map_err(|error| Error::Damaged {
            location: self.location.to_string(),
            dir: self.dir.clone(),
            damage,
            why: error.in_full(),
        })?;
        self.damage = None;
        for pin in lost {
            tracing::warn!(mirror = %self.dir.display(), pin, "the remote does not have it and the damaged mirror not whole");
        }
        Ok(())
    }

    fn ask(&mut self, interrupt: &AtomicBool) -> Result<Tip, Error> {
        let repo = self.reader.local();
        let wanted = self.spec.branch.as_deref().map_or_else(|| "HEAD".to_owned(), full_branch_name);
        let (tip, fetched) = if self.spec.branch.is_some() {
            self.fetch(&repo, &wanted, interrupt)?
        } else {
            // Where the default branch points is asked again each time: it may be renamed.
            let seen = self.default_branch(&repo)?;
            let unmoved = tracked_tip(&repo, &seen.name) == Some(seen.id) && repo.has_object(seen.id);
            if unmoved { (seen, false) } else { self.fetch(&repo, &seen.name, interrupt)? }
        };
        if fetched {
            self.reopen()?;
        }
        let branch = tip.name.strip_prefix("refs/heads/").unwrap_or(&tip.name).to_owned();
        Ok(Tip { commit: CommitId::new(tip.id.to_string()), branch: Some(branch) })
    }

    /// Returns where the branch is, and whether a pack or a ref had to be fetched for it.
    fn fetch(
        &mut self,
        repo: &gix::Repository,
        name: &str,
        interrupt: &AtomicBool,
    ) -> Result<(SeenBranch, bool), Error> {
        match self.fetch_to(repo, name, &tracking_name(name), FETCH_TIME_MAX, interrupt)? {
            Some(found) => Ok(found),
            None => Err(self.absent(repo, name)?),
        }
    }

    /// Brings a ref of the remote to where it is there, under a name of gitfleet; `None` where the remote does not have it.
    fn fetch_to(
        &mut self,
        repo: &gix::Repository,
        name: &str,
        tracking: &str,
        limit: Duration,
        interrupt: &AtomicBool,
    ) -> Result<Option<(SeenBranch, bool)>, Error> {
        let remote = self.remote(repo, &format!("+{name}:{tracking}"))?;
        let prepared = self
            .connect(&remote)?
            .prepare_fetch(gix::progress::Discard, gix::remote::ref_map::Options::default())
            .map_err(|error| self.failed(&error, true))?;
        let Some(seen) = find(&prepared.ref_map().remote_refs, name) else { return Ok(None) };
        // After damage a ref may stand while its commit is gone: then it is fetched although the ref is right.
        if ref_tip(repo, tracking) == Some(seen.id) && repo.has_object(seen.id) {
            return Ok(Some((seen, false)));
        }
        if let Some((_, excess)) = self.too_large.filter(|(id, _)| *id == seen.id) {
            return Err(self.refused(name, excess));
        }
        let bounds = Bounds::new();
        let (outcome, stopped) = watched(
            interrupt,
            limit,
            || {
                bounds.look();
                None
            },
            // A read that blocks in the kernel sees no flag: over http it ends by the client's own limit of 30 s without a byte.
            || bounds.stop().store(true, Ordering::Relaxed),
            || prepared.receive(bounds.progress(), bounds.stop()),
        );
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                // Bounds and watchdog raise the same flag, and gix's error does not say whose it was. Size comes first:
                // what is too large must not be tried again as something that was late.
                if let Some(excess) = bounds.excess_of(&error) {
                    self.too_large = Some((seen.id, excess));
                    return Err(self.refused(name, excess));
                }
                return Err(match stopped {
                    Some(Stopped::Late(limit)) => Error::Timeout { location: self.location.to_string(), limit },
                    Some(Stopped::Asked) => Error::Interrupted { location: self.location.to_string() },
                    None => self.failed(&error, false),
                });
            }
        };
        let update_refs = match outcome.status {
            // All objects are here already, such as after a force-push back to an older commit.
            Status::NoPackReceived { update_refs, .. } => update_refs,
            Status::Change { update_refs, write_pack_bundle, .. } => {
                let written = [write_pack_bundle.data_path, write_pack_bundle.index_path];
                // The tip is told once pack, index and ref are on the disk: what is accepted must outlive a power cut.
                durable::sync(&written.iter().flatten().map(AsRef::as_ref).collect::<Vec<_>>())?;
                update_refs
            }
        };
        // gix reports a ref that it did not write as an outcome, not as an error.
        if let Some(update) = update_refs.updates.iter().find(|update| !is_written(&update.mode)) {
            let refused = gix::error::Message::new(format!("updating {tracking} was refused: {:?}", update.mode));
            return Err(self.failed(&gix::Error::from_error(refused), false));
        }
        durable::sync(&[&self.dir.join(tracking)])?;
        Ok(Some((seen, true)))
    }

    /// Fetches the head of a pull request and returns it; `None` where the remote has no such pull request.
    pub(crate) fn fetch_pull(&mut self, number: u64, interrupt: &AtomicBool) -> Result<Option<CommitId>, Error> {
        let repo = self.reader.local();
        let head = pull_head(number);
        let tracking = pull_ref(number);
        let limit = PULL_FETCH_TIME_MAX;
        let found =
            self.guarded(limit, interrupt, |mirror| mirror.fetch_to(&repo, &head, &tracking, limit, interrupt))?;
        let Some((seen, fetched)) = found else { return Ok(None) };
        if fetched {
            self.reopen()?;
        }
        Ok(Some(CommitId::new(seen.id.to_string())))
    }

    /// Asks what `HEAD` of the remote points to.
    fn default_branch(&self, repo: &gix::Repository) -> Result<SeenBranch, Error> {
        let refs = self.list(repo, "HEAD")?;
        match refs.iter().find(|r| r.unpack().0 == "HEAD") {
            Some(Ref::Symbolic { target, object, .. }) => {
                Ok(SeenBranch { name: target.to_str_lossy().into_owned(), id: *object })
            }
            Some(Ref::Unborn { target, .. }) => Err(self.absent(repo, &target.to_str_lossy())?),
            Some(detached) => match detached.unpack() {
                (_, Some(id), peeled) => {
                    Ok(SeenBranch { name: "HEAD".to_owned(), id: peeled.unwrap_or(id).to_owned() })
                }
                _ => Err(self.absent(repo, "HEAD")?),
            },
            None => Err(self.absent(repo, "HEAD")?),
        }
    }

    /// Returns the error for a branch that is not there: one of an empty repository, or a missing one.
    fn absent(&self, repo: &gix::Repository, name: &str) -> Result<Error, Error> {
        let location = self.location.to_string();
        // Only here are all branches asked for: a poll names one ref, so that the server's answer stays small.
        let any = self.list(repo, &format!("+refs/heads/*:{REF_TRACKING}*"))?.iter().any(|r| r.unpack().1.is_some());
        if any {
            let branch = name.strip_prefix("refs/heads/").unwrap_or(name).to_owned();
            Ok(Error::BranchMissing { location, branch })
        } else {
            Ok(Error::EmptyRepository { location })
        }
    }

    /// Lists the refs of the remote that a refspec names; writes nothing.
    fn list(&self, repo: &gix::Repository, pattern: &str) -> Result<Vec<Ref>, Error> {
        let remote = self.remote(repo, pattern)?;
        let (map, _) = self
            .connect(&remote)?
            .ref_map(gix::progress::Discard, gix::remote::ref_map::Options::default())
            .map_err(|error| self.failed(&error, true))?;
        Ok(map.remote_refs)
    }

    fn remote<'r>(&self, repo: &'r gix::Repository, refspec: &str) -> Result<gix::Remote<'r>, Error> {
        // By default gix has the server list every tag, too, with each poll.
        let remote = repo.remote_at(self.url.clone()).and_then(|remote| {
            remote.with_fetch_tags(Tags::None).with_refspecs([refspec.as_bytes().as_bstr()], Direction::Fetch)
        });
        remote.map_err(Error::at(&self.location, "prepare fetching from"))
    }

    fn connect<'a, 'r>(
        &self,
        remote: &'a gix::Remote<'r>,
    ) -> Result<gix::remote::Connection<'a, 'static, 'r, Box<Transport>>, Error> {
        if let Some(ssh) = &self.ssh {
            return Ok(remote.to_connection_with_transport(ssh.connect(&self.location)?));
        }
        let options = self.spec.https.options(remote.repo(), &self.location)?;
        let connection = remote.connect(Direction::Fetch).map_err(|error| match self.url.scheme {
            // No network is between, so what fails is the path; a server's errors are worth another try.
            Scheme::File => Error::NotARepository {
                location: self.location.to_string(),
                reason: super::Cause::of(&error, &self.secrets).to_string(),
            },
            _ => self.failed(&error, true),
        })?;
        // Over plain http gix would refuse it; there the configured header speaks, or nothing does.
        let token = if self.url.scheme == Scheme::Https { self.spec.token.clone() } else { None };
        let place = place(&self.url);
        let connection = match options {
            Some(options) => connection.with_transport_options(options),
            None => connection,
        };
        Ok(connection.with_credentials(move |action| Ok(answer(&action, token.as_ref(), &place))))
    }

    fn refused(&self, name: &str, excess: Excess) -> Error {
        Error::FetchTooLarge { location: self.location.to_string(), what: name.to_owned(), excess }
    }

    fn failed(&self, error: &gix::Error, connecting: bool) -> Error {
        if let Some(ssh) = &self.ssh {
            return ssh.failed(&self.location, error);
        }
        Error::remote(&self.location, error, &self.secrets, connecting)
    }
}

/// Scheme, host and port: what a token may be sent to.
fn place(url: &gix::Url) -> (Scheme, Option<String>, Option<u16>) {
    (url.scheme.clone(), url.host().map(str::to_ascii_lowercase), url.port_or_default())
}

/// Answers gix's request for credentials, only for the configured host: a redirect may lead elsewhere.
fn answer(
    action: &helper::Action,
    token: Option<&SecretString>,
    asked_for: &(Scheme, Option<String>, Option<u16>),
) -> Option<protocol::Outcome> {
    let helper::Action::Get(context) = action else { return None };
    let url = gix::url::parse(context.url.as_ref()?.as_bstr()).ok()?;
    if place(&url) != *asked_for {
        return None;
    }
    let identity = gix::sec::identity::Account {
        username: TOKEN_USER.to_owned(),
        password: token?.expose_secret().to_owned(),
        oauth_refresh_token: None,
    };
    Some(protocol::Outcome { identity, next: context.clone().into() })
}

fn parse_url(spec: &SourceSpec) -> Result<gix::Url, Error> {
    let Ok(url) = gix::url::parse(spec.location.as_bytes().as_bstr()) else {
        // What cannot be parsed may still hold a password.
        let scheme = spec.location.split("://").next().unwrap_or_default();
        return Err(Error::unsupported(&format!("{scheme}://..."), "it is not a URL"));
    };
    if url.password().is_some() {
        let reason = "it stands in the URL, which ends in logs: set `tokenFile` instead";
        return Err(Error::InsecureToken { location: without_login(&url), reason });
    }
    match url.scheme {
        Scheme::Http if spec.token.is_some() && !spec.allow_insecure_http => {
            let reason = "http sends it in clear text: use https, or set `allowInsecureHttp: true`";
            Err(Error::InsecureToken { location: without_login(&url), reason })
        }
        Scheme::Ssh if spec.token.is_some() => {
            Err(Error::unsupported(&spec.location, "a token is for https: ssh uses the key of `source.ssh`"))
        }
        Scheme::Https | Scheme::File | Scheme::Http | Scheme::Ssh => Ok(url),
        _ => Err(Error::unsupported(&spec.location, "only https, http, ssh and file URLs are fetched")),
    }
}

/// Returns a URL without user and password, which must not end in a message.
fn without_login(url: &gix::Url) -> String {
    format!("{}://{}{}", url.scheme.as_str(), url.host().unwrap_or_default(), url.path)
}

/// Returns a branch's ref; a text that is a full ref already stays.
pub(super) fn full_branch_name(branch: &str) -> String {
    if branch.starts_with("refs/") { branch.to_owned() } else { format!("refs/heads/{branch}") }
}

fn tracking_name(name: &str) -> String {
    let short = name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("refs/")).unwrap_or(name);
    format!("{REF_TRACKING}{short}")
}

fn tracked_tip(repo: &gix::Repository, name: &str) -> Option<gix::ObjectId> {
    ref_tip(repo, &tracking_name(name))
}

fn ref_tip(repo: &gix::Repository, name: &str) -> Option<gix::ObjectId> {
    let reference = repo.try_find_reference(name).ok()??;
    reference.try_id().map(gix::Id::detach)
}

/// Tells whether a ref is as the remote has it after an update.
fn is_written(mode: &Mode) -> bool {
    matches!(mode, Mode::NoChangeNeeded | Mode::FastForward | Mode::Forced | Mode::New)
}

fn find(refs: &[Ref], name: &str) -> Option<SeenBranch> {
    refs.iter().find_map(|r| {
        let (full, target, peeled) = r.unpack();
        if full != name {
            return None;
        }
        let id = peeled.or(target)?;
        Some(SeenBranch { name: name.to_owned(), id: id.to_owned() })
    })
}

/// Replaces a mirror that has more than `packs_max` packs; tells whether it did.
pub(super) fn compact(mirror: &mut Mirror, packs_max: usize, interrupt: &AtomicBool) -> Result<bool, Error> {
    let dir = mirror.dir.clone();
    if compact::count_packs(&dir).map_err(Error::disk(&dir))? <= packs_max {
        return Ok(false);
    }
    let mut fresh = mirror.beside(compact::room_beside(&dir).map_err(Error::disk(&dir))?)?;
    fresh.poll(interrupt)?;
    // Any pin that cannot be copied ends it: too many packs are no reason to lose a commit.
    compact::copy(&mirror.reader, &fresh.reader, |_, error| Err(error))?;
    drop(fresh);
    let old = compact::swap(&dir)?;
    mirror.reopen()?;
    std::fs::remove_dir_all(&old).map_err(Error::disk(&dir))?;
    Ok(true)
}

/// Clones a damaged mirror again beside it and swaps the two. Returns the pins that could not be kept, with the reasons; the
/// damaged one is then kept aside.
fn rebuild(mirror: &mut Mirror, interrupt: &AtomicBool) -> Result<Vec<String>, Error> {
    let dir = mirror.dir.clone();
    let mut fresh = mirror.beside(compact::room_beside(&dir).map_err(Error::disk(&dir))?)?;
    // The remote comes first: most objects come with its pack, and only what it forgot is copied one by one.
    fresh.poll(interrupt)?;
    // What was open still shows packs that are broken.
    mirror.reopen()?;
    let lost = compact::copy_what_is_whole(&mirror.reader, &fresh.reader)?;
    drop(fresh);
    let old = compact::swap(&dir)?;
    mirror.reopen()?;
    compact::put_away(&old, &dir, &lost).map_err(Error::disk(&dir))?;
    Ok(lost)
}

#[cfg(test)]
mod tests;
