//! What the caller does for an import, and how an import fails.

/// How a command ends that cannot go on: exit codes of docs/guide/command.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The request, or a file, is refused.
    Failed,
    /// The command line is wrong.
    Usage,
    /// A part is done.
    Partly,
}

impl Exit {
    /// The code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Partly => 6,
        }
    }
}

/// Why an import, or one of its files, does not go on: one sentence that says who must do what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How the command ends.
    pub exit: Exit,
    /// The sentence.
    pub message: String,
}

impl Failure {
    /// Returns a failure.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }
}

/// A file that lies where a note says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Where.
    pub path: String,
    /// Whether it is packed.
    pub is_packed: bool,
    /// The bytes before the offset that was asked for; `None` where it does not have as many.
    pub tail: Option<Vec<u8>>,
}

/// What the caller does. Notes are files of one folder, by their names without an extension.
pub trait ImportHost {
    /// Says what should be known at once.
    fn note(&self, text: &str);
    /// Returns a short hash, of letters and digits that a file's name may have.
    fn digest(&self, bytes: &[u8]) -> String;
    /// Returns a text that no other call returns.
    fn unique(&self) -> String;
    /// Returns a path, changed by expressions one after the other.
    fn rewrite(&self, rules: &[(String, String)], path: &str) -> String;
    /// Returns the names of all notes.
    fn names(&self) -> Vec<String>;
    /// Returns the text of a note.
    fn read(&self, name: &str) -> String;
    /// Writes a note, completely or not at all.
    fn write(&self, name: &str, text: &str);
    /// Appends to a note.
    fn append(&self, name: &str, text: &str);
    /// Removes a note.
    fn remove(&self, name: &str);
    /// Returns the bytes of an open source before an offset; `None` where it does not have as many.
    fn tail(&self, source: u32, end: u64, length: u64) -> Option<Vec<u8>>;
    /// Returns the file of a device and an inode, at a path or beside it, with its bytes before an offset.
    fn neighbor(&self, place: [&str; 3], end: u64, length: u64) -> Option<Neighbor>;
}
