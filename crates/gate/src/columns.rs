//! The facts that challenges, passes, tokens of forms and bait become.

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

event::columns! {
    /// The columns of a form's life: when it was rendered, and for whom.
    pub struct FormColumns {
        token: String "form.token" "The token that was rendered into the form, as it was sent with it; taken away once it was looked at" transient,
        expected: String "form.expected" "Name of the form that was sent: a token of another form is refused" transient,
        opened: Bool "form.opened" "Whether the form was rendered for this visitor: a token was sent, and holds. False where none was sent",
        refused: String "form.refused" "Reason why a token that was sent does not hold: `forged`, `expired`, `other_form` or `other_visitor`",
        name: String "form.name" "Name of the form that the token was issued for; also of one that is refused, unless it is forged",
        id: String "form.id" "The name of the token: to count by how often it was sent, and by whom. Also of one that is refused, unless it is forged",
        age: Float "form.age" "Seconds since the form was rendered. Also of a token that is refused, unless it is forged",
    }
}

event::columns! {
    /// The columns of bait: what nobody takes who sees the page.
    pub struct BaitColumns {
        fields: List "bait.fields" "Names of the form's fields that were not empty; taken away once they were looked at" transient,
        path: String "bait.path" "Path that was asked for, for events that have no `http.path`; taken away once it was looked at" transient,
        taken: String "bait.taken" "The bait that was taken: `link`, `field` or `parameter`. Missing where none was",
        name: String "bait.name" "The name of the bait that was taken",
    }
}
