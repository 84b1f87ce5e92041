//! Several sources as one tree.

use super::*;
use model::records::SourceRecord;

/// Two or more repositories below a folder, and what follows them.
struct Several {
    dir: TempDir,
    names: Vec<&'static str>,
    /// What an earlier process knew.
    known: SourceRecord,
    followed: Option<Followed>,
    news: Option<mpsc::Receiver<SourceEvent>>,
}

impl Several {
    /// Makes the repositories `one` and `two`, each with files.
    fn with(one: &[(&str, &str)], two: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut both = Self { dir, names: Vec::new(), known: SourceRecord::default(), followed: None, news: None };
        both.add("one", one);
        both.add("two", two);
        both
    }

    /// Makes another repository, which is followed from the next [`Self::follow`] on.
    fn add(&mut self, name: &'static str, files: &[(&str, &str)]) {
        let repo = self.dir.path().join(name);
        fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "-q", "-b", "main"]);
        commit(&repo, files);
        self.names.push(name);
    }

    /// Follows them as remotes, after what was followed before.
    fn follow(&mut self) {
        (self.followed, self.news) = (None, None);
        let at = |name: &&str| {
            format!("{{name: {name}, url: '{}', branch: main, pollInterval: 1h}}", self.dir.path().join(name).display())
        };
        let sources: Vec<String> = self.names.iter().map(at).collect();
        let text = format!(
            "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsources: [{}]\nstore: {{path: state}}\n\
             render: {{kustomize: v5.8.2, folder: ./without-programs}}\n",
            sources.join(", ")
        );
        let configuration = Configuration::parse(&text, self.dir.path(), &BTreeMap::new()).unwrap();
        let mut settings = PollerSettings::of(&configuration).unwrap().known(&self.known);
        // As remotes, which are not watched: each test says when they are polled.
        for branch in &mut settings.branches {
            branch.spec.location.insert_str(0, "file://");
        }
        let (sender, news) = mpsc::channel(1_024);
        let followed = follow(settings, &self.dir.path().join("state"), sender, &Supervisor::without_pauses()).unwrap();
        (self.followed, self.news) = (Some(followed), Some(news));
    }

    fn commit(&self, name: &str, files: &[(&str, &str)]) -> CommitId {
        commit(&self.dir.path().join(name), files)
    }

    /// Commits without a file.
    fn remove(&self, name: &str, file: &str) {
        fs::remove_file(self.dir.path().join(name).join(file)).unwrap();
        self.commit(name, &[]);
    }

    fn poll(&self) {
        self.followed.as_ref().unwrap().requests.send(SourceRequest::Poll).unwrap();
    }

    fn next(&mut self) -> SourceEvent {
        loop {
            let news = next(self.news.as_mut().unwrap()).expect("they are followed");
            // It says that each was asked once.
            if !matches!(news, SourceEvent::Unchanged) {
                return news;
            }
        }
    }

    /// Returns what is said next, with errors.
    fn told(&mut self) -> String {
        match self.next() {
            SourceEvent::Of(name, news) => match *news {
                SourceEvent::Refused(_, errors) => {
                    format!("{name} refused: {}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
                }
                other => format!("{name} {}", told(Some(other), &[])),
            },
            other => told(Some(other), &[]),
        }
    }

    /// Returns the tree that is accepted or restored next, and remembers it as the core does.
    fn tree(&mut self) -> Arc<Tree> {
        let tree = match self.next() {
            SourceEvent::Accepted(tree) | SourceEvent::Restored(Ok(tree)) => tree,
            other => unreachable!("a tree comes next, and not: {other:?}"),
        };
        self.known.accepted.clone_from(&tree.commit);
        for source in &tree.sources {
            let record = SourceRecord { accepted: Some(source.commit.clone()), ..SourceRecord::default() };
            self.known.sources.insert(source.name.clone(), record);
        }
        tree
    }

    /// Follows both with a good commit each.
    fn following() -> Self {
        let mut two = Self::with(
            &[("c.yaml", CLUSTER), ("x.yaml", &map("x", "1"))],
            &[("y.yaml", &map("yy", "1")), (".gitfleetignore", "draft.yaml\n")],
        );
        two.follow();
        let tree = two.tree();
        assert_eq!(values(&tree), ["x=1", "yy=1"]);
        let paths: Vec<&str> = tree.manifests.iter().map(|manifest| &*manifest.origin.path).collect();
        assert_eq!(paths, ["one/x.yaml", "two/y.yaml"]);
        two
    }
}

