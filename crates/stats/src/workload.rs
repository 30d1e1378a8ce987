//! Distributions of keys for simulations and benchmarks. No ledger uses them.

use crate::random::Random;

/// A distribution of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyDistribution {
    /// Each of so many keys as often as any other.
    Uniform {
        /// The number of keys.
        keys: u64,
    },
    /// The key of rank `r` is drawn in proportion to `r^-exponent`.
    Zipf {
        /// The number of keys.
        keys: u64,
        /// At least 0, which is uniform; words and senders have about 1.
        exponent: f64,
    },
    /// One key has a share of all draws, the others are uniform.
    Hot {
        /// The number of keys, the hot one included.
        keys: u64,
        /// In [0, 1].
        share: f64,
    },
    /// No key comes twice.
    New,
}

/// Draws keys, numbered from 0; rank 0 is the most frequent one.
#[derive(Clone, Debug)]
pub struct KeySource {
    distribution: KeyDistribution,
    zipf: Option<Zipf>,
    next: u64,
}

impl KeySource {
    /// A source of keys.
    pub fn new(distribution: KeyDistribution) -> KeySource {
        let zipf = match distribution {
            KeyDistribution::Zipf { keys, exponent } => Some(Zipf::new(keys, exponent)),
            _ => None,
        };
        KeySource { distribution, zipf, next: 0 }
    }

    /// The next key. Constant time.
    pub fn draw(&mut self, random: &mut Random) -> u64 {
        match (self.distribution, &self.zipf) {
            (_, Some(zipf)) => zipf.draw(random),
            (KeyDistribution::Hot { keys, share }, _) if random.unit() >= share => {
                1 + random.below(keys.saturating_sub(1))
            }
            (KeyDistribution::Hot { .. }, _) => 0,
            (KeyDistribution::Uniform { keys } | KeyDistribution::Zipf { keys, .. }, _) => random.below(keys),
            (KeyDistribution::New, _) => {
                self.next += 1;
                self.next - 1
            }
        }
    }
}

/// Zipf's distribution over 1 to `n` by rejection-inversion: a draw costs two or three powers whatever `n` is
/// (Hoermann, Derflinger, *Rejection-Inversion to Generate Variates from Monotone Discrete Distributions*, ACM
/// TOMACS 6(3), 1996).
#[derive(Clone, Debug)]
struct Zipf {
    keys: u64,
    exponent: f64,
    /// The integral of the hat at its ends.
    low: f64,
    high: f64,
    /// Variates no further than this from the rank above are taken at once.
    squeeze: f64,
}

impl Zipf {
    fn new(keys: u64, exponent: f64) -> Zipf {
        let mut zipf =
            Zipf { keys: keys.max(1), exponent: exponent.max(0.0), low: 0.0, high: 0.0, squeeze: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.keys as f64 + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.high + random.unit() * (self.low - self.high);
            let variate = self.inverse(area);
            let rank = variate.round().clamp(1.0, self.keys as f64);
            if rank - variate <= self.squeeze || area >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn weight(&self, rank: f64) -> f64 {
        (-self.exponent * rank.ln()).exp()
    }

    /// An antiderivative of `x^-exponent`: `(x^(1-s) - 1) / (1-s)`, or `ln x` where `s` is 1.
    fn integral(&self, x: f64) -> f64 {
        let (log, power) = (x.ln(), (1.0 - self.exponent) * x.ln());
        if power.abs() > 1e-8 { power.exp_m1() / power * log } else { (1.0 + power / 2.0) * log }
    }

    fn inverse(&self, y: f64) -> f64 {
        let power = (y * (1.0 - self.exponent)).max(-1.0);
        let scale = if power.abs() > 1e-8 { power.ln_1p() / power } else { 1.0 - power / 2.0 };
        (scale * y).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 200_000;

    fn counted(distribution: KeyDistribution) -> Vec<u64> {
        let (mut keys, mut random) = (KeySource::new(distribution), Random::new(5));
        let mut counts = vec![0; 100];
        for _ in 0..DRAWS {
            counts[keys.draw(&mut random) as usize] += 1;
        }
        counts
    }

    #[test]
    fn ranks_are_drawn_as_often_as_zipf_says() {
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.2, 2.0, 4.0] {
            let weights: Vec<f64> = (1..=100).map(|rank| f64::from(rank).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            // Pearson's statistic over 99 degrees of freedom: its mean is 99, its deviation 14.
            let pearson: f64 = counted(KeyDistribution::Zipf { keys: 100, exponent })
                .iter()
                .zip(&weights)
                .map(|(count, weight)| {
                    let expected = weight / total * DRAWS as f64;
                    (*count as f64 - expected).powi(2) / expected
                })
                .sum();
            assert!(pearson < 99.0 + 5.0 * 14.0, "{exponent}: {pearson}");
        }
        let (mut keys, mut random) =
            (KeySource::new(KeyDistribution::Zipf { keys: u64::MAX, exponent: 1.0 }), Random::new(1));
        assert!((0..1000).map(|_| keys.draw(&mut random)).max() > Some(1 << 40));
    }

    #[test]
    fn the_hot_key_has_its_share_and_others_are_even() {
        let hot = counted(KeyDistribution::Hot { keys: 11, share: 0.5 });
        assert!(hot[0].abs_diff(DRAWS / 2) < 2000, "{hot:?}");
        assert!(hot[1..11].iter().all(|count| count.abs_diff(DRAWS / 20) < 600), "{hot:?}");
        let even = counted(KeyDistribution::Uniform { keys: 10 });
        assert!(even[..10].iter().all(|count| count.abs_diff(DRAWS / 10) < 800), "{even:?}");
        assert_eq!(even[10..].iter().sum::<u64>() + hot[11..].iter().sum::<u64>(), 0);
        let (mut new, mut random) = (KeySource::new(KeyDistribution::New), Random::new(1));
        assert_eq!((0..5).map(|_| new.draw(&mut random)).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}
