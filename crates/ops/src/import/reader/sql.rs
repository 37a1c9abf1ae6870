//! Records as a dump of a `MySQL` database: the tuples inserted into the table of links. Everything else is passed over.

use std::io::{BufReader, Bytes, Read};
use std::iter::Peekable;

use rlinks_core::{FieldCode, FieldError};
use serde_json::Value;

use super::{Allowance, BoundedReader, ReadAbort, ReadError, RowSender, too_long};
use crate::import::record::Record;

/// The columns of the table of links, where a dump does not name them.
const DEFAULT_COLUMNS: [&str; 6] = ["keyword", "url", "title", "timestamp", "ip", "clicks"];

/// Whether a text begins like a dump.
pub(super) fn looks_like_dump(head: &[u8]) -> bool {
    let begins =
        ["--", "/*", "#", "create ", "insert ", "replace ", "drop ", "set ", "lock ", "use ", "start "];
    let start = String::from_utf8_lossy(&head[..head.len().min(16)]).to_ascii_lowercase();
    begins.iter().any(|word| start.starts_with(word))
}

pub(super) fn read(
    file: BoundedReader<impl Read>,
    allowance: &Allowance,
    sender: &mut RowSender,
) -> Result<(), ReadAbort> {
    let bytes = BufReader::new(file).bytes().peekable();
    let mut scanner = Scanner { bytes, allowance, row: 0, garbled: false, columns: None };
    loop {
        allowance.renew();
        match scanner.token()? {
            Token::End if scanner.columns.is_none() => {
                let why = "it is a dump without a table of links, which YOURLS calls yourls_url";
                return Err(ReadError::Format(why.to_owned()).into());
            }
            Token::End => return Ok(()),
            Token::Word(word) if matches!(word.as_str(), "insert" | "replace") => {
                scanner.insert(sender)?;
            }
            Token::Word(word) if word == "create" => scanner.create()?,
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
    bytes: Peekable<Bytes<BufReader<BoundedReader<R>>>>,
    allowance: &'a Allowance,
    /// Tuples read so far.
    row: u64,
    /// A text of the last one was not UTF-8.
    garbled: bool,
    /// The columns of the table of links, once there is one.
    columns: Option<Vec<String>>,
}

/// What stands in the place of a column's name where a table's other rules do.
const TABLE_RULE_KEYWORDS: [&str; 9] =
    ["primary", "key", "unique", "index", "constraint", "fulltext", "spatial", "foreign", "check"];

fn is_links(table: &str) -> bool {
    table == "url" || table.ends_with("_url")
}

impl<R: Read> Scanner<'_, R> {
    fn broken(&self, why: &str) -> ReadAbort {
        ReadAbort::malformed(self.row + 1, why)
    }

    fn byte(&mut self) -> Result<Option<u8>, ReadAbort> {
        match self.bytes.next().transpose() {
            Ok(byte) => Ok(byte),
            Err(_) if self.allowance.is_spent() => Err(self.broken(&too_long())),
            Err(error) => Err(error.into()),
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.bytes.peek().and_then(|byte| byte.as_ref().ok()).copied()
    }

    /// The name of the table a statement is about, after some words; nothing where there is none, or the statement is over.
    fn table(&mut self, words: &[&str]) -> Result<Option<String>, ReadAbort> {
        loop {
            match self.token()? {
                Token::Word(word) if words.contains(&word.as_str()) => {}
                Token::Word(name) | Token::Text(name) => {
                    // `database`.`table`
                    if self.peek() == Some(b'.') {
                        self.byte()?;
                        continue;
                    }
                    return Ok(Some(name));
                }
                Token::Symbol(b';') | Token::End => return Ok(None),
                Token::Symbol(_) => {
                    self.skip_statement()?;
                    return Ok(None);
                }
            }
        }
    }

    /// One `create table`: of links, whose columns it names, or of something else.
    fn create(&mut self) -> Result<(), ReadAbort> {
        let Some(table) = self.table(&["table", "temporary", "if", "not", "exists"])? else { return Ok(()) };
        if is_links(&table) && self.token()? == Token::Symbol(b'(') {
            let (mut columns, mut depth, mut begins) = (Vec::new(), 1, true);
            while depth > 0 {
                match self.token()? {
                    Token::Word(name) if begins && !TABLE_RULE_KEYWORDS.contains(&name.as_str()) => {
                        columns.push(name);
                    }
                    Token::Symbol(b'(') => depth += 1,
                    Token::Symbol(b')') => depth -= 1,
                    Token::Symbol(b',') if depth == 1 => {
                        begins = true;
                        continue;
                    }
                    Token::End => return Err(self.broken("is a table without end")),
                    _ => {}
                }
                begins = false;
            }
            self.columns = Some(columns);
        }
        self.skip_statement()
    }

    /// One `insert`: of links, or of something else.
    fn insert(&mut self, sender: &mut RowSender) -> Result<(), ReadAbort> {
        let Some(table) = self.table(&["into", "ignore", "low_priority", "delayed"])? else { return Ok(()) };
        if !is_links(&table) {
            return self.skip_statement();
        }
        let known = self.columns.get_or_insert_with(|| DEFAULT_COLUMNS.map(str::to_owned).to_vec());
        let mut columns = known.clone();
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
                    self.garbled = false;
                    let values = self.tuple()?;
                    self.row += 1;
                    let refuse = |code, why: &str| Err(FieldError::new("row", code, why).into());
                    let record = if self.garbled {
                        refuse(FieldCode::BadCharacters, "is not UTF-8")
                    } else if values.len() == columns.len() {
                        Ok(Record::from_columns(&columns, values))
                    } else {
                        let why = format!("has {} values for {} columns", values.len(), columns.len());
                        refuse(FieldCode::TooLong, &why)
                    };
                    sender.push(self.row, record)?;
                }
                Token::Symbol(b',') => {}
                Token::Symbol(b';') | Token::End => return Ok(()),
                _ => return self.skip_statement(),
            }
        }
    }

    fn names(&mut self) -> Result<Vec<String>, ReadAbort> {
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

    fn tuple(&mut self) -> Result<Vec<Value>, ReadAbort> {
        let mut values = Vec::new();
        loop {
            match self.token()? {
                Token::Text(text) => values.push(Value::String(text)),
                Token::Word(word) if word == "null" => values.push(Value::Null),
                // `_utf8mb4'text'`: what follows says it in the same letters.
                Token::Word(word) if word.starts_with('_') && matches!(self.peek(), Some(b'\'' | b'"')) => {}
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

    fn token(&mut self) -> Result<Token, ReadAbort> {
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
                    // 1.5 is one number; a.b are two names.
                    let point = if byte.is_ascii_digit() { b'.' } else { b'_' };
                    let goes_on =
                        |next: &u8| next.is_ascii_alphanumeric() || [b'_', b'$', point].contains(next);
                    while let Some(next) = self.peek().filter(goes_on) {
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
    fn quoted(&mut self, quote: u8) -> Result<String, ReadAbort> {
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
        Ok(String::from_utf8(text).unwrap_or_else(|_| {
            self.garbled = true;
            String::new()
        }))
    }

    fn skip_line(&mut self) -> Result<(), ReadAbort> {
        while let Some(byte) = self.byte()? {
            self.allowance.renew();
            if byte == b'\n' {
                break;
            }
        }
        Ok(())
    }

    fn skip_comment(&mut self) -> Result<(), ReadAbort> {
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
    fn skip_statement(&mut self) -> Result<(), ReadAbort> {
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
