//! The lease in the database, by the database's clock.

use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::types::ToSql;

use super::client::CALL_TIME_MAX;
use super::failure::CallFailure;
use super::write::{number, signed};
use super::{PostgresStore, client_of};
use engine::store::Result;
use engine::store::lease::{Holder, Lease, Leases, Taken};

/// How long asking for the time may take: a wait that a take-over continues gets longer by as much, once at each end.
const CLOCK_TIME_MAX: Duration = Duration::from_secs(2);

/// The columns of a lease: holder, url, epoch, milliseconds left.
const COLUMNS: &str = "holder, url, epoch, greatest(0, extract(epoch FROM expires - clock_timestamp()) * 1000)::bigint";

fn read(row: &tokio_postgres::Row) -> Lease {
    let holder = Holder { id: row.get(0), url: row.get(1) };
    Lease { holder, epoch: number(row.get(2)), left: Duration::from_millis(number(row.get(3))) }
}

impl PostgresStore {
    /// Lets no batch wait for its daemon for longer than a lease.
    fn limit_batches(&self, lease: Duration) {
        let length = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        self.lease_millis.store(length, Ordering::SeqCst);
    }

    /// Returns the time by the database's clock, which leases are measured by. It is asked on the lease's connection: an answer that waited
    /// behind a batch would be late.
    pub(super) fn clock(&self) -> Result<Timestamp> {
        self.caller.call(&self.leases, "asking for the time", CLOCK_TIME_MAX, async move |mut connected| {
            let asked = async {
                let time = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
                let micros: i64 = client_of(&mut connected)?.query_one(time, &[]).await?.get(0);
                // Beyond the instants that are known here, as far as they go.
                Ok::<_, CallFailure>(Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX))
            };
            let result = asked.await;
            (connected, result)
        })
    }

    /// Carries out one statement about the lease, on a connection that no batch keeps busy; returns the rows it answers with.
    fn about_lease(
        &self,
        action: &'static str,
        limit: Duration,
        statement: String,
        parameters: Vec<Box<dyn ToSql + Sync + Send>>,
    ) -> Result<Vec<Lease>> {
        self.caller.call(&self.leases, action, limit, async move |mut connected| {
            let asked = async {
                let given: Vec<&(dyn ToSql + Sync)> =
                    parameters.iter().map(|parameter| &**parameter as &(dyn ToSql + Sync)).collect();
                let rows = client_of(&mut connected)?.query(&statement, &given).await?;
                Ok::<_, CallFailure>(rows.iter().map(read).collect())
            };
            let result = asked.await;
            (connected, result)
        })
    }
}

impl Leases for PostgresStore {
    fn take(&self, holder: &Holder, length: Duration) -> Result<Taken> {
        const ACTION: &str = "taking the lease";
        self.limit_batches(length);
        // One statement, so one transaction. Where two take at once, the second waits for the first, and finds that the lease has not
        // ended any more.
        let statement = format!(
            "INSERT INTO {table} AS held (source, epoch, holder, url, expires)
             VALUES ($1, 1, $2, $3, clock_timestamp() + $4 * interval '1 second')
             ON CONFLICT (source) DO UPDATE
                SET epoch = held.epoch + 1, holder = excluded.holder, url = excluded.url,
                    expires = clock_timestamp() + $4 * interval '1 second'
                WHERE held.expires <= clock_timestamp()
             RETURNING {COLUMNS}",
            table = self.table("lease")
        );
        let length: Box<dyn ToSql + Sync + Send> = Box::new(length.as_secs_f64());
        let parameters: Vec<Box<dyn ToSql + Sync + Send>> =
            vec![Box::new(self.source.clone()), Box::new(holder.id.clone()), Box::new(holder.url.clone()), length];
        if let Some(lease) = self.about_lease(ACTION, CALL_TIME_MAX, statement, parameters)?.pop() {
            return Ok(Taken::Yes { epoch: lease.epoch });
        }
        let lease = Leases::read(self)?;
        Ok(Taken::No(lease.unwrap_or(Lease { holder: holder.clone(), epoch: 0, left: Duration::ZERO })))
    }

    fn prolong(&self, epoch: u64, length: Duration) -> Result<bool> {
        let statement = format!(
            "UPDATE {} SET expires = clock_timestamp() + $3 * interval '1 second'
             WHERE source = $1 AND epoch = $2 RETURNING {COLUMNS}",
            self.table("lease")
        );
        self.limit_batches(length);
        let limit = length.min(CALL_TIME_MAX);
        let length: Box<dyn ToSql + Sync + Send> = Box::new(length.as_secs_f64());
        let parameters: Vec<Box<dyn ToSql + Sync + Send>> =
            vec![Box::new(self.source.clone()), Box::new(signed(epoch)), length];
        Ok(!self.about_lease("prolonging the lease", limit, statement, parameters)?.is_empty())
    }

    fn release(&self, epoch: u64) -> Result<()> {
        let statement = format!(
            "UPDATE {} SET expires = clock_timestamp() WHERE source = $1 AND epoch = $2 RETURNING {COLUMNS}",
            self.table("lease")
        );
        let parameters: Vec<Box<dyn ToSql + Sync + Send>> =
            vec![Box::new(self.source.clone()), Box::new(signed(epoch))];
        self.about_lease("releasing the lease", CALL_TIME_MAX, statement, parameters).map(drop)
    }

    fn read(&self) -> Result<Option<Lease>> {
        let statement = format!("SELECT {COLUMNS} FROM {} WHERE source = $1", self.table("lease"));
        let parameters: Vec<Box<dyn ToSql + Sync + Send>> = vec![Box::new(self.source.clone())];
        Ok(self.about_lease("reading the lease", CALL_TIME_MAX, statement, parameters)?.pop())
    }
}
