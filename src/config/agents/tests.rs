use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::MemberAccess;
use model::agent::AgentChoice;
use model::id::ClusterName;

const HEAD: &str = "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {url: /fleet}\n";

fn parse(rest: &str) -> Result<Configuration, Vec<InputError>> {
    Configuration::parse(&format!("{HEAD}{rest}"), Path::new("/etc/fleet"), &BTreeMap::new())
}

#[test]
fn the_section_and_members_are_read() {
    let read = parse(
        "agents: {listen: '0.0.0.0:8443', tls: {certFile: tls.crt, keyFile: tls.key}, tokens: [{name: edge-3, tokenFile: t}]}\n\
         members:\n- {name: 'edge-*', agent: edge-3, kubeconfig: {path: 'members/{name}.kubeconfig'}}\n\
         - {name: shop, agent: shop-agent}\n- {name: 'eu-*', agent: {pool: europe}, directory: 'rendered/{name}'}\n",
    )
    .expect("it is right");
    let agents = read.agents.as_ref().expect("the section");
    assert_eq!(agents.lease, AGENT_LEASE_DEFAULT);
    let tls = agents.tls.as_ref().expect("certificates");
    assert_eq!((tls.cert_file.as_path(), tls.client_ca_file.as_ref()), (Path::new("/etc/fleet/tls.crt"), None));
    assert_eq!(agents.tokens[0].token_file, Path::new("/etc/fleet/t"));
    let access = |name: &str| read.member(&ClusterName::from(name));
    let live = MemberAccess::Live { kubeconfig: "members/edge-7.kubeconfig".into(), context: None, allow_exec: vec![] };
    let named = |name: &str| AgentChoice::Named(name.to_owned());
    let wanted = MemberAccess::Agent { agent: named("edge-3"), access: Box::new(live) };
    assert_eq!(access("edge-7"), Some(wanted), "the path stays relative: it is on another machine");
    assert_eq!(
        access("shop"),
        Some(MemberAccess::Agent { agent: named("shop-agent"), access: Box::new(MemberAccess::InCluster) })
    );
    let folder = MemberAccess::Directory { path: "rendered/eu-1".into() };
    let pool = AgentChoice::Pool { pool: "europe".to_owned() };
    let pooled = access("eu-1").expect("the entry names it");
    assert!(pooled.is_directory());
    assert_eq!(pooled, MemberAccess::Agent { agent: pool, access: Box::new(folder) });
    assert_eq!(read.excluded_paths().len(), 1, "folders on other machines are no part of the source");
}

#[test]
fn what_is_wrong_names_its_field() {
    let agents = "agents: {listen: '127.0.0.1:0'}\n";
    let table = [
        ("agents: {}", "agents.listen: is missing"),
        ("agents: {listen: '0.0.0.0:8443'}", "agents.tls: is missing, and 0.0.0.0:8443 is reached from other machines"),
        ("agents: {listen: '127.0.0.1:0', lease: 2s}", "agents.lease: is shorter than 3 s"),
        ("agents: {listen: '127.0.0.1:0', tokens: [{name: A, tokenFile: t}]}", "agents.tokens[0].name: \"A\" is not"),
        (
            "agents: {listen: '127.0.0.1:0', tokens: [{name: a, tokenFile: t}, {name: a, tokenFile: u}]}",
            "agents.tokens[1].name: \"a\" is given twice",
        ),
        (
            "agents: {listen: '127.0.0.1:0', tokens: [{name: a, tokenFile: t, pools: [E]}]}",
            "agents.tokens[0].pools: \"E\"",
        ),
        ("members: [{name: a, agent: x}]", "agents: is missing, and members[0] names an agent"),
    ];
    for (rest, expected) in table {
        let found = parse(rest).map_or_else(|errors| errors[0].to_string(), |_| "accepted".to_owned());
        assert!(found.contains(expected), "{rest}: {found}");
    }
    let members = [
        ("{name: a, agent: x}", "accepted"),
        ("{name: 'a-*', agent: x}", "members[0]: would lead every member of the pattern to the cluster"),
        ("{name: 'a-*', agent: x, directory: out}", "members[0]: would lead every member of \"a-*\" to one place"),
        ("{name: a, agent: X, directory: out}", "members[0].agent: \"X\" is not 1 to 63"),
        ("{name: a, agent: {pool: ''}, directory: out}", "members[0].agent.pool: \"\" is not"),
        ("{name: a, agent: {name: x}}", "members[0].agent.name: is unknown"),
        ("{name: a, agent: 7}", "members[0].agent: is a whole number"),
        ("{name: a, agent: x, directory: /out}", "members[0].directory: \"/out\" must be a relative path"),
        (
            "{name: a, agent: x, kubeconfig: {path: ../k}}",
            "members[0].kubeconfig.path: \"../k\" must be a relative path",
        ),
        ("{name: a, agent: x, directory: out, kubeconfig: {path: k}}", "members[0]: needs exactly one"),
        // The same folder on two machines.
        ("{name: a, agent: x, directory: out}, {name: b, agent: z, directory: out}", "accepted"),
    ];
    for (entries, expected) in members {
        let found = parse(&format!("{agents}members: [{entries}]"));
        let found = found.map_or_else(|errors| errors[0].to_string(), |_| "accepted".to_owned());
        assert!(found.contains(expected), "{entries}: {found}");
    }
}
