//! Tasks in an order, and a time, that follow from a seed.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use cluster::{BackgroundTask, Environment};
use stats::random::Random;

struct SimulatedTask {
    owner: u64,
    task: BackgroundTask,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// All tasks of a simulation.
pub(crate) struct TaskSimulation {
    state: Mutex<State>,
}

struct State {
    now: Duration,
    tasks: Vec<SimulatedTask>,
    sleepers: Vec<(Duration, Waker)>,
    random: Random,
    dead: Vec<u64>,
}

impl TaskSimulation {
    pub(crate) fn new(seed: u64) -> Arc<TaskSimulation> {
        let state = State {
            now: Duration::from_secs(1000),
            tasks: Vec::new(),
            sleepers: Vec::new(),
            random: Random::new(seed),
            dead: Vec::new(),
        };
        Arc::new(TaskSimulation { state: Mutex::new(state) })
    }

    /// Returns the environment that one owner of tasks is run by.
    pub(crate) fn of(self: &Arc<TaskSimulation>, owner: u64) -> Arc<Owner> {
        Arc::new(Owner { simulated: self.clone(), owner })
    }

    /// Ends all tasks of an owner, wherever they are.
    pub(crate) fn kill(&self, owner: u64) {
        let mut state = self.state.lock().unwrap();
        state.dead.push(owner);
        let (gone, rest) = std::mem::take(&mut state.tasks).into_iter().partition(|task| task.owner == owner);
        state.tasks = rest;
        drop(state);
        drop::<Vec<SimulatedTask>>(gone);
    }

    pub(crate) fn now(&self) -> Duration {
        self.state.lock().unwrap().now
    }

    /// Runs tasks for so long.
    pub(crate) fn run_for(&self, time: Duration) {
        let end = self.now() + time;
        loop {
            let next = {
                let mut state = self.state.lock().unwrap();
                let ready: Vec<usize> = (0..state.tasks.len())
                    .filter(|at| state.tasks[*at].woken.0.load(Ordering::SeqCst))
                    .collect();
                if ready.is_empty() {
                    let earliest = state.sleepers.iter().map(|(at, _)| *at).min();
                    match earliest.filter(|at| *at <= end) {
                        None => {
                            state.now = end;
                            return;
                        }
                        Some(at) => {
                            state.now = state.now.max(at);
                            let (due, rest) = std::mem::take(&mut state.sleepers)
                                .into_iter()
                                .partition(|(due, _)| *due <= at);
                            state.sleepers = rest;
                            drop(state);
                            let due: Vec<(Duration, Waker)> = due;
                            due.into_iter().for_each(|(_, waker)| waker.wake());
                            continue;
                        }
                    }
                }
                let at = *state.random.pick(&ready);
                state.tasks.swap_remove(at)
            };
            let SimulatedTask { owner, mut task, woken } = next;
            woken.0.store(false, Ordering::SeqCst);
            let waker = Waker::from(woken.clone());
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                let mut state = self.state.lock().unwrap();
                if !state.dead.contains(&owner) {
                    state.tasks.push(SimulatedTask { owner, task, woken });
                }
            }
        }
    }

    /// Runs tasks until one of an owner's ends; `None` if it takes longer than that.
    pub(crate) fn run<T: Send + 'static>(
        self: &Arc<TaskSimulation>,
        owner: u64,
        most: Duration,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let answer = Arc::new(Mutex::new(None));
        let told = answer.clone();
        self.of(owner).spawn(Box::pin(async move {
            let value = future.await;
            *told.lock().unwrap() = Some(value);
        }));
        let end = self.now() + most;
        while self.now() < end {
            self.run_for(Duration::from_millis(20));
            if let Some(value) = answer.lock().unwrap().take() {
                return Some(value);
            }
        }
        None
    }
}

/// An owner of tasks that can be killed.
pub(crate) struct Owner {
    simulated: Arc<TaskSimulation>,
    owner: u64,
}

impl Environment for Owner {
    fn now(&self) -> Duration {
        self.simulated.now()
    }

    fn spawn(&self, task: BackgroundTask) {
        let mut state = self.simulated.state.lock().unwrap();
        if !state.dead.contains(&self.owner) {
            let woken = Arc::new(Woken(AtomicBool::new(true)));
            state.tasks.push(SimulatedTask { owner: self.owner, task, woken });
        }
    }

    fn sleep(&self, time: Duration) -> BackgroundTask {
        let simulated = self.simulated.clone();
        let until = simulated.now() + time;
        Box::pin(async move {
            let mut waits = pin!(poll_fn(|context: &mut Context<'_>| {
                let mut state = simulated.state.lock().unwrap();
                if state.now >= until {
                    return Poll::Ready(());
                }
                state.sleepers.push((until, context.waker().clone()));
                Poll::Pending
            }));
            waits.as_mut().await;
        })
    }

    fn block(&self, job: Box<dyn FnOnce() + Send>) {
        self.spawn(Box::pin(async move { job() }));
    }

    fn seed(&self) -> u64 {
        self.simulated.state.lock().unwrap().random.bits()
    }
}
