//! Score of an event by its learned tokens, and the tokens to learn from it: pure arithmetic over counts and weights.
//!
//! Two learners share the tokens. *Naive Bayes* counts, for each token, the messages of either class that had it. The
//! probability of each token is Robinson's ("A Statistical Approach to the Spam Problem", 2003); the most telling
//! tokens' log-odds are summed and divided by the square root of their number, which takes them for partly dependent,
//! and ranks messages better than Fisher's chi-square does. Its counts are sums: the order of learning cannot matter.
//! *Logistic regression* by stochastic gradient descent (Goodman and Yih, "Online Discriminative Spam Filter Training",
//! 2006) over presence, normalised by the number of tokens, learns from what it got wrong or was hardly sure of. It
//! follows a stream that changes better than counts do, but who teaches it one class and then the other teaches it
//! nothing but the last: so all that it has learned must not lean to one class by more than [`LEAN_MAX`]. With that
//! bound the order costs little, and what is beyond it is left to the counts.
//!
//! An event is seen in several views ([`crate::text::tokenizer::TokenView`]): the words of its texts, the runs of their characters, and
//! what is known beside them. Each is judged for itself by both learners, and all that they say adds up: a text's
//! hundreds of tokens do not drown what a few of the header say, and views that err in different places correct each
//! other (Lynam and Cormack, "On-line Spam Filter Fusion", 2006). The regression learns by the sum of the views.
//!
//! The sum is the log-odds that the event is bad.

use crate::text::tokenizer::VIEWS;

/// The evidence that was learned of one token, or of all messages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TokenEvidence {
    /// Messages of the bad class that had it.
    pub bad: f64,
    /// Messages of the good class that had it.
    pub good: f64,
    /// The weight of the regression; of all messages, how far it leans to the bad class.
    pub weight: f64,
}

/// The score that a classifier gives an event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassifierScore {
    /// Log-odds that it is bad, the sum of the two that follow.
    pub score: f64,
    /// The log-odds by the counts.
    pub bayes: f64,
    /// The log-odds by the weights.
    pub linear: f64,
    /// Tokens that were learned before.
    pub known: usize,
}

/// Strength of the belief that a token says nothing, in messages (Robinson's `s`).
const STRENGTH: f64 = 0.3;
/// Tokens whose probability differs less from one half say nothing.
const DEVIATION_MIN: f64 = 0.3;
/// Most tokens of a view that the counts speak by.
const TELLING_MAX: usize = 150;
/// The worth of a unit of Bayes's sum in log-odds.
const BAYES_SCALE: f64 = 0.25;
/// The step of the regression.
const RATE: f64 = 5.0;
/// An error below this is not learned from.
const MARGIN: f64 = 0.2;
/// The most that all that the regression has learned may lean to one class.
pub const LEAN_MAX: f64 = 5.0;

impl ClassifierScore {
    /// The score of an event with these tokens, by view, given what was learned of all messages. A token that was never
    /// learned is one of zeros.
    pub fn of(all: TokenEvidence, views: [&[TokenEvidence]; VIEWS]) -> ClassifierScore {
        let mut judgement = ClassifierScore::default();
        for tokens in views {
            let telling = telling(all, tokens);
            // The order of tokens must not matter, not even to rounding: the most telling one comes first.
            judgement.bayes += telling.iter().map(|(_, odds)| odds).sum::<f64>() * worth(telling.len());
            judgement.linear += tokens.iter().map(|token| token.weight).sum::<f64>() * norm(tokens.len());
            judgement.known += tokens.iter().filter(|token| token.bad + token.good > 0.0).count();
        }
        judgement.score = judgement.bayes + judgement.linear;
        judgement
    }

    /// Returns the share that each of the tokens adds to the score, view after view.
    pub fn shares(all: TokenEvidence, views: [&[TokenEvidence]; VIEWS]) -> Vec<f64> {
        let mut shares = Vec::with_capacity(views.iter().map(|tokens| tokens.len()).sum());
        for tokens in views {
            let (first, norm) = (shares.len(), norm(tokens.len()));
            shares.extend(tokens.iter().map(|token| token.weight * norm));
            let telling = telling(all, tokens);
            for (at, odds) in &telling {
                shares[first + at] += odds * worth(telling.len());
            }
        }
        shares
    }

    /// The probability that it is bad.
    pub fn probability(&self) -> f64 {
        logistic(self.score)
    }
}

/// The tokens that the counts speak by, by their place, with their log-odds.
fn telling(all: TokenEvidence, tokens: &[TokenEvidence]) -> Vec<(usize, f64)> {
    let odds = |(at, token): (usize, &TokenEvidence)| Some((at, log_odds(all, *token)?));
    let mut telling: Vec<(usize, f64)> = tokens.iter().enumerate().filter_map(odds).collect();
    let order =
        |(_, a): &(usize, f64), (_, b): &(usize, f64)| b.abs().total_cmp(&a.abs()).then(b.total_cmp(a));
    if telling.len() > TELLING_MAX {
        telling.select_nth_unstable_by(TELLING_MAX, order);
        telling.truncate(TELLING_MAX);
    }
    telling.sort_unstable_by(order);
    telling
}

/// Returns the factor by which the log-odds of one of so many telling tokens count.
fn worth(telling: usize) -> f64 {
    BAYES_SCALE * norm(telling)
}

/// Returns the factor by which one of so many counts: as much as if they were partly dependent.
fn norm(count: usize) -> f64 {
    if count == 0 { 0.0 } else { 1.0 / (count as f64).sqrt() }
}

