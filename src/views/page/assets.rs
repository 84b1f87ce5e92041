//! The files that pages load: part of the binary, so that no page asks another host.

use sha2::{Digest as _, Sha256};

/// A file that pages load.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its name below `/assets/`.
    pub name: &'static str,
    /// What it is.
    pub content_type: &'static str,
    /// Its content.
    pub content: &'static [u8],
}

/// All of them.
static ASSETS: [Asset; 4] = [
    Asset { name: "page.css", content_type: "text/css; charset=utf-8", content: include_bytes!("assets/page.css") },
    Asset {
        name: "page.js",
        content_type: "text/javascript; charset=utf-8",
        content: include_bytes!("assets/page.js"),
    },
    Asset {
        name: "morph.js",
        content_type: "text/javascript; charset=utf-8",
        content: include_bytes!("assets/morph.js"),
    },
    Asset { name: "icon.svg", content_type: "image/svg+xml", content: include_bytes!("assets/icon.svg") },
];

/// Hexadecimal digits of a version: enough to tell two of a file apart.
const VERSION_DIGITS: usize = 16;

impl Asset {
    /// Returns the file of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ASSETS.iter().find(|asset| asset.name == name)
    }

    /// Returns what changes with the content, and with nothing else.
    pub fn version(&self) -> String {
        let digest = format!("{:x}", Sha256::digest(self.content));
        digest.chars().take(VERSION_DIGITS).collect()
    }
}

/// Returns the address of a file, below a base path: another content has another address, so browsers may keep what they have.
pub(super) fn address(base: &str, name: &str) -> String {
    let version = Asset::named(name).map(Asset::version).unwrap_or_default();
    format!("{base}/assets/{name}?v={version}")
}
