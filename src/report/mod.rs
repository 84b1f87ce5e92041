//! Room 6: who is told what? Conditions, tables and trees from records.
