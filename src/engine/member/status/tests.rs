use super::*;
use model::diff::missing_object;

#[test]
fn a_difference_keeps_the_instant_it_was_first_seen_at() {
    let at = |second| Timestamp::from_second(second).expect("an instant");
    let manifest = |name: &str, differs: bool| ManifestStatus {
        id: ObjectId { name: name.into(), ..ObjectId::default() },
        applied: ApplyOutcome::FoundDrifts,
        message: String::new(),
        availability: None,
        generation: None,
        manifest: None,
        owned: None,
        differences: if differs { vec![missing_object()] } else { vec![] },
        differs_since: None,
        observed_at: None,
    };
    let dated = |manifests: &[(&str, bool)], reported: &[ManifestStatus], now| {
        let mut manifests: Vec<_> = manifests.iter().map(|(name, differs)| manifest(name, *differs)).collect();
        date_differences(&mut manifests, reported, true, at(now));
        manifests
    };
    let since = |manifests: &[ManifestStatus]| manifests.iter().map(|m| m.differs_since).collect::<Vec<_>>();
    let first = dated(&[("a", true), ("b", false)], &[], 1);
    assert_eq!(since(&first), [Some(at(1)), None]);
    let moved = dated(&[("new", false), ("a", true), ("b", true)], &first, 2);
    assert_eq!(since(&moved), [None, Some(at(1)), Some(at(2))]);
    let repaired = dated(&[("a", false)], &moved, 3);
    assert_eq!(since(&dated(&[("a", true)], &repaired, 4)), [Some(at(4))], "it was right in between");
    // Nobody has looked yet, or nobody could: it may differ still.
    let mut unknown = vec![manifest("a", false)];
    date_differences(&mut unknown, &first, false, at(5));
    assert_eq!(since(&unknown), [Some(at(1))], "the work is being carried out");
    unknown[0].applied = ApplyOutcome::FailedToReportDiff;
    date_differences(&mut unknown, &first, true, at(5));
    assert_eq!(since(&dated(&[("a", true)], &unknown, 6)), [Some(at(1))]);
    let mut others = vec![manifest("a", true)];
    others[0].differences[0].path = "/spec".into();
    date_differences(&mut others, &first, true, at(7));
    assert_eq!((others[0].differs_since, others[0].observed_at), (Some(at(1)), Some(at(7))), "other fields");
}
