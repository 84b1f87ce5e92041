use super::*;

#[test]
fn w12_what_may_be_over_soon_is_tried_again() {
    let text = || "c".to_owned();
    let refused = |code| Error::Refused { object: text(), code, reason: text(), message: text() };
    let rows = [
        (refused(429), true),
        (refused(503), true),
        (Error::Unreachable { cluster: text(), reason: text() }, true),
        (Error::Denied { cluster: text(), reason: text() }, false),
        (refused(403), false),
        (refused(404), false),
    ];
    for (error, passes) in rows {
        assert_eq!(failed(&error).is_passing, passes, "{error:?}");
    }
}
