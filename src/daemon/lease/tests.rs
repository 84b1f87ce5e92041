//! Daemons on one lease, on a clock of the test.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::*;
use engine::store::lease::MemoryLeases;
use system::clock::Uptime;

const LEASE: Duration = Duration::from_secs(10);

/// Time that the test moves on.
#[derive(Clone, Default)]
struct TestClock(Arc<AtomicU64>);

impl TestClock {
    fn wait(&self, pause: Duration) {
        self.0.fetch_add(u64::try_from(pause.as_millis()).expect("a short pause"), Ordering::Relaxed);
    }

    fn passed(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn lease_clock(&self) -> LeaseClock {
        let clock = self.clone();
        Arc::new(move || Uptime::default().after(clock.passed()))
    }
}

/// A database that may be silent, or whose answers may be lost.
struct Database {
    leases: MemoryLeases,
    is_silent: AtomicBool,
    loses_answer: AtomicBool,
    calls: Mutex<Vec<&'static str>>,
}

impl Database {
    fn new(clock: &TestClock) -> Arc<Self> {
        let (begin, clock) = (Instant::now(), clock.clone());
        Arc::new(Self {
            leases: MemoryLeases::by(move || begin + clock.passed()),
            is_silent: AtomicBool::default(),
            loses_answer: AtomicBool::default(),
            calls: Mutex::default(),
        })
    }

    fn ask<T>(&self, what: &'static str, ask: impl FnOnce() -> store::Result<T>) -> store::Result<T> {
        self.calls.lock().unwrap().push(what);
        let silent = || Err(store::Error::Broken { message: "it does not answer".to_owned() });
        if self.is_silent.load(Ordering::Relaxed) {
            return silent();
        }
        let answer = ask();
        if self.loses_answer.swap(false, Ordering::Relaxed) { silent() } else { answer }
    }
}

impl Leases for Database {
    fn take(&self, holder: &Holder, length: Duration) -> store::Result<Taken> {
        self.ask("take", || self.leases.take(holder, length))
    }

    fn prolong(&self, epoch: u64, length: Duration) -> store::Result<bool> {
        self.ask("prolong", || self.leases.prolong(epoch, length))
    }

    fn release(&self, epoch: u64) -> store::Result<()> {
        self.ask("release", || self.leases.release(epoch))
    }

