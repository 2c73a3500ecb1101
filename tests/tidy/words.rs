//! Banned text and banned names, each with what to write instead.

use crate::lexer::is_word;
use crate::size::before_tests;
use crate::tree::{File, Finding, expect_none, expect_one, files, rust_files};

struct Ban {
    /// Spelled in two halves where this file would break the rule itself.
    text: &'static str,
    place: Place,
    instead: &'static str,
}

#[derive(Clone, Copy)]
enum Place {
    /// Any file, comments and literals included.
    Anywhere,
    /// Rust code.
    Code,
    /// Rust code of zcore, before its tests.
    CoreCode,
}

const BANS: [Ban; 12] = [
    Ban {
        text: concat!("FIX", "ME"),
        place: Place::Anywhere,
        instead: "finish it, or file an issue and name it in a TODO(#n)",
    },
    Ban { text: concat!("XX", "X"), place: Place::Anywhere, instead: "say what is the matter" },
    Ban { text: "todo!", place: Place::Code, instead: "write it, or leave the item out" },
    Ban { text: " as usize", place: Place::CoreCode, instead: "`usize::try_from`, or `get()`" },
    Ban {
        text: "_ =>",
        place: Place::CoreCode,
        instead: "name every case, so that a new one asks again",
    },
    Ban { text: concat!("/wo", "rk/"), place: Place::Anywhere, instead: "a path of the tree" },
    Ban { text: concat!("crates", ".io"), place: Place::Anywhere, instead: REGISTRY },
    Ban { text: concat!("pypi", ".org"), place: Place::Anywhere, instead: REGISTRY },
    Ban { text: concat!("python", "hosted"), place: Place::Anywhere, instead: REGISTRY },
    Ban { text: concat!("debian", ".org"), place: Place::Anywhere, instead: REGISTRY },
    Ban { text: concat!("npm", "js."), place: Place::Anywhere, instead: REGISTRY },
    Ban { text: concat!("docs", ".rs/"), place: Place::Anywhere, instead: REGISTRY },
];

const REGISTRY: &str = "the package's name; where it comes from is the machine's business";

fn banned_text(file: &File) -> Vec<Finding> {
    let found_by = |ban: &Ban| -> Vec<Finding> {
        let hits = searched(file, ban.place).match_indices(ban.text);
        // `_ =>` ends the pattern `name_ =>` too.
        let is_whole = |at: usize| {
            let before = at.checked_sub(1).and_then(|before| file.text.as_bytes().get(before));
            let starts_a_name = ban.text.as_bytes().first().copied().is_some_and(is_word);
            !(starts_a_name && before.copied().is_some_and(is_word))
        };
        let whole = hits.filter(|(at, _)| is_whole(*at));
        let what = || format!("`{}`: {}", ban.text.trim(), ban.instead);
        whole.map(|(at, _)| file.finding(file.line_at(at), what())).collect()
    };
    BANS.iter().flat_map(found_by).collect()
}

/// The part of a file that a ban looks at. Offsets are the file's own.
fn searched(file: &File, place: Place) -> &str {
    match place {
        Place::Anywhere => &file.text,
        Place::Code => &file.code,
        Place::CoreCode if file.path.starts_with("zcore/src/") => before_tests(&file.code),
        Place::CoreCode => "",
    }
}

/// Modules that say nothing about what is in them.
const EMPTY_MODULES: [&str; 9] =
    ["common", "helper", "helpers", "manager", "managers", "misc", "types", "util", "utils"];
/// Types whose name ends like this say nothing about what they do.
const EMPTY_SUFFIXES: [&str; 5] = ["Helper", "Helpers", "Manager", "Util", "Utils"];

fn empty_names(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let path = file.path.trim_end_matches(".rs");
    for part in path.split('/').filter(|part| EMPTY_MODULES.contains(part)) {
        findings.push(file.finding(1, format!("module `{part}`: name it after its one idea")));
    }
    for (index, line) in file.code.lines().enumerate() {
        if let Some(name) = declared(line).filter(|name| is_empty_name(name)) {
            findings.push(file.finding(index + 1, format!("`{name}`: name what it does")));
        }
    }
    findings
}

fn is_empty_name(name: &str) -> bool {
    EMPTY_MODULES.contains(&name) || EMPTY_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// The name of the module or type that a line declares.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.find(|word| matches!(*word, "mod" | "struct" | "enum" | "trait" | "type"))?;
    words.next()
}

#[test]
fn no_banned_text() {
    expect_none(&files().iter().flat_map(banned_text).collect::<Vec<_>>());
}

#[test]
fn banned_text_is_found() {
    for ban in BANS {
        let text = format!("//! A.\nfn a() {{\n    b( {} c)\n}}\n", ban.text);
        expect_one(&banned_text(&File::new("zcore/src/a.rs", &text)), 3, ban.text.trim());
    }
    let fine = "// todo! as usize _ =>\nmatch a { b_ => 1, (_, _) => \" as usize\" }\n";
    expect_none(&banned_text(&File::new("zcore/src/a.rs", fine)));
    expect_none(&banned_text(&File::new("zhost/src/a.rs", "match a { _ => b as usize }\n")));
}

#[test]
fn names_say_something() {
    expect_none(&rust_files().flat_map(empty_names).collect::<Vec<_>>());
}

#[test]
fn an_empty_name_is_found() {
    expect_one(&empty_names(&File::new("zhost/src/utils.rs", "//! A.\n")), 1, "utils");
    expect_one(&empty_names(&File::new("zhost/src/common/a.rs", "//! A.\n")), 1, "common");
    let text = "//! A.\npub struct PeerManager<T>(T);\nstruct Managed;\n";
    expect_one(&empty_names(&File::new("zhost/src/a.rs", text)), 2, "PeerManager");
    expect_one(&empty_names(&File::new("a.rs", "//! A.\npub mod types {\n")), 2, "types");
}
