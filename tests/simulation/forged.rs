//! The checker can fail: each promise, broken by a forged fact, is caught.
