//! The tree keeps its own rules: sizes, banned text, walls between crates, references.
//!
//! Findings read like a compiler's, `path:line: what is wrong`. Each check has a test that runs it
//! over the tree and one that plants a fault and sees it caught.

mod lexer;
mod references;
mod size;
mod tree;
mod waits;
mod walls;
mod words;
