//! Scores of judged events, and the line above which at most a promised share of the good ones will lie.
//!
//! Of `n` past good scores and the next one any order is as likely as another, as long as nothing changes between them. So the
//! next lies above the `k`-th smallest of them with a probability of at most `1 - k / (n + 1)`, and with
//! `k = ⌈(n + 1)(1 - α)⌉` of at most `α`, whatever the distribution of scores (split conformal prediction: Vovk, Gammerman and
//! Shafer, *Algorithmic Learning in a Random World*, 2005; Papadopoulos et al., "Inductive Confidence Machines for
//! Regression", 2002). It holds if each event was judged before anything was learned from it.

use std::collections::{HashMap, VecDeque};

use crate::score::rounded;

/// Events of each class from which wrong labels can be told, and the number of those that is no chance.
const MISLABELLED_OF: usize = 40;
const MISLABELLED_MIN: usize = 2;

/// The latest scores of events that were judged to be of one class, at most [`ScoreWindow::LENGTH_MAX`].
///
/// Adding one costs a search and a move of at most 80 KB, some microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoreWindow {
    /// Events in the order in which they came; those that were taken back lack in `score_of`.
    order: VecDeque<u64>,
    score_of: HashMap<u64, f64>,
    /// All scores, ascending.
    ascending: Vec<f64>,
}

impl ScoreWindow {
    /// Most scores: with these, shares down to 0.01 % can be promised.
    pub const LENGTH_MAX: usize = 9_999;

    /// Adds the score of an event, known by a hash of its name. The first score of an event stands: later ones may be by what
    /// was learned from it. One that is no number is let go.
    pub fn add(&mut self, event: u64, score: f64) {
        if !score.is_finite() || self.score_of.contains_key(&event) {
            return;
        }
        self.keep_latest(ScoreWindow::LENGTH_MAX - 1);
        self.order.push_back(event);
        self.score_of.insert(event, score);
        let place = self.ascending.partition_point(|other| *other < score);
        self.ascending.insert(place, score);
    }

    /// Forgets the oldest scores, so that at most so many are left.
    pub fn keep_latest(&mut self, length: usize) {
        while self.score_of.len() > length {
            let Some(oldest) = self.order.pop_front() else { break };
            self.take(oldest);
        }
    }

    /// Removes the score of an event that is judged otherwise now; returns the score.
    pub fn remove(&mut self, event: u64) -> Option<f64> {
        let score = self.take(event)?;
        self.order.retain(|other| *other != event);
        Some(score)
    }

    fn take(&mut self, event: u64) -> Option<f64> {
        let score = self.score_of.remove(&event)?;
        let place = self.ascending.partition_point(|other| *other < score);
        self.ascending.remove(place);
        Some(score)
    }

    /// The scores, ascending.
    pub fn ascending(&self) -> &[f64] {
        &self.ascending
    }

    /// The number of scores.
    pub fn len(&self) -> usize {
        self.ascending.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ascending.is_empty()
    }

    /// The number of scores from which a share can be promised: `⌈1 / share⌉ - 1`.
    pub fn needed(share: f64) -> usize {
        // A share of a tenth is a little more than a tenth to a machine.
        ((1.0 / share - 1e-6).ceil() - 1.0).max(1.0) as usize
    }

    /// Returns the score that at most this share of the next events of the class will reach: the least one above the
    /// `⌈(n + 1)(1 - share)⌉`-th smallest, as many events have the very same score. `None` if there are too few for so small
    /// a share.
    pub fn line(&self, share: f64) -> Option<f64> {
        self.line_without(share, 0)
    }

    /// Returns the same line where so many of the greatest scores are left out, as they belong to another class.
    pub fn line_without(&self, share: f64, greatest: usize) -> Option<f64> {
        let scores = self.ascending.get(..self.len().checked_sub(greatest)?)?;
        let rank = ((scores.len() as f64 + 1.0) * (1.0 - share) - 1e-6).ceil().max(1.0) as usize;
        let score = *scores.get(rank - 1)?;
        // Scores are rounded to a millionth, as far as floats have that.
        Some(rounded(score + 1e-6).max(score.next_up()))
    }

