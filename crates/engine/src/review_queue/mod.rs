//! The queue itself: items, what people may do with them, and the files that keep it.

mod agreement;
pub(crate) mod item;
mod queue;
mod store;
mod table;
#[cfg(test)]
mod tests;

pub use agreement::{ReviewAgreement, ReviewerRecord, UnequalKey, VerdictCounts, VotePairCounts, VoteTimes};
pub use item::{
    REVIEW_COMMENTS_MAX, REVIEW_TEXT_BYTES_MAX, ReviewClaim, ReviewComment, ReviewEscalation, ReviewItem,
    ReviewNameError, ReviewOutcome, ReviewState, ReviewVerdict, ReviewVote,
};
pub use queue::ReviewQueue;
pub(crate) use store::IMAGES;
pub(crate) use table::QueueOutcome;
pub use table::{
    AlikeReviews, ReviewCensus, ReviewCursor, ReviewError, ReviewFilter, ReviewOrder, ReviewPage,
};
