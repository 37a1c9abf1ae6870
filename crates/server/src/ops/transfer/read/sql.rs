//! Records as a dump of a `MySQL` database: the tuples inserted into the table of links. Everything else is passed over.

use std::io::{BufReader, Bytes, Read};
use std::iter::Peekable;

use serde_json::Value;

use super::{Allowance, Bounded, Desk, Stop, too_long};
use crate::ops::transfer::record::Record;

/// The columns of the table of links, where a dump does not name them.
const COLUMNS: [&str; 6] = ["keyword", "url", "title", "timestamp", "ip", "clicks"];

/// Whether a text begins like a dump.
pub(super) fn looks_like(head: &[u8]) -> bool {
    let begins =
        ["--", "/*", "#", "create ", "insert ", "replace ", "drop ", "set ", "lock ", "use ", "start "];
    let start = String::from_utf8_lossy(&head[..head.len().min(16)]).to_ascii_lowercase();
    begins.iter().any(|word| start.starts_with(word))
}

pub(super) fn read(file: Bounded<impl Read>, allowance: &Allowance, desk: &mut Desk) -> Result<(), Stop> {
    let mut scanner = Scanner { bytes: BufReader::new(file).bytes().peekable(), allowance, row: 0 };
    loop {
        allowance.renew();
        match scanner.token()? {
            Token::End => return Ok(()),
            Token::Word(word) if matches!(word.as_str(), "insert" | "replace") => {
                scanner.insert(desk)?;
            }
            Token::Symbol(b';') => {}
            _ => scanner.skip_statement()?,
        }
    }
}

#[derive(Debug, PartialEq)]
enum Token {
    /// A name or a number; names that are not quoted in lower case.
    Word(String),
    /// What stood in quotes.
    Text(String),
    Symbol(u8),
    End,
}

struct Scanner<'a, R: Read> {
    bytes: Peekable<Bytes<BufReader<Bounded<R>>>>,
    allowance: &'a Allowance,
    /// Tuples read so far.
    row: u64,
}

