//! Samplers, which draw rows. Each has its own file; those without settings have a line in
//! [`NAMES`].

mod episodes;
mod goals;
mod priorities;
mod prioritized;
mod rng;
mod rule;
mod sequences;
mod sum_node;
mod sum_tree;
mod trajectories;
mod uniform;

pub use episodes::EpisodeBalanced;
pub use goals::{GoalStrategy, Hindsight};
pub use priorities::Priorities;
pub(super) use priorities::check_all as check_priorities;
pub use prioritized::Prioritized;
pub use rng::{STREAM, SampleRng};
pub use rule::{BatchShape, Draws, MAX_BATCH, Relabel, SampleRequest, Sampler, SamplerState};
pub use sequences::Sequences;
pub use sum_tree::SumTree;
pub use trajectories::Trajectories;
pub use uniform::Uniform;

use crate::error::{Error, Result};

/// The samplers of transitions that need no settings, by name.
const NAMES: [(&str, MakeSampler); 2] =
    [("uniform", || Box::new(Uniform)), ("episode_balanced", || Box::new(EpisodeBalanced))];

type MakeSampler = fn() -> Box<dyn Sampler>;

/// Returns the sampler called `name`.
///
/// # Errors
/// [`Error::UnknownName`], with the known samplers.
pub fn sampler_by_name(name: &str) -> Result<Box<dyn Sampler>> {
    let entry = NAMES.iter().find(|(candidate, _)| *candidate == name);
    entry
        .map(|(_, make)| make())
        .ok_or_else(|| Error::unknown_name("sampler", name, &NAMES.map(|(known, _)| known)))
}
