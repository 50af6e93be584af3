//! The syntax of libconfig, as far as FINS' files use it: groups, lists, arrays, numbers, texts, true and false, and where each stands.
//!
//! A setting is `name = value;` (`:` does as well; what ends it may be left out); `{…}` is a group of settings, `(…)` and `[…]` are lists. `#`, `//` and `/* … */`
//! are remarks. Refused: `@include`, and what is deeper than [`DEPTH_MAX`].

use super::ImportError;

/// Deepest nesting.
const DEPTH_MAX: usize = 32;

/// A value and its line.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Value {
    pub line: usize,
    pub is: Is,
}

/// What a value is.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Is {
    Number(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    List(Vec<Value>),
    Group(Group),
}

impl Is {
    /// In words, for errors.
    pub fn name(&self) -> &'static str {
        match self {
            Is::Number(_) => "a number",
            Is::Float(_) => "a number with a fraction",
            Is::Bool(_) => "true or false",
            Is::Text(_) => "a text",
            Is::List(_) => "a list",
            Is::Group(_) => "a group",
        }
    }
}

/// Settings in their order.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Group(pub Vec<(String, Value)>);

impl Group {
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(of, _)| of == name).map(|(_, value)| value)
    }
}

struct Parser<'a> {
    file: &'a str,
    rest: &'a [u8],
    line: usize,
}

/// Reads a whole file.
pub(super) fn parse(file: &str, text: &str) -> Result<Group, ImportError> {
    let mut parser = Parser { file, rest: text.as_bytes(), line: 1 };
    let group = parser.settings(0)?;
    match parser.peek()? {
        None => Ok(group),
        Some(byte) => Err(parser.wrong(format!("'{}' where a setting begins or the file ends", char::from(byte)))),
    }
}

impl Parser<'_> {
    fn wrong(&self, what: impl Into<String>) -> ImportError {
        ImportError { file: self.file.to_owned(), line: self.line, what: what.into() }
    }

    fn advance(&mut self, bytes: usize) {
        let (gone, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.line += gone.iter().filter(|byte| **byte == b'\n').count();
        self.rest = rest;
    }

    /// The next byte that is neither space nor remark.
    fn peek(&mut self) -> Result<Option<u8>, ImportError> {
        loop {
            match self.rest {
                [byte, ..] if byte.is_ascii_whitespace() => self.advance(1),
                [b'#', ..] | [b'/', b'/', ..] => {
                    self.advance(self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len()));
                }
                [b'/', b'*', inside @ ..] => match inside.windows(2).position(|pair| pair == b"*/") {
                    Some(end) => self.advance(end + 4),
                    None => return Err(self.wrong("a remark that begins with /* and does not end")),
                },
                rest => return Ok(rest.first().copied()),
            }
        }
    }

    fn word(&mut self) -> String {
        let end = self.rest.iter().position(|byte| !(byte.is_ascii_alphanumeric() || b"_-*.+".contains(byte))).unwrap_or(self.rest.len());
        let word = String::from_utf8_lossy(&self.rest[..end]).into_owned();
        self.advance(end);
        word
    }

    fn settings(&mut self, depth: usize) -> Result<Group, ImportError> {
        let mut group = Group::default();
        while self.peek()?.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'*') {
            let name = self.word();
            match self.peek()? {
                Some(b'=' | b':') => self.advance(1),
                _ => return Err(self.wrong(format!("'{name}' is followed by no '='"))),
            }
            if group.get(&name).is_some() {
                return Err(self.wrong(format!("'{name}' a second time")));
            }
            let value = self.value(depth)?;
            group.0.push((name, value));
            while let Some(b';' | b',') = self.peek()? {
                self.advance(1);
            }
        }
        Ok(group)
    }

    fn value(&mut self, depth: usize) -> Result<Value, ImportError> {
        if depth > DEPTH_MAX {
            return Err(self.wrong(format!("nested deeper than {DEPTH_MAX}")));
        }
        let first = self.peek()?;
        let line = self.line;
        let is = match first {
            Some(b'{') => {
                self.advance(1);
                let group = self.settings(depth + 1)?;
                self.end(b'}')?;
                Is::Group(group)
            }
            Some(b'(') => Is::List(self.list(b')', depth)?),
            Some(b'[') => Is::List(self.list(b']', depth)?),
            Some(b'"') => Is::Text(self.text()?),
            Some(byte) if byte.is_ascii_alphanumeric() || b"+-.".contains(&byte) => {
                let word = self.word();
                scalar(&word).ok_or_else(|| self.wrong(format!("'{word}' is no value: a text stands in quotes")))?
            }
            Some(byte) => return Err(self.wrong(format!("'{}' where a value begins", char::from(byte)))),
            None => return Err(self.wrong("the file ends where a value begins")),
        };
        Ok(Value { line, is })
    }

    fn list(&mut self, end: u8, depth: usize) -> Result<Vec<Value>, ImportError> {
        self.advance(1);
        let mut values = Vec::new();
        while self.peek()? != Some(end) {
            values.push(self.value(depth + 1)?);
            if self.peek()? == Some(b',') {
                self.advance(1);
            } else {
                break;
            }
        }
        self.end(end)?;
        Ok(values)
    }

    fn end(&mut self, end: u8) -> Result<(), ImportError> {
        match self.peek()? {
            Some(byte) if byte == end => {
                self.advance(1);
                Ok(())
            }
            Some(byte) => Err(self.wrong(format!("'{}' where '{}' ends what was begun", char::from(byte), char::from(end)))),
            None => Err(self.wrong(format!("the file ends before '{}'", char::from(end)))),
        }
    }

    /// Texts that follow each other are one.
    fn text(&mut self) -> Result<String, ImportError> {
        let mut bytes = Vec::new();
        while self.peek()? == Some(b'"') {
            self.advance(1);
            loop {
                match self.rest {
                    [b'"', ..] => break self.advance(1),
                    [b'\\', escaped, ..] => {
                        bytes.push(match escaped {
                            b'n' => b'\n',
                            b't' => b'\t',
                            other => *other,
                        });
                        self.advance(2);
                    }
                    [byte, ..] => {
                        bytes.push(*byte);
                        self.advance(1);
                    }
                    [] => return Err(self.wrong("a text without its second \"")),
                }
            }
        }
        String::from_utf8(bytes).map_err(|_| self.wrong("a text that is no UTF-8"))
    }
}