#[test]
fn a_commit_of_one_source_changes_its_folder_of_the_tree() {
    let mut two = Several::following();
    let before = two.known.clone();
    let tip = two.commit("two", &[("y.yaml", &map("yy", "2")), ("draft.yaml", "no: {manifest\n")]);
    two.poll();
    let tree = two.tree();
    assert_eq!(values(&tree), ["x=1", "yy=2"], "each source has an ignore file of its own");
    assert_eq!((&tree.sources[0].name, &tree.sources[1].name), (&"one".to_owned(), &"two".to_owned()));
    assert_eq!(
        (Some(&tree.sources[0].commit), &tree.sources[1].commit),
        (before.sources["one"].accepted.as_ref(), &tip)
    );
}

#[test]
fn errors_of_one_source_hold_no_other_back() {
    let mut two = Several::following();
    let wrong = "two refused: two/bad.yaml:1: ";
    two.commit("two", &[("bad.yaml", "kind: ConfigMap\nmetadata: {name: a}\n")]);
    two.poll();
    let told = two.told();
    assert!(told.starts_with(wrong), "{told}");
    two.commit("one", &[("x.yaml", &map("x", "2"))]);
    two.poll();
    assert_eq!(values(&two.tree()), ["x=2", "yy=1"]);
    // What was wrong may have been what the other had: it is read again.
    assert!(two.told().starts_with(wrong));
    // Both at once.
    two.commit("one", &[("x.yaml", &map("x", "3"))]);
    two.commit("two", &[("y.yaml", &map("yy", "3"))]);
    two.poll();
    assert_eq!(values(&two.tree()), ["x=3", "yy=1"]);
    assert!(two.told().starts_with(wrong));
    two.remove("two", "bad.yaml");
    two.poll();
    assert_eq!(values(&two.tree()), ["x=3", "yy=3"]);
}

/// A source that could not be read left the tree when another one was accepted, and with it all that it had on clusters.
#[test]
fn what_cannot_be_read_of_one_source_holds_no_other_back_and_stays_as_it_was() {
    let mut two = Several::following();
    // The program that renders it is not there.
    fs::create_dir(two.dir.path().join("two/app")).unwrap();
    two.commit("two", &[("y.yaml", &map("yy", "2")), ("app/kustomization.yaml", "resources: []\n")]);
    two.commit("one", &[("x.yaml", &map("x", "2"))]);
    two.poll();
    let told = two.told();
    assert!(told.starts_with("two failed: ") && told.contains("there is no kustomize"), "{told}");
    let tree = two.tree();
    assert_eq!((values(&tree), tree.sources.len()), (vec!["x=2".to_owned(), "yy=1".to_owned()], 2));
    // Also where the other one was refused before.
    two.commit("one", &[("bad.yaml", "kind: ConfigMap\nmetadata: {name: a}\n")]);
    two.poll();
    let told = two.told();
    assert!(told.starts_with("one refused: one/bad.yaml:1: "), "{told}");
    fs::remove_file(two.dir.path().join("one/bad.yaml")).unwrap();
    two.commit("one", &[("x.yaml", &map("x", "3"))]);
    two.poll();
    let tree = two.tree();
    assert_eq!((values(&tree), tree.sources.len()), (vec!["x=3".to_owned(), "yy=1".to_owned()], 2));
}

#[test]
fn an_object_of_one_source_is_an_error_in_another_until_it_has_moved() {
    let mut two = Several::following();
    two.commit("two", &[("mine.yaml", &map("x", "9"))]);
    two.poll();
    let told = two.told();
    assert!(
        told.contains("two/mine.yaml:1: ConfigMap web/x: metadata.name: the same object stands at one/x.yaml:1 too"),
        "{told}"
    );
    two.remove("one", "x.yaml");
    two.poll();
    assert_eq!(values(&two.tree()), ["x=9", "yy=1"], "it is never gone in between");
    // The same for clusters, and whichever comes first.
    two.commit("one", &[("y.yaml", &map("yy", "5"))]);
    two.commit("two", &[("c.yaml", CLUSTER)]);
    two.poll();
    let (one, other) = (two.told(), two.told());
    assert!(
        one.contains("the same object stands at ") && other.contains("the same object stands at "),
        "{one} {other}"
    );
}

