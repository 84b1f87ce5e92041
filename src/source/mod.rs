//! Room 1: what does a commit say? Files become a checked tree, or every error in them.
