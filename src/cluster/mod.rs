//! Edge: members, live through their API server or as a directory.