/// A tree without it was announced: it was taken out of one source before the other one had it.
#[test]
fn an_object_that_moves_between_two_sources_is_never_gone_because_of_a_third() {
    let wrong = "three refused: three/bad.yaml:1: ";
    let mut three = Several::following();
    three.add("three", &[]);
    three.follow();
    assert_eq!(values(&three.tree()), ["x=1", "yy=1"]);
    assert_eq!((three.told(), three.told()), ("one unchanged".to_owned(), "two unchanged".to_owned()));
    assert_eq!(three.tree().sources.len(), 3);
    // The third is refused with them.
    three.remove("one", "x.yaml");
    three.commit("two", &[("x.yaml", &map("x", "2"))]);
    three.commit("three", &[("bad.yaml", "kind: ConfigMap\nmetadata: {name: a}\n")]);
    three.poll();
    assert_eq!(values(&three.tree()), ["x=2", "yy=1"]);
    let told = three.told();
    assert!(told.starts_with(wrong), "{told}");
    // It was refused before, and what the object moves to as well.
    three.commit("one", &[("x.yaml", &map("x", "3"))]);
    three.poll();
    let told = three.told();
    assert!(told.starts_with("two refused: ") || told.starts_with("one refused: "), "{told}");
    three.remove("two", "x.yaml");
    three.poll();
    assert_eq!(values(&three.tree()), ["x=3", "yy=1"]);
    let told = three.told();
    assert!(told.starts_with(wrong), "{told}");
    // The third has what another one has, and the error is in the file of that one.
    three.remove("three", "bad.yaml");
    three.commit("three", &[("a.yaml", &map("yy", "9"))]);
    three.remove("one", "x.yaml");
    three.commit("two", &[("x.yaml", &map("x", "4"))]);
    three.poll();
    assert_eq!(values(&three.tree()), ["x=4", "yy=1"]);
    let told = three.told();
    assert!(told.starts_with("three refused: ") && told.contains("ConfigMap web/yy"), "{told}");
    // The third cannot be read: the program that renders it is not there.
    three.remove("three", "a.yaml");
    fs::create_dir(three.dir.path().join("three/app")).unwrap();
    three.commit("three", &[("app/kustomization.yaml", "resources: []\n")]);
    three.remove("two", "x.yaml");
    three.commit("one", &[("x.yaml", &map("x", "5"))]);
    three.poll();
    let told = three.told();
    assert!(told.starts_with("three failed: ") && told.contains("there is no kustomize"), "{told}");
    assert_eq!(values(&three.tree()), ["x=5", "yy=1"]);
}

/// The other one's tip was read only after another push to it.
#[test]
fn what_is_wrong_in_the_first_commits_of_two_sources_may_be_put_right_in_either() {
    let mut two = Several::with(&[("c.yaml", CLUSTER), ("x.yaml", &map("x", "1"))], &[("x.yaml", &map("x", "2"))]);
    two.follow();
    let told = two.told();
    assert!(told.starts_with("two refused: two/x.yaml:1: "), "{told}");
    two.remove("one", "x.yaml");
    two.poll();
    assert_eq!(values(&two.tree()), ["x=2"]);
}

#[test]
fn sources_that_were_never_accepted_together_wait_for_each_other() {
    let mut two = Several::with(&[("c.yaml", CLUSTER), ("x.yaml", &map("x", "1"))], &[]);
    fs::remove_dir_all(two.dir.path().join("two/.git")).unwrap();
    git(&two.dir.path().join("two"), &["init", "-q", "-b", "main"]);
    two.follow();
    let told = two.told();
    assert!(told.starts_with("two failed: "), "what it holds may be on members already: {told}");
    two.commit("two", &[("y.yaml", &map("yy", "1"))]);
    two.follow();
    assert_eq!(values(&two.tree()), ["x=1", "yy=1"]);
}

#[test]
fn a_restart_reads_what_was_accepted_of_each() {
    let mut two = Several::following();
    two.commit("two", &[("bad.yaml", "kind: ConfigMap\nmetadata: {name: a}\n")]);
    let accepted = two.known.accepted.clone();
    two.follow();
    let tree = two.tree();
    assert_eq!((values(&tree), &tree.commit), (["x=1", "yy=1"].map(str::to_owned).to_vec(), &accepted));
    assert_eq!(two.told(), "one unchanged");
    assert!(two.told().starts_with("two refused: "));
}

#[test]
fn a_rewritten_history_of_one_source_waits_for_a_person() {
    let mut two = Several::following();
    git(&two.dir.path().join("two"), &["commit", "-q", "--amend", "-m", "another"]);
    let tip = two.commit("two", &[("y.yaml", &map("yy", "2"))]);
    two.commit("one", &[("x.yaml", &map("x", "2"))]);
    two.poll();
    assert_eq!(two.told(), format!("two held {tip}"));
    assert_eq!(values(&two.tree()), ["x=2", "yy=1"]);
    two.followed.as_ref().unwrap().requests.send(SourceRequest::AcceptRewrite(tip)).unwrap();
    assert_eq!(values(&two.tree()), ["x=2", "yy=2"]);
}