impl<R: Read> Scanner<'_, R> {
    fn broken(&self, why: &str) -> Stop {
        Stop::broken(self.row + 1, why)
    }

    fn byte(&mut self) -> Result<Option<u8>, Stop> {
        match self.bytes.next().transpose() {
            Ok(byte) => Ok(byte),
            Err(_) if self.allowance.is_spent() => Err(self.broken(&too_long())),
            Err(error) => Err(error.into()),
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.bytes.peek().and_then(|byte| byte.as_ref().ok()).copied()
    }

    /// One `insert`: of links, or of something else.
    fn insert(&mut self, desk: &mut Desk) -> Result<(), Stop> {
        let table = loop {
            match self.token()? {
                Token::Word(word)
                    if matches!(word.as_str(), "into" | "ignore" | "low_priority" | "delayed") => {}
                Token::Word(name) | Token::Text(name) => {
                    // `database`.`table`
                    if self.peek() == Some(b'.') {
                        self.byte()?;
                        continue;
                    }
                    break name;
                }
                Token::Symbol(b';') | Token::End => return Ok(()),
                Token::Symbol(_) => return self.skip_statement(),
            }
        };
        if table != "url" && !table.ends_with("_url") {
            return self.skip_statement();
        }
        let mut columns: Vec<String> = COLUMNS.map(str::to_owned).to_vec();
        loop {
            match self.token()? {
                Token::Symbol(b'(') => columns = self.names()?,
                Token::Word(word) if matches!(word.as_str(), "values" | "value") => break,
                _ => return Err(self.broken("is an insert that cannot be understood")),
            }
        }
        loop {
            self.allowance.renew();
            match self.token()? {
                Token::Symbol(b'(') => {
                    let values = self.tuple()?;
                    self.row += 1;
                    if values.len() != columns.len() {
                        return Err(self.broken("has more or fewer values than columns"));
                    }
                    desk.take(self.row, Ok(Record::of(&columns, values)))?;
                }
                Token::Symbol(b',') => {}
                Token::Symbol(b';') | Token::End => return Ok(()),
                _ => return self.skip_statement(),
            }
        }
    }

    fn names(&mut self) -> Result<Vec<String>, Stop> {
        let mut names = Vec::new();
        loop {
            match self.token()? {
                Token::Word(name) | Token::Text(name) => names.push(name),
                Token::Symbol(b',') => {}
                Token::Symbol(b')') => return Ok(names),
                Token::Symbol(_) | Token::End => return Err(self.broken("has a list of columns without end")),
            }
        }
    }

    fn tuple(&mut self) -> Result<Vec<Value>, Stop> {
        let mut values = Vec::new();
        loop {
            match self.token()? {
                Token::Text(text) => values.push(Value::String(text)),
                Token::Word(word) if word == "null" => values.push(Value::Null),
                Token::Word(word) => values.push(Value::String(word)),
                // No number of a link is below nothing.
                Token::Symbol(b',' | b'-') => {}
                Token::Symbol(b')') => return Ok(values),
                Token::Symbol(_) | Token::End => {
                    return Err(self.broken("has values that cannot be understood"));
                }
            }
        }
    }

    fn token(&mut self) -> Result<Token, Stop> {
        loop {
            let Some(byte) = self.byte()? else { return Ok(Token::End) };
            match byte {
                byte if byte.is_ascii_whitespace() => {}
                b'#' => self.skip_line()?,
                b'-' if self.peek() == Some(b'-') => self.skip_line()?,
                b'/' if self.peek() == Some(b'*') => self.skip_comment()?,
                b'\'' | b'"' => return Ok(Token::Text(self.quoted(byte)?)),
                b'`' => return Ok(Token::Word(self.quoted(byte)?)),
                byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                    let mut word = vec![byte.to_ascii_lowercase()];
                    while let Some(next) =
                        self.peek().filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'))
                    {
                        self.byte()?;
                        word.push(next.to_ascii_lowercase());
                    }
                    return Ok(Token::Word(String::from_utf8_lossy(&word).into_owned()));
                }
                byte => return Ok(Token::Symbol(byte)),
            }
        }
    }

    /// A quoted text; its quote is doubled or escaped inside of it.
    fn quoted(&mut self, quote: u8) -> Result<String, Stop> {
        let mut text = Vec::new();
        loop {
            let Some(byte) = self.byte()? else { return Err(self.broken("ends inside of a text")) };
            match byte {
                b'\\' if quote != b'`' => {
                    let Some(escaped) = self.byte()? else {
                        return Err(self.broken("ends inside of a text"));
                    };
                    text.push(match escaped {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'0' => 0,
                        b'Z' => 26,
                        other => other,
                    });
                }
                byte if byte == quote && self.peek() == Some(quote) => {
                    self.byte()?;
                    text.push(quote);
                }
                byte if byte == quote => break,
                byte => text.push(byte),
            }
        }
        String::from_utf8(text).map_err(|_| self.broken("is not UTF-8"))
    }

    fn skip_line(&mut self) -> Result<(), Stop> {
        while let Some(byte) = self.byte()? {
            self.allowance.renew();
            if byte == b'\n' {
                break;
            }
        }
        Ok(())
    }

    fn skip_comment(&mut self) -> Result<(), Stop> {
        self.byte()?;
        while let Some(byte) = self.byte()? {
            self.allowance.renew();
            if byte == b'*' && self.peek() == Some(b'/') {
                self.byte()?;
                break;
            }
        }
        Ok(())
    }

    /// To the end of a statement, whatever is in it and however long it is.
    fn skip_statement(&mut self) -> Result<(), Stop> {
        let mut inside: Option<u8> = None;
        while let Some(byte) = self.byte()? {
            self.allowance.renew();
            match (inside, byte) {
                (Some(quote), b'\\') if quote != b'`' => {
                    self.byte()?;
                }
                (Some(quote), byte) if byte == quote => inside = None,
                (None, b'\'' | b'"' | b'`') => inside = Some(byte),
                (None, b';') => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }
}
