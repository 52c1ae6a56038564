//! Finds native environments by their ids. A new environment of this crate is one file and one line
//! in this module. A crate that builds on this one adds its own environments with [`register`].

use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use super::acrobot::Acrobot;
use super::batch::Batch;
use super::cartpole::CartPole;
use super::mountain_car::MountainCar;
use super::mountain_car_continuous::MountainCarContinuous;
use super::pendulum::Pendulum;
use super::shard::Shard;
use super::{Env, Float, Precision, Spec};
use crate::error::{Error, Result};
use crate::seed::Stream;

type ShardFactory = Arc<dyn Fn(Vec<Stream>) -> Box<dyn Batch> + Send + Sync>;

/// An environment and its kernels.
#[derive(Clone)]
pub struct Entry {
    spec: &'static Spec,
    f64_factory: ShardFactory,
    f32_factory: Option<ShardFactory>,
}

impl Entry {
    /// Returns an entry with the reference kernel of an environment, for [`Precision::F64`].
    ///
    /// The state of a reference kernel may have either type, `F`: that of `MountainCarContinuous-v0`
    /// is float32 in Gymnasium.
    pub fn new<F: Float>(env: &'static impl Env<F>) -> Self {
        Self { spec: env.spec(), f64_factory: shard_factory(env), f32_factory: None }
    }

    /// Adds the kernel for [`Precision::F32`].
    #[must_use]
    pub fn with_f32(mut self, env: &'static impl Env<f32>) -> Self {
        self.f32_factory = Some(shard_factory(env));
        self
    }

    /// Returns the environment's fixed properties.
    #[must_use]
    pub const fn spec(&self) -> &'static Spec {
        self.spec
    }

    /// Returns environments with these streams.
    pub(super) fn make_shard(&self, precision: Precision, streams: Vec<Stream>) -> Box<dyn Batch> {
        match (precision, &self.f32_factory) {
            (Precision::F32, Some(make)) => make(streams),
            _ => (self.f64_factory)(streams),
        }
    }

    /// Checks that the environment has a kernel of this precision.
    pub(super) fn check(&self, precision: Precision) -> Result<()> {
        if precision == Precision::F64 || self.f32_factory.is_some() {
            return Ok(());
        }
        let expected = format!("f64: {} has no f32 kernel", self.spec.id);
        Err(Error::config("precision", precision.name(), expected))
    }
}

fn shard_factory<F: Float, E: Env<F>>(env: &'static E) -> ShardFactory {
    Arc::new(move |streams| Box::new(Shard::<F, E>::new(env, streams)))
}

/// All native environments of this process.
static ENVS: LazyLock<RwLock<Vec<Entry>>> = LazyLock::new(|| {
    RwLock::new(vec![
        Entry::new::<f64>(&Acrobot).with_f32(&Acrobot),
        Entry::new::<f64>(&CartPole).with_f32(&CartPole),
        Entry::new::<f64>(&MountainCar).with_f32(&MountainCar),
        Entry::new(&MountainCarContinuous::<f64>::INSTANCE).with_f32(&MountainCarContinuous::<f32>::INSTANCE),
        Entry::new::<f64>(&Pendulum).with_f32(&Pendulum),
    ])
});

fn entries() -> Vec<Entry> {
    ENVS.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Adds an environment under its id, for the whole process.
///
/// # Errors
/// [`Error::Config`] if the id is taken, or if the properties contradict each other: bounds of
/// different lengths, no state, no observation, no action or no time limit.
pub fn register(entry: Entry) -> Result<()> {
    let spec = entry.spec;
    check(spec)?;
    let mut envs = ENVS.write().unwrap_or_else(PoisonError::into_inner);
    if envs.iter().any(|known| known.spec.id == spec.id) {
        return Err(Error::config("environment id", spec.id, "an id that is not registered yet"));
    }
    envs.push(entry);
    Ok(())
}

fn check(spec: &Spec) -> Result<()> {
    let bounds = [Some(&spec.observation), spec.action.bounds()];
    let bounds_match = bounds.iter().flatten().all(|bounds| bounds.low.len() == bounds.high.len());
    let check_positive = |name, value: usize| match value {
        0 => Err(Error::config(name, 0, format!("at least 1 for {}", spec.id))),
        _ => Ok(()),
    };
    check_positive("state_dim", spec.state_dim)?;
    check_positive("max_episode_steps", spec.max_episode_steps as usize)?;
    check_positive("the observation's dimension", spec.observation.dim())?;
    check_positive("the number of actions", spec.action.size())?;
    if bounds_match {
        return Ok(());
    }
    Err(Error::config("bounds", spec.id, "as many lowest as highest values"))
}

/// Returns the native ids in alphabetical order.
#[must_use]
pub fn ids() -> Vec<&'static str> {
    let mut ids: Vec<&str> = entries().iter().map(|entry| entry.spec.id).collect();
    ids.sort_unstable();
    ids
}

/// Returns the environment `id`.
///
/// # Errors
/// [`Error::UnknownName`] with the nearest native ids.
pub fn find(id: &str) -> Result<Entry> {
    entries()
        .into_iter()
        .find(|entry| entry.spec.id == id)
        .ok_or_else(|| Error::unknown_name("native environment", id, &ids()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_id_is_found_and_its_spec_is_valid() {
        for id in ids() {
            let entry = find(id).unwrap();
            assert_eq!(entry.spec.id, id);
            assert_eq!(check(entry.spec), Ok(()));
        }
    }

    #[test]
    fn a_misspelt_id_suggests_the_right_one() {
        let error = find("cart-pole-v1").err().unwrap();
        assert!(error.to_string().contains("did you mean CartPole-v1?"), "{error}");
    }
}