/// Returns the log-odds that a token's counts give; `None` if they say little.
fn log_odds(all: TokenEvidence, token: TokenEvidence) -> Option<f64> {
    let (bad, good) = (token.bad.max(0.0), token.good.max(0.0));
    if bad + good <= 0.0 || all.bad < 1.0 || all.good < 1.0 {
        return None;
    }
    let (bad_share, good_share) = (bad / all.bad, good / all.good);
    let probability = bad_share / (bad_share + good_share);
    // That the other class does not have it says little while there is little of the other class.
    let other = if bad_share > good_share { all.good / all.bad } else { all.bad / all.good };
    let count = (bad + good) * other.min(1.0);
    let probability = (STRENGTH * 0.5 + count * probability) / (STRENGTH + count);
    ((probability - 0.5).abs() > DEVIATION_MIN).then(|| (probability / (1.0 - probability)).ln())
}

/// Returns how much further an event of a class is to move the regression, given what the regression said of it and how far
/// it leans; zero where there is nothing to learn.
pub fn step(linear: f64, is_bad: bool, lean: f64) -> f64 {
    let error = f64::from(u8::from(is_bad)) - logistic(linear);
    if error.abs() < MARGIN {
        return 0.0;
    }
    let step = RATE * error;
    if is_bad { step.min(LEAN_MAX - lean).max(0.0) } else { step.max(-LEAN_MAX - lean).min(0.0) }
}

/// Returns the change that such a step makes to the weight of each of so many tokens of a view.
pub fn of_each(step: f64, tokens: usize) -> f64 {
    step * norm(tokens)
}

fn logistic(score: f64) -> f64 {
    1.0 / (1.0 + (-score).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(bad: u32, good: u32) -> TokenEvidence {
        TokenEvidence { bad: bad.into(), good: good.into(), weight: 0.0 }
    }

    fn of(all: TokenEvidence, tokens: &[TokenEvidence]) -> ClassifierScore {
        ClassifierScore::of(all, [tokens, &[], &[]])
    }

    #[test]
    fn counts_speak_for_their_class_and_none_for_neither() {
        let all = learned(100, 100);
        let score = |tokens: &[TokenEvidence]| of(all, tokens).score;
        assert!(score(&[learned(10, 0), learned(3, 0)]) > 0.5);
        assert!(score(&[learned(0, 10), learned(0, 3)]) < -0.5);
        assert_eq!(score(&[learned(5, 5), learned(0, 0)]), 0.0);
        assert_eq!(of(all, &[]), ClassifierScore::default());
        assert_eq!(of(learned(9, 0), &[learned(9, 0)]).score, 0.0, "one class says nothing");
    }

    #[test]
    fn the_same_counts_say_the_same_for_either_class() {
        let tokens = [learned(10, 1), learned(0, 4), learned(7, 2)];
        let turned = tokens.map(|token| TokenEvidence { bad: token.good, good: token.bad, ..token });
        let (one, other) = (of(learned(60, 40), &tokens), of(learned(40, 60), &turned));
        assert!((one.score + other.score).abs() < 1e-9 && one.score != 0.0);
    }

    #[test]
    fn a_class_of_which_little_is_known_proves_little_by_its_absence() {
        let seen_once = |good| of(learned(1000, good), &[learned(1, 0); 20]).score;
        assert!(seen_once(1000) > 1.0);
        assert_eq!(seen_once(10), 0.0);
        let often = of(learned(1000, 10), &[learned(300, 0); 20]).score;
        assert!(often > 1.0, "{often}");
    }

    #[test]
    fn a_few_tokens_of_one_view_are_not_drowned_by_many_of_another() {
        let (all, spam, ham) = (learned(100, 100), learned(5, 0), learned(0, 50));
        let together = of(all, &[[spam; 100].as_slice(), &[ham; 4]].concat()).score;
        let apart = ClassifierScore::of(all, [&[spam; 100], &[], &[ham; 4]]).score;
        assert!(apart < together - 1.0, "{apart} {together}");
    }

    #[test]
    fn shares_add_up_to_the_score() {
        let tokens = [learned(10, 1), learned(0, 4), TokenEvidence { weight: 1.5, ..learned(2, 2) }];
        let (all, other) =
            (learned(60, 40), [learned(0, 3), TokenEvidence { weight: -0.5, ..learned(1, 0) }]);
        let shares = ClassifierScore::shares(all, [&tokens, &[], &other]);
        let score = ClassifierScore::of(all, [&tokens, &[], &other]).score;
        assert!((shares.iter().sum::<f64>() - score).abs() < 1e-9);
        assert!(shares[0] > 0.0 && shares[1] < 0.0 && shares[2] > 0.0 && shares[3] < 0.0, "{shares:?}");
        assert_eq!(ClassifierScore::shares(all, [&[], &[], &[]]), [0.0; 0]);
    }

    #[test]
    fn a_step_moves_each_view_by_as_much() {
        let step = step(0.0, true, 0.0);
        let linear = |tokens: usize| {
            let tokens = vec![TokenEvidence { weight: of_each(step, tokens), ..learned(1, 0) }; tokens];
            of(learned(1, 1), &tokens).linear
        };
        assert!(step > 0.0 && (linear(9) - step).abs() < 1e-9 && (linear(400) - step).abs() < 1e-9);
        assert_eq!(of_each(step, 0), 0.0);
    }

    #[test]
    fn the_regression_never_leans_too_far() {
        let (mut lean, mut steps) = (0.0, 0);
        for _ in 0..1000 {
            let step = step(0.0, true, lean);
            lean += step;
            steps += usize::from(step > 0.0);
        }
        assert!((lean - LEAN_MAX).abs() < 1e-9 && steps == 2, "{lean} {steps}");
        assert!(step(0.0, false, lean) < 0.0, "back it may always go");
        assert_eq!(step(9.0, true, 0.0), 0.0, "what is known is not learned");
    }
}
