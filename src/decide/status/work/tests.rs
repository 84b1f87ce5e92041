use ApplyOutcome as O;
use Availability as A;

use super::*;
use crate::status::fixtures::{at, manifest, work};
use model::api::condition::ConditionStatus::{False, True};

fn facts(conditions: &[Condition]) -> Vec<(String, ConditionStatus, String)> {
    conditions.iter().map(|c| (c.type_.to_string(), c.status, c.reason.to_string())).collect()
}

fn expected(rows: &[(&str, ConditionStatus, &str)]) -> Vec<(String, ConditionStatus, String)> {
    rows.iter().map(|(t, s, r)| ((*t).to_owned(), *s, (*r).to_owned())).collect()
}

#[test]
fn conditions_of_a_manifest() {
    let rows = [
        (Mode::Apply, O::Pending, None, vec![("Applied", False, "PreparingToProcess")]),
        (Mode::Apply, O::Applied, None, vec![("Applied", True, "Applied")]),
        (
            Mode::Apply,
            O::Applied,
            Some(A::Available),
            vec![("Applied", True, "Applied"), ("Available", True, "Available")],
        ),
        (
            Mode::Apply,
            O::Applied,
            Some(A::NotTrackable),
            vec![("Applied", True, "Applied"), ("Available", True, "NotTrackable")],
        ),
        (
            Mode::Apply,
            O::Applied,
            Some(A::ManifestNotAvailableYet),
            vec![("Applied", True, "Applied"), ("Available", False, "ManifestNotAvailableYet")],
        ),
        (Mode::Apply, O::ManifestApplyFailed, Some(A::Available), vec![("Applied", False, "ManifestApplyFailed")]),
        (Mode::Apply, O::DecodingErred, None, vec![("Applied", False, "DecodingErred")]),
        (Mode::Apply, O::FailedToTakeOver, None, vec![("Applied", False, "FailedToTakeOver")]),
        (Mode::Apply, O::NotTakenOver, None, vec![("Applied", False, "NotTakenOver")]),
        (Mode::Apply, O::FoundDrifts, None, vec![("Applied", False, "FoundDrifts")]),
        (
            Mode::Apply,
            O::FailedToFindObjInMemberCluster,
            None,
            vec![("Applied", False, "FailedToFindObjInMemberCluster")],
        ),
        (Mode::ReportDiff, O::Pending, None, vec![]),
        (Mode::ReportDiff, O::NoDiffFound, None, vec![("DiffReported", True, "NoDiffFound")]),
        (Mode::ReportDiff, O::FoundDiff, None, vec![("DiffReported", True, "FoundDiff")]),
        (Mode::ReportDiff, O::FailedToReportDiff, None, vec![("DiffReported", False, "FailedToReportDiff")]),
        (
            Mode::ReportDiff,
            O::FailedToFindObjInMemberCluster,
            None,
            vec![("DiffReported", False, "FailedToReportDiff")],
        ),
    ];
    for (mode, outcome, availability, wanted) in rows {
        let conditions = manifest_conditions(&manifest("a", outcome, availability), mode, at(0));
        assert_eq!(facts(&conditions), expected(&wanted), "{mode:?} {outcome:?} {availability:?}");
    }
    let mut changed = manifest("a", O::Applied, Some(A::Available));
    for (generation, observed) in [(None, 0), (Some(4), 4)] {
        changed.generation = generation;
        let conditions = manifest_conditions(&changed, Mode::Apply, at(0));
        assert!(conditions.iter().all(|condition| condition.observed_generation == observed), "{conditions:?}");
    }
}

#[test]
fn conditions_of_a_work() {
    let ready = || manifest("a", O::Applied, Some(A::Available));
    let rows = [
        (
            "nothing",
            Mode::Apply,
            vec![],
            vec![("Applied", True, "AllManifestsApplied"), ("Available", True, "AllManifestsAvailable")],
        ),
        (
            "one pending",
            Mode::Apply,
            vec![ready(), manifest("b", O::Pending, None)],
            vec![("Applied", False, "SomeManifestsAreNotApplied")],
        ),
        (
            "untrackable",
            Mode::Apply,
            vec![ready(), manifest("b", O::Applied, Some(A::NotTrackable))],
            vec![("Applied", True, "AllManifestsApplied"), ("Available", True, "WorkNotTrackable")],
        ),
        (
            "not available",
            Mode::Apply,
            vec![manifest("b", O::Applied, Some(A::ManifestNotAvailableYet))],
            vec![("Applied", True, "AllManifestsApplied"), ("Available", False, "SomeManifestsAreNotAvailable")],
        ),
        (
            "compared",
            Mode::ReportDiff,
            vec![manifest("b", O::FoundDiff, None)],
            vec![("DiffReported", True, "AllManifestsDiffReported")],
        ),
        (
            "not compared",
            Mode::ReportDiff,
            vec![manifest("b", O::FailedToReportDiff, None)],
            vec![("DiffReported", False, "SomeManifestsHaveNotReportedDiff")],
        ),
    ];
    for (name, mode, manifests, wanted) in rows {
        let conditions = work_conditions(&work(4, manifests), mode, &[], at(0));
        assert_eq!(facts(&conditions), expected(&wanted), "{name}");
        assert!(conditions.iter().all(|c| c.observed_generation == 4), "{name}");
    }
}

#[test]
fn lists_are_cut_at_their_limit() {
    let count = LISTED_OBJECTS_MAX + 5;
    let backwards = |outcome| {
        let manifests = (0..count).rev().map(|n| {
            let mut manifest = manifest(&format!("m{n:03}"), outcome, None);
            manifest.differences = vec![model::diff::missing_object()];
            manifest
        });
        work(1, manifests.collect())
    };
    let failed = failed_objects(&backwards(O::ManifestApplyFailed), Mode::Apply, at(0));
    assert_eq!((failed.len(), failed[0].id.name.as_str()), (LISTED_OBJECTS_MAX, "m104"), "unsorted");
    let drifted = drifted_objects(&backwards(O::FoundDrifts));
    assert_eq!((drifted.len(), drifted[0].id.name.as_str()), (LISTED_OBJECTS_MAX, "m000"), "sorted");
    let diffed = diffed_objects(&backwards(O::FoundDiff));
    assert_eq!((diffed.len(), diffed[0].id.name.as_str()), (LISTED_OBJECTS_MAX, "m000"), "sorted");
    assert!(drifted_objects(&backwards(O::FoundDiff)).is_empty());
    assert!(diffed_objects(&backwards(O::Applied)).is_empty());
}

#[test]
fn messages_name_a_few() {
    let mut manifests: Vec<_> = (0..5).map(|n| manifest(&format!("m{n}"), O::ManifestApplyFailed, None)).collect();
    manifests[0].message = "field is immutable\nsecond line".to_owned();
    manifests.push(manifest("ok", O::Applied, Some(A::Available)));
    insta::assert_snapshot!(work_findings(&work(1, manifests), Mode::Apply)[0].message, @"1 of 6 objects applied: ConfigMap web/m0 (ManifestApplyFailed: field is immutable), ConfigMap web/m1 (ManifestApplyFailed), ConfigMap web/m2 (ManifestApplyFailed), and 2 more");
}
