//! The facts that challenges and passes become.

event::columns! {
    /// The columns of what a visitor shows: a challenge that was solved, a pass.
    pub struct ChallengeColumns {
        solution: String "challenge.solution" "A solved challenge, as ALTCHA's clients send it; taken away once it was looked at" transient,
        pass_token: String "pass.token" "A pass, as the visitor was given it; taken away once it was looked at" transient,
        result: String "challenge.result" "Outcome of a challenge that was shown with the event: `solved`, or why it was refused, such as `expired`, `forged` or `used`",
        pass: Bool "pass.valid" "Whether a pass was shown, and holds",
        pass_id: String "pass.id" "The name of the pass that holds: to count by, and to see one that is shared",
        pass_way: String "pass.way" "The way in which the pass was earned: `work`, `rendered` or `waited`",
        pass_age: Integer "pass.age" "Seconds since the pass was earned",
        load: Float "gate.load" "How busy the site is: what the proxy says of it, or its requests a second as a share of what it is made for; 1 is as much as it can take",
        rate: Float "gate.rate" "Requests a second that the proxy asked about, in the last ten seconds",
        pass_refused: String "pass.refused" "Reason why a pass that was shown does not hold: `forged`, `expired` or `bound`",
    }
}
