//! Makes the database file smaller at the start.

use std::fs;
use std::path::Path;

use redb::Database;

/// Bytes of a database file that is not worth compacting.
const COMPACTED_FROM_BYTES: u64 = 2 * 1024 * 1024;

/// Gives pages back that nothing uses any more, if they are a third of the file: a batch that changes much writes its pages again
/// before the old ones are free.
pub(super) fn shrink(database: &mut Database, file: &Path) -> Result<(), redb::Error> {
    let bytes = fs::metadata(file)?.len();
    if bytes < COMPACTED_FROM_BYTES {
        return Ok(());
    }
    let transaction = database.begin_write()?;
    let stats = transaction.stats()?;
    transaction.abort()?;
    let used = stats.allocated_pages().saturating_mul(u64::try_from(stats.page_size()).unwrap_or(u64::MAX));
    if used.saturating_mul(3) <= bytes.saturating_mul(2) {
        database.compact()?;
    }
    Ok(())
}
