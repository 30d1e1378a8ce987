//! Rules that are posted to one node hold on all that share its registries.

use std::sync::{Arc, Mutex};

use engine::{Directory, Engine, Proposal, ReloadError, RulesRegistry, SharedRegistries, SharedState};
use event::Time;
use plan::{Config, Overrides};
use proptest::prelude::*;

use crate::registries::{LoneNode, open_with};

const NOW: Time = Time::from_seconds(1_700_000_000);
const PIPELINE: &str = "name = \"posts\"\nspace = 4\n[[field]]\nname = \"user\"\ntype = \"string\"\n";

/// The registries that nodes share, as they are in memory. What was posted can be lost.
#[derive(Clone, Default)]
struct Registries(Arc<Mutex<Vec<(SharedState, String)>>>);

impl RulesRegistry for Registries {
    fn last(&self) -> Result<SharedState, String> {
        let states = self.0.lock().unwrap();
        Ok(states.last().map_or_else(SharedState::default, |(state, _)| state.clone()))
    }

    fn text(&self, state: &SharedState) -> Result<String, String> {
        let states = self.0.lock().unwrap();
        let found = states.iter().find(|(of, _)| of.digest == state.digest);
        found.map(|(_, text)| text.clone()).ok_or_else(|| "gone".to_owned())
    }

    fn put(&self, state: &SharedState, text: String) -> Result<bool, String> {
        let mut states = self.0.lock().unwrap();
        let is_next = states.len() as u64 + 1 == state.number;
        if is_next {
            states.push((state.clone(), text));
        }
        Ok(is_next)
    }
}

struct Node {
    _parent: tempfile::TempDir,
    directory: Directory,
    registries: Registries,
    engine: Option<Engine>,
}

impl Node {
    fn new(registries: &Registries, pipeline: &str) -> Node {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("data"), &[]).unwrap();
        std::fs::write(directory.config_path(), pipeline).unwrap();
        let mut node = Node { _parent: parent, directory, registries: registries.clone(), engine: None };
        node.restart();
        node
    }

    fn restart(&mut self) {
        self.engine = None;
        let config = Config::load(&self.directory.config_path(), &Overrides::default());
        let registries =
            SharedRegistries { rules: Box::new(self.registries.clone()), ..LoneNode::registries() };
        self.engine = Some(open_with(&self.directory, &config, registries));
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn adopt(&self) -> Result<bool, ReloadError> {
        self.engine().adopt_posted(NOW).map(|adopted| adopted.is_some())
    }

    fn post(&self, text: &str) -> Result<(), ReloadError> {
        self.change(Proposal::Post { pipeline: "posts", text })
    }

    fn change(&self, proposal: Proposal<'_>) -> Result<(), ReloadError> {
        self.engine().change(proposal, NOW, false).map(|_| ())
    }

    /// The names of the rules in force, and of the candidate's.
    fn rules(&self) -> (Vec<String>, Option<Vec<String>>) {
        let plan = self.engine().plan();
        let pipeline = &plan.pipelines[0];
        let names = |rules: &judge::RuleSet| rules.rules().iter().map(|rule| rule.name.clone()).collect();
        (names(&pipeline.rules), pipeline.candidate.as_ref().map(|candidate| names(&candidate.rules)))
    }
}

fn rule(name: &str) -> String {
    format!("[[rule]]\nname = \"{name}\"\nwhen = \"user == 'a'\"\nscore = 1\n")
}

fn names(names: &[&str]) -> (Vec<String>, Option<Vec<String>>) {
    (names.iter().map(|name| (*name).to_owned()).collect(), None)
}

