//! Sums of scores.

/// Saturates, so that it stays finite.
pub(crate) fn sum(total: f64, score: f64) -> f64 {
    (total + score).clamp(f64::MIN, f64::MAX)
}

/// To a millionth: 0.7 + 0.1 reaches a band at 0.8, in whatever order rules are added up.
pub(crate) fn rounded(score: f64) -> f64 {
    const MILLION: f64 = 1e6;
    // From here on neighbouring floats are further apart than that.
    const COARSE: f64 = 1e9;
    if score.abs() < COARSE { (score * MILLION).round() / MILLION + 0.0 } else { score }
}