    fn read(&self) -> store::Result<Option<Lease>> {
        if self.is_silent.load(Ordering::Relaxed) {
            return self.ask("read", || Ok(None));
        }
        self.leases.read()
    }
}

fn keeper(database: &Arc<Database>, clock: &TestClock, id: &str) -> Keeper {
    let database = Arc::clone(database);
    let holder = Holder { id: id.to_owned(), url: format!("http://{id}") };
    Keeper::new(Box::new(move || Ok(Arc::clone(&database) as Arc<dyn Leases>)), holder, LEASE, clock.lease_clock())
}

fn role(keeper: &Keeper) -> Role {
    keeper.stepping_down.role.borrow().clone()
}

fn is_open(keeper: &Keeper) -> bool {
    keeper.stepping_down.fence.is_open()
}

/// The first two steps of two daemons: `a` leads, `b` follows.
fn two() -> (TestClock, Arc<Database>, Keeper, Keeper) {
    let clock = TestClock::default();
    let database = Database::new(&clock);
    let (mut a, mut b) = (keeper(&database, &clock, "a"), keeper(&database, &clock, "b"));
    assert_eq!(a.step(), LEASE / 5);
    assert_eq!(b.step(), FOLLOW_PAUSE);
    (clock, database, a, b)
}

#[test]
fn one_leads_and_the_other_knows_who() {
    let (clock, _, mut a, mut b) = two();
    assert_eq!((role(&a), is_open(&a)), (Role::Leading { epoch: 1 }, true));
    let Role::Follower { leader: Some(leader), is_answered: true } = role(&b) else { panic!("{:?}", role(&b)) };
    assert_eq!((leader.holder.url.as_str(), leader.epoch, is_open(&b)), ("http://a", 1, false));
    for _ in 0..10 {
        clock.wait(a.step());
        assert!(is_open(&a));
        b.step();
        assert!(!is_open(&b));
    }
}

#[test]
fn a_lease_that_ends_is_taken_and_the_old_leader_is_replaced() {
    let (clock, _, mut a, mut b) = two();
    clock.wait(Duration::from_millis(9_900));
    assert!(!is_open(&a), "its fence is closed before");
    assert_eq!(b.step(), Duration::from_millis(100), "the follower looks when the lease ends");
    clock.wait(Duration::from_millis(100));
    b.step();
    assert_eq!((role(&b), is_open(&b)), (Role::Leading { epoch: 2 }, true));
    a.step();
    assert_eq!((role(&a), is_open(&a)), (Role::Replaced { epoch: 1, found: 2 }, false));
}

#[test]
fn a_lease_that_is_given_back_is_taken_within_half_a_second() {
    let (clock, _, mut a, mut b) = two();
    let pause = b.step();
    assert!(pause <= Duration::from_millis(500));
    a.release();
    assert!(!is_open(&a));
    clock.wait(pause);
    b.step();
    assert_eq!(role(&b), Role::Leading { epoch: 2 });
}

#[test]
fn a_leader_whose_database_is_silent_continues_if_nobody_took_the_lease() {
    let (clock, database, mut a, _) = two();
    database.is_silent.store(true, Ordering::Relaxed);
    a.step();
    assert_eq!((role(&a), is_open(&a)), (Role::Leading { epoch: 1 }, true), "the lease lasts");
    clock.wait(LEASE * 3);
    a.step();
    assert_eq!((role(&a), is_open(&a)), (Role::Unsure { epoch: 1 }, false));
    database.is_silent.store(false, Ordering::Relaxed);
    a.step();
    assert_eq!((role(&a), is_open(&a)), (Role::Leading { epoch: 1 }, true));
}

#[test]
fn a_lease_whose_answer_was_lost_is_kept() {
    let clock = TestClock::default();
    let database = Database::new(&clock);
    let mut a = keeper(&database, &clock, "a");
    database.loses_answer.store(true, Ordering::Relaxed);
    a.step();
    assert_eq!((role(&a), is_open(&a)), (Role::Follower { leader: None, is_answered: false }, false));
    a.step();
    assert_eq!((role(&a), is_open(&a)), (Role::Leading { epoch: 1 }, true));
    assert_eq!(*database.calls.lock().unwrap(), ["take", "prolong"]);
}

/// The time that a call takes counts as part of the lease.
#[test]
fn a_lease_is_counted_from_before_the_call() {
    struct Slow(TestClock, Arc<Database>);
    impl Leases for Slow {
        fn take(&self, holder: &Holder, length: Duration) -> store::Result<Taken> {
            let taken = self.1.take(holder, length);
            self.0.wait(LEASE / 2);
            taken
        }
        fn prolong(&self, epoch: u64, length: Duration) -> store::Result<bool> {
            self.1.prolong(epoch, length)
        }
        fn release(&self, epoch: u64) -> store::Result<()> {
            self.1.release(epoch)
        }
        fn read(&self) -> store::Result<Option<Lease>> {
            self.1.read()
        }
    }
    let clock = TestClock::default();
    let database = Database::new(&clock);
    let slow = Slow(clock.clone(), Arc::clone(&database));
    let mut slow = Some(Arc::new(slow));
    let holder = Holder { id: "a".to_owned(), url: String::new() };
    let open: Opener = Box::new(move || Ok(slow.take().expect("it is opened once")));
    let mut a = Keeper::new(open, holder, LEASE, clock.lease_clock());
    a.step();
    assert!(is_open(&a));
    clock.wait(LEASE * 3 / 10);
    assert!(!is_open(&a), "half the lease passed in the call, and three tenths since");
}

#[test]
fn a_leader_that_the_store_calls_replaced_stays_so() {
    let (_, _, mut a, _) = two();
    a.stepping_down.replaced(1, 2);
    assert!(!is_open(&a));
    a.step();
    assert_eq!((role(&a), is_open(&a)), (Role::Replaced { epoch: 1, found: 2 }, false));
}

/// Many daemons, pauses and silence at random: there is never more than one open fence.
#[test]
fn never_two_may_write() {
    for seed in 0..300_u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let clock = TestClock::default();
        let database = Database::new(&clock);
        let mut keepers: Vec<_> = (0..3).map(|n| keeper(&database, &clock, &format!("{seed}-first-{n}"))).collect();
        for round in 0..200 {
            let of = usize::try_from(next(3)).expect("a small number");
            database.is_silent.store(next(4) == 0, Ordering::Relaxed);
            database.loses_answer.store(next(6) == 0, Ordering::Relaxed);
            if next(20) == 0 {
                keepers[of].release();
                keepers[of] = keeper(&database, &clock, &format!("{seed}-{round}"));
            }
            if keepers[of].stepping_down.is_over() {
                keepers[of] = keeper(&database, &clock, &format!("{seed}-{round}-again"));
            }
            keepers[of].step();
            assert!(keepers.iter().filter(|keeper| is_open(keeper)).count() <= 1, "seed {seed}, round {round}");
            clock.wait(Duration::from_millis(next(4_000)));
            assert!(keepers.iter().filter(|keeper| is_open(keeper)).count() <= 1, "seed {seed}, round {round}");
        }
    }
}
