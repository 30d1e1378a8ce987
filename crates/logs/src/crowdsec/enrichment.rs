//! Facts about addresses that are not in the log: place, AS and network from databases in MaxMind's format, and reverse names.
//!
//! Nothing is asked by this crate: databases are passed in as bytes, names by a [`ReverseNames`].

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use maxminddb::Reader;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::crowdsec::value::TextMap;

/// Most bytes of a database.
pub const DATABASE_BYTES_MAX: usize = 512 << 20;

/// A service that knows names of addresses.
pub trait ReverseNames: fmt::Debug + Send + Sync {
    /// The name of an address, with a dot behind it as CrowdSec's lists have it; none if it has none, or nobody answers in time.
    fn name(&self, ip: IpAddr) -> Option<String>;
}

/// The kind of a database, by what its own description says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DatabaseKind {
    City,
    Asn,
}

/// A database in memory, whose structure was verified.
struct AddressDatabase(Reader<Vec<u8>>);

impl fmt::Debug for AddressDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AddressDatabase").finish_non_exhaustive()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CountryRecord {
    iso_code: String,
    is_in_european_union: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LocationRecord {
    latitude: f64,
    longitude: f64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CityRecord {
    country: CountryRecord,
    registered_country: CountryRecord,
    represented_country: CountryRecord,
    location: LocationRecord,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AsnRecord {
    autonomous_system_number: u32,
    autonomous_system_organization: String,
}

/// The way in which a parser asks for more about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnrichmentMethod {
    City,
    Asn,
    Range,
    ReverseName,
}

impl EnrichmentMethod {
    /// The method of a name.
    pub(crate) fn of(name: &str) -> Option<EnrichmentMethod> {
        Some(match name {
            "GeoIpCity" => EnrichmentMethod::City,
            "GeoIpASN" => EnrichmentMethod::Asn,
            "IpToRange" => EnrichmentMethod::Range,
            "reverse_dns" => EnrichmentMethod::ReverseName,
            _ => return None,
        })
    }
}

/// Databases, and who knows names.
#[derive(Debug, Default)]
pub struct CrowdsecEnrichment {
    city: Option<AddressDatabase>,
    asn: Option<AddressDatabase>,
    names: Option<Arc<dyn ReverseNames>>,
}

impl CrowdsecEnrichment {
    /// Takes a database, of cities or countries, or of AS. The error says why it is none.
    pub fn add_database(&mut self, bytes: Vec<u8>) -> Result<(), String> {
        if bytes.len() > DATABASE_BYTES_MAX {
            return Err("it is too large".to_owned());
        }
        let reader = Reader::from_source(bytes).map_err(|error| error.to_string())?;
        let kind = match reader.metadata().database_type.as_str() {
            kind if kind.contains("ASN") => DatabaseKind::Asn,
            kind if kind.contains("City") || kind.contains("Country") => DatabaseKind::City,
            kind => return Err(format!("`{kind}` is a database of neither cities nor AS")),
        };
        reader.verify().map_err(|error| error.to_string())?;
        let place = match kind {
            DatabaseKind::City => &mut self.city,
            DatabaseKind::Asn => &mut self.asn,
        };
        *place = Some(AddressDatabase(reader));
        Ok(())
    }

    /// Takes who knows names.
    pub fn set_names(&mut self, names: Arc<dyn ReverseNames>) {
        self.names = Some(names);
    }

    /// The thing that a method lacks; none if it can be asked.
    pub(crate) fn lacks(&self, method: EnrichmentMethod) -> Option<&'static str> {
        match method {
            EnrichmentMethod::City if self.city.is_none() => {
                Some("there is no database such as `GeoLite2-City.mmdb`")
            }
            EnrichmentMethod::Asn | EnrichmentMethod::Range if self.asn.is_none() => {
                Some("there is no database such as `GeoLite2-ASN.mmdb`")
            }
            EnrichmentMethod::ReverseName if self.names.is_none() => Some("there is no name service"),
            _ => None,
        }
    }

    /// Facts of an address, under the names that CrowdSec gives them.
    pub(crate) fn facts(&self, method: EnrichmentMethod, address: &str) -> TextMap {
        let mut facts = TextMap::new();
        let Ok(ip) = address.parse::<IpAddr>() else { return facts };
        let ip = ip.to_canonical();
        let mut put = |name: &str, value: String| {
            facts.insert(Arc::from(name), Arc::from(value));
        };
        match method {
            EnrichmentMethod::City => {
                let Some(database) = &self.city else { return facts };
                // An address without a record has the facts of an empty one, as with CrowdSec.
                let found = database.0.lookup(ip).and_then(|found| found.decode::<CityRecord>());
                let record = found.ok().flatten().unwrap_or_default();
                let countries = [record.country, record.registered_country, record.represented_country];
                let country = countries.into_iter().find(|country| !country.iso_code.is_empty());
                let country = country.unwrap_or_default();
                put("IsoCode", country.iso_code);
                put("IsInEU", country.is_in_european_union.to_string());
                put("Latitude", format!("{:.6}", record.location.latitude));
                put("Longitude", format!("{:.6}", record.location.longitude));
            }
            EnrichmentMethod::Asn => {
                let Some(database) = &self.asn else { return facts };
                let found = database.0.lookup(ip).and_then(|found| found.decode::<AsnRecord>());
                let record = found.ok().flatten().unwrap_or_default();
                put("ASNNumber", record.autonomous_system_number.to_string());
                put("ASNumber", record.autonomous_system_number.to_string());
                put("ASNOrg", record.autonomous_system_organization);
            }
            EnrichmentMethod::Range => {
                // CrowdSec takes networks from the database of AS.
                let Some(database) = &self.asn else { return facts };
                let found = database.0.lookup(ip).ok().filter(|found| {
                    found.has_data() && matches!(found.decode::<IgnoredAny>(), Ok(Some(IgnoredAny)))
                });
                if let Some(network) = found.and_then(|found| found.network().ok()) {
                    put("SourceRange", network.to_string());
                }
            }
            EnrichmentMethod::ReverseName => {
                if let Some(name) = self.names.as_ref().and_then(|names| names.name(ip)) {
                    put("reverse_dns", name);
                }
            }
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IPV6_PREFIX;
    use crate::crowdsec::data_files::CrowdsecDataFiles;
    use crate::crowdsec::pipeline::{CrowdsecPipeline, CrowdsecSelection};
    use crate::crowdsec::record::CrowdsecLine;
    use crate::crowdsec::{CrowdsecFiles, CrowdsecProblem};

    /// A value of a database.
    enum Data {
        Text(&'static str),
        Short(u16),
        Number(u32),
        Long(u64),
        Float(f64),
        Truth(bool),
        Map(Vec<(&'static str, Data)>),
    }

    impl Data {
        fn write(&self, bytes: &mut Vec<u8>) {
            let mut control = |kind: u8, size: usize| {
                // A size of 29 is followed by a byte with the rest.
                let short = size.min(29) as u8;
                if kind <= 7 {
                    bytes.push(kind << 5 | short);
                } else {
                    bytes.extend([short, kind - 7]);
                }
                if size >= 29 {
                    bytes.push((size - 29) as u8);
                }
            };
            match self {
                Data::Text(text) => {
                    control(2, text.len());
                    bytes.extend(text.as_bytes());
                }
                Data::Float(float) => {
                    control(3, 8);
                    bytes.extend(float.to_be_bytes());
                }
                Data::Number(number) => {
                    control(6, 4);
                    bytes.extend(number.to_be_bytes());
                }
                Data::Short(number) => {
                    control(5, 2);
                    bytes.extend(number.to_be_bytes());
                }
                Data::Long(number) => {
                    control(9, 8);
                    bytes.extend(number.to_be_bytes());
                }
                Data::Truth(truth) => control(14, usize::from(*truth)),
                Data::Map(entries) => {
                    control(7, entries.len());
                    for (name, value) in entries {
                        Data::Text(name).write(bytes);
                        value.write(bytes);
                    }
                }
            }
        }
    }

    /// A database whose records are those of the two halves of all IPv4 addresses.
    fn database(kind: &'static str, halves: [Data; 2]) -> Vec<u8> {
        let mut data = Vec::new();
        let mut places = Vec::new();
        for half in &halves {
            places.push(data.len() as u32);
            half.write(&mut data);
        }
        // One node: a record points behind the node and the 16 bytes that part the tree from data.
        let mut bytes = Vec::new();
        for place in places {
            bytes.extend((1 + 16 + place).to_be_bytes());
        }
        bytes.extend([0; 16]);
        bytes.extend(data);
        bytes.extend(b"\xab\xcd\xefMaxMind.com");
        let metadata = Data::Map(vec![
            ("node_count", Data::Number(1)),
            ("record_size", Data::Short(32)),
            ("ip_version", Data::Short(4)),
            ("database_type", Data::Text(kind)),
            ("binary_format_major_version", Data::Short(2)),
            ("binary_format_minor_version", Data::Short(0)),
            ("build_epoch", Data::Long(1)),
        ]);
        // A list of languages is needed, and a description.
        let mut text = Vec::new();
        metadata.write(&mut text);
        text[0] += 2;
        Data::Text("languages").write(&mut text);
        text.extend([0, 4]);
        Data::Text("description").write(&mut text);
        Data::Map(vec![("en", Data::Text("A test"))]).write(&mut text);
        bytes.extend(text);
        bytes
    }

    fn city(country: &'static str, latitude: f64) -> Data {
        let country = vec![("iso_code", Data::Text(country)), ("is_in_european_union", Data::Truth(true))];
        let location = vec![("latitude", Data::Float(latitude)), ("longitude", Data::Float(8.5))];
        Data::Map(vec![("country", Data::Map(country)), ("location", Data::Map(location))])
    }

    #[derive(Debug)]
    struct OneName;

    impl ReverseNames for OneName {
        fn name(&self, ip: IpAddr) -> Option<String> {
            (ip.to_string() == "192.0.2.1").then(|| "crawl.example".to_owned())
        }
    }

    fn enrichment() -> CrowdsecEnrichment {
        let mut enrichment = CrowdsecEnrichment::default();
        let cities = database("GeoLite2-City", [city("DE", 50.25), city("FR", -3.0)]);
        enrichment.add_database(cities).expect("cities");
        let asn = |number: u32, name: &'static str| {
            Data::Map(vec![
                ("autonomous_system_number", Data::Number(number)),
                ("autonomous_system_organization", Data::Text(name)),
            ])
        };
        let asns = database("GeoLite2-ASN", [asn(64_500, "First"), asn(64_501, "Second")]);
        enrichment.add_database(asns).expect("AS");
        enrichment.set_names(Arc::new(OneName));
        enrichment
    }

    #[test]
    fn facts_of_addresses_have_crowdsecs_names() {
        let enrichment = enrichment();
        let check = |method: &str, address: &str, expected: &[(&str, &str)]| {
            let facts = enrichment.facts(EnrichmentMethod::of(method).expect("method"), address);
            let found: Vec<(&str, &str)> =
                facts.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
            assert_eq!(found, expected, "{method} {address}");
        };
        check(
            "GeoIpCity",
            "10.0.0.1",
            &[("IsInEU", "true"), ("IsoCode", "DE"), ("Latitude", "50.250000"), ("Longitude", "8.500000")],
        );
        check(
            "GeoIpASN",
            "192.0.2.1",
            &[("ASNNumber", "64501"), ("ASNOrg", "Second"), ("ASNumber", "64501")],
        );
        check(
            "GeoIpASN",
            "::ffff:10.0.0.1",
            &[("ASNNumber", "64500"), ("ASNOrg", "First"), ("ASNumber", "64500")],
        );
        check("IpToRange", "192.0.2.1", &[("SourceRange", "128.0.0.0/1")]);
        check("reverse_dns", "192.0.2.1", &[("reverse_dns", "crawl.example")]);
        check("reverse_dns", "192.0.2.2", &[]);
        check("GeoIpCity", "nobody", &[]);
    }

    #[test]
    fn what_is_no_database_is_told() {
        let mut enrichment = CrowdsecEnrichment::default();
        assert!(enrichment.add_database(b"GeoLite2".to_vec()).is_err());
        let other = database("Anonymous-IP", [city("DE", 0.0), city("FR", 0.0)]);
        let why = enrichment.add_database(other).expect_err("neither");
        assert_eq!(why, "`Anonymous-IP` is a database of neither cities nor AS");
        assert!(enrichment.lacks(EnrichmentMethod::City).is_some());
    }

    const PARSER: &str = "name: me/a\nonsuccess: next_stage\nnodes:\n  - grok:\n      pattern: '^%{IP:ip}$'\n      apply_on: Line.Raw\n\
        statics:\n  - meta: source_ip\n    expression: evt.Parsed.ip\n  - method: GeoIpCity\n    expression: evt.Parsed.ip\n\
        \x20 - method: IpToRange\n    expression: evt.Parsed.ip\n  - meta: SourceRange\n    expression: evt.Enriched.SourceRange\n\
        \x20 - meta: IsoCode\n    expression: evt.Enriched.IsoCode\n";
    const SCENARIO: &str =
        "name: me/s\ntype: trigger\nfilter: evt.Meta.IsoCode == 'FR'\nlabels:\n  remediation: true\n";
    const NAMES: &str = "name: me/names\nonsuccess: next_stage\nstatics:\n  - method: reverse_dns\n    expression: evt.Overflow.Alert.Source.IP\n";
    const WHITELIST: &str = "name: me/robots\nwhitelist:\n  reason: robots\n  expression:\n   - RegexpInFile(evt.Enriched.reverse_dns, 'robots.regex')\n";

    #[test]
    fn scenarios_and_whitelists_know_more_about_addresses() {
        let files = CrowdsecFiles(
            [
                ("parsers/s00-raw/a.yaml", PARSER),
                ("scenarios/s.yaml", SCENARIO),
                ("postoverflows/s00-enrich/names.yaml", NAMES),
                ("postoverflows/s01-whitelist/robots.yaml", WHITELIST),
            ]
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .into(),
        );
        let selection = CrowdsecSelection::all(&files);
        let overflows = |data: CrowdsecDataFiles| -> (Vec<String>, Vec<CrowdsecProblem>) {
            let mut problems = Vec::new();
            let mut pipeline = CrowdsecPipeline::live(&files, &selection, data, IPV6_PREFIX, &mut problems);
            let mut found = Vec::new();
            for raw in ["10.0.0.1", "192.0.2.1", "192.0.2.2"] {
                let line = CrowdsecLine { raw: Arc::from(raw), ..CrowdsecLine::default() };
                for record in pipeline.read(line, 0).overflows {
                    let overflow = record.overflow.expect("an overflow");
                    let source = overflow.source().expect("a source").clone();
                    found.push(format!(
                        "{} {} {} {}",
                        source.ip, source.range, source.country, overflow.is_whitelisted
                    ));
                }
            }
            (found, problems)
        };
        let mut data = CrowdsecDataFiles::default();
        data.enrichment = enrichment();
        data.add("robots.regex", "\\.example$\n");
        let (found, problems) = overflows(data);
        assert_eq!(found, ["192.0.2.1 128.0.0.0/1 FR true", "192.0.2.2 128.0.0.0/1 FR false"]);
        assert_eq!(problems, []);
        let (found, problems) = overflows(CrowdsecDataFiles::default());
        assert_eq!(found, Vec::<String>::new());
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "parsers/s00-raw/a.yaml:10: `GeoIpCity` is not asked: there is no database such as `GeoLite2-City.mmdb`",
                "parsers/s00-raw/a.yaml:12: `IpToRange` is not asked: there is no database such as `GeoLite2-ASN.mmdb`",
                "postoverflows/s00-enrich/names.yaml:4: `reverse_dns` is not asked: there is no name service",
            ]
        );
    }
}
