//! Unpacks the files of an artifact, bounded: nothing of it may lie outside of its folder, and no link is made.

use std::cell::Cell;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType};

use crate::{OCI_ENTRIES_MAX, OCI_UNPACKED_MAX_BYTES, PATH_DEPTH_MAX, PATH_SIZE_MAX_BYTES};

/// The most bytes that an archive may have between the contents of two files: headers and names, which the library holds in memory.
const HEADERS_MAX_BYTES: u64 = 256 * 1024;
/// Characters of an entry's name that a message repeats.
const NAME_CHARS_MAX: usize = 200;

/// Why an archive was not unpacked.
#[derive(Debug)]
pub(super) enum UnpackFailure {
    /// Its content is not accepted; as text for users, about the artifact.
    Refused(String),
    /// A path could not be written.
    Disk(PathBuf, io::Error),
    Interrupted,
}

/// A stream that fails after so many bytes.
struct Metered<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 && !buffer.is_empty() {
            return Err(io::Error::new(ErrorKind::InvalidData, "it has more bytes here than are read"));
        }
        let size = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.inner.read(&mut buffer[..size])?;
        self.left.set(left - read as u64);
        Ok(read)
    }
}

/// Writes the files of a tar archive into an empty folder.
///
/// # Errors
/// `Refused` with the entry that is refused: a link, a device, a path that leads elsewhere or comes twice, too much of something.
pub(super) fn unpack(
    archive: impl Read,
    is_compressed: bool,
    folder: &Path,
    interrupt: &AtomicBool,
) -> Result<(), UnpackFailure> {
    if is_compressed {
        unpack_stream(MultiGzDecoder::new(archive), folder, interrupt)
    } else {
        unpack_stream(archive, folder, interrupt)
    }
}

fn unpack_stream(archive: impl Read, folder: &Path, interrupt: &AtomicBool) -> Result<(), UnpackFailure> {
    let left = Rc::new(Cell::new(HEADERS_MAX_BYTES));
    let mut archive = Archive::new(Metered { inner: archive, left: Rc::clone(&left) });
    let mut count = 0_usize;
    let mut bytes = 0_u64;
    for entry in archive.entries().map_err(|error| unreadable(&error))? {
        if interrupt.load(Ordering::Relaxed) {
            return Err(UnpackFailure::Interrupted);
        }
        let mut entry = entry.map_err(|error| unreadable(&error))?;
        count += 1;
        if count > OCI_ENTRIES_MAX {
            return Err(UnpackFailure::Refused(format!("its archive has more than {OCI_ENTRIES_MAX} entries")));
        }
        let name = entry.path_bytes().into_owned();
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous | EntryType::Directory => {}
            // What is said about the whole archive is not needed.
            EntryType::XGlobalHeader => continue,
            EntryType::Symlink => return Err(refused(&name, "is a symbolic link, and links are not unpacked")),
            EntryType::Link => return Err(refused(&name, "is a hard link, and links are not unpacked")),
            _ => return Err(refused(&name, "is neither a file nor a folder")),
        }
        let is_folder = entry.header().entry_type() == EntryType::Directory;
        let path = inside(&name, is_folder).map_err(|why| refused(&name, why))?;
        // Folders come with their files; git has no empty ones.
        if is_folder {
            left.set(HEADERS_MAX_BYTES);
            continue;
        }
        if entry.size() > OCI_UNPACKED_MAX_BYTES - bytes {
            let why = format!("brings it over the {OCI_UNPACKED_MAX_BYTES} bytes that are unpacked");
            return Err(refused(&name, &why));
        }
        left.set(entry.size() + HEADERS_MAX_BYTES);
        let mode = entry.header().mode().unwrap_or_default();
        bytes += write(&mut entry, mode, &folder.join(path)).map_err(|failed| match failed {
            WriteFailure::Path(error) if error.kind() == ErrorKind::AlreadyExists => refused(&name, "is in it twice"),
            WriteFailure::Path(error) if error.kind() == ErrorKind::NotADirectory => {
                refused(&name, "lies below a file")
            }
            WriteFailure::Path(error) => UnpackFailure::Disk(folder.to_owned(), error),
            WriteFailure::Content(error) => unreadable(&error),
        })?;
        left.set(HEADERS_MAX_BYTES);
    }
    Ok(())
}

