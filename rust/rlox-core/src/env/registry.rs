//! Environment ids -> rules. A new native environment is one file and one line here.

use super::Env;
use super::cartpole::CartPole;
use super::pendulum::Pendulum;
use crate::error::{Error, Result};

/// Every native environment.
const ENVS: &[&dyn Env] = &[&CartPole, &Pendulum];

/// The native ids, in alphabetical order.
#[must_use]
pub fn ids() -> Vec<&'static str> {
    let mut ids: Vec<&str> = ENVS.iter().map(|env| env.spec().id).collect();
    ids.sort_unstable();
    ids
}

/// The rules of environment `id`.
///
/// # Errors
/// [`Error::UnknownName`] with the nearest native ids.
pub fn find(id: &str) -> Result<&'static dyn Env> {
    ENVS.iter()
        .copied()
        .find(|env| env.spec().id == id)
        .ok_or_else(|| Error::unknown_name("native environment", id, &ids()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_id_is_found_under_its_own_name_and_bounds_have_one_length() {
        for id in ids() {
            let spec = find(id).unwrap().spec();
            assert_eq!(spec.id, id);
            assert_eq!(spec.observation.low.len(), spec.observation.high.len());
            assert!(spec.max_episode_steps > 0 && spec.state_dim > 0);
        }
    }

    #[test]
    fn a_misspelt_id_proposes_the_right_one() {
        let error = find("cart-pole-v1").err().unwrap();
        assert!(error.to_string().contains("did you mean CartPole-v1?"), "{error}");
    }
}
