use super::*;

#[test]
fn d05_too_many_patterns_are_refused_with_the_number() {
    let globs = "**/x*?[ab]*/**\n".repeat(60_000);
    let many = "a\n".repeat(IGNORE_PATTERNS_MAX + 1);
    for (ignore, expected) in [(&globs, "bytes, the limit is 32768"), (&many, "has 1001 patterns, the limit is 1000")] {
        let errors = select(["a.yaml"], Some(ignore.as_bytes())).errors;
        assert!(errors.len() == 1 && errors[0].message.contains(expected), "{errors:?}");
        assert!(Filter::new(Some(ignore.as_bytes())).reads("a.yaml"), "what cannot be used ignores nothing");
    }
    assert_eq!(select(["b.yaml"], Some("a\n".repeat(IGNORE_PATTERNS_MAX).as_bytes())).errors, []);
}

fn read(listing: &[&str], ignore: &str) -> Vec<String> {
    let selection = select(listing.iter().copied(), Some(ignore.as_bytes()));
    assert_eq!(selection.errors, []);
    selection.read
}

#[test]
fn names_decide_what_is_read() {
    let listing = [
        "b.yaml",
        "a/x.yml",
        "a/y.json",
        "README.md",
        ".hidden.yaml",
        ".github/w.yaml",
        "a/.x/y.yaml",
        "a/z.yaml.bak",
        "a/deep/er/k.yaml",
        "c.YAML",
    ];
    for (ignore, expected) in [
        ("", vec!["a/deep/er/k.yaml", "a/x.yml", "a/y.json", "b.yaml"]),
        ("# note\n\na/", vec!["b.yaml"]),
        ("/a/*\n!/a/y.json", vec!["a/y.json", "b.yaml"]),
        ("*.yml\nk.yaml\n", vec!["a/y.json", "b.yaml"]),
        ("**/er/**", vec!["a/x.yml", "a/y.json", "b.yaml"]),
    ] {
        assert_eq!(read(&listing, ignore), expected, "{ignore:?}");
    }
}

#[test]
fn folders_that_need_rendering_are_errors() {
    let listing = ["app/kustomization.yaml", "app/base/kustomization.yaml", "app/d.yaml", "ch[1]/Chart.yaml", "x.yaml"];
    let selection = select(listing, None);
    assert_eq!(selection.read, ["x.yaml"]);
    let text: Vec<String> = selection.errors.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(text.join("\n"), @r"
        app/kustomization.yaml: this folder has to be rendered by Kustomize, and no version of it is configured (set `render: {kustomize: VERSION}` in gitfleet.yaml; or add the line `/app/` to .gitfleetignore, and commit the rendered manifests elsewhere)
        ch[1]/Chart.yaml: this folder has to be rendered by Helm, and no version of it is configured (set `render: {helm: VERSION}` in gitfleet.yaml; or add the line `/ch\[1]/` to .gitfleetignore, and commit the rendered manifests elsewhere)
        ");
    // The hints work.
    assert_eq!(read(&listing, "/app/\n/ch\\[1]/\n"), ["x.yaml"]);
    assert_eq!(read(&["kustomization.yaml", "x.yaml"], "/kustomization.yaml\n"), ["x.yaml"]);
    assert_eq!(select(["kustomization.yaml", "x.yaml"], None).errors.len(), 1);
}

#[test]
fn folders_that_are_rendered_hold_no_plain_files() {
    let both = Versions::from([(Renderer::Kustomize, "v5.8.2".to_owned()), (Renderer::Helm, "v4.3.1".to_owned())]);
    let helm = Versions::from([(Renderer::Helm, "v4.3.1".to_owned())]);
    let listing = [
        "app/base/kustomization.yaml",
        "app/base/web.yaml",
        "app/other/web.yaml",
        "app/kustomization.yml",
        "application.yaml",
        "chart/Chart.yaml",
        "chart/charts/sub/Chart.yaml",
        "chart/ci/kustomization.yaml",
        "chart/values.yaml",
        "plain/web.yaml",
    ];
    let selection = select_rendering(listing, None, &both);
    assert_eq!(selection.markers, ["app/base/kustomization.yaml", "app/kustomization.yml", "chart/Chart.yaml"]);
    assert_eq!((selection.read, selection.errors), (vec!["application.yaml".into(), "plain/web.yaml".into()], vec![]));
    // Each program by itself; what stands below a chart is the chart's.
    let selection = select_rendering(listing, None, &helm);
    assert_eq!(selection.markers, ["chart/Chart.yaml"]);
    let errors: Vec<&str> = selection.errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(errors, ["app/kustomization.yml"]);
    // The ignore file goes first.
    let selection = select_rendering(listing, Some(b"/app/base/\n/chart/\n"), &both);
    assert_eq!(selection.markers, ["app/kustomization.yml"]);
    // A kustomization at the root leaves nothing plain.
    let selection = select_rendering(["kustomization.yaml", "a.yaml", "b/c.yaml"], None, &both);
    assert_eq!((selection.read, selection.markers.len()), (Vec::<String>::new(), 1));
    // A release stands beside its chart or elsewhere. What stands below it is its own, charts too.
    let listing =
        ["a/Chart.yaml", "a/release.gitfleet.yaml", "r/chart/Chart.yaml", "r/release.gitfleet.yaml", "r/v.yaml"];
    let selection = select_rendering(listing, None, &both);
    assert_eq!(
        (selection.read, selection.markers),
        (Vec::<String>::new(), listing[..4].iter().map(ToString::to_string).collect())
    );
    let listing = ["a/Chart.yaml", "a/charts/b/release.gitfleet.yaml", "a/env/release.gitfleet.yaml"];
    let selection = select_rendering(listing, None, &both);
    let errors: Vec<String> = selection.errors.iter().map(ToString::to_string).collect();
    assert_eq!(selection.markers, ["a/Chart.yaml"]);
    assert_eq!(
        errors,
        [
            "a/env/release.gitfleet.yaml: stands in a folder of a chart, and is a part of it (put it beside the Chart.yaml, or into a folder outside of the chart)"
        ]
    );
    // A folder is not above another one whose name it begins.
    assert_eq!(select_rendering(["a/Chart.yaml", "ab/x.yaml"], None, &both).read, ["ab/x.yaml"]);
    assert!(select_rendering(["../a/Chart.yaml"], None, &both).errors[0].message.contains("odd part"));
}

#[test]
fn odd_names_are_errors() {
    let deep = format!("{}x.yaml", "d/".repeat(33));
    for (listing, expected) in [
        (vec!["a\\b.yaml"], "odd part"),
        (vec!["../a.yaml"], "odd part"),
        (vec!["/a.yaml"], "absolute"),
        (vec![deep.as_str()], "32 folders"),
        (vec!["A.yaml", "a.yaml"], "capital letters"),
    ] {
        let errors = select(listing.iter().copied(), None).errors;
        assert!(errors.len() == 1 && errors[0].message.contains(expected), "{listing:?}: {errors:?}");
    }
    let many: Vec<String> = (0..=FILES_MAX).map(|n| format!("{n}.yaml")).collect();
    assert!(select(many.iter().map(String::as_str), None).errors[0].message.contains("the limit is"));
    let broken = select([], Some(b"a\n[z-a]\n")).errors;
    assert!(broken.iter().any(|e| e.path == IGNORE_FILE), "{broken:?}");
}
