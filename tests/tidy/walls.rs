//! The walls of the architecture: where `unsafe` lives, who sees `io_uring`, and who
//! depends on whom.

use crate::lexer::word_offsets;
use crate::tree::{File, Finding, expect_none, expect_one, files, rust_files};

/// Where the kernel is talked to.
const UNSAFE_FOLDERS: [&str; 2] = ["ztransport/src/uring/", "ztransport/src/epoll/"];
/// Code that is shipped to nobody. Here `unsafe` needs its own `#[expect(unsafe_code, reason)]`.
const UNSHIPPED: [&str; 2] = ["tests/", "benches/"];
/// The freestanding program exports its entry point, which is an unsafe attribute.
const FREESTANDING: &str = "ci/no-std-proof/";

fn starts_with_any(path: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

fn misplaced_unsafe(file: &File) -> Vec<Finding> {
    if starts_with_any(&file.path, &UNSAFE_FOLDERS) || file.path.starts_with(FREESTANDING) {
        return Vec::new();
    }
    let squeezed: String = file.code.split_whitespace().collect();
    if starts_with_any(&file.path, &UNSHIPPED) && squeezed.contains("expect(unsafe_code,") {
        return Vec::new();
    }
    let what = if starts_with_any(&file.path, &UNSHIPPED) {
        "`unsafe` in a test or bench needs `#[expect(unsafe_code, reason = \"…\")]` in its file"
    } else {
        "`unsafe` lives only in ztransport/src/uring/ and ztransport/src/epoll/"
    };
    let lines = word_offsets(&file.code, "unsafe").map(|at| file.line_at(at));
    lines.map(|line| file.finding(line, what)).collect()
}

fn misplaced_io_uring(file: &File) -> Vec<Finding> {
    let is_home = file.path.starts_with("ztransport/src/uring/");
    if is_home || starts_with_any(&file.path, &UNSHIPPED) {
        return Vec::new();
    }
    let paths = word_offsets(&file.code, "io_uring")
        .filter(|at| file.code[at + "io_uring".len()..].starts_with("::"));
    let what = "`io_uring::` is used only in ztransport/src/uring/";
    paths.map(|at| file.finding(file.line_at(at), what)).collect()
}

/// One line of a manifest that adds a dependency.
struct Arrow {
    line: usize,
    to: String,
    is_dev: bool,
}

fn arrows(manifest: &str) -> Vec<Arrow> {
    let mut arrows = Vec::new();
    let mut section = String::new();
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            header.trim_end_matches(']').clone_into(&mut section);
            if let Some((kind, name)) = section.rsplit_once("dependencies.") {
                let to = name.trim_matches('"').to_owned();
                arrows.push(Arrow { line: index + 1, to, is_dev: kind.ends_with("dev-") });
            }
        } else if section.ends_with("dependencies") && !line.is_empty() && !line.starts_with('#') {
            let is_dev = section.ends_with("dev-dependencies");
            arrows.push(Arrow { line: index + 1, to: package(line), is_dev });
        }
    }
    arrows
}

/// The package that a dependency line means, renamed or not.
fn package(line: &str) -> String {
    let renamed = line.split_once("package = \"").and_then(|(_, rest)| rest.split('"').next());
    let key = line.split(['.', '=', ' ']).next().unwrap_or_default();
    renamed.unwrap_or(key).trim_matches('"').to_owned()
}

/// Why a crate may not depend on `arrow.to`.
fn wall(krate: &str, arrow: &Arrow) -> Option<&'static str> {
    let to = arrow.to.as_str();
    match krate {
        "zcore" if matches!(to, "ztransport" | "zhost") => Some("zcore is at the bottom"),
        "zcore" if !arrow.is_dev && to != "heapless" => Some("zcore depends on heapless at most"),
        "ztransport" if to == "zhost" => Some("ztransport lies below zhost"),
        "zhost" if matches!(to, "io-uring" | "tokio-uring") => {
            Some("only ztransport talks to io_uring")
        }
        _ => None,
    }
}

fn broken_arrows(file: &File) -> Vec<Finding> {
    let Some(krate) = file.path.strip_suffix("/Cargo.toml") else { return Vec::new() };
    let broken = |arrow: Arrow| {
        let why = wall(krate, &arrow)?;
        Some(file.finding(arrow.line, format!("`{}`: {why}", arrow.to)))
    };
    arrows(&file.text).into_iter().filter_map(broken).collect()
}

#[test]
fn unsafe_lives_where_the_kernel_is() {
    expect_none(&rust_files().flat_map(misplaced_unsafe).collect::<Vec<_>>());
}

#[test]
fn misplaced_unsafe_is_found() {
    let text = "// unsafe\nlet unsafe_code = \"unsafe\";\nunsafe { a() }\n";
    expect_one(&misplaced_unsafe(&File::new("zhost/src/a.rs", text)), 3, "uring");
    expect_one(&misplaced_unsafe(&File::new("tests/host/a.rs", text)), 3, "expect");
    expect_none(&misplaced_unsafe(&File::new("ztransport/src/uring/a.rs", text)));
    let expected = format!("#![expect(\n    unsafe_code,\n    reason = \"a\")]\n{text}");
    expect_none(&misplaced_unsafe(&File::new("tests/host/a.rs", &expected)));
    let findings = misplaced_unsafe(&File::new("zhost/src/a.rs", &expected));
    expect_one(&findings, 6, "uring");
}

#[test]
fn io_uring_is_seen_in_one_folder() {
    expect_none(&rust_files().flat_map(misplaced_io_uring).collect::<Vec<_>>());
}

#[test]
fn misplaced_io_uring_is_found() {
    let text = "//! io_uring::IoUring\nuse tokio_uring::fs;\nuse io_uring::IoUring;\n";
    expect_one(&misplaced_io_uring(&File::new("ztransport/src/a.rs", text)), 3, "io_uring");
    expect_none(&misplaced_io_uring(&File::new("ztransport/src/uring/a.rs", text)));
}

#[test]
fn crates_depend_in_one_direction() {
    expect_none(&files().iter().flat_map(broken_arrows).collect::<Vec<_>>());
}

#[test]
fn a_broken_arrow_is_found() {
    let found = |path: &str, text: &str| broken_arrows(&File::new(path, text));
    let text =
        "[dependencies]\nheapless.workspace = true\n\n[dev-dependencies]\nproptest = \"1\"\n";
    expect_none(&found("zcore/Cargo.toml", text));
    expect_one(&found("zcore/Cargo.toml", "[dependencies]\nbytes = \"1\"\n"), 2, "bytes");
    expect_one(&found("zcore/Cargo.toml", "[dev-dependencies]\nzhost = \"1\"\n"), 2, "zhost");
    expect_one(&found("ztransport/Cargo.toml", "[dependencies.zhost]\npath = \"a\"\n"), 1, "zhost");
    let target = "[target.'cfg(unix)'.dependencies]\nio = { package = \"io-uring\" }\n";
    expect_one(&found("zhost/Cargo.toml", target), 2, "io-uring");
    expect_none(&found("ztransport/Cargo.toml", target));
}
