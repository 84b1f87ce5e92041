//! The running daemon: all waiting, communication and writing around the core.
//!
//! [`run`] is the event loop. [`source_poller`] watches git, [`member`] executes deliveries, [`hub_writer`] exports decisions,
//! [`metric_asker`] asks Prometheus, [`bot`] communicates on the forge, [`configuration`] follows the configuration's file. They send
//! events to the core (`engine::event`) and execute its effects (`engine::effect`). [`notifier`] tells receivers what the journal says.
//! [`system::secret_files`] follows the files of secrets.

pub mod commit_reader;
pub mod commit_signatures;
pub mod configuration;
pub mod follower;
pub mod hub_writer;
pub mod lease;
pub mod manifests;
mod measure;
mod members;
pub mod metric_asker;
pub mod notifier;
mod pace;
pub mod published;
pub mod rendering;
pub mod run;
pub mod source_history;
pub mod source_poller;
