//! What is cited exists: lines of the contract, decisions, and files behind links.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::lexer::is_word;
use crate::tree::{File, Finding, expect_none, expect_one, files, root};

/// Prefixes that are citations wherever they stand in a comment or a text.
const PREFIXES: [&str; 4] = ["B", "BU", "BO", "D"];

/// The ids that may be cited: the lines of the contract, the decisions of the architecture.
fn known_ids<'a>(files: impl Iterator<Item = &'a File>) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for file in files.filter(|file| file.is_markdown()) {
        let start = match file.path.as_str() {
            "ARCHITECTURE.md" => "| D-",
            path if path.starts_with("tests/contract/") => "- ",
            _ => continue,
        };
        let lines = file.text.lines().filter(|line| line.starts_with(start));
        known.extend(lines.filter_map(|line| id_at(line, 2)).map(str::to_owned));
    }
    known
}

/// The id that starts at `at`: one to three capitals, a dash, digits.
fn id_at(text: &str, at: usize) -> Option<&str> {
    let rest = text.get(at..)?;
    let before = at.checked_sub(1).map(|before| text.as_bytes()[before]);
    if before.is_some_and(|byte| is_word(byte) || byte == b'-') {
        return None;
    }
    let capitals = rest.bytes().take_while(u8::is_ascii_uppercase).count();
    let digits = rest.get(capitals..)?.strip_prefix('-')?;
    let digits = digits.bytes().take_while(u8::is_ascii_digit).count();
    let length = capitals + 1 + digits;
    let ends = rest.as_bytes().get(length).is_none_or(|byte| !is_word(*byte));
    ((1..=3).contains(&capitals) && digits > 0 && ends).then(|| &rest[..length])
}

fn unknown_ids(file: &File, known: &BTreeSet<String>) -> Vec<Finding> {
    let is_contract = file.path.starts_with("tests/contract/");
    let text = match (file.is_rust(), file.is_markdown() && !is_contract) {
        (true, _) => &file.comments,
        (false, true) => &file.text,
        (false, false) => return Vec::new(),
    };
    let unknown = |at: usize| {
        let id = id_at(text, at)?;
        let prefix = id.split('-').next().unwrap_or_default();
        let is_ours = PREFIXES.contains(&prefix);
        let looks_ours = prefix.len() <= 2 && text[..at].ends_with('(');
        let is_unknown = (is_ours || looks_ours) && !known.contains(id);
        is_unknown.then(|| file.finding(file.line_at(at), format!("nothing has the id {id}")))
    };
    let capitals = text.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_uppercase());
    capitals.filter_map(|(at, _)| unknown(at)).collect()
}

/// The targets of inline links and link definitions outside of fenced code, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut is_fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let defined = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
            let targets = inline.chain(defined.map(|(_, target)| target));
            let bare = targets.filter_map(|target| target.split_whitespace().next());
            links.extend(bare.map(|target| (index + 1, target)));
        }
    }
    links
}

/// The anchors that a page's headings make.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        title.chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// Pages by path, to look anchors up in.
type Pages<'a> = BTreeMap<&'a str, &'a File>;

fn dead_links(file: &File, pages: &Pages<'_>, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let is_dead = |target: &str| {
        if ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
            return false;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
        let page = pages.get(path.as_str());
        let has_anchor =
            anchor.is_empty() || page.is_none_or(|page| anchors(&page.text).contains(anchor));
        !(exists(&path) && has_anchor)
    };
    let dead = links(&file.text).into_iter().filter(|(_, target)| is_dead(target));
    dead.map(|(line, target)| file.finding(line, format!("the link {target} leads nowhere")))
        .collect()
}

/// `target` as seen from the page `from`, relative to the root.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[test]
fn cited_ids_exist() {
    let known = known_ids(files().iter());
    assert!(known.len() > 150, "only {} ids are known", known.len());
    expect_none(&files().iter().flat_map(|file| unknown_ids(file, &known)).collect::<Vec<_>>());
}

#[test]
fn an_unknown_id_is_found() {
    let contract = File::new("tests/contract/a.md", "# A\n- B-95 [K] a; see B-01.\n");
    let architecture = File::new("ARCHITECTURE.md", "| D-01 charge | a |\n| B-02 | D-02 |\n");
    let known = known_ids([&contract, &architecture].into_iter());
    assert_eq!(known.iter().collect::<Vec<_>>(), ["B-95", "D-01"]);
    let found = |text: &str| unknown_ids(&File::new("zcore/src/a.rs", text), &known);
    expect_none(&found("/// A (B-95, D-01), UTF-8, WEB-3, AB-B-2, \n let a = \"B-2\";\n"));
    expect_one(&found("//! A.\n/// B (B-9).\n"), 2, "B-9");
    expect_one(&found("//! A, see D-02.\n"), 1, "D-02");
    expect_one(&found("//! A (X-63).\n"), 1, "X-63");
    let page = File::new("README.md", "a\nB-96\n");
    expect_one(&unknown_ids(&page, &known), 2, "B-96");
}

#[test]
fn links_lead_somewhere() {
    let markdown = || files().iter().filter(|file| file.is_markdown());
    let pages: Pages<'_> = markdown().map(|file| (file.path.as_str(), file)).collect();
    let exists = |path: &str| Path::new(&root()).join(path).exists();
    let dead = markdown().flat_map(|file| dead_links(file, &pages, &exists));
    expect_none(&dead.collect::<Vec<_>>());
}

#[test]
fn a_dead_link_is_found() {
    let other = File::new("b.md", "# The `b` page\n");
    let pages: Pages<'_> = [("b.md", &other)].into_iter().collect();
    let exists = |path: &str| path == "b.md" || path == "a/c.md";
    let found = |text: &str| dead_links(&File::new("a/c.md", text), &pages, &exists);
    expect_none(&found("[b](../b.md) [b](../b.md#the-b-page \"t\") [w](https://a.b) [s](#x)\n"));
    expect_none(&found("```\n[b](gone.md)\n```\n"));
    expect_one(&found("a\n[b](gone.md)\n"), 2, "gone.md");
    expect_one(&found("[b](../b.md#other)\n"), 1, "#other");
    expect_one(&found("[b]: b.md\n"), 1, "b.md");
}
