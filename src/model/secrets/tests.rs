use super::*;

#[test]
fn d19_names_speak_by_their_words() {
    for name in [
        "password",
        "PASSWORD",
        "DB_PassWord",
        "db-password",
        "dbpassword",
        "DBPASSWORD",
        "password1",
        "passwords",
        "api-key",
        "apiKey",
        "API_KEY",
        "apikey",
        "APIKey",
        "API_KEYS",
        "key",
        "tls.key",
        "ssh/key",
        "privateKey",
        "token",
        "accessToken",
        "GITHUB_TOKEN",
        "token2",
        "clientSecret",
        "secrets",
        "cred",
        "CREDENTIALS",
        "dsn",
        "DATABASE_DSN",
        "tls.cert",
        "caCertificate",
        "DB_PASS",
        "pwd",
        "passphrase",
        "PASSWD",
    ] {
        assert!(speaks_of_secrets(name), "{name}");
    }
    for name in [
        "key1",
        "KEY_1x",
        "monkey",
        "MONKEY",
        "keyboard",
        "keyboardLayout",
        "turkey",
        "tokenizer",
        "secretary",
        "compass",
        "passenger",
        "colour",
        "certain",
        "concert",
        "passive",
        "bypass",
        "keystone",
        "",
        "---",
        "hotkeyed",
    ] {
        let speaks = speaks_of_secrets(name);
        // `KEY_1x` has the word `key` of its own.
        assert_eq!(speaks, name == "KEY_1x", "{name}");
    }
}
