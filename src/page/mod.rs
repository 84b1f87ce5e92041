//! The live page, as HTML made of values: it shows what `status` and the comments say, and decides nothing.

pub mod badge;
pub mod graph;
pub mod timeline;