    /// Returns the share of the scores that reach a line; `None` without any.
    pub fn share_from(&self, line: f64) -> Option<f64> {
        let below = self.ascending.partition_point(|score| *score < line);
        (!self.is_empty()).then(|| (self.len() - below) as f64 / self.len() as f64)
    }

    /// Returns how many of the greatest of these scores, which are of good events, look as if they were of bad ones that
    /// somebody called good: where more than half of the bad ones score. Without wrong labels good events get rarer the higher
    /// the score; with some, those of the bad ones come again, so there are as many above the median of the bad ones as in the
    /// quarter below it, or more. Good events that somebody called bad would move these quarters down to where true good events
    /// score: where bad events are rare, a few per cent of the good ones are a fifth of them. So what scores like four fifths of
    /// the good ones is not counted among the bad. Where scores hardly tell the classes apart, nothing is said.
    pub fn mislabelled(&self, bad: &ScoreWindow) -> usize {
        fn at(ascending: &[f64], share: f64) -> Option<f64> {
            ascending.get((ascending.len() as f64 * share) as usize).copied()
        }
        let (Some(most), Some(low)) = (at(&self.ascending, 0.8), at(&bad.ascending, 0.2)) else { return 0 };
        if self.len().min(bad.len()) < MISLABELLED_OF || most >= low {
            return 0;
        }
        let unlike = &bad.ascending[bad.ascending.partition_point(|score| *score <= most)..];
        let (Some(quarter), Some(half)) = (at(unlike, 0.25), at(unlike, 0.5)) else { return 0 };
        let from = |score: f64| self.len() - self.ascending.partition_point(|other| *other < score);
        let (above, all) = (from(half), from(quarter));
        if above >= MISLABELLED_MIN && above >= all - above { all } else { 0 }
    }

    /// The events with their scores, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, f64)> {
        self.order.iter().filter_map(|event| Some((*event, *self.score_of.get(event)?)))
    }
}

