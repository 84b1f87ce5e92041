//! Files of tenants that SOPS encrypted.

use super::*;

/// A Secret of the tenant that Kustomize made of an encrypted one in a namespace.
fn made_of(namespace: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: db, namespace: shop}}\ndata: {{a: 'ENC[AES256_GCM,data:a]'}}\nsops:\n  mac: 'ENC[AES256_GCM,data:m]'\n  \
         gitfleet: {{file: '', ordinal: 0, moved: {{}}, id: {{group: '', version: v1, kind: Secret, namespace: {namespace}, name: db}}}}\n"
    )
}

#[test]
fn an_encrypted_file_names_a_namespace_of_its_tenant() {
    let plain = "apiVersion: v1\nkind: Secret\nmetadata: {name: db, namespace: shop}\ndata: {}\nsops: {mac: 'ENC[AES256_GCM,data:m]'}\n";
    let rows = [
        (made_of("bank"), "SOPS encrypted it as Secret bank/db, which is in the namespace bank"),
        // It may be a copy without its namespace.
        (made_of("''"), "SOPS encrypted it as Secret db, which names no namespace: name it in the encrypted file"),
        (made_of("shop"), ""),
        (plain.to_owned(), ""),
    ];
    for (text, wanted) in rows {
        let mut files = others();
        files.push(("shop/a.yaml", text));
        let found: Vec<String> = violations(&tree_of(&files), &tenants()).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), usize::from(!wanted.is_empty()), "{found:?}");
        assert!(found.iter().all(|line| line.starts_with("shop/a.yaml:1: ") && line.contains(wanted)), "{found:?}");
    }
}
