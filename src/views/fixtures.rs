//! Fleets for tests.

pub(crate) use testkit::records::*;

testkit::case_status!(decide::status);
testkit::case_fleet!(crate::fleet);
