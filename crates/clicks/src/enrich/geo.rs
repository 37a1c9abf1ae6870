//! Country and city of an address, from a file in the format of `MaxMind` that the operator keeps up to date.
//!
//! The file is read into memory: whoever replaces it may also truncate it in place, and a mapped file would then
//! take the process with it. A file that cannot be read costs the places of clicks, never the clicks.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use maxminddb::PathElement::{self, Key};
use maxminddb::{MaxMindDbError, Reader};
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// More than we expect of any such file; it has to fit into memory, twice while it is replaced.
const MAX_FILE_BYTES: u64 = 1 << 30;
const MAX_CITY_CHARS: usize = 100;

/// Where an address is, as far as the file knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GeoLocation {
    /// The two capital letters of ISO 3166-1.
    pub country: Option<[u8; 2]>,
    /// The English name of the city.
    pub city: Option<String>,
    /// Degrees north; there is never a latitude without a longitude.
    pub latitude: Option<f64>,
    pub longitude: Option<f64>,
}

/// Why a file gives no places.
#[derive(Debug, thiserror::Error)]
pub enum GeoError {
    /// The file is missing or may not be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Unreadable {
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not a database of addresses, or only a part of one.
    #[error("{path} is not a MaxMind database: {source}", path = path.display())]
    Malformed {
        path: PathBuf,
        /// What is wrong with it.
        source: MaxMindDbError,
    },
}

// What [`Geo::refresh`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// The file is the one that was seen last.
    Unchanged,
    /// The file was replaced, and its places count from now on.
    Reloaded,
    /// The file is gone or was replaced by one that gives no places, as [`Geo::error`] says; the old places still
    /// count. Each such file is reported once.
    Failed,
}

/// The places of one file.
#[derive(Debug)]
pub struct Geo {
    path: PathBuf,
    tables: Option<Reader<Vec<u8>>>,
    error: Option<GeoError>,
    seen: Option<FileIdentity>,
}

impl Geo {
    /// Reads a file; one that cannot be read gives no places until it is replaced.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let seen = FileIdentity::from_path(&path);
        let mut geo = Self { path, tables: None, error: None, seen };
        geo.load();
        geo
    }

    /// Why the file that was seen last could not be used.
    pub fn error(&self) -> Option<&GeoError> {
        self.error.as_ref()
    }

    /// Whether there are places to look up, be they of the last file or of one before it.
    pub fn is_loaded(&self) -> bool {
        self.tables.is_some()
    }

    /// Where an address is.
    pub fn look_up(&self, address: IpAddr) -> GeoLocation {
        let Some(tables) = &self.tables else { return GeoLocation::default() };
        // A socket for both families reports IPv4 addresses as IPv6.
        let Ok(found) = tables.lookup(address.to_canonical()) else { return GeoLocation::default() };
        let text = |path| found.decode_path::<&str>(path).ok().flatten();
        let degrees = |path| Some(found.decode_path::<Degrees>(path).ok().flatten()?.0);
        let latitude =
            LATITUDE_PATHS.iter().find_map(|path| degrees(path)).filter(|north| north.abs() <= 90.0);
        let longitude =
            LONGITUDE_PATHS.iter().find_map(|path| degrees(path)).filter(|east| east.abs() <= 180.0);
        let point = latitude.zip(longitude);
        GeoLocation {
            country: COUNTRY_PATHS.iter().find_map(|path| country_code(text(path)?)),
            city: CITY_PATHS.iter().find_map(|path| city_name(text(path)?)),
            latitude: point.map(|(latitude, _)| latitude),
            longitude: point.map(|(_, longitude)| longitude),
        }
    }

    /// Reads the file again if it was replaced or changed.
    pub fn refresh(&mut self) -> Refresh {
        let now = FileIdentity::from_path(&self.path);
        if now == self.seen {
            return Refresh::Unchanged;
        }
        // Noted before it is read: a file that changes meanwhile is read once more.
        self.seen = now;
        self.load()
    }

    /// Reads the file, and says in the log what became of it: each state of it once.
    fn load(&mut self) -> Refresh {
        match read(&self.path) {
            Ok(tables) => {
                tracing::info!(file = %self.path.display(), "the file of places was read");
                self.tables = Some(tables);
                self.error = None;
                Refresh::Reloaded
            }
            Err(error) => {
                tracing::warn!(%error, "clicks are counted without places, or with those known before");
                self.error = Some(error);
                Refresh::Failed
            }
        }
    }
}

