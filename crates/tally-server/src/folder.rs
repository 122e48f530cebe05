//! The data folder: its lock, the note of its format, and the files of the deployment.
//!
//! Invariant: one process has a folder. Two would be two owners of one counter.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

/// What the note says. A later form gets another number, and is refused by this build.
const FORMAT: &str = "tally-server 1\n";

/// Names of what lies in the folder.
const NOTE: &str = "format";
const LOCK: &str = "lock";
const OBJECTS: &str = "objects";
const SNAPSHOTS: &str = "snapshots";
const TABLETS: &str = "tablets";

/// What `make serve` leaves in a folder.
const OF_WORKERD: &str = "workerd.capnp";

/// A folder that this process has.
pub(crate) struct DataFolder {
    path: PathBuf,
    /// Held as long as the process lives.
    _lock: File,
}

fn refusal(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("the disk of the data folder {shown} is full: free some space there")
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            format!("the data folder {shown} is mounted read-only: mount it writable")
        }
        _ => format!(
            "the data folder {shown} cannot be used ({error}): choose another one with --data, or give it to the user of the server"
        ),
    }
}

impl DataFolder {
    /// Opens a folder, made where it is not there.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let refused = |error: io::Error| refusal(path, &error);
        make_private(path).map_err(refused)?;
        let lock = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path.join(LOCK))
            .map_err(refused)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "another server has the data folder {}: end that one, or choose another folder with --data",
                    path.display()
                ));
            }
            Err(TryLockError::Error(error)) => return Err(refused(error)),
        }
        check_format(path)?;
        for folder in [OBJECTS, SNAPSHOTS] {
            make_private(&path.join(folder)).map_err(refused)?;
        }
        let path = path.canonicalize().map_err(refused)?;
        Ok(Self { path, _lock: lock })
    }

    /// Where the objects' databases are.
    pub(crate) fn objects(&self) -> PathBuf {
        self.path.join(OBJECTS)
    }

    /// Where the files of the deployment are.
    pub(crate) fn snapshots(&self) -> PathBuf {
        self.path.join(SNAPSHOTS)
    }

    /// The number of tablets that the folder was used with, as it was noted; `None` in a new one.
    pub(crate) fn tablets(&self) -> Option<String> {
        let noted = fs::read_to_string(self.path.join(TABLETS)).ok()?;
        Some(noted.trim().to_owned())
    }

    /// Notes the number of tablets.
    ///
    /// # Errors
    /// If the note cannot be written.
    pub(crate) fn note_tablets(&self, tablets: &str) -> Result<(), String> {
        let written = write_whole(&self.path.join(TABLETS), format!("{tablets}\n").as_bytes());
        written.map_err(|error| refusal(&self.path, &error))
    }
}

fn check_format(path: &Path) -> Result<(), String> {
    let note = path.join(NOTE);
    let refused = |error: io::Error| refusal(path, &error);
    match fs::read_to_string(&note) {
        Ok(text) if text == FORMAT => Ok(()),
        Ok(text) => Err(format!(
            "the data folder {} is of the format {:?}, and this build opens {:?}: use the build that wrote it, or `tally export` there and `tally import` here",
            path.display(),
            text.trim(),
            FORMAT.trim()
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if path.join(OF_WORKERD).exists() || path.join(OBJECTS).exists() {
                return Err(format!(
                    "the data folder {} is one of `tally serve` on workerd: choose another one with --data, and move the counters by `tally export` and `tally import`",
                    path.display()
                ));
            }
            write_whole(&note, FORMAT.as_bytes()).map_err(refused)
        }
        Err(error) => Err(refused(error)),
    }
}

/// Makes a folder that others cannot read.
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Writes a file, completely or not at all, and durably.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let written = File::create(&fresh).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&fresh, path)) {
        let _ = fs::remove_file(&fresh);
        return Err(error);
    }
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// The files of the deployment. Each operation runs on a thread that may wait for the disk.
pub(crate) struct FileFolder(PathBuf);

/// Runs work that waits for the disk.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, String> {
    let done = spawn_blocking(work)
        .await
        .map_err(|error| error.to_string())?;
    done.map_err(|error| error.to_string())
}

impl FileFolder {
    /// The files in a folder.
    pub(crate) fn of(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Where a file is; `None` where its name leads elsewhere.
    fn place(&self, name: &str) -> Option<PathBuf> {
        let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.');
        let trimmed = name.strip_suffix('/').unwrap_or(name);
        trimmed
            .split('/')
            .all(is_plain)
            .then(|| self.0.join(trimmed))
    }

    pub(crate) fn put(
        &self,
        name: &str,
        bytes: Vec<u8>,
    ) -> impl Future<Output = Result<(), String>> + use<> {
        let place = self.place(name);
        async move {
            let place = place.ok_or("the name of the file is none")?;
            beside(move || {
                if let Some(folder) = place.parent() {
                    make_private(folder)?;
                }
                write_whole(&place, &bytes)
            })
            .await
        }
    }

    pub(crate) fn get(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, String>> + use<> {
        let place = self.place(name);
        async move {
            let place = place.ok_or("the name of the file is none")?;
            beside(move || unless_missing(fs::read(place))).await
        }
    }

    pub(crate) fn list(
        &self,
        folder: &str,
    ) -> impl Future<Output = Result<Vec<String>, String>> + use<> {
        let place = match folder {
            "" | "/" => Some(self.0.clone()),
            folder => self.place(folder),
        };
        let folder = folder.to_owned();
        async move {
            let place = place.ok_or("the name of the folder is none")?;
            beside(move || {
                let Some(entries) = unless_missing(fs::read_dir(place))? else {
                    return Ok(Vec::new());
                };
                let mut names = Vec::new();
                for entry in entries {
                    let name = entry?.file_name().to_string_lossy().into_owned();
                    // Names of files have no dot: this one is being written, or was when the process ended.
                    if !name.contains('.') {
                        names.push(format!("{folder}{name}"));
                    }
                }
                Ok(names)
            })
            .await
        }
    }

    pub(crate) fn delete(&self, name: &str) -> impl Future<Output = Result<(), String>> + use<> {
        let place = self.place(name);
        async move {
            let place = place.ok_or("the name of the file is none")?;
            beside(move || unless_missing(fs::remove_file(place)).map(drop)).await
        }
    }
}

fn unless_missing<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
