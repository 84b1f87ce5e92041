//! Verifies a database file before anything in it is trusted.
//!
//! redb opens a file that was closed in order without looking at checksums: one damaged byte may name a page of terabytes, which
//! ends the process while it reserves the memory. The repair of a file that was not closed looks at every checksum first, from the
//! roots down. So the file is repaired once on top of itself in memory, where nothing is written to it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::{Builder, StorageBackend};

/// Where redb's header has its flags, as its file format says.
const FLAGS_OFFSET: u64 = 9;
/// The flag of a file that was not closed.
const FLAG_UNCLOSED: u8 = 2;
/// The flag of a last commit that is known to be whole: redb reads its allocator's state without a look at checksums.
const FLAG_TWO_PHASE: u8 = 4;
/// Bytes of redb's header. A shorter file is new, or redb refuses it without reading a page.
const HEADER_BYTES: u64 = 320;

/// Reads every page of a database file and compares its checksum. Writes nothing.
///
/// A commit that a killed process had not finished is no damage: redb goes back to the one before.
///
/// # Errors
/// `Corrupted` where pages of the last finished commit do not match their checksums, and what reading the file answers.
pub(super) fn verify(path: &Path, cache_bytes: usize) -> Result<(), redb::Error> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    if file.metadata()?.len() < HEADER_BYTES {
        return Ok(());
    }
    let mut flags = [0];
    file.read_exact_at(&mut flags, FLAGS_OFFSET)?;
    let [flags] = flags;
    let may_go_back = flags & FLAG_UNCLOSED != 0 && flags & FLAG_TWO_PHASE == 0;
    let opened = Builder::new()
        .set_cache_size(cache_bytes)
        .set_repair_callback(move |session| {
            // It starts at 0 and says 0.3 only when it leaves the last commit for the one before.
            if session.progress() > 0.0 && session.progress() < 0.5 && !may_go_back {
                session.abort();
            }
        })
        .create_with_backend(InMemoryChanges::of(file, flags)?);
    match opened {
        Err(redb::DatabaseError::RepairAborted) => {
            Err(redb::Error::Corrupted("pages do not match their checksums".into()))
        }
        opened => opened.map(drop).map_err(redb::Error::from),
    }
}

/// A file with changes that stay in memory, and the flags of one that was not closed.
#[derive(Debug)]
struct InMemoryChanges {
    file: File,
    changes: Mutex<WrittenBytes>,
}

#[derive(Debug)]
struct WrittenBytes {
    /// Bytes of the file as they change it.
    len: u64,
    /// What was written where, in its order. A repair writes few pages.
    written: Vec<(u64, Vec<u8>)>,
}

impl InMemoryChanges {
    fn of(file: File, flags: u8) -> io::Result<Self> {
        let unclosed = (flags | FLAG_UNCLOSED) & !FLAG_TWO_PHASE;
        let changes = WrittenBytes { len: file.metadata()?.len(), written: vec![(FLAGS_OFFSET, vec![unclosed])] };
        Ok(Self { file, changes: Mutex::new(changes) })
    }

    fn changes(&self) -> MutexGuard<'_, WrittenBytes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StorageBackend for InMemoryChanges {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes();
        let end = offset.saturating_add(out.len() as u64);
        if end > changes.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Beyond the file's end there is what was written, and zeros.
        out.fill(0);
        let of_file = self.file.metadata()?.len().saturating_sub(offset);
        let of_file = out.len().min(index(of_file));
        self.file.read_exact_at(&mut out[..of_file], offset)?;
        for (at, bytes) in &changes.written {
            let from = offset.max(*at);
            let to = end.min(at + bytes.len() as u64);
            if from < to {
                let part = |start: u64| index(from - start)..index(to - start);
                out[part(offset)].copy_from_slice(&bytes[part(*at)]);
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.changes().len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.changes().written.push((offset, data.to_vec()));
        Ok(())
    }
}

/// Returns a length as an index of memory. More than fits there was never read into it.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
