//! What crates under test add to the values of this one, each by its own names: Rust takes a type of a library under test and the same type
//! seen through another crate for two.

/// Adds to [`Case`](crate::records::Case) what the step `status` makes of it, as the trait `CaseStatus`. The crate under test names the step by the path
/// that it is given, so that the tests of `decide` itself can use it.
#[macro_export]
macro_rules! case_status {
    ($($status:tt)*) => {
        /// What the step `status` makes of a case.
        pub(crate) trait CaseStatus: Sized {
            /// Every named cluster online and holding an available snapshot 3, the latest.
            fn healthy(clusters: &[&str]) -> Self;
            /// Brings the bindings' conditions up to date, as the engine does before it asks for the placement's.
            fn settle(&mut self);
            /// Returns the case as the step reads it.
            fn view(&self) -> $($status)*::placement::PlacementView<'_>;
        }

        impl CaseStatus for $crate::records::Case {
            fn healthy(clusters: &[&str]) -> Self {
                let mut case = Self::of(clusters);
                case.settle();
                case
            }

            fn settle(&mut self) {
                for binding in self.bindings.iter_mut().map(std::sync::Arc::make_mut) {
                    let work = self.works.get(&binding.cluster).map(AsRef::as_ref);
                    let online = self.clusters.get(&binding.cluster).is_some_and(|cluster| cluster.online);
                    let at = $crate::records::at(10);
                    binding.conditions = $($status)*::binding::binding_conditions(binding, work, online, at);
                }
            }

            fn view(&self) -> $($status)*::placement::PlacementView<'_> {
                $($status)*::placement::PlacementView {
                    record: &self.record,
                    policy: self.policy.as_ref(),
                    snapshot: self.snapshot.as_ref(),
                    history: &self.history,
                    bindings: &self.bindings,
                    works: &self.works,
                    runs: &self.runs,
                    clusters: &self.clusters,
                    shared_name: false,
                    now: self.now,
                }
            }
        }
    };
}

/// Adds fleets of cases: the functions `records` and `fleet`. The crate under test names the module `views::fleet` by the path that it is
/// given. [`case_status`] must have been called there.
#[macro_export]
macro_rules! case_fleet {
    ($($fleet:tt)*) => {
        /// Returns the records of a case under a name.
        pub(crate) fn records(case: &$crate::records::Case, name: &str) -> decide::status::records::PlacementRecords {
            let mut record = case.record.clone();
            // As a decision leaves them.
            record.conditions = decide::status::rollup::placement_conditions(&case.view());
            record.key = model::id::PlacementKey::cluster_scoped(name);
            let mut bindings = case.bindings.clone();
            for binding in &mut bindings {
                std::sync::Arc::make_mut(binding).placement = record.key.clone();
            }
            let mut snapshots = case.history.clone();
            snapshots.extend(case.snapshot.iter().map(|snapshot| (snapshot.index, std::sync::Arc::new(snapshot.clone()))));
            decide::status::records::PlacementRecords {
                record,
                policy: case.policy.clone().map(std::sync::Arc::new),
                snapshots,
                bindings,
                runs: case.runs.clone(),
                works: case.works.clone(),
                shared_name: false,
            }
        }

        /// Returns a fleet of placements that are the same but for their names.
        pub(crate) fn fleet(names: &[&str], case: &$crate::records::Case) -> $($fleet)*::FleetView {
            let named = |name: &&str| (model::id::PlacementKey::cluster_scoped(*name), Some(records(case, name)));
            $($fleet)*::FleetView::whole($($fleet)*::Changes {
                placements: names.iter().map(named).collect(),
                clusters: case.clusters.values().cloned().collect(),
                ..$($fleet)*::Changes::default()
            })
        }
    };
}
