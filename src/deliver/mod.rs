//! Room 5: what must change on this member?