fn unreadable(error: &io::Error) -> UnpackFailure {
    UnpackFailure::Refused(format!("its archive cannot be read: {error}"))
}

/// Says why an entry is refused.
fn refused(name: &[u8], why: &str) -> UnpackFailure {
    let name: String = String::from_utf8_lossy(name).chars().take(NAME_CHARS_MAX).collect();
    UnpackFailure::Refused(format!("the entry {name:?} of its archive {why}"))
}

/// Why a file was not written.
enum WriteFailure {
    Path(io::Error),
    Content(io::Error),
}

/// Writes one file; returns its size.
fn write(content: &mut impl Read, mode: u32, target: &Path) -> Result<u64, WriteFailure> {
    if let Some(parent) = target.parent() {
        // A file is where a folder should be: the system says that something is there already.
        fs::create_dir_all(parent).map_err(|error| {
            let is_below_file = error.kind() == ErrorKind::AlreadyExists;
            WriteFailure::Path(if is_below_file { ErrorKind::NotADirectory.into() } else { error })
        })?;
    }
    let mut file = fs::File::create_new(target).map_err(WriteFailure::Path)?;
    let mut written = 0;
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let read = content.read(&mut chunk).map_err(WriteFailure::Content)?;
        if read == 0 {
            break;
        }
        io::Write::write_all(&mut file, &chunk[..read]).map_err(WriteFailure::Path)?;
        written += read as u64;
    }
    if mode & 0o111 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o755)).map_err(WriteFailure::Path)?;
    }
    Ok(written)
}

