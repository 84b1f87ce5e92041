//! Whose signature commits need.

use super::*;

#[test]
fn files_of_keys_are_relative_to_the_file() {
    let text = "source: {url: x, verify: {ssh: {allowedSignersFile: keys/ssh}, openpgp: {keysFile: /keys/pgp}}}";
    let verify = body(text).unwrap().source.verify.unwrap();
    assert_eq!(verify.commits, VerifiedCommits::All);
    assert_eq!(verify.files().collect::<Vec<_>>(), [Path::new("/etc/fleet/keys/ssh"), Path::new("/keys/pgp")]);
}
