//! Places on Earth, written as `52.52,13.4`: latitude and longitude in degrees.

/// The mean radius of Earth in kilometres (IUGG).
const RADIUS_KM: f64 = 6_371.008_8;

/// Latitude and longitude in radians.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    latitude: f64,
    longitude: f64,
}

impl Place {
    /// Reads degrees with a comma between them; `None` for what is no place.
    pub(crate) fn parse(text: &str) -> Option<Place> {
        let (latitude, longitude) = text.split_once(',')?;
        let degrees = |text: &str, most: f64| {
            text.trim().parse().ok().filter(|degrees: &f64| degrees.abs() <= most).map(f64::to_radians)
        };
        Some(Place { latitude: degrees(latitude, 90.0)?, longitude: degrees(longitude, 180.0)? })
    }

    /// Kilometres along the great circle between two places (haversine formula).
    pub(crate) fn distance_km(self, other: Place) -> f64 {
        let half = |one: f64, other: f64| ((other - one) / 2.0).sin().powi(2);
        let north = half(self.latitude, other.latitude);
        let east = half(self.longitude, other.longitude) * self.latitude.cos() * other.latitude.cos();
        2.0 * RADIUS_KM * (north + east).min(1.0).sqrt().asin()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_a_globe() {
        let check = |one: &str, other: &str, expected: f64| {
            let found = Place::parse(one).unwrap().distance_km(Place::parse(other).unwrap());
            assert!((found - expected).abs() < 1.0, "{one} to {other}: {found}");
        };
        check("52.52,13.4", "52.52,13.4", 0.0);
        check("52.52,13.405", " 48.8566 , 2.3522 ", 877.5);
        check("-33.8688,151.2093", "52.52,13.405", 16_094.5);
        check("0,179.5", "0,-179.5", 111.2);
        check("90,0", "90,123", 0.0);
        check("0,0", "0,180", 20_015.1);
        check("90,0", "-90,0", 20_015.1);
    }

    #[test]
    fn what_is_no_place_is_none() {
        for text in ["", ",", "1", "1,", "91,0", "0,181", "x,1", "NaN,1", "inf,1", "1,2,3"] {
            assert!(Place::parse(text).is_none(), "{text}");
        }
    }
}
