use super::*;

#[test]
fn requests_are_counted_by_method_and_answer() {
    let metrics = Metrics::new();
    let meter = meter(&metrics);
    for (method, called) in [
        (http::Method::GET, Called::Ok),
        (http::Method::GET, Called::Unchanged),
        (http::Method::POST, Called::Limited),
        (http::Method::PATCH, Called::Refused),
        (http::Method::DELETE, Called::Failed),
    ] {
        meter(&method, called);
    }
    let text = metrics.encode();
    for labels in [
        "method=\"get\",result=\"ok\"",
        "method=\"get\",result=\"unchanged\"",
        "method=\"post\",result=\"limited\"",
        "method=\"patch\",result=\"refused\"",
        "method=\"other\",result=\"failed\"",
    ] {
        assert!(text.contains(&format!("gitfleet_forge_calls_total{{{labels}}} 1")), "{labels}: {text}");
    }
}
