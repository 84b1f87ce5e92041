//! The floor of PostgreSQL: a bare client that commits a row, and one that reads all records, with nothing of gitfleet in it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use tokio_postgres::{Client, NoTls};

use crate::fleet::Postgres;

/// Bytes of the row that is committed.
const ROW_BYTES: usize = 1024;

/// A connection.
pub struct Database(Client);

impl Database {
    /// Connects, and makes a table for rows.
    pub async fn connect(postgres: &Postgres) -> Result<Self> {
        let mut config: tokio_postgres::Config = postgres.url.parse().context("the address of PostgreSQL")?;
        let (client, connection) = config.password(&postgres.password).connect(NoTls).await.context("connect")?;
        tokio::spawn(async move { drop(connection.await) });
        client.batch_execute("CREATE TABLE IF NOT EXISTS floor (row bytea)").await.context("make a table")?;
        Ok(Self(client))
    }

    /// Commits a row, and returns how long it took until that was safe on the disk.
    pub async fn commit(&self) -> Result<Duration> {
        let row = vec![7_u8; ROW_BYTES];
        let started = Instant::now();
        self.0.execute("INSERT INTO floor VALUES ($1)", &[&row]).await.context("commit a row")?;
        Ok(started.elapsed())
    }

    /// Reads all records of a schema; returns how many there are, their bytes, and how long it took.
    pub async fn read_records(&self, schema: &str) -> Result<(usize, usize, Duration)> {
        let started = Instant::now();
        let rows = self.0.query_raw(&format!("SELECT value FROM {schema}.record"), Vec::<String>::new()).await?;
        let mut rows = std::pin::pin!(rows);
        let (mut count, mut bytes) = (0, 0);
        while let Some(row) = rows.try_next().await.context("read a record")? {
            count += 1;
            bytes += row.get::<_, &[u8]>(0).len();
        }
        Ok((count, bytes, started.elapsed()))
    }
}
