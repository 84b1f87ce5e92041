//! Room 2: freeze it. Selection, sanitising, order, hashes, splitting and history.
