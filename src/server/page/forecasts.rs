//! What the simulation predicts of runs. The daemon simulates when a page first shows a run, and the answer is kept: it depends on the
//! accepted commit and the run's clusters, and not on the time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OnceCell, oneshot};

use super::PageRequest;
use crate::Question;
use model::id::{CommitId, PlacementKey};
use views::page::placement::shown_run;
use views::simulation::SimulatedRun;

/// Predictions that are kept; all are dropped together where there are more, and made again for whoever asks.
const FORECASTS_MAX: usize = 200;

/// What tells a prediction from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ForecastKey {
    placement: PlacementKey,
    run: String,
    accepted: Option<CommitId>,
}

/// The place of a prediction, for whoever comes first to fill; `None` in it is a run that cannot be simulated.
type ForecastPlace = Arc<OnceCell<Option<SimulatedRun>>>;

/// The predictions that were made for pages.
#[derive(Debug, Default)]
pub struct Forecasts {
    made: Mutex<BTreeMap<ForecastKey, ForecastPlace>>,
}

impl Forecasts {
    fn place(&self, key: ForecastKey) -> ForecastPlace {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() >= FORECASTS_MAX && !made.contains_key(&key) {
            made.clear();
        }
        Arc::clone(made.entry(key).or_default())
    }
}

/// Returns what the simulation predicts of the run that the page of a placement shows; `None` where it shows none, or one that cannot be
/// simulated.
pub(super) async fn forecast(asked: &PageRequest, placement: &PlacementKey) -> Option<SimulatedRun> {
    let published = asked.last().await?;
    let accepted = published.fleet.source.accepted.clone();
    let key = placement.clone();
    let run = asked.made(published, move |visit| shown_run(visit, visit.fleet.placements.get(&key)?)).await.ok()??;
    let place =
        asked.settings.forecasts.place(ForecastKey { placement: placement.clone(), run: run.clone(), accepted });
    let ask = async || {
        let _turn = asked.shared.turns.read().await.ok_or(())?;
        let (reply, answer) = oneshot::channel();
        let question = Question::Forecast { placement: placement.clone(), run, reply };
        asked.shared.questions.send(question).await.map_err(drop)?;
        answer.await.map_err(drop)
    };
    // A daemon that is ending gives no answer, and the next page asks again.
    place.get_or_try_init(ask).await.ok()?.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_is_made_once_for_a_run_and_a_commit_and_only_so_many_are_kept() {
        let forecasts = Forecasts::default();
        let key = |number: usize| ForecastKey {
            placement: PlacementKey::cluster_scoped("web"),
            run: format!("web-{number}"),
            accepted: Some(CommitId::new("1a2b3c4d5e6f")),
        };
        let first = forecasts.place(key(0));
        assert!(Arc::ptr_eq(&first, &forecasts.place(key(0))));
        assert!(!Arc::ptr_eq(&first, &forecasts.place(ForecastKey { accepted: None, ..key(0) })));
        for number in 0..3 * FORECASTS_MAX {
            forecasts.place(key(number));
            assert!(forecasts.made.lock().expect("nobody panicked").len() <= FORECASTS_MAX);
        }
    }
}
