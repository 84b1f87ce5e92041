use super::*;
use model::commands::NewAgentToken;
use model::runs::Channel;

fn enroll(name: &str, digest: &str, pools: &[&str]) -> Command {
    let pools = pools.iter().map(|pool| (*pool).to_owned()).collect();
    Command {
        token: Some(Box::new(NewAgentToken { sha256: digest.to_owned(), pools })),
        ..Command::new(Verb::Enroll, name)
    }
}

fn say(tokens: &AgentTokens, command: &Command) -> Result<ChangedTokens, Refusal> {
    let fixed = BTreeSet::from(["fixed"]);
    execute(tokens, &fixed, command, &Person::of("ann", Channel::Api), Timestamp::UNIX_EPOCH)
}

#[test]
fn a_token_is_made_replaced_and_revoked() {
    let (first, second) = ("0".repeat(64), "f".repeat(64));
    let made = say(&AgentTokens::new(), &enroll("edge-3", &first, &["eu"])).expect("it is made");
    assert_eq!(made.done.message, "agent edge-3 may connect");
    assert_eq!(made.tokens["edge-3"].created_by, "ann");
    assert_eq!(made.ops().expect("they can be written").len(), 2);
    assert!(made.journal.event.documents(&made.journal.facts) && !made.journal.facts.to_string().contains(&first));
    let replaced = say(&made.tokens, &enroll("edge-3", &second, &[])).expect("it is replaced");
    assert_eq!((replaced.tokens.len(), replaced.tokens["edge-3"].sha256.as_str()), (1, second.as_str()));
    let revoked = say(&replaced.tokens, &Command::new(Verb::Revoke, "edge-3")).expect("it is revoked");
    assert!(revoked.tokens.is_empty());
    let gone = say(&revoked.tokens, &Command::new(Verb::Revoke, "edge-3")).expect_err("it is gone");
    assert_eq!(gone.reason, RefusalReason::NotFound);
}

#[test]
fn what_is_no_name_or_no_digest_is_refused() {
    let digest = "0".repeat(64);
    for (command, expected) in [
        (enroll("Edge", &digest, &[]), "\"Edge\" is not 1 to 63"),
        (enroll("edge", &digest, &["a/b"]), "\"a/b\" is not 1 to 63"),
        (enroll("edge", "secret", &[]), "no SHA-256"),
        (enroll("fixed", &digest, &[]), "is in a file"),
        (Command::new(Verb::Enroll, "edge"), "digest of a token is missing"),
        (Command::new(Verb::Revoke, "fixed"), "the configuration names a file with it"),
    ] {
        let refusal = say(&AgentTokens::new(), &command).expect_err(expected);
        assert!(refusal.message.contains(expected), "{refusal}");
        assert!(!refusal.message.contains("secret"), "{refusal}");
    }
}
