//! The seeds of `SEEDS`, or a few.

#[test]
fn simulations_agree_with_the_model() {
    let asked = std::env::var("SEEDS").ok();
    let seeds = asked.as_deref().map_or(Some(0..60), sim::seeds).expect("SEEDS is `first..end`");
    let tally = sim::run(seeds.clone(), 1).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(tally.seeds, seeds.end.saturating_sub(seeds.start));
    if asked.is_none() {
        // What is not done is not tested.
        let done = [tally.looks, tally.restarts, tally.crashes, tally.refusals, tally.flips];
        assert!(done.iter().all(|count| *count > 0), "{tally:?}");
    }
}
