//! The English names of countries, as people say them.
//!
//! The crate `iso3166` has the short names of CLDR, without the "(Plurinational State of)" of the standard itself.
//! Only the few that still read oddly alone in a table are ours.

use iso3166::Country;

/// The English short name of an ISO 3166-1 alpha-2 code in upper or lower case.
pub fn name(code: &str) -> Option<&'static str> {
    let upper = code.to_ascii_uppercase();
    match upper.as_str() {
        "AQ" => Some("Antarctica"), // missing from the crate
        "BA" => Some("Bosnia and Herzegovina"),
        "CD" => Some("DR Congo"),
        "CG" => Some("Republic of the Congo"),
        "GB" => Some("United Kingdom"),
        "US" => Some("United States"),
        "XK" => Some("Kosovo"), // assigned by users, and what files of addresses say
        _ => Country::from_alpha2(&upper).map(|country| country.data().name),
    }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn country_names_are_the_common_ones() {
        let table = [
            ("US", "United States"),
            ("us", "United States"),
            ("GB", "United Kingdom"),
            ("KR", "South Korea"),
            ("KP", "North Korea"),
            ("RU", "Russia"),
            ("NL", "Netherlands"),
            ("IR", "Iran"),
            ("SY", "Syria"),
            ("VN", "Vietnam"),
            ("LA", "Laos"),
            ("MD", "Moldova"),
            ("TZ", "Tanzania"),
            ("VE", "Venezuela"),
            ("BO", "Bolivia"),
            ("BN", "Brunei"),
            ("TW", "Taiwan"),
            ("PS", "Palestine"),
            ("VA", "Vatican City"),
            ("CZ", "Czechia"),
            ("MK", "North Macedonia"),
            ("SZ", "Eswatini"),
            ("TR", "Turkey"),
            ("CD", "DR Congo"),
            ("BA", "Bosnia and Herzegovina"),
            ("CI", "Côte d’Ivoire"),
            ("AQ", "Antarctica"),
            ("XK", "Kosovo"),
            ("AX", "Åland Islands"),
            ("DE", "Germany"),
        ];
        for (code, expected) in table {
            assert_eq!(name(code), Some(expected), "{code}");
        }
    }

    #[test]
    fn unknown_country_code_has_no_name() {
        for code in ["", "U", "USA", "ZZ", "XX", "T1", "EU", "é", "ß", "\0\0", "U\u{0}", &"A".repeat(10_000)]
        {
            assert_eq!(name(code), None, "{code}");
        }
    }

    #[test]
    fn every_iso_country_code_has_a_name() {
        let letters = 'A'..='Z';
        let codes =
            letters.clone().flat_map(|first| letters.clone().map(move |last| format!("{first}{last}")));
        assert_eq!(codes.filter(|code| name(code).is_some()).count(), 249 + 1, "ISO's 249 and Kosovo");
    }
}