impl FromIterator<(u64, f64)> for ScoreWindow {
    fn from_iter<T: IntoIterator<Item = (u64, f64)>>(scores: T) -> ScoreWindow {
        let mut window = ScoreWindow::default();
        scores.into_iter().for_each(|(event, score)| window.add(event, score));
        window
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_needs_enough_good_events() {
        for (share, needed) in
            [(0.5, 1), (0.1, 9), (0.01, 99), (0.005, 199), (0.001, 999), (0.0002, 4999), (0.0001, 9999)]
        {
            assert_eq!(ScoreWindow::needed(share), needed, "{share}");
            let mut window: ScoreWindow = (1..needed as u64).map(|event| (event, event as f64)).collect();
            assert_eq!(window.line(share), None, "{share}");
            window.add(0, 1e6);
            assert_eq!(window.line(share), Some(1e6 + 1e-6), "{share}: above the greatest of just enough");
        }
    }

    #[test]
    fn events_count_once_and_can_be_taken_back() {
        let mut window: ScoreWindow = [(1, 3.0), (2, -1.0), (1, 9.0), (3, f64::NAN)].into_iter().collect();
        assert_eq!(window.iter().collect::<Vec<_>>(), [(1, 3.0), (2, -1.0)]);
        assert_eq!((window.share_from(3.0), window.share_from(3.5)), (Some(0.5), Some(0.0)));
        assert_eq!((window.remove(1), window.remove(1)), (Some(3.0), None));
        assert_eq!((window.len(), window.line(0.5)), (1, Some(-0.999_999)));
        assert_eq!(ScoreWindow::default().share_from(0.0), None);
        let mut window: ScoreWindow = (0..10).map(|event| (event, 10.0 - event as f64)).collect();
        window.remove(8);
        window.keep_latest(3);
        assert_eq!(window.iter().collect::<Vec<_>>(), [(6, 4.0), (7, 3.0), (9, 1.0)]);
        window.keep_latest(9);
        assert_eq!(window.ascending(), [1.0, 3.0, 4.0]);
    }

    #[test]
    fn wrong_labels_are_told_from_scores_that_say_little() {
        let mut state = 3u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        // Good and bad events so far apart, of which a share of the bad ones is called good, and as many the other way.
        let mut check = |apart: f64, wrong: u32| {
            let [mut good, mut bad]: [ScoreWindow; 2] = Default::default();
            for event in 0..2_000u64 {
                let is_bad = event % 2 == 0;
                // The sum of twelve uniform numbers is nearly normal, with a deviation of 1.
                let sum: f64 = (0..12).map(|_| uniform()).sum();
                let score = sum - 6.0 + if is_bad { apart } else { 0.0 };
                let is_wrong = uniform() < f64::from(wrong) / 100.0;
                if is_bad != is_wrong { &mut bad } else { &mut good }.add(event, score);
            }
            let without = good.mislabelled(&bad);
            (without, good.line_without(0.005, without).unwrap())
        };
        for apart in [0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0] {
            assert_eq!(check(apart, 0).0, 0, "{apart}");
        }
        for (apart, wrong) in [(5.0, 1), (5.0, 5), (8.0, 2), (8.0, 10)] {
            let (without, line) = check(apart, wrong);
            let all = wrong as usize * 10;
            assert!(without > all / 2 && without < all + 3, "{apart} {wrong}: {without}");
            assert!(line < apart, "a line below the middle of the bad ones: {line}");
        }
        assert_eq!(ScoreWindow::default().mislabelled(&ScoreWindow::default()), 0);
        assert_eq!(ScoreWindow::default().line_without(0.5, 1), None);
    }

    #[test]
    fn wrong_labels_are_told_where_bad_events_are_rare() {
        let mut state = 5u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        // Every fifth event is bad. So of a hundred called bad nearly twenty are good, and score as these do: with a tail that
        // reaches far among the bad ones.
        let mut check = |wrong: f64| {
            let [mut good, mut bad]: [ScoreWindow; 2] = Default::default();
            for event in 0..4_000u64 {
                let is_bad = event % 5 == 0;
                let score = if is_bad { 30.0 * uniform() } else { -15.0 - 3.5 * uniform().ln() };
                if is_bad != (uniform() < wrong) { &mut bad } else { &mut good }.add(event, score);
            }
            good.mislabelled(&bad)
        };
        let told = |draws: Vec<usize>| draws.into_iter().filter(|count| *count > 0).count();
        let without = told((0..40).map(|_| check(0.0)).collect());
        let with = told((0..40).map(|_| check(0.05)).collect());
        // By chance a long tail alone looks like wrong labels in one draw of two hundred.
        assert!(
            without < 4 && with > 24,
            "told in {without} of 40 draws without wrong labels, in {with} with some"
        );
    }

    #[test]
    fn the_promise_is_kept_on_what_comes_next() {
        // Scores with a long tail, each held against the line of those before it.
        let mut state = 7u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        let (mut window, mut above, mut held) = (ScoreWindow::default(), 0u32, 0u32);
        for event in 0..100_000 {
            let score = uniform().ln().powi(2);
            if let Some(line) = window.line(0.005) {
                held += 1;
                above += u32::from(score >= line);
            }
            window.add(event, score);
        }
        let share = f64::from(above) / f64::from(held);
        assert!(held > 99_000 && (0.0044..0.0055).contains(&share), "{share} of {held}");
        // As many have the very same score, none of them is above the line.
        let same: ScoreWindow = (0..1000).map(|event| (event, 1.5)).collect();
        assert!(same.line(0.01).is_some_and(|line| line > 1.5 && same.share_from(line) == Some(0.0)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_window_is_what_a_list_would_be(steps in prop::collection::vec((0u64..40, -5i8..5, any::<bool>()), 0..200)) {
            let (mut window, mut list): (ScoreWindow, Vec<(u64, f64)>) = Default::default();
            for (event, score, removes) in steps {
                if removes {
                    window.remove(event);
                    list.retain(|(other, _)| *other != event);
                } else {
                    window.add(event, score.into());
                    if list.iter().all(|(other, _)| *other != event) {
                        list.push((event, score.into()));
                    }
                }
                let mut sorted: Vec<f64> = list.iter().map(|(_, score)| *score).collect();
                sorted.sort_by(f64::total_cmp);
                prop_assert_eq!(&window.ascending, &sorted);
                prop_assert_eq!(window.iter().collect::<Vec<_>>(), list.clone());
                prop_assert_eq!(window.iter().collect::<ScoreWindow>(), window.clone());
            }
        }
    }
}
