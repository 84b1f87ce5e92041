use super::*;

#[test]
fn c14_programs_of_a_kubeconfig_are_started_only_where_they_are_named() {
    let kubeconfig = |user: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: c, cluster: {{server: 'https://x'}}}}]\n\
                 contexts: [{{name: a, context: {{cluster: c, user: u}}}}, {{name: b, context: {{cluster: c, user: other}}}}]\n\
                 users: [{{name: u, user: {user}}}, {{name: other, user: {{token: t}}}}]\n"
        );
        Kubeconfig::from_yaml(&text).expect("a kubeconfig")
    };
    let exec = kubeconfig("{exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [/tmp/x]}}");
    let provider = kubeconfig("{auth-provider: {name: gcp, config: {cmd-path: /bin/touch}}}");
    let token = kubeconfig("{token: t}");
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (name, file, context, allowed, refused) in [
        ("exec", &exec, None, names(&[]), true),
        ("another is named", &exec, Some("a"), names(&["touc", "/bin/touch"]), true),
        ("exec that is named", &exec, None, names(&["touch"]), false),
        ("another account of the file", &exec, Some("b"), names(&[]), false),
        ("an auth-provider", &provider, None, names(&["touch"]), true),
        ("an auth-provider that is named", &provider, None, names(&["gcp"]), false),
        ("a token", &token, None, names(&[]), false),
        ("no such context", &token, Some("gone"), names(&[]), false),
    ] {
        let answer = SignIn::Named(&allowed).check(file, context);
        assert_eq!(answer.is_err(), refused, "{name}: {answer:?}");
        assert!(answer.err().is_none_or(|words| words.contains("allowExec")), "{name}");
        assert_eq!(SignIn::Any.check(file, context), Ok(()), "{name}");
    }
}

#[tokio::test]
async fn a_member_behind_a_proxy_is_asked_through_it() {
    // Another test may have been first.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let folder = tempfile::tempdir().expect("a folder");
    for (scheme, greeting) in [("http", &b"CONNECT member.invalid:6443 HTTP/1.1\r\n"[..]), ("socks5", &[5])] {
        let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("{scheme}://{}", proxy.local_addr().expect("an address"));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
                 clusters: [{{name: c, cluster: {{server: 'https://member.invalid:6443', proxy-url: '{url}'}}}}]\n\
                 contexts: [{{name: a, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n"
        );
        let path = folder.path().join(scheme);
        std::fs::write(&path, text).expect("it is written");
        let asked = async {
            let (mut stream, _) = proxy.accept().await.expect("somebody comes");
            let mut first = vec![0; greeting.len()];
            tokio::io::AsyncReadExt::read_exact(&mut stream, &mut first).await.expect("it says something");
            first
        };
        let (first, answer) = tokio::join!(asked, connect("m", &path, None, SignIn::Any));
        assert_eq!(first, greeting, "{scheme}");
        assert!(matches!(answer, Err(Error::Unreachable { .. })), "{scheme}: the proxy hung up");
    }
}

#[test]
fn a_kubeconfig_that_changed_or_names_a_file_that_changed_is_another_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kubeconfig");
    let write = |token: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: c, cluster: {{server: 'https://x', \
             certificate-authority: ca.pem}}}}]\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
             users: [{{name: u, user: {{token: {token}}}}}]\n"
        );
        std::fs::write(&path, text).expect("it is written");
    };
    let digest = || kubeconfig_digest(&path, None);
    assert_eq!(digest(), None, "it is not there");
    write("one");
    let first = digest();
    assert!(first.is_some());
    std::fs::write(folder.path().join("ca.pem"), "ca").expect("it is written");
    let second = digest();
    assert_ne!(first, second, "the authority's certificates came");
    assert_eq!(second, digest());
    write("two");
    assert_ne!(second, digest(), "the token changed");
    std::fs::write(&path, "users: [").expect("it is written");
    assert_eq!(digest(), None, "it is half written");
}
