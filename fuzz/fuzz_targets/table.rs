//! Files of tables, and look-ups in what they hold.
#![no_main]

use judge::{LookupTable, SetType};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, char, &str, &str, [u8; 16])| {
    let (kind, separator, file, key, address) = input;
    let kind = SetType::ALL[usize::from(kind) % SetType::ALL.len()];
    match LookupTable::read(kind, separator, file) {
        Ok(table) => {
            let _ = (table.find_str(key), table.find_ip(std::net::Ipv6Addr::from(address).into()));
            for line in file.lines() {
                let key = line.split(separator).next().unwrap_or_default().trim();
                let is_read = !key.is_empty() && !line.trim().starts_with('#') && kind == SetType::String;
                assert!(!is_read || table.find_str(key).is_some(), "{line:?}");
            }
        }
        Err(errors) => {
            assert!(!errors.is_empty() && errors.len() <= LookupTable::ERRORS_MAX);
            assert!(errors.iter().all(|error| file.get(error.range.clone()).is_some()));
        }
    }
});
