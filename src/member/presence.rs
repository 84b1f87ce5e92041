//! Which objects a member lacks, asked once for many: a first delivery would otherwise read every object before it applies it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

use cluster::Target;
use deliver::step::Step;
use engine::member::Task;
use model::id::ObjectId;

/// Objects of one kind and namespace from which on a list costs less than reading each.
const LISTED_FROM: usize = 4;
/// How old an answer may be: whoever makes an object later is noticed as if gitfleet had applied first.
const AGE_MAX: Duration = Duration::from_secs(5);

/// The kind and namespace of an object.
type ListedPlace = (String, String, String, String);

fn place(id: &ObjectId) -> ListedPlace {
    (id.group.clone(), id.version.clone(), id.kind.clone(), id.namespace.clone())
}

/// The names of a kind in a namespace when they were asked for; `None` where they are not known.
type Names = OnceCell<(Instant, Option<BTreeSet<String>>)>;

/// What the steps of one plan find out together.
#[derive(Debug, Default)]
pub struct Presence(BTreeMap<ListedPlace, Names>);

impl Presence {
    /// Prepares the questions of steps that were planned together.
    pub fn of(tasks: &[Task]) -> Arc<Self> {
        let mut counts: BTreeMap<ListedPlace, usize> = BTreeMap::new();
        for task in tasks {
            if let Step::Apply { position, probe: true, .. } = task.step {
                *counts.entry(place(&task.order.manifests[position].id)).or_default() += 1;
            }
        }
        let many = counts.into_iter().filter(|(_, count)| *count >= LISTED_FROM);
        Arc::new(Self(many.map(|(place, _)| (place, OnceCell::new())).collect()))
    }

    /// Tells whether the member certainly lacked an object a moment ago.
    ///
    /// # Cancel safety
    /// Nothing is lost: another step that waits for the same answer asks for it.
    pub async fn lacks(&self, target: &dyn Target, id: &ObjectId) -> bool {
        let Some(names) = self.0.get(&place(id)) else { return false };
        let ask = async || {
            // Whatever goes wrong: each object is read by itself then, and says so.
            let names = target.names(id).await.ok().flatten();
            (Instant::now(), names)
        };
        let (at, names) = names.get_or_init(ask).await;
        at.elapsed() < AGE_MAX && names.as_ref().is_some_and(|names| !names.contains(&id.name))
    }
}
