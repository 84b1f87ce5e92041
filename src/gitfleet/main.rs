//! The `gitfleet` binary: installs the TLS provider and calls the library.

#[cfg(all(feature = "jemalloc", not(target_os = "macos")))]
mod allocator;

use std::process::ExitCode;

fn main() -> ExitCode {
    // gitfleet starts itself as the launcher of kustomize, helm and sops.
    if let Some(code) = render::launch() {
        return code;
    }
    // Before anything else: library defaults mix two providers, and rustls then refuses to choose.
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        eprintln!("error: another TLS provider is already installed; this should not happen, report it");
        return ExitCode::from(2);
    }
    gitfleet::main().into()
}
