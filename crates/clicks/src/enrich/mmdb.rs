//! Writes small databases in the format of `MaxMind`, so that tests need no download.
//!
//! It knows what the tests use: text, numbers, booleans, lists and maps, in a tree for IPv6 with IPv4 inside it.

use std::net::IpAddr;

use serde_json::{Value, json};

/// The bytes of a database that answers each network with its value; later networks win over earlier ones.
pub fn write(entries: &[(&str, Value)]) -> Vec<u8> {
    let mut tree = vec![[Record::Empty; 2]];
    let mut data = Vec::new();
    for (network, value) in entries {
        insert(&mut tree, network, Record::Data(data.len()));
        encode(value, &mut data);
    }
    let mut file = Vec::new();
    for record in tree.iter().flatten() {
        let number = match record {
            Record::Empty => tree.len(),
            Record::Node(index) => *index,
            Record::Data(offset) => tree.len() + 16 + offset,
        };
        file.extend(u32::try_from(number).unwrap().to_be_bytes());
    }
    file.extend([0; 16]);
    file.extend(data);
    file.extend(b"\xab\xcd\xefMaxMind.com");
    control(MAP, 9, &mut file);
    // Readers insist on the width of each number here.
    let numbers = [
        ("binary_format_major_version", U16, 2),
        ("binary_format_minor_version", U16, 0),
        ("build_epoch", U64, 1_700_000_000),
        ("ip_version", U16, 6),
        ("node_count", U32, tree.len() as u64),
        ("record_size", U16, 32),
    ];
    for (key, kind, number) in numbers {
        encode(&json!(key), &mut file);
        integer(kind, number, &mut file);
    }
    for (key, value) in [
        ("database_type", json!("Test")),
        ("description", json!({"en": "Test"})),
        ("languages", json!(["en"])),
    ] {
        encode(&json!(key), &mut file);
        encode(&value, &mut file);
    }
    file
}

// The types of the format.
const TEXT: u8 = 2;
const DOUBLE: u8 = 3;
const U16: u8 = 5;
const U32: u8 = 6;
const MAP: u8 = 7;
const U64: u8 = 9;
const LIST: u8 = 11;
const BOOLEAN: u8 = 14;

/// Where one more bit of an address leads.
#[derive(Clone, Copy)]
enum Record {
    Empty,
    Node(usize),
    Data(usize),
}

fn insert(tree: &mut Vec<[Record; 2]>, network: &str, data: Record) {
    let (address, length) = network.split_once('/').unwrap();
    let length: u32 = length.parse().unwrap();
    // IPv4 lies in the first of the IPv6 addresses.
    let (bits, length) = match address.parse().unwrap() {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), 96 + length),
        IpAddr::V6(v6) => (u128::from(v6), length),
    };
    if length == 0 {
        *tree = vec![[data; 2]];
    }
    let mut node = 0;
    for depth in 0..length {
        let side = usize::from(bits >> (127 - depth) & 1 == 1);
        if depth + 1 == length {
            tree[node][side] = data;
            return;
        }
        node = match tree[node][side] {
            Record::Node(next) => next,
            // What was known of the whole network stays true of its other half.
            known => {
                tree.push([known; 2]);
                tree[node][side] = Record::Node(tree.len() - 1);
                tree.len() - 1
            }
        };
    }
}

fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => {
            control(TEXT, text.len(), out);
            out.extend(text.as_bytes());
        }
        Value::Number(number) if number.is_f64() => {
            control(DOUBLE, 8, out);
            out.extend(number.as_f64().unwrap().to_be_bytes());
        }
        Value::Number(number) => integer(U32, number.as_u64().unwrap(), out),
        Value::Object(map) => {
            control(MAP, map.len(), out);
            for (key, value) in map {
                encode(&Value::from(key.as_str()), out);
                encode(value, out);
            }
        }
        Value::Array(list) => {
            control(LIST, list.len(), out);
            for value in list {
                encode(value, out);
            }
        }
        Value::Bool(yes) => control(BOOLEAN, usize::from(*yes), out),
        Value::Null => panic!("the format has no null"),
    }
}

fn integer(kind: u8, number: u64, out: &mut Vec<u8>) {
    let zeros = number.leading_zeros() as usize / 8;
    control(kind, 8 - zeros, out);
    out.extend(&number.to_be_bytes()[zeros..]);
}

/// The byte or bytes before a value: its type, and its size in the five bits that remain or behind them.
fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (bits, more) = match size {
        0..29 => (u8::try_from(size).unwrap(), vec![]),
        29..285 => (29, vec![u8::try_from(size - 29).unwrap()]),
        _ => (30, u16::try_from(size - 285).unwrap().to_be_bytes().to_vec()),
    };
    // Types from 8 on stand in a byte of their own.
    if kind < 8 {
        out.push(kind << 5 | bits);
    } else {
        out.extend([bits, kind - 7]);
    }
    out.extend(more);
}
