//! The files under the repository's root, and what a check says about them.

use core::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::lexer;

/// Folders that hold no source of ours.
const FOREIGN: [&str; 4] = [".git", "target", "node_modules", "corpus"];

/// A text file. Every view has the line breaks of `text` in the same places.
pub(crate) struct File {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Rust without comments; the insides of literals are filled with `"`.
    pub(crate) code: String,
    /// The comments of Rust alone.
    pub(crate) comments: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let is_rust = has_extension(path, "rs");
        let (code, comments) = if is_rust { lexer::split(text) } else { Default::default() };
        Self { path: path.to_owned(), text: text.to_owned(), code, comments }
    }

    pub(crate) fn is_rust(&self) -> bool {
        has_extension(&self.path, "rs")
    }

    pub(crate) fn is_markdown(&self) -> bool {
        has_extension(&self.path, "md")
    }

    /// The number of the line that holds the byte at `offset`.
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    pub(crate) fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, what: what.into() }
    }
}

fn has_extension(path: &str, wanted: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == wanted)
}

/// One broken rule.
#[derive(Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what } = self;
        write!(f, "{path}:{line}: {what}")
    }
}

/// Fails with all findings, one a line.
#[track_caller]
pub(crate) fn expect_none(findings: &[Finding]) {
    let report: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(report.is_empty(), "{} findings\n{}", report.len(), report.join("\n"));
}

/// Fails unless a check found exactly one fault, in `line`, and named `word`.
#[track_caller]
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub(crate) fn expect_one(findings: &[Finding], line: usize, word: &str) {
    let [finding] = findings else { panic!("expected one finding, got {findings:?}") };
    assert_eq!(finding.line, line, "{finding}");
    assert!(finding.what.contains(word), "{finding} does not name {word}");
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every text file of the tree, read once.
pub(crate) fn files() -> &'static [File] {
    static FILES: OnceLock<Vec<File>> = OnceLock::new();
    FILES.get_or_init(|| {
        let mut files = Vec::new();
        collect(&root(), "", &mut files);
        files.sort_by(|one, other| one.path.cmp(&other.path));
        assert!(files.len() > 20, "found {} files under {}", files.len(), root().display());
        files
    })
}

/// The Rust files of the tree.
pub(crate) fn rust_files() -> impl Iterator<Item = &'static File> {
    files().iter().filter(|file| file.is_rust())
}

#[expect(clippy::expect_used, reason = "a tree that cannot be read cannot be judged")]
fn collect(folder: &Path, prefix: &str, files: &mut Vec<File>) {
    for entry in fs::read_dir(folder).expect("the folder is readable") {
        let entry = entry.expect("the folder's entry is readable");
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().expect("the entry has a type");
        let path = format!("{prefix}{name}");
        if kind.is_dir() && !FOREIGN.contains(&name.as_str()) {
            collect(&entry.path(), &format!("{path}/"), files);
        } else if kind.is_file() && !["Cargo.lock", ".git"].contains(&name.as_str()) {
            // What is not UTF-8 is no text of ours.
            if let Ok(text) = fs::read_to_string(entry.path()) {
                files.push(File::new(&path, &text));
            }
        }
    }
}
