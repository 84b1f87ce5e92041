//! Objects that several placements want: who has one is decided by its label and the records.

use super::*;

/// Another placement, as far as it is known.
#[derive(Clone, Copy)]
enum Known {
    /// Its order has not come, and may.
    Awaited,
    /// It has an order that wants the object, and applied it before or not.
    Wants { has_applied: bool },
    /// Its order does not want the object any more.
    LetsGo,
    /// It has no order, and gets none.
    Gone,
    /// Its inventory is another source's.
    Elsewhere,
}

/// The outcome for `m`, which wants an object that `other` holds or held, and who of both is a tenant's.
fn outcome(other: &str, known: Known, is_labelled: bool, (mine, others): (bool, bool)) -> State {
    let tenant = |is_tenants: bool| is_tenants.then(|| "t".to_owned());
    let map = || vec![desired("ConfigMap", "x", "1")];
    let own = WorkOrder { tenant: tenant(mine), ..order("m", map()) };
    let wants = matches!(known, Known::Wants { .. });
    let manifests = if wants { map() } else { Vec::new() };
    let of_other = WorkOrder { tenant: tenant(others), ..order(other, manifests) };
    let mut member = Member::default();
    if is_labelled {
        member.settle(&order(other, map()));
    }
    let mut progress = Progress::default();
    if matches!(known, Known::Wants { has_applied: true }) {
        let baseline = Baseline { manifest: own.manifests[0].digest.clone(), owned: "o".into() };
        Arc::make_mut(&mut progress.baselines).insert(Arc::clone(&own.manifests[0].key), baseline);
    }
    let has_order = matches!(known, Known::Wants { .. } | Known::LetsGo);
    let peers = Others {
        orders: if has_order { vec![(of_other.clone(), progress)] } else { Vec::new() },
        awaited: if matches!(known, Known::Awaited) { vec![of_other.placement.clone()] } else { Vec::new() },
        elsewhere: if matches!(known, Known::Elsewhere) { vec![of_other.placement.clone()] } else { Vec::new() },
        unseen: false,
    };
    let wanted = if wants { wanted(&[&own, &of_other]) } else { wanted(&[&own]) };
    let ours = &applyset_id(&own.placement);
    let (live, unlisted) = (&member.live, &member.unlisted);
    let view = MemberView { live, wanted: &wanted, parent: None, unlisted, ours, peers: &peers };
    verdict(&own, &own.manifests[0], &view, &Progress::default(), now()).state
}

#[test]
fn n01_who_has_an_object_does_not_depend_on_the_order_of_names_or_of_arrival() {
    let refused = State::Refused(ApplyOutcome::FailedToTakeOver);
    let (applied, nobodys) = (State::Apply { put_back: false }, (false, false));
    let wants = |has_applied| Known::Wants { has_applied };
    let rows = [
        ("it holds and wants it", wants(true), true, nobodys, [refused, refused]),
        ("it holds it, and its order has not come", Known::Awaited, true, nobodys, [State::Wait, State::Wait]),
        ("it lets it go", Known::LetsGo, true, nobodys, [applied, applied]),
        ("it is gone, and its label stayed", Known::Gone, true, nobodys, [applied, applied]),
        ("another source's placement holds it", Known::Elsewhere, true, nobodys, [refused, refused]),
        ("it applied it before, and somebody deleted it", wants(true), false, nobodys, [refused, refused]),
        ("neither has had it: the first by name", wants(false), false, nobodys, [refused, applied]),
        ("a tenant's holds it, and mine is not", wants(true), true, (false, true), [applied, applied]),
        ("a tenant's had it, and mine is not", wants(true), false, (false, true), [applied, applied]),
        ("mine is a tenant's, and the other's not", wants(false), false, (true, false), [refused, refused]),
        ("two tenants", wants(true), true, (true, true), [refused, refused]),
    ];
    for (name, known, is_labelled, tenants, wanted) in rows {
        // The other comes before `m` by name, and after it.
        let found = ["a", "z"].map(|other| outcome(other, known, is_labelled, tenants));
        assert_eq!(found, wanted, "{name}");
    }
}

/// What was refused before a start stays refused until this life knows the placements.
#[test]
fn n01_a_refusal_of_before_stands_until_the_placements_are_known() {
    let own = order("m", vec![desired("ConfigMap", "x", "1")]);
    let attempt = Attempt {
        manifest: own.manifests[0].digest.clone(),
        outcome: ApplyOutcome::FailedToTakeOver,
        message: "it belongs to placement z".into(),
        at: Timestamp::UNIX_EPOCH,
        failures: 1,
        put_backs: Vec::new(),
        differences: Vec::new(),
    };
    let mut progress = Progress::default();
    progress.attempts.insert(Arc::clone(&own.manifests[0].key), Box::new(attempt));
    let (live, wanted, unlisted) = (Holdings::default(), wanted(&[&own]), Unlisted::default());
    let ours = &applyset_id(&own.placement);
    for (awaited, is_due) in [(vec![PlacementKey::cluster_scoped("z")], false), (Vec::new(), true)] {
        let peers = Others { awaited, ..Others::default() };
        let view = MemberView { live: &live, wanted: &wanted, parent: None, unlisted: &unlisted, ours, peers: &peers };
        let found = verdict(&own, &own.manifests[0], &view, &progress, now());
        assert_eq!(found.state, State::Refused(ApplyOutcome::FailedToTakeOver));
        assert_eq!(found.recheck_at.is_some(), is_due);
    }
}

/// A tenant's placement leaves what it holds to the platform's, and neither puts it back nor deletes it.
#[test]
fn n06_a_tenant_leaves_what_the_platform_delivers() {
    let mut member = Member::default();
    let mine = WorkOrder { tenant: Some("t".into()), ..order("a", web()) };
    member.settle(&mine);
    member.drift(&mine.manifests[1].key);
    member.log.clear();
    let platform = order("z", web());
    let both = wanted(&[&mine, &platform]);
    let peers = Others { orders: vec![(platform.clone(), Progress::default())], ..Others::default() };
    let ours = &applyset_id(&mine.placement);
    let (live, parent, unlisted) = (&member.live, member.parent.as_ref(), &member.unlisted);
    let view = MemberView { live, wanted: &both, parent, unlisted, ours, peers: &peers };
    let found = plan(&member.decided(&mine), &view, &member.progress, now());
    assert!(found.steps.is_empty() && found.complete, "{found:?}");
}
