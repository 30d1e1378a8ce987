//! The facts that challenges, passes, tokens of forms and bait become.

event::columns! {
    /// The columns of what a visitor shows: a challenge that was solved, a pass.
    pub struct ChallengeColumns {
        solution: String "challenge.solution" "Solved challenge, as ALTCHA clients send it; removed once checked" transient,
        pass_token: String "pass.token" "Pass, as the visitor got it; removed once checked" transient,
        result: String "challenge.result" "Outcome of the event's challenge: `solved`, or why it was refused, such as \
            `expired`, `forged` or `used`",
        pass: Bool "pass.valid" "The event brought a valid pass",
        pass_id: String "pass.id" "Id of a valid pass: count by it to see a shared one",
        pass_method: String "pass.method" "Method by which the pass was earned: `work`, `rendered` or `waited`",
        pass_age: Integer "pass.age" "Seconds since the pass was earned",
        load: Float "gate.load" "Load of the site: from the proxy, or requests a second as a share of `capacity`; 1 is full",
        rate: Float "gate.rate" "Requests a second that the proxy asked about, in the last ten seconds",
        pass_refused: String "pass.refused" "Reason why a pass is invalid: `forged`, `expired` or `bound`",
    }
}

event::columns! {
    /// The columns of a form's life: when it was rendered, and for whom.
    pub struct FormColumns {
        token: String "form.token" "Token sent with the form; removed once checked" transient,
        expected: String "form.expected" "Name of the form that was sent: tokens of other forms are refused" transient,
        opened: Bool "form.opened" "The form was rendered for this visitor: a valid token was sent. False without a token",
        refused: String "form.refused" "Reason why a token is invalid: `forged`, `expired`, `other_form` or `other_visitor`",
        name: String "form.name" "Name of the form that the token was issued for; also for a refused token, unless forged",
        id: String "form.id" "Id of the token: count by it how often it was sent, and by whom. Also for a refused token, \
            unless forged",
        age: Float "form.age" "Seconds since the form was rendered. Also for a refused token, unless forged",
    }
}

event::columns! {
    /// The columns of bait: what nobody takes who sees the page.
    pub struct BaitColumns {
        fields: List "bait.fields" "Form fields that were not empty; removed once checked" transient,
        path: String "bait.path" "Requested path, for events without `http.path`; removed once checked" transient,
        taken: String "bait.taken" "Bait that was taken: `link`, `field` or `parameter`. Missing if none",
        name: String "bait.name" "Name of that bait",
    }
}