/// The places in a record where a value may stand, best first: `MaxMind` nests, others write flat records.
type Paths = &'static [&'static [PathElement<'static>]];

// Where a network is counts before where it was registered.
const COUNTRY_PATHS: Paths = &[
    &[Key("country"), Key("iso_code")],
    &[Key("country_code")],
    &[Key("country")],
    &[Key("registered_country"), Key("iso_code")],
];
const CITY_PATHS: Paths = &[&[Key("city"), Key("names"), Key("en")], &[Key("city")]];
const LATITUDE_PATHS: Paths = &[&[Key("location"), Key("latitude")], &[Key("latitude")], &[Key("lat")]];
const LONGITUDE_PATHS: Paths = &[&[Key("location"), Key("longitude")], &[Key("longitude")], &[Key("lng")]];

/// Degrees, which some files hold in numbers of any width and others in text.
///
/// An untagged enum would read the same, but first copy whatever stands there, and a damaged file can make that deep
/// enough to overflow the stack.
struct Degrees(f64);

impl<'de> Deserialize<'de> for Degrees {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DegreesVisitor)
    }
}

struct DegreesVisitor;

impl Visitor<'_> for DegreesVisitor {
    type Value = Degrees;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("degrees")
    }

    fn visit_f64<E: de::Error>(self, degrees: f64) -> Result<Degrees, E> {
        Ok(Degrees(degrees))
    }

    fn visit_i64<E: de::Error>(self, degrees: i64) -> Result<Degrees, E> {
        i16::try_from(degrees).map(|degrees| Degrees(degrees.into())).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, degrees: u64) -> Result<Degrees, E> {
        u16::try_from(degrees).map(|degrees| Degrees(degrees.into())).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, degrees: &str) -> Result<Degrees, E> {
        degrees.trim().parse().map(Degrees).map_err(E::custom)
    }
}

/// What changes when a file is replaced, or written to in place.
#[derive(Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    length_bytes: u64,
}

impl FileIdentity {
    fn from_path(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            length_bytes: metadata.len(),
        })
    }
}

