//! Tells code from comments and literals, line by line, without parsing.

/// Splits Rust text into two texts of the same length: code and comments.
///
/// Everything that belongs to the other text is a space; the insides of strings and character
/// literals become `"`. Line breaks stay.
pub(crate) fn split(text: &str) -> (String, String) {
    let mut lexer = Lexer { bytes: text.as_bytes(), at: 0, code: Vec::new(), comments: Vec::new() };
    while lexer.at < lexer.bytes.len() {
        lexer.step();
    }
    let code = String::from_utf8_lossy(&lexer.code).into_owned();
    (code, String::from_utf8_lossy(&lexer.comments).into_owned())
}

struct Lexer<'text> {
    bytes: &'text [u8],
    at: usize,
    code: Vec<u8>,
    comments: Vec<u8>,
}

impl Lexer<'_> {
    fn step(&mut self) {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(b"//") {
            let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            self.comment(length);
        } else if rest.starts_with(b"/*") {
            self.comment(block_comment(rest));
        } else if let Some(length) = self.raw_string() {
            self.literal(length);
        } else if rest[0] == b'"' {
            self.literal(quoted(rest, b'"'));
        } else if let Some(length) = character(rest) {
            self.literal(length);
        } else {
            let byte = rest[0];
            self.code.push(if byte.is_ascii() { byte } else { b'"' });
            self.comments.push(if byte == b'\n' { byte } else { b' ' });
            self.at += 1;
        }
    }

    fn comment(&mut self, length: usize) {
        for byte in &self.bytes[self.at..self.at + length] {
            self.comments.push(if byte.is_ascii() { *byte } else { b' ' });
            self.code.push(if *byte == b'\n' { b'\n' } else { b' ' });
        }
        self.at += length;
    }

    fn literal(&mut self, length: usize) {
        for byte in &self.bytes[self.at..self.at + length] {
            self.code.push(if byte.is_ascii_whitespace() { *byte } else { b'"' });
            self.comments.push(if *byte == b'\n' { b'\n' } else { b' ' });
        }
        self.at += length;
    }

    /// The length of the raw string that starts here.
    fn raw_string(&self) -> Option<usize> {
        let before = self.at.checked_sub(1).map(|before| self.bytes[before]);
        if before.is_some_and(is_word) {
            return None;
        }
        let rest = &self.bytes[self.at..];
        let prefix = usize::from(matches!(rest[0], b'b' | b'c'));
        if rest.get(prefix) != Some(&b'r') {
            return None;
        }
        let hashes = rest[prefix + 1..].iter().take_while(|byte| **byte == b'#').count();
        let open = prefix + 1 + hashes;
        if rest.get(open) != Some(&b'"') {
            return None;
        }
        let end = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
        let body = &rest[open + 1..];
        let close = body.windows(end.len()).position(|window| window == end);
        Some(close.map_or(rest.len(), |close| open + 1 + close + end.len()))
    }
}

/// Whether a byte can be part of a name.
pub(crate) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The offsets at which `word` stands in `code` as a name of its own.
pub(crate) fn word_offsets<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    let is_word_at = move |at: usize| bytes.get(at).copied().is_some_and(is_word);
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let free_before = at.checked_sub(1).is_none_or(|before| !is_word_at(before));
        free_before && !is_word_at(at + word.len())
    })
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a character literal; `None` for a lifetime.
fn character(rest: &[u8]) -> Option<usize> {
    if rest[0] != b'\'' {
        return None;
    }
    if rest.get(1) == Some(&b'\\') {
        return Some(quoted(rest, b'\''));
    }
    let continuation = |byte: &&u8| **byte & 0xc0 == 0x80;
    let width = 1 + rest.get(2..)?.iter().take_while(continuation).count();
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

#[test]
fn comments_and_literals_are_told_from_code() {
    let text = "a // b \"x\"\n/* c /* d */ e */ f(\"g // h\", r#\"i\"j\"#, '\"', 'k', &'l m)\n";
    let (code, comments) = split(text);
    assert_eq!(code.len(), text.len());
    assert_eq!(comments.len(), text.len());
    let squeezed: String = code.split_whitespace().collect();
    assert_eq!(squeezed.replace('"', ""), "af(,,,,&'lm)");
    let squeezed: String = comments.split_whitespace().collect();
    assert_eq!(squeezed, "//b\"x\"/*c/*d*/e*/");
}

#[test]
fn a_line_inside_a_string_is_code() {
    let (code, _) = split("let a = \"one\n  two\";\n");
    assert!(code.lines().all(|line| !line.trim().is_empty()), "{code}");
}

#[test]
fn a_word_is_found_only_whole() {
    let found: Vec<usize> = word_offsets("unsafe_code unsafe {unsafe}", "unsafe").collect();
    assert_eq!(found, [12, 20]);
}
