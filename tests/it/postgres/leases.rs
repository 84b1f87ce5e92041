//! The promises of a lease, for the one in memory and the one in the database.

use std::time::{Duration, Instant};

use engine::store::Store as _;
use engine::store::lease::{Leases, MemoryLeases, Taken};
use store::PostgresStore;

use crate::postgres::fleet::until;
use crate::postgres::server::{holder, schema, settings};

const LONG: Duration = Duration::from_mins(10);
const SHORT: Duration = Duration::from_millis(300);
const SOON: Duration = Duration::from_secs(20);

fn epoch(taken: Taken) -> u64 {
    match taken {
        Taken::Yes { epoch } => epoch,
        Taken::No(lease) => panic!("{lease:?} has it"),
    }
}

fn promises(leases: &dyn Leases) {
    assert_eq!(leases.read().unwrap(), None);
    let first = epoch(leases.take(&holder("one"), LONG).unwrap());
    let Taken::No(lease) = leases.take(&holder("two"), LONG).unwrap() else { panic!("one has it") };
    assert_eq!((lease.holder, lease.epoch), (holder("one"), first));
    assert!(lease.left <= LONG && lease.left > LONG / 2);
    assert!(leases.prolong(first, LONG).unwrap());
    assert!(!leases.prolong(first + 1, LONG).unwrap(), "nobody has that epoch");
    leases.release(first + 1).unwrap();
    assert!(!leases.read().unwrap().unwrap().left.is_zero(), "another epoch's release changes nothing");
    leases.release(first).unwrap();
    assert!(leases.read().unwrap().unwrap().left.is_zero());
    assert!(leases.prolong(first, SHORT).unwrap(), "nobody took it, so it continues");
    let second = until("the lease to end by itself", SOON, || {
        Ok(match leases.take(&holder("two"), LONG)? {
            Taken::Yes { epoch } => Some(epoch),
            Taken::No(_) => None,
        })
    });
    assert_eq!(second.unwrap(), first + 1);
    assert!(!leases.prolong(first, LONG).unwrap(), "another has it");
}

#[test]
fn a_lease_in_memory_keeps_its_promises() {
    promises(&MemoryLeases::by(Instant::now));
}

#[test]
fn a_lease_in_the_database_keeps_its_promises() {
    promises(&PostgresStore::open(&settings(&schema()), "default").unwrap());
}

#[test]
fn of_many_that_take_at_once_one_has_it() {
    let schema = schema();
    let stores: Vec<PostgresStore> =
        (0..6).map(|_| PostgresStore::open(&settings(&schema), "default").unwrap()).collect();
    let taken = std::thread::scope(|scope| {
        let takers: Vec<_> = stores
            .iter()
            .enumerate()
            .map(|(number, store)| scope.spawn(move || store.take(&holder(&format!("daemon-{number}")), LONG).unwrap()))
            .collect();
        takers.into_iter().map(|taker| taker.join().unwrap()).filter(|taken| matches!(taken, Taken::Yes { .. })).count()
    });
    assert_eq!(taken, 1);
}

#[test]
fn a_database_tells_its_time() {
    let store = PostgresStore::open(&settings(&schema()), "default").unwrap();
    let before = system::clock::wall();
    let said = store.shared_time().unwrap().expect("daemons share it");
    // The server is on this machine; it tells microseconds.
    let error = jiff::SignedDuration::from_micros(1);
    assert!(said >= before - error && said <= system::clock::wall() + error, "{before}, {said}");
}
