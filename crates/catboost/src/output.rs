//! Raw values to what they mean: probabilities, the class, the expected value.

use crate::model::{LinkFunction, Model};

impl Model {
    /// The probabilities of [`Model::classes`], in their order, from the raw values of a row.
    ///
    /// Fills as much of `out` as there are classes; nothing of a model that does not classify.
    pub fn probabilities(&self, raw: &[f64], out: &mut [f64]) {
        match self.link() {
            LinkFunction::Identity | LinkFunction::Exponent => {}
            LinkFunction::Sigmoid => {
                let second = sigmoid(raw.first().copied().unwrap_or(0.0));
                for (out, value) in out.iter_mut().zip([1.0 - second, second]) {
                    *out = value;
                }
            }
            LinkFunction::OneVsAll | LinkFunction::Labels => {
                for (out, raw) in out.iter_mut().zip(raw) {
                    *out = sigmoid(*raw);
                }
            }
            LinkFunction::Softmax => {
                let greatest = raw.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = raw.iter().map(|value| (value - greatest).exp()).sum();
                for (out, value) in out.iter_mut().zip(raw) {
                    *out = (value - greatest).exp() / sum;
                }
            }
        }
    }

    /// The class of a row, by its place among [`Model::classes`], from its raw values.
    ///
    /// Of two classes the second, where its probability is above [`Model::threshold`]; of more the likeliest, the
    /// first of equals. `None` of a model that does not classify, or that gives a row several labels.
    pub fn class(&self, raw: &[f64]) -> Option<usize> {
        match self.link() {
            LinkFunction::Identity | LinkFunction::Exponent | LinkFunction::Labels => None,
            LinkFunction::Sigmoid => Some(usize::from(sigmoid(*raw.first()?) > self.threshold())),
            LinkFunction::Softmax | LinkFunction::OneVsAll => {
                let mut best = 0;
                for (class, value) in raw.iter().enumerate() {
                    if *value > raw[best] {
                        best = class;
                    }
                }
                Some(best)
            }
        }
    }

    /// Returns the prediction for one target: the probability of the second of two classes, the expected count or
    /// amount of a model of those, else the raw value itself.
    pub fn response(&self, raw: f64) -> f64 {
        match self.link() {
            LinkFunction::Sigmoid | LinkFunction::OneVsAll | LinkFunction::Labels => sigmoid(raw),
            LinkFunction::Exponent => raw.exp(),
            LinkFunction::Identity | LinkFunction::Softmax => raw,
        }
    }
}

fn sigmoid(value: f64) -> f64 {
    1.0 / (1.0 + (-value).exp())
}
