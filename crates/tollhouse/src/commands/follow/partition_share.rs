//! Shares of a topic's partitions, by which several processes read one topic.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Most shares of a topic.
const SHARES_MAX: u16 = 1_000;

/// A share of a topic's partitions. Each partition is in one of so many shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartitionShare {
    /// From 1 on.
    number: u16,
    of: u16,
}

impl PartitionShare {
    /// Returns true if a partition is in the share.
    #[cfg(feature = "kafka")]
    pub(super) fn contains(self, partition: i32) -> bool {
        partition.rem_euclid(i32::from(self.of).max(1)) == i32::from(self.number) - 1
    }
}

impl fmt::Display for PartitionShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for PartitionShare {
    type Err = String;

    fn from_str(text: &str) -> Result<PartitionShare, String> {
        let numbers =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if (1..=SHARES_MAX).contains(&of) && (1..=of).contains(&number) => {
                Ok(PartitionShare { number, of })
            }
            _ => Err(format!("expected a share such as 2/4, of at most {SHARES_MAX}")),
        }
    }
}

#[cfg(all(test, feature = "kafka"))]
mod tests {
    use super::*;

    #[test]
    fn each_partition_is_in_one_share() {
        for of in [1, 3, 7, SHARES_MAX] {
            let shares: Vec<PartitionShare> =
                (1..=of).map(|number| format!("{number}/{of}").parse().unwrap()).collect();
            for partition in (0..100).chain([-1, i32::MIN, i32::MAX]) {
                assert_eq!(shares.iter().filter(|share| share.contains(partition)).count(), 1, "{partition}");
            }
        }
        for wrong in ["", "1", "/", "0/1", "2/1", "1/0", "1/1001", "-1/2", "1/2/3", "a/b", "1/70000"] {
            assert!(wrong.parse::<PartitionShare>().is_err(), "{wrong}");
        }
    }
}
