//! What daemons there are in a simulation, and how they reach their store and their members.

use std::convert::Infallible;

use super::Simulation;
use engine::Effect;
use engine::member::Task;
use engine::store::Op;
use model::id::ClusterName;
use model::kinds::WatchedKind;

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchOutcome {
    /// The store kept it.
    Kept,
    /// The store did not keep it, as far as the process knows.
    Refused,
    /// The process ended over it.
    Ended,
}

/// The daemons of a simulation. A daemon always does the same; where it reaches out, the deployment says what comes of that.
///
/// Functions get the whole simulation, of which the deployment is a field. Each does by default what happens where nothing goes wrong.
pub trait Deployment: Sized {
    /// What happens in this deployment alone.
    type Happening;
    /// What is seen in this deployment alone.
    type Fact;

    /// Lets that happen.
    fn happen(simulation: &mut Simulation<Self>, happening: Self::Happening);

    /// Does something as each process that has tasks of members.
    fn each_process(simulation: &mut Simulation<Self>, mut act: impl FnMut(&mut Simulation<Self>)) {
        act(simulation);
    }

    /// Writes a batch to the store.
    fn write(simulation: &mut Simulation<Self>, ops: Vec<Op>) -> BatchOutcome {
        simulation.keep(ops);
        BatchOutcome::Kept
    }

    /// Carries out an effect. Returns whether the process continues.
    fn carry_out(simulation: &mut Simulation<Self>, effect: Effect) -> bool {
        simulation.carry_out(effect);
        true
    }

    /// Sends a step to a member over a connection.
    fn send(simulation: &mut Simulation<Self>, cluster: &ClusterName, connection: u64, task: Task) {
        simulation.send(cluster, connection, task);
    }

    /// Lists the objects of a kind for a member's task.
    fn list(simulation: &mut Simulation<Self>, cluster: &ClusterName, kind: &WatchedKind) {
        simulation.list(cluster, kind);
    }
}

/// The daemon of `gitfleet simulate`: it has the store for itself, and reaches every member that answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneDaemon;

impl Deployment for OneDaemon {
    type Happening = Infallible;
    type Fact = Infallible;

    fn happen(_: &mut Simulation<Self>, never: Infallible) {
        match never {}
    }
}
