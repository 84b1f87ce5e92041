use super::OwnersSyntax::{GitHub, Gitea};
use super::*;

fn read(syntax: OwnersSyntax, text: &str) -> Result<CodeOwners, Vec<InputError>> {
    CodeOwners::read(syntax, "CODEOWNERS", text.as_bytes())
}

#[test]
fn the_last_line_that_fits_decides_as_on_github() {
    // the file, a path, its owners
    let rows = [
        ("* @ops", "a.yaml", "user:ops"),
        ("* @ops", "teams/shop/a.yaml", "user:ops"),
        ("* @ops\n/teams/shop/ @acme/shop @ann", "teams/shop/web/a.yaml", "team:acme/shop user:ann"),
        ("* @ops\n/teams/shop/ @acme/shop", "other/teams/shop/a.yaml", "user:ops"),
        ("/teams/shop/ @ann\n* @ops", "teams/shop/a.yaml", "user:ops"),
        ("*.yaml @ann\n/apps/ @bob", "apps/a.yaml", "user:bob"),
        ("/apps/ @bob\n*.yaml @ann", "apps/deep/a.yaml", "user:ann"),
        ("apps/ @bob", "teams/apps/a.yaml", "user:bob"),
        ("apps/ @bob", "apps", ""),
        ("apps @bob", "teams/apps/a.yaml", "user:bob"),
        ("docs/* @bob", "docs/a.yaml", "user:bob"),
        ("docs/* @bob", "docs/deep/a.yaml", ""),
        ("docs/** @bob", "docs/deep/a.yaml", "user:bob"),
        ("**/logs @bob", "a/b/logs/c.yaml", "user:bob"),
        ("/a/**/z.yaml @bob", "a/b/c/z.yaml", "user:bob"),
        ("a?.yaml @bob", "ab.yaml", "user:bob"),
        ("a?.yaml @bob", "a/.yaml", ""),
        ("/apps/ @bob\n/apps/free", "apps/free/a.yaml", ""),
        ("/apps/ @bob\n/apps/free", "apps/a.yaml", "user:bob"),
        ("/with\\ blank/ @bob", "with blank/a.yaml", "user:bob"),
        ("# * @no\n\n  * @ops # not @eve\n", "a.yaml", "user:ops"),
        ("* @ops #not @eve", "a.yaml", "user:ops"),
        ("*\t@ops\r\n", "a.yaml", "user:ops"),
        ("\u{feff}* @ops", "a.yaml", "user:ops"),
        ("/A.yaml @ops", "a.yaml", ""),
        ("* ann@example.org", "a.yaml", "email:ann@example.org"),
        ("", "a.yaml", ""),
    ];
    for (text, path, owners) in rows {
        let found = read(GitHub, text).expect(text).of(path).join(" ");
        assert_eq!(found, owners, "{text:?} of {path}");
    }
}

#[test]
fn all_lines_that_fit_count_together_as_on_gitea() {
    // the file, a path, its owners
    let rows = [
        (".* @ops", "teams/shop/a.yaml", "user:ops"),
        (".* @ops\nteams/shop/.* @acme/shop", "teams/shop/a.yaml", "team:acme/shop user:ops"),
        ("teams/shop/.* @ann\nteams/.* @ann @bob", "teams/shop/a.yaml", "user:ann user:bob"),
        ("teams/shop @ann", "teams/shop/a.yaml", ""),
        ("/teams/.* @ann", "teams/a.yaml", "user:ann"),
        ("!teams/.* @ann", "a.yaml", "user:ann"),
        ("!teams/.* @ann", "teams/a.yaml", ""),
        (".*\\\\.yaml ann", "a.yaml", "user:ann"),
        (".*\\\\.yaml ann", "a-yaml", ""),
        ("a|b @ann", "ax", "user:ann"),
        ("a|b @ann", "xb", "user:ann"),
        (".* @ann#comment @eve", "a.yaml", "user:ann"),
        ("with\\ blank/.* @acme/The\\ leads", "with blank/a.yaml", "team:acme/The leads"),
        ("dir/with\\#sign @ann", "dir/with#sign", "user:ann"),
        (".* ann@example.org", "a.yaml", "email:ann@example.org"),
        ("# only a comment", "a.yaml", ""),
    ];
    for (text, path, owners) in rows {
        let found = read(Gitea, text).expect(text).of(path).join(" ");
        assert_eq!(found, owners, "{text:?} of {path}");
    }
}

