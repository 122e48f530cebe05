//! The data folder: its lock, the note of its format, and the files of the deployment.
//!
//! Invariants: one process has a folder. Two would be two owners of one counter. A folder is new only if nothing of a
//! server is in it. Nobody but its owner can read what is in it or write to it: all of it has the modes 0700 and 0600,
//! because `main` sets the umask.

use std::fs::{self, DirEntry, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::registry::{self, Registry};

/// What the note says. A later form gets another number, and is refused by this build.
const FORMAT: &str = "tally-server 1\n";

/// Names of what lies in the folder.
const NOTE: &str = "format";
const LOCK: &str = "lock";
const OBJECTS: &str = "objects";
const SNAPSHOTS: &str = "snapshots";
const REGISTRY: &str = "registry.sqlite";

/// The note of the registry about the number of tablets.
const TABLETS: &str = "tablets";

/// What `make serve` leaves in a folder.
const OF_WORKERD: &str = "workerd.capnp";

/// A folder that this process has.
pub(crate) struct DataFolder {
    path: PathBuf,
    registry: Arc<Registry>,
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
    /// Opens a folder, made where it is not there. `classes`: the folders of the objects' databases. `accepts_loss`:
    /// whether a registry that is lost is made anew.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub(crate) fn open(
        path: &Path,
        classes: impl Iterator<Item = &'static str>,
        accepts_loss: bool,
    ) -> Result<Self, String> {
        let refused = |error: io::Error| refusal(path, &error);
        make_private(path).map_err(refused)?;
        close_to_others(path).map_err(refused)?;
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
        let is_new = check_format(path)?;
        let kept = path.join(REGISTRY);
        if !kept.exists() && (is_new || accepts_loss) {
            make_registry(&kept)?;
        }
        let registry = Registry::open(&kept).map_err(|why| {
            format!(
                "the registry {} cannot be opened ({why}): restore this file from a backup, or move it away and start once with --accept-loss",
                kept.display()
            )
        })?;
        if is_new {
            write_whole(&path.join(NOTE), FORMAT.as_bytes()).map_err(refused)?;
        }
        let objects = path.join(OBJECTS);
        let classes = classes.map(|class| objects.join(class));
        for folder in classes.chain([path.join(SNAPSHOTS)]) {
            make_private(&folder).map_err(refused)?;
        }
        let path = path.canonicalize().map_err(refused)?;
        for folder in [&path, &path.join(OBJECTS)] {
            sync_folder(folder).map_err(refused)?;
        }
        // The folder above may be one that this user cannot read.
        let _ = path.parent().map(sync_folder);
        Ok(Self {
            path,
            registry: Arc::new(registry),
            _lock: lock,
        })
    }

    /// Which objects have stored something.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
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
    ///
    /// # Errors
    /// If the note cannot be read.
    pub(crate) fn tablets(&self) -> Result<Option<String>, String> {
        self.registry.noted(TABLETS)
    }

    /// Notes the number of tablets.
    ///
    /// # Errors
    /// If the note cannot be written.
    pub(crate) fn note_tablets(&self, tablets: &str) -> Result<(), String> {
        let written = self.registry.write_note(TABLETS, tablets);
        written.map_err(|why| unusable(&self.path, &why))
    }
}

fn unusable(path: &Path, why: &str) -> String {
    format!("the data folder {} cannot be used: {why}", path.display())
}

/// Makes an empty registry, completely or not at all.
fn make_registry(file: &Path) -> Result<(), String> {
    let refused = |error: io::Error| refusal(file, &error);
    let fresh = file.with_extension("new");
    unless_missing(fs::remove_file(&fresh)).map_err(refused)?;
    let folder = file.parent().unwrap_or(file);
    registry::make(&fresh).map_err(|why| unusable(folder, &why))?;
    fs::rename(&fresh, file).map_err(refused)?;
    sync_folder(folder).map_err(refused)
}

/// Whether the folder is a new one.
fn check_format(path: &Path) -> Result<bool, String> {
    let note = path.join(NOTE);
    let refused = |error: io::Error| refusal(path, &error);
    match fs::read_to_string(&note) {
        Ok(text) if text == FORMAT => Ok(false),
        Ok(text) => Err(format!(
            "the data folder {} is of the format {:?}, and this build opens {:?}: use the build that wrote it, or `tally export` there and `tally import` here",
            path.display(),
            text.trim(),
            FORMAT.trim()
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if path.join(REGISTRY).exists() && path.join(OBJECTS).exists() {
                return Err(format!(
                    "the file {} is missing: restore it from a backup, or write {FORMAT:?} into it",
                    note.display()
                ));
            }
            if path.join(OF_WORKERD).exists() || path.join(OBJECTS).exists() {
                return Err(format!(
                    "the data folder {} is one of `tally serve` on workerd: choose another one with --data, and move the counters by `tally export` and `tally import`",
                    path.display()
                ));
            }
            Ok(true)
        }
        Err(error) => Err(refused(error)),
    }
}

/// Makes a folder that others cannot read.
fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Takes the rights of others away from what earlier builds have left to the umask, and from the folder itself if
/// nothing else is in it. Below that, folders were always private.
fn close_to_others(path: &Path) -> io::Result<()> {
    let entries: Vec<_> = fs::read_dir(path)?.collect::<Result<_, _>>()?;
    let is_own = |entry: &DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let name = name.split('.').next().unwrap_or_default();
        [NOTE, LOCK, OBJECTS, SNAPSHOTS, "registry"].contains(&name)
    };
    let own = entries.iter().filter(|entry| is_own(entry));
    own.clone().try_for_each(|entry| close_one(&entry.path()))?;
    match own.count() == entries.len() {
        true => close_one(path),
        false => Ok(()),
    }
}

/// The rights of others, as a mode.
const OF_OTHERS: u32 = 0o077;

/// Takes the rights of others away, where a link leads. What another user owns, such as a volume, keeps its mode.
fn close_one(path: &Path) -> io::Result<()> {
    let Some(about) = unless_missing(fs::metadata(path))? else {
        return Ok(());
    };
    let mode = about.permissions().mode();
    if mode & OF_OTHERS == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(mode & !OF_OTHERS)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done,
    }
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
    path.parent().map_or(Ok(()), sync_folder)
}

/// What was made or renamed in a folder is durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
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
        let (base, place) = (self.0.clone(), self.place(name));
        async move {
            let place = place.ok_or("the name of the file is none")?;
            beside(move || {
                if let Some(folder) = place.parent() {
                    make_private(folder)?;
                    for made in folder
                        .ancestors()
                        .take_while(|above| above.starts_with(&base))
                    {
                        sync_folder(made)?;
                    }
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
