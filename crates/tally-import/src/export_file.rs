//! A file of an export, compared with what its last line says.

use serde::Deserialize;

/// What the last line says.
#[derive(Clone, Debug, Deserialize)]
struct End {
    counters: Option<u64>,
    checksum: Option<String>,
    complete: Option<bool>,
    #[serde(default)]
    cursor: Option<serde::de::IgnoredAny>,
}

/// The lines of a file so far.
#[derive(Default)]
pub struct ExportFile {
    sum: crc32fast::Hasher,
    counters: u64,
    end: Option<End>,
    has_more: bool,
}

impl ExportFile {
    /// Takes a line. Returns whether it is one to import: the last line is none.
    pub fn take(&mut self, line: &str) -> bool {
        if line.starts_with("{\"end\":")
            && self.end.is_none()
            && let Ok(end) = serde_json::from_str(line)
        {
            self.end = Some(end);
            return false;
        }
        self.has_more |= self.end.is_some();
        self.sum.update(line.as_bytes());
        self.sum.update(b"\n");
        self.counters += u64::from(line.starts_with("{\"id\":"));
        true
    }

    /// The checksum so far, in the form of the last line.
    pub fn checksum(&self) -> String {
        format!("crc32:{:08x}", self.sum.clone().finalize())
    }

    /// Returns what is wrong with a file, by its last line; nothing if that agrees with it.
    pub fn damage(&self, name: &str) -> Option<String> {
        let again = "export it again, or fetch the file again";
        let Some(end) = &self.end else {
            return Some(format!("{name} has no last line, so it was cut: {again}"));
        };
        if self.has_more {
            return Some(format!(
                "{name} continues after its last line: import files one by one"
            ));
        }
        let said = end.counters.unwrap_or_default();
        if said != self.counters {
            let counters = self.counters;
            return Some(format!(
                "{name} has {counters} counters, and its last line says {said}: {again}"
            ));
        }
        let sum = self.checksum();
        if let Some(said) = end.checksum.as_ref().filter(|said| **said != sum) {
            return Some(format!(
                "{name} is {sum}, and its last line says {said}: it was changed or damaged, {again}"
            ));
        }
        let lacks = match end.cursor {
            None => "what did not answer",
            Some(_) => "what comes after its cursor",
        };
        (end.complete != Some(true))
            .then(|| format!("{name} says that it is not complete: it lacks {lacks}"))
    }
}