#[test]
fn a_line_that_cannot_be_read_is_an_error_with_its_line() {
    let many = format!("* {}", "@a ".repeat(OWNERS_OF_LINE_MAX + 1));
    let long = "* @a\n".repeat(CODE_OWNERS_RULES_MAX + 1);
    let large = "#".repeat(CODE_OWNERS_BYTES_MAX + 1);
    let hungry = "(a{1000}){1000} @a";
    // whose syntax, the file, the line, a word
    let rows = [
        (GitHub, "* @ops\n!/apps/ @eve", 2, "\"!/apps/\" has `!`"),
        (GitHub, "a[bc].yaml @eve", 1, "has `[`"),
        (GitHub, "\\#a @eve", 1, "has `\\#`"),
        (GitHub, "* ops", 1, "\"ops\" is neither @NAME"),
        (GitHub, "* @", 1, "\"@\" is neither @NAME"),
        (GitHub, "* @a/b/c", 1, "neither @NAME"),
        (GitHub, "* @a,user:eve", 1, "neither @NAME"),
        (GitHub, "* @org/a,team:x/y", 1, "neither @NAME"),
        (GitHub, "* @org/", 1, "neither @NAME"),
        (GitHub, "* a@b@c.org", 1, "neither @NAME"),
        (GitHub, "* a,user:eve@x.org", 1, "neither @NAME"),
        (GitHub, &many, 1, "51 owners"),
        (GitHub, &long, 0, "1001 lines"),
        (GitHub, &large, 0, "bytes, the limit"),
        (Gitea, ".* @ops\n\nteams/.*", 3, "names no owner"),
        (Gitea, "( @ops", 1, "not a regular expression"),
        (Gitea, "(?=a).* @ops", 1, "no look-around"),
        (Gitea, "(a)\\\\1 @ops", 1, "no look-around"),
        (Gitea, ".* @a/b/c", 1, "neither @NAME"),
        (Gitea, ".* @a:b", 1, "neither @NAME"),
        (Gitea, hungry, 1, "too much memory"),
    ];
    for (syntax, text, line, word) in rows {
        let shown: String = text.chars().take(40).collect();
        let errors = read(syntax, text).err().unwrap_or_default();
        let [error] = errors.as_slice() else { unreachable!("{shown}: {errors:?}") };
        assert_eq!((error.path.as_str(), error.line), ("CODEOWNERS", line), "{shown}");
        assert!(error.message.contains(word), "{shown}: {error}");
    }
    let not_text = CodeOwners::read(GitHub, "docs/CODEOWNERS", b"* @ops\n\xff").err().unwrap_or_default();
    assert!(not_text[0].to_string().contains("docs/CODEOWNERS: is not UTF-8"), "{not_text:?}");
    let both = read(GitHub, "! @a\n* @ops\n[ @b").err().unwrap_or_default();
    assert_eq!(both.iter().map(|error| error.line).collect::<Vec<_>>(), [1, 3], "every line is named");
}

#[test]
fn an_address_is_a_warning_with_its_line() {
    let found = read(GitHub, "* @ops\n/a @ann bob@example.org").expect("it is read");
    let [warning] = found.warnings.as_slice() else { unreachable!("{:?}", found.warnings) };
    assert_eq!(warning.line, 2);
    assert!(warning.message.contains("bob@example.org is an address"), "{warning}");
}
