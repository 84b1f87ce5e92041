use super::*;

/// What is counted how, and what is said then.
type Row = (fn(&mut Watched, usize), Id, usize, &'static str);

#[test]
fn d06_every_limit_of_a_fetch_stops_it_and_is_named() {
    let mib = 1024 * 1024;
    let object = usize::try_from(OBJECT_SIZE_MAX_BYTES).unwrap();
    let count: fn(&mut Watched, usize) = |progress, step| progress.inc_by(step);
    let rows: [Row; 6] = [
        (count, INFLATED, object, ""),
        (count, INFLATED, 2 * 1024 * mib, "an object has 2147483648 bytes or more"),
        (count, RECEIVED, object + 1, "an object has"),
        (|progress, step| progress.init(Some(step), None), OBJECTS, 5_000_000, "there are 5000000 objects"),
        (
            |progress, step| progress.counter().store(step, Ordering::Relaxed),
            INFLATED,
            usize::MAX / 2,
            "the objects have",
        ),
        (|_, _| (), RECEIVED, 0, ""),
    ];
    for (does, id, step, expected) in rows {
        let bounds = Bounds::new();
        let mut child = bounds.progress().add_child_with_id("", id);
        does(&mut child, step);
        let said = bounds.excess().map(|excess| excess.to_string()).unwrap_or_default();
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said:?} {expected:?}");
    }
    // Many objects, each complete, are together what counts.
    let bounds = Bounds::new();
    let (received, inflated) =
        (bounds.progress().add_child_with_id("", RECEIVED), bounds.progress().add_child_with_id("", INFLATED));
    for _ in 0..u64::MAX {
        received.inc_by(object / 2);
        inflated.inc_by(object / 2);
        if bounds.stop().load(Ordering::Relaxed) {
            break;
        }
    }
    assert!(matches!(bounds.excess(), Some(Excess::Received(_))), "{:?}", bounds.excess());
}
