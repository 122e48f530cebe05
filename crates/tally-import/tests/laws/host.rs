//! Files in memory.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use tally_import::host::{ImportHost, Neighbor};

/// Notes, and files by the number of their source.
#[derive(Default)]
pub struct Memory {
    pub notes: RefCell<BTreeMap<String, String>>,
    pub files: RefCell<BTreeMap<u32, Vec<u8>>>,
    pub neighbor: RefCell<Option<Neighbor>>,
    pub said: RefCell<Vec<String>>,
    next: Cell<u32>,
}

impl ImportHost for Memory {
    fn note(&self, text: &str) {
        self.said.borrow_mut().push(text.to_owned());
    }

    fn digest(&self, bytes: &[u8]) -> String {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        format!("{:016x}", hasher.finish())
    }

    fn unique(&self) -> String {
        self.next.set(self.next.get() + 1);
        format!("u{}", self.next.get())
    }

    fn rewrite(&self, rules: &[(String, String)], path: &str) -> String {
        let changed = |path: String, (from, to): &(String, String)| path.replace(from, to);
        rules.iter().fold(path.to_owned(), changed)
    }

    fn names(&self) -> Vec<String> {
        self.notes.borrow().keys().cloned().collect()
    }

    fn read(&self, name: &str) -> String {
        self.notes.borrow()[name].clone()
    }

    fn write(&self, name: &str, text: &str) {
        self.notes
            .borrow_mut()
            .insert(name.to_owned(), text.to_owned());
    }

    fn append(&self, name: &str, text: &str) {
        self.notes
            .borrow_mut()
            .entry(name.to_owned())
            .or_default()
            .push_str(text);
    }

    fn remove(&self, name: &str) {
        self.notes.borrow_mut().remove(name);
    }

    fn tail(&self, source: u32, end: u64, length: u64) -> Option<Vec<u8>> {
        let files = self.files.borrow();
        let bytes = files.get(&source)?;
        let (from, to) = (
            end.checked_sub(length)?.try_into().ok()?,
            end.try_into().ok()?,
        );
        bytes
            .get::<std::ops::Range<usize>>(from..to)
            .map(<[u8]>::to_vec)
    }

    fn neighbor(&self, _: [&str; 3], _: u64, _: u64) -> Option<Neighbor> {
        self.neighbor.borrow().clone()
    }
}
