//! Room 4: in which order, and how fast?