fn scalar(word: &str) -> Option<Is> {
    match word.to_ascii_lowercase().as_str() {
        "true" => return Some(Is::Bool(true)),
        "false" => return Some(Is::Bool(false)),
        _ => {}
    }
    let digits = word.trim_end_matches(['L', 'l']);
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    };
    number.map(Is::Number).or_else(|| word.parse().ok().filter(|number: &f64| number.is_finite()).map(Is::Float))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn settings_are_read_with_their_lines() {
        let text = "# first\nversion = \"1\" \".0\";\n/* two\nlines */ all : { a = 0x1fL, b = (1, [2, -3], {}); c = true };\nhalf=0.5;";
        let group = parse("x.cfg", text).unwrap();
        assert_eq!(group.get("version"), Some(&Value { line: 2, is: Is::Text("1.0".to_owned()) }));
        let Some(Value { line: 4, is: Is::Group(all) }) = group.get("all") else { panic!("{group:?}") };
        assert_eq!(all.get("a").map(|value| &value.is), Some(&Is::Number(31)));
        let Some(Is::List(list)) = all.get("b").map(|value| &value.is) else { panic!("{all:?}") };
        assert!(matches!(&list[1].is, Is::List(inner) if inner[1].is == Is::Number(-3)));
        assert_eq!(group.get("half").map(|value| &value.is), Some(&Is::Float(0.5)));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let wrong = |text: &str| parse("x.cfg", text).unwrap_err().to_string();
        assert_eq!(wrong("a = 1;\nb 2;"), "x.cfg:2: 'b' is followed by no '='");
        assert_eq!(wrong("a = (1, 2;\n"), "x.cfg:1: ';' where ')' ends what was begun");
        assert_eq!(wrong("\n\na = word;"), "x.cfg:3: 'word' is no value: a text stands in quotes");
        assert_eq!(wrong("a = 1; a = 2;"), "x.cfg:1: 'a' a second time");
        assert_eq!(wrong("a = \"open"), "x.cfg:1: a text without its second \"");
        assert_eq!(wrong("a = {"), "x.cfg:1: the file ends before '}'");
        assert_eq!(wrong("/* "), "x.cfg:1: a remark that begins with /* and does not end");
        assert!(wrong(&format!("a = {}", "(".repeat(1000))).ends_with("nested deeper than 32"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z0-9 ={}()\\[\\];:,\"#/*\\\\\n-]{0,200}") {
            let _ = parse("x.cfg", &text);
        }
    }
}