#[test]
fn what_a_record_names_stays_in_every_repository() {
    let mut two = Several::following();
    let first = two.known.accepted.clone().unwrap();
    let of_two = two.known.sources["two"].accepted.clone().unwrap();
    for value in ["2", "3"] {
        two.commit("two", &[("y.yaml", &map("yy", value))]);
        two.poll();
        two.tree();
    }
    let at = two.known.accepted.clone().unwrap();
    two.followed
        .as_ref()
        .unwrap()
        .requests
        .send(SourceRequest::Retain { named: [first.clone()].into(), at: at.clone() })
        .unwrap();
    // Requests are answered in order: this one after the other.
    let (reply, answer) = oneshot::channel();
    two.followed.as_ref().unwrap().requests.send(SourceRequest::Branch { source: "one".to_owned(), reply }).unwrap();
    answer.blocking_recv().unwrap();
    let joined = JoinedRepository::open(&two.dir.path().join("state")).unwrap();
    let pinned: BTreeSet<CommitId> = joined.reader().pins().unwrap().into_values().collect();
    assert_eq!(pinned, [first, at].into());
    let url = format!("file://{}", two.dir.path().join("two").display());
    let spec =
        SourceSpec { location: url, branch: Some("main".to_owned()), path: ".".to_owned(), ..SourceSpec::default() };
    let mirror = Source::open(spec, &two.dir.path().join("state")).unwrap();
    let pinned: BTreeSet<CommitId> = mirror.reader().pins().unwrap().into_values().collect();
    assert_eq!(pinned, [of_two, two.known.sources["two"].accepted.clone().unwrap()].into());
}

#[test]
fn no_source_reaches_into_another() {
    let mut two = Several::following();
    std::os::unix::fs::symlink("../one/x.yaml", two.dir.path().join("two/link.yaml")).unwrap();
    two.commit("two", &[]);
    two.poll();
    let told = two.told();
    assert!(told.starts_with("two refused: two/link.yaml"), "{told}");
}

#[test]
fn a_pull_request_of_one_source_is_read_with_the_accepted_commits_of_the_others() {
    let mut two = Several::following();
    let accepted = two.known.accepted.clone();
    // A tip of another source that is refused is no part of it.
    two.commit("one", &[("x.yaml", &map("x", "2")), ("bad.yaml", "kind: ConfigMap\nmetadata: {name: a}\n")]);
    two.poll();
    two.told();
    let repo = two.dir.path().join("two");
    git(&repo, &["checkout", "-q", "-B", "feature"]);
    let head = two.commit("two", &[("y.yaml", &map("yy", "2")), ("draft.yaml", "no: {manifest\n")]);
    git(&repo, &["update-ref", "refs/pull/1/head", head.as_str()]);
    let claims = two.commit("two", &[("x.yaml", &map("x", "9"))]);
    git(&repo, &["update-ref", "refs/pull/2/head", claims.as_str()]);
    git(&repo, &["checkout", "-q", "main"]);
    let ask = |source: &str, number, head: &CommitId| {
        let (reply, answer) = oneshot::channel();
        let (source, head) = (source.to_owned(), head.clone());
        let request = SourceRequest::Candidate { source, number, head, fetch: true, reply };
        two.followed.as_ref().unwrap().requests.send(request).unwrap();
        answer.blocking_recv().unwrap()
    };
    let found = ask("two", 1, &head).unwrap();
    assert_eq!(
        (Some(&found.base), &found.head, values(&found.tree)),
        (accepted.as_ref(), &head, vec!["x=1".into(), "yy=2".into()])
    );
    let paths: Vec<&str> = found.tree.manifests.iter().map(|manifest| &*manifest.origin.path).collect();
    assert_eq!(paths, ["one/x.yaml", "two/y.yaml"]);
    let Err(CandidateError::Refused(errors)) = ask("two", 2, &claims) else { unreachable!("both have x") };
    assert!(errors[0].to_string().contains("one/x.yaml"), "{}", errors[0]);
    let Err(CandidateError::Unreadable(why)) = ask("one", 1, &head) else { unreachable!("it is of the other") };
    assert!(why.contains("has no head of pull request 1"), "{why}");
    let Err(CandidateError::Unreadable(why)) = ask("three", 1, &head) else { unreachable!("there is none") };
    assert!(why.contains("no source \"three\" is followed"), "{why}");
}
