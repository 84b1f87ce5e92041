//! Runs as text: what is asked of them, and what becomes of it.

mod checks;
mod ends;
mod gates;
mod machine;
mod phases;
mod properties;
mod stages;
mod world;
