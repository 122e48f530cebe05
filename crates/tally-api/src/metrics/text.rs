//! A text in Prometheus's format.

/// Milliseconds as seconds.
pub fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1_000, milliseconds % 1_000)
}

/// A text under construction.
#[derive(Default)]
pub struct Exposition(pub(super) String);

impl Exposition {
    /// Begins a family.
    pub fn family(&mut self, name: &str, help: &str, kind: &str) {
        let parts = [
            "# HELP ",
            name,
            " ",
            help,
            "\n# TYPE ",
            name,
            " ",
            kind,
            "\n",
        ];
        self.0.extend(parts);
    }

    /// Appends a sample that is a whole number; `sample` is its name and labels in parts.
    pub fn line(&mut self, sample: &[&str], value: u64) {
        self.line_of(sample, &value.to_string());
    }

    /// Appends a sample.
    pub fn line_of(&mut self, sample: &[&str], value: &str) {
        self.0.extend(sample.iter().copied());
        self.0.extend([" ", value, "\n"]);
    }
}