fn read(path: &Path) -> Result<Reader<Vec<u8>>, GeoError> {
    let bytes = read_bytes(path).map_err(|source| GeoError::Unreadable { path: path.to_owned(), source })?;
    Reader::from_source(bytes).map_err(|source| GeoError::Malformed { path: path.to_owned(), source })
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for somebody to write.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let file = File::open(path)?;
    if file.metadata()?.len() > MAX_FILE_BYTES {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Two letters in capitals; anything else is no country.
fn country_code(text: &str) -> Option<[u8; 2]> {
    let code: [u8; 2] = text.trim().as_bytes().try_into().ok()?;
    code.iter().all(u8::is_ascii_alphabetic).then(|| code.map(|letter| letter.to_ascii_uppercase()))
}

/// A name that can be shown and grouped by.
fn city_name(text: &str) -> Option<String> {
    let name: String = text.chars().filter(|c| !c.is_control()).take(MAX_CITY_CHARS).collect();
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enrich::mmdb;
    use serde_json::{Value, json};

    /// A place as one line.
    fn line(place: &GeoLocation) -> String {
        let country = place.country.map_or("-".to_owned(), |code| String::from_utf8(code.to_vec()).unwrap());
        let number = |degrees: Option<f64>| degrees.map_or("-".to_owned(), |degrees| degrees.to_string());
        let (latitude, longitude) = (number(place.latitude), number(place.longitude));
        format!("{country}, {}, {latitude} {longitude}", place.city.as_deref().unwrap_or("-"))
    }

    fn geo(folder: &tempfile::TempDir, entries: &[(&str, Value)]) -> Geo {
        let path = folder.path().join("places.mmdb");
        fs::write(&path, mmdb::write(entries)).unwrap();
        Geo::open(path)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn both_record_layouts_give_a_location() {
        let table = [
            (
                json!({
                    "city": {"geoname_id": 1, "names": {"de": "Köln", "en": "Cologne"}},
                    "country": {"iso_code": "DE", "names": {"en": "Germany"}},
                    "registered_country": {"iso_code": "US"},
                    "location": {"latitude": 50.9375, "longitude": 6.9603, "time_zone": "Europe/Berlin"},
                }),
                "DE, Cologne, 50.9375 6.9603",
            ),
            (json!({"country": {"iso_code": "FR"}}), "FR, -, - -"),
            (json!({"registered_country": {"iso_code": "NL"}}), "NL, -, - -"),
            (
                json!({"country": {"names": {"en": "?"}}, "registered_country": {"iso_code": "NL"}}),
                "NL, -, - -",
            ),
            (json!({"city": {"names": {"ja": "東京"}}}), "-, -, - -"),
            (
                json!({"country_code": "AU", "city": "Sydney", "latitude": "-33.8688", "longitude": "151.209"}),
                "AU, Sydney, -33.8688 151.209",
            ),
            (
                json!({"country_code": "au", "city": "Sydney", "latitude": -33.5, "longitude": 151.25}),
                "AU, Sydney, -33.5 151.25",
            ),
            (
                json!({"country_code": "JP", "city": "東京", "lat": "35.5", "lng": " 139.5 "}),
                "JP, 東京, 35.5 139.5",
            ),
            (json!({"country_code": "BR", "lat": 10, "lng": 20}), "BR, -, 10 20"),
            (json!({"country": "GB"}), "GB, -, - -"),
            (json!({"country": "United Kingdom", "country_code": "GB"}), "GB, -, - -"),
            (json!({"country": "United Kingdom"}), "-, -, - -"),
            (json!({"country_code": "", "registered_country": {"iso_code": "SE"}}), "SE, -, - -"),
            (json!({}), "-, -, - -"),
        ];
        let folder = tempfile::tempdir().unwrap();
        for (record, expected) in table {
            let geo = geo(&folder, &[("192.0.2.0/24", record.clone())]);
            assert!(geo.is_loaded(), "{:?}", geo.error());
            assert_eq!(line(&geo.look_up(address("192.0.2.7"))), expected, "{record}");
            assert_eq!(geo.look_up(address("192.0.3.7")), GeoLocation::default());
        }
    }

    #[test]
    fn malformed_values_are_dropped() {
        let table = [
            (json!({"country_code": "DEU"}), "-, -, - -"),
            (json!({"country_code": "T1"}), "-, -, - -"),
            (json!({"country_code": "é"}), "-, -, - -"),
            (json!({"country_code": 49}), "-, -, - -"),
            (json!({"country": ["DE"]}), "-, -, - -"),
            (json!({"country": {"iso_code": {"iso_code": "DE"}}}), "-, -, - -"),
            (json!({"city": true}), "-, -, - -"),
            (json!({"city": ""}), "-, -, - -"),
            (json!({"city": " \u{0}\n\u{1b} "}), "-, -, - -"),
            (json!({"city": "\u{0}Par\u{1b}is\n"}), "-, Paris, - -"),
            (json!({"latitude": "north", "longitude": "1"}), "-, -, - -"),
            (json!({"latitude": "NaN", "longitude": "inf"}), "-, -, - -"),
            (json!({"latitude": 91.0, "longitude": 1.5}), "-, -, - -"),
            (json!({"latitude": 1.5, "longitude": -180.5}), "-, -, - -"),
            (json!({"latitude": 1.5}), "-, -, - -"),
            (json!("DE"), "-, -, - -"),
            (json!([]), "-, -, - -"),
        ];
        let folder = tempfile::tempdir().unwrap();
        for (record, expected) in table {
            let geo = geo(&folder, &[("0.0.0.0/0", record.clone())]);
            assert_eq!(line(&geo.look_up(address("192.0.2.7"))), expected, "{record}");
        }
        let geo = geo(&folder, &[("::/0", json!({"city": "é".repeat(5000)}))]);
        assert_eq!(geo.look_up(address("::1")).city.unwrap(), "é".repeat(100));
    }

    #[test]
    fn ipv4_and_ipv6_addresses_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let geo = geo(
            &folder,
            &[
                ("10.0.0.0/8", json!({"country_code": "AA"})),
                ("10.1.0.0/16", json!({"country_code": "BB"})),
                ("2001:db8::/32", json!({"country_code": "CC"})),
                ("2001:db8::7/128", json!({"country_code": "DD"})),
            ],
        );
        let table = [
            ("10.0.0.1", "AA"),
            ("10.255.255.255", "AA"),
            ("10.1.2.3", "BB"),
            ("::ffff:10.1.2.3", "BB"),
            ("2001:db8::1", "CC"),
            ("2001:db8::7", "DD"),
            ("11.0.0.1", "-"),
            ("2001:db9::1", "-"),
        ];
        for (text, expected) in table {
            assert_eq!(line(&geo.look_up(address(text))), format!("{expected}, -, - -"), "{text}");
        }
    }

    #[test]
    fn replaced_file_is_reloaded_and_a_broken_one_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let mut geo = geo(&folder, &[("0.0.0.0/0", json!({"country_code": "AA"}))]);
        let path = geo.path.clone();
        let country = |geo: &Geo| geo.look_up(address("192.0.2.7")).country;
        let replace = |bytes: &[u8]| {
            let fresh = folder.path().join("fresh");
            fs::write(&fresh, bytes).unwrap();
            fs::rename(&fresh, &path).unwrap();
        };
        assert_eq!(geo.refresh(), Refresh::Unchanged);

        let bytes = mmdb::write(&[("0.0.0.0/0", json!({"country_code": "BB"}))]);
        replace(&bytes);
        assert_eq!(geo.refresh(), Refresh::Reloaded);
        assert_eq!(geo.refresh(), Refresh::Unchanged);
        assert_eq!(country(&geo), Some(*b"BB"));

        replace(&bytes[..bytes.len() / 2]);
        assert_eq!(geo.refresh(), Refresh::Failed);
        assert!(matches!(geo.error(), Some(GeoError::Malformed { .. })));
        assert_eq!(geo.refresh(), Refresh::Unchanged);
        assert_eq!(country(&geo), Some(*b"BB"));

        fs::remove_file(&path).unwrap();
        assert_eq!(geo.refresh(), Refresh::Failed);
        assert!(matches!(geo.error(), Some(GeoError::Unreadable { .. })));
        assert_eq!(geo.refresh(), Refresh::Unchanged);
        assert_eq!(country(&geo), Some(*b"BB"));

        replace(&mmdb::write(&[("0.0.0.0/0", json!({"country_code": "CC"}))]));
        assert_eq!(geo.refresh(), Refresh::Reloaded);
        assert!(geo.error().is_none());
        assert_eq!(country(&geo), Some(*b"CC"));

        // Truncated in place: the same file, and the old places.
        File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        assert_eq!(geo.refresh(), Refresh::Failed);
        assert_eq!(country(&geo), Some(*b"CC"));
    }

    #[test]
    fn invalid_file_gives_no_locations_until_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("places.mmdb");
        let mut geo = Geo::open(&path);
        assert!(matches!(geo.error(), Some(GeoError::Unreadable { .. })));
        assert_eq!(geo.look_up(address("192.0.2.7")), GeoLocation::default());
        assert_eq!(geo.refresh(), Refresh::Unchanged);

        assert!(matches!(Geo::open(folder.path()).error(), Some(GeoError::Unreadable { .. })));
        for bytes in [&b""[..], b"\xab\xcd\xefMaxMind.com", &[0; 1000]] {
            fs::write(&path, bytes).unwrap();
            assert!(matches!(Geo::open(&path).error(), Some(GeoError::Malformed { .. })));
        }

        fs::write(&path, mmdb::write(&[("::/0", json!({"country_code": "AA"}))])).unwrap();
        assert_eq!(geo.refresh(), Refresh::Reloaded);
        assert!(geo.is_loaded());
    }

    #[test]
    fn a_damaged_database_never_panics() {
        let record = json!({"country": {"iso_code": "DE"}, "city": {"names": {"en": "Cologne"}}, "lat": 1.5, "lng": 2.5});
        let bytes =
            mmdb::write(&[("192.0.2.0/24", record), ("2001:db8::/32", json!({"country_code": "AA"}))]);
        // Every byte, each with a few other values.
        for position in 0..bytes.len() {
            for change in [0x01, 0x20, 0x80, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[position] ^= change;
                let tables = Reader::from_source(damaged).ok();
                let geo = Geo { path: PathBuf::new(), tables, error: None, seen: None };
                geo.look_up(address("192.0.2.7"));
                geo.look_up(address("2001:db8::1"));
            }
        }
    }
}