/// Returns a path that stays inside the folder; empty for the folder itself.
fn inside(name: &[u8], is_folder: bool) -> Result<PathBuf, &'static str> {
    let text = std::str::from_utf8(name).map_err(|_| "has a name that is not UTF-8")?;
    if text.len() > PATH_SIZE_MAX_BYTES {
        return Err("has a name that is too long");
    }
    if text.contains(|c: char| c.is_control() || c == '\\') {
        return Err("has a control character or \\ in its name");
    }
    let mut path = PathBuf::new();
    for part in Path::new(text).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return Err("has an absolute path"),
            Component::ParentDir => return Err("has .. in its path"),
        }
    }
    if path.as_os_str().is_empty() && !is_folder {
        return Err("has no name");
    }
    if path.components().count() > PATH_DEPTH_MAX {
        return Err("lies too deep in folders");
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn archive(fill: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        fill(&mut builder);
        builder.into_inner().unwrap()
    }

    fn compressed(archive: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(archive).unwrap();
        encoder.finish().unwrap()
    }

    /// Adds an entry with a name that the library itself would refuse.
    fn add(builder: &mut tar::Builder<Vec<u8>>, name: &str, kind: EntryType, content: &[u8]) {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(if name == "run.sh" { 0o4711 } else { 0o644 });
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }

    /// Returns the names in the folder, those that can be executed with a `*`; or why there are none.
    fn unpacked_from(archive: impl Read, is_compressed: bool) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("in");
        fs::create_dir(&inner).unwrap();
        let done = unpack(archive, is_compressed, &inner, &AtomicBool::new(false));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing beside the folder");
        done.map_err(|failure| match failure {
            UnpackFailure::Refused(reason) => reason,
            other => panic!("{other:?}"),
        })?;
        let name = |entry: io::Result<fs::DirEntry>| {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
            let mark = if entry.path().is_file() && mode == 0o755 { "*" } else { "" };
            format!("{}{mark}", entry.file_name().to_str().unwrap())
        };
        let mut names: Vec<_> = fs::read_dir(&inner).unwrap().map(name).collect();
        names.sort();
        Ok(names)
    }

    fn unpacked(archive: &[u8]) -> Result<Vec<String>, String> {
        unpacked_from(archive, false)
    }

    #[test]
    fn files_are_unpacked_and_everything_else_is_refused() {
        let file = EntryType::Regular;
        let good = archive(|builder| {
            add(builder, "./", EntryType::Directory, b"");
            add(builder, "./a.yaml", file, b"a: 1\n");
            add(builder, "run.sh", file, b"");
            add(builder, "sub/deep/b.yaml", file, b"b: 1\n");
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            header.set_mode(0o644);
            builder.append_data(&mut header, format!("sub/{}.yaml", "n".repeat(150)), io::empty()).unwrap();
        });
        let names = vec!["a.yaml".to_owned(), "run.sh*".to_owned(), "sub".to_owned()];
        assert_eq!(unpacked(&good), Ok(names.clone()));
        assert_eq!(unpacked_from(&compressed(&good)[..], true), Ok(names));
        let rows: [(&str, EntryType, &str); 14] = [
            ("../a.yaml", file, "has .. in its path"),
            ("a/../../b.yaml", file, "has .. in its path"),
            ("..", EntryType::Directory, "has .. in its path"),
            ("/etc/a.yaml", file, "has an absolute path"),
            ("/", EntryType::Directory, "has an absolute path"),
            (".", file, "has no name"),
            ("a\\b.yaml", file, "control character or \\"),
            ("a\nb.yaml", file, "control character or \\"),
            ("a.yaml", EntryType::Symlink, "is a symbolic link"),
            ("a.yaml", EntryType::Link, "is a hard link"),
            ("a.yaml", EntryType::Char, "neither a file nor a folder"),
            ("a.yaml", EntryType::Block, "neither a file nor a folder"),
            ("a.yaml", EntryType::Fifo, "neither a file nor a folder"),
            ("a.yaml", EntryType::GNUSparse, "neither a file nor a folder"),
        ];
        for (name, kind, expected) in rows {
            let refused = unpacked(&archive(|builder| add(builder, name, kind, b""))).expect_err(name);
            assert!(refused.contains(expected) || kind == EntryType::GNUSparse, "{name:?}: {refused}");
        }
        let twice = archive(|builder| {
            add(builder, "a.yaml", file, b"1");
            add(builder, "./a.yaml", file, b"2");
        });
        assert!(unpacked(&twice).unwrap_err().contains("\"./a.yaml\" of its archive is in it twice"));
        let through = archive(|builder| {
            add(builder, "a", file, b"1");
            add(builder, "a/b", file, b"2");
        });
        assert!(unpacked(&through).unwrap_err().contains("lies below a file"));
        let deep = archive(|builder| add(builder, &"a/".repeat(PATH_DEPTH_MAX + 1), file, b""));
        assert!(unpacked(&deep).unwrap_err().contains("too deep"));
        for broken in [unpacked_from(&b"no archive"[..], true), unpacked_from(&compressed(&good)[..60], true)] {
            assert!(broken.unwrap_err().contains("cannot be read"));
        }
        assert!(unpacked(&[b'x'; 1024]).unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn what_is_too_much_is_refused_before_it_is_held() {
        let many = archive(|builder| (0..=OCI_ENTRIES_MAX).for_each(|_| add(builder, "a", EntryType::Directory, b"")));
        assert!(unpacked(&many).unwrap_err().contains("entries"));
        let mut header = tar::Header::new_gnu();
        header.set_path("large.yaml").unwrap();
        header.set_size(OCI_UNPACKED_MAX_BYTES + 1);
        header.set_cksum();
        let large = unpacked_from(header.as_bytes().chain(io::repeat(0)), false).unwrap_err();
        assert!(large.contains("bytes that are unpacked"), "{large}");
        // A name, and the content of a folder, that never end.
        for kind in [EntryType::GNULongName, EntryType::XHeader, EntryType::Directory] {
            let mut header = tar::Header::new_gnu();
            header.set_path("a").unwrap();
            header.set_entry_type(kind);
            header.set_size(u64::from(u32::MAX));
            header.set_cksum();
            let refused = unpacked_from(header.as_bytes().chain(io::repeat(b'a')), false).unwrap_err();
            assert!(refused.contains("more bytes here than are read"), "{kind:?}: {refused}");
        }
    }
}
