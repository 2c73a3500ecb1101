//! Short files, short functions, and a first line that says what a file is.

use crate::lexer::{is_word, word_offsets};
use crate::tree::{File, Finding, expect_none, expect_one, rust_files};

/// Code lines of a file before its tests.
const FILE_LINES_MAX: usize = 400;
/// Code lines of a function, signature and closing brace included. A screen.
const FUNCTION_LINES_MAX: usize = 70;

fn long_file(file: &File) -> Option<Finding> {
    let lines = code_lines(before_tests(&file.code));
    (lines > FILE_LINES_MAX).then(|| {
        let what = format!("{lines} lines of code, at most {FILE_LINES_MAX}: split it by idea");
        file.finding(1, what)
    })
}

fn code_lines(code: &str) -> usize {
    code.lines().filter(|line| !line.trim().is_empty()).count()
}

/// The code before the module of unit tests.
pub(crate) fn before_tests(code: &str) -> &str {
    let is_module = |rest: &str| rest.trim_start().starts_with("mod ");
    let mark = "#[cfg(test)]";
    let tests = code.match_indices(mark).find(|(at, _)| is_module(&code[at + mark.len()..]));
    tests.map_or(code, |(at, _)| &code[..at])
}

fn long_functions(file: &File) -> Vec<Finding> {
    let too_long = |start: &usize| {
        let body = function(&file.code[*start..])?;
        let lines = code_lines(body);
        (lines > FUNCTION_LINES_MAX).then(|| {
            let what = format!("function of {lines} lines, at most {FUNCTION_LINES_MAX}");
            file.finding(file.line_at(*start), what)
        })
    };
    word_offsets(&file.code, "fn").filter_map(|start| too_long(&start)).collect()
}

/// The function that starts at the `fn` at the start of `code`; `None` for a type or a declaration.
fn function(code: &str) -> Option<&str> {
    let name = code["fn".len()..].trim_start();
    if !name.bytes().next().is_some_and(is_word) {
        return None;
    }
    let (mut brackets, mut braces) = (0_i32, 0_i32);
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b';' if brackets == 0 && braces == 0 => return None,
            b'{' if brackets == 0 || braces > 0 => braces += 1,
            b'}' if braces > 0 => {
                braces -= 1;
                if braces == 0 {
                    return Some(&code[..=at]);
                }
            }
            _ => {}
        }
    }
    None
}

fn without_module_doc(file: &File) -> Option<Finding> {
    let first = file.text.lines().next().unwrap_or_default();
    let starts_well = first.starts_with("//!") && first.len() > "//! ".len();
    (!starts_well).then(|| file.finding(1, "the first line is `//!` and says what the file is"))
}

#[test]
fn files_are_short() {
    expect_none(&rust_files().filter_map(long_file).collect::<Vec<_>>());
}

#[test]
fn a_long_file_is_found() {
    let long = "let a = 1;\n\n// why\n".repeat(FILE_LINES_MAX);
    let tests = "#[cfg(test)]\nmod tests {}\n".to_owned();
    assert_eq!(long_file(&File::new("a.rs", &format!("{long}{tests}{long}"))), None);
    let longer = format!("#[cfg(test)]\nuse a;\n{long}");
    expect_one(&long_file(&File::new("a.rs", &longer)).into_iter().collect::<Vec<_>>(), 1, "402");
}

#[test]
fn functions_are_short() {
    expect_none(&rust_files().flat_map(long_functions).collect::<Vec<_>>());
}

#[test]
fn a_long_function_is_found() {
    let lines = "    a(); // why\n\n".repeat(FUNCTION_LINES_MAX - 1);
    let file = format!("type F = fn(u8);\nfn a(b: [u8; 4])\n{{\n{lines}}}\nfn b() {{}}\n");
    expect_one(&long_functions(&File::new("a.rs", &file)), 2, "72 lines");
    let lines = "    a(\"}\");\n".repeat(FUNCTION_LINES_MAX - 2);
    let file = format!("trait A {{ fn a(); }}\nfn a() {{\n{lines}}}\n");
    expect_none(&long_functions(&File::new("a.rs", &file)));
}

#[test]
fn every_file_says_what_it_is() {
    expect_none(&rust_files().filter_map(without_module_doc).collect::<Vec<_>>());
}

#[test]
fn a_file_without_a_first_line_is_found() {
    let file = File::new("a.rs", "// A.\n//! A.\n");
    expect_one(&without_module_doc(&file).into_iter().collect::<Vec<_>>(), 1, "//!");
    assert_eq!(without_module_doc(&File::new("a.rs", "//! What a is.\n")), None);
}