#[test]
fn what_is_posted_to_one_node_holds_on_all() {
    let registries = Registries::default();
    let (one, mut two) = (Node::new(&registries, PIPELINE), Node::new(&registries, PIPELINE));
    assert!(!two.adopt().unwrap(), "nothing was posted yet");
    one.post(&rule("A")).unwrap();
    assert_eq!(two.rules(), names(&[]));
    // Who has not looked yet may not post over what he does not know.
    assert!(matches!(two.post(&rule("B")), Err(ReloadError::Conflict)));
    assert_eq!(two.rules(), names(&[]), "nothing has changed");
    assert!(two.adopt().unwrap() && !two.adopt().unwrap());
    assert_eq!(two.rules(), names(&["A"]));
    two.post(&rule("B")).unwrap();
    one.adopt().unwrap();
    assert_eq!((one.rules(), two.rules()), (names(&["B"]), names(&["B"])));
    assert_eq!(one.engine().plan().pipelines[0].version, two.engine().plan().pipelines[0].version);

    // What is wrong is refused before anybody hears of it.
    assert!(one.post("[[rule]]\nname = \"C\"\nwhen = \"nobody == 1\"\nscore = 1\n").is_err());
    assert!(!two.adopt().unwrap());
    assert!(one.engine().change(Proposal::Post { pipeline: "posts", text: &rule("C") }, NOW, true).is_ok());
    assert!(!two.adopt().unwrap(), "a trial is nobody else's");

    // A candidate, its promotion, and the way back.
    one.change(Proposal::Candidate { pipeline: "posts", text: &rule("D") }).unwrap();
    two.adopt().unwrap();
    assert_eq!(two.rules(), (names(&["B"]).0, Some(names(&["D"]).0)));
    let scope = plan::CanaryScope::new(0.05, vec![1]).unwrap();
    one.change(Proposal::Canary { pipeline: "posts", scope: Some(&scope) }).unwrap();
    two.adopt().unwrap();
    let of = two.engine().rules_info(&two.engine().plan().pipelines[0]);
    assert_eq!(of.canary, Some(scope), "a canary is for all nodes to know");
    let before = two.engine().plan().pipelines[0].version.clone();
    two.change(Proposal::Promote { pipeline: "posts" }).unwrap();
    one.adopt().unwrap();
    assert_eq!(one.rules(), names(&["D"]));
    one.change(Proposal::Back { pipeline: "posts", version: &before }).unwrap();
    two.adopt().unwrap();
    assert_eq!((one.rules(), two.rules()), (names(&["B"]), names(&["B"])));

    // A node that was away catches up, and one that comes back has what it had.
    two.restart();
    assert_eq!(two.rules(), names(&["B"]));
    assert!(!two.adopt().unwrap());
    one.post(&rule("E")).unwrap();
    two.restart();
    two.adopt().unwrap();
    let late = Node::new(&registries, PIPELINE);
    late.adopt().unwrap();
    assert_eq!((two.rules(), late.rules()), (names(&["E"]), names(&["E"])));

    // What is taken away is taken away everywhere.
    late.post("").unwrap();
    one.adopt().unwrap();
    assert_eq!(one.rules(), names(&[]));
}

#[test]
fn a_node_that_others_rules_do_not_fit_keeps_its_own_and_says_so() {
    let registries = Registries::default();
    let (one, other) =
        (Node::new(&registries, PIPELINE), Node::new(&registries, &PIPELINE.replace("user", "account")));
    one.post(&rule("A")).unwrap();
    assert!(matches!(other.adopt(), Err(ReloadError::Problems(_))));
    assert_eq!((other.rules(), other.engine().shared_rules()), (names(&[]), 0));
    one.post("").unwrap();
    other.adopt().unwrap();
    assert_eq!(other.engine().shared_rules(), 2);
    // Pipelines that a node does not have are nothing to it.
    let stranger = Node::new(&registries, &PIPELINE.replace("posts", "mails"));
    one.post(&rule("A")).unwrap();
    stranger.adopt().unwrap();
    assert_eq!((stranger.rules(), stranger.engine().shared_rules()), (names(&[]), 3));
}

#[derive(Clone, Debug)]
enum Step {
    Post(usize, u8),
    Adopt(usize),
    Restart(usize),
    /// A failover has forgotten so many of what was posted last.
    Lose(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3usize, 0..5u8).prop_map(|(node, rule)| Step::Post(node, rule)),
        4 => (0..3usize).prop_map(Step::Adopt),
        1 => (0..3usize).prop_map(Step::Restart),
        1 => (1..3usize).prop_map(Step::Lose),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Nodes agree whatever was posted, lost and restarted: once all have looked often enough, all have the same rules, which are those of
    /// a post that was acknowledged, or none; and where nothing was lost, those of the last.
    #[test]
    fn nodes_agree_in_the_end(steps in prop::collection::vec(step(), 1..30)) {
        let registries = Registries::default();
        let mut nodes: Vec<Node> = (0..3).map(|_| Node::new(&registries, PIPELINE)).collect();
        let (mut posted, mut lost) = (vec![names(&[])], false);
        for step in steps {
            match step {
                Step::Post(node, number) => match nodes[node].post(&rule(&format!("R{number}"))) {
                    Ok(()) => posted.push(names(&[&format!("R{number}")])),
                    Err(ReloadError::Conflict) => {}
                    Err(error) => panic!("{error}"),
                },
                Step::Adopt(node) => _ = nodes[node].adopt().unwrap(),
                Step::Restart(node) => nodes[node].restart(),
                Step::Lose(count) => {
                    let mut states = registries.0.lock().unwrap();
                    let left = states.len().saturating_sub(count);
                    lost |= left < states.len();
                    states.truncate(left);
                }
            }
        }
        for _ in 0..40 {
            nodes.iter().for_each(|node| _ = node.adopt().unwrap());
        }
        let all: Vec<_> = nodes.iter().map(Node::rules).collect();
        prop_assert!(all.iter().all(|rules| *rules == all[0]), "{all:?}");
        prop_assert!(posted.contains(&all[0]), "{all:?} of {posted:?}");
        if !lost {
            prop_assert_eq!(&all[0], posted.last().unwrap());
        }
    }
}
