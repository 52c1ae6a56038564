//! Shared parts of the engines with an actor, critics and continuous actions.

use pyo3::prelude::*;
use rlox_core::Layout;
use rlox_nn::cpu::{Activation, Critics, CriticsArchitecture, Mlp, Number, parameter_shapes};

use super::rollout_args;
use super::state::AdamState;
use super::transition_args::{TransitionArgs, TransitionViews, read_numbers};
use crate::errors::{self, ErrorClass, OrRaise};
use crate::memory::views::{Plain, View};

/// The arguments of the constructor, as Python passes them.
pub(super) struct NetworkArgs<'a, 'py> {
    /// Names and shapes of the actor's parameters, and of the critics'.
    pub(super) parameters: [&'a Bound<'py, PyAny>; 2],
    pub(super) obs_dim: usize,
    /// Numbers per action, and outputs of the actor.
    pub(super) sizes: [usize; 2],
    pub(super) members: usize,
    /// Widths of the actor's hidden layers, and of the critics'.
    pub(super) hidden: [&'a Bound<'py, PyAny>; 2],
    pub(super) activation: &'a str,
}

/// The networks, each with the layout of its parameters.
pub(super) type Nets = ((Mlp, Layout), (Critics, Layout));

/// The sizes that the arrays of a call of `learn` must have.
pub(super) struct Sizes {
    pub(super) obs_dim: usize,
    size: usize,
    /// Lengths of the actor's vector and of the critics' vector.
    pub(super) lens: [usize; 2],
}

impl Sizes {
    /// Reads the batches, whose actions are vectors.
    pub(super) fn views<'py, F: Number + Plain>(
        &self,
        columns: &TransitionArgs<'_, 'py>,
    ) -> PyResult<TransitionViews<'py, F, F>> {
        columns.vectors(self.obs_dim, self.size)
    }

    /// Reads noise with the leading axes `rows` and as many numbers per row as an action has.
    pub(super) fn read_noise<'py, F: Plain>(
        &self,
        value: &Bound<'py, PyAny>,
        rows: &[usize],
    ) -> PyResult<View<'py, F>> {
        read_numbers(value, "noise", &[rows, &[self.size]].concat())
    }

    /// Reads the actor's and the critics' vectors with their Adam states.
    pub(super) fn adam_states<'py, F: Number + Plain>(
        &self,
        actor: &Bound<'py, PyAny>,
        critic: &Bound<'py, PyAny>,
    ) -> PyResult<[AdamState<'py, F>; 2]> {
        let [actor_len, critic_len] = self.lens;
        Ok([AdamState::read(actor, "actor", actor_len)?, AdamState::read(critic, "critic", critic_len)?])
    }
}

impl NetworkArgs<'_, '_> {
    /// Makes the networks, and returns them with the sizes of their arrays. The actor's vector may
    /// also have parameters with the extra names.
    pub(super) fn make_nets(&self, py: Python<'_>, extra_names: &[&str]) -> PyResult<(Sizes, Nets)> {
        let [actor_parameters, critics_parameters] = self.parameters;
        let (actor_layout, critics_layout) =
            (rollout_args::read_layout(actor_parameters)?, rollout_args::read_layout(critics_parameters)?);
        let activation = Activation::from_name(self.activation).or_raise(py)?;
        let [size, actor_outputs] = self.sizes;
        let hidden = rollout_args::read_widths(self.hidden[0], "actor")?;
        let sizes = [&[self.obs_dim], hidden.as_slice(), &[actor_outputs]].concat();
        let actor = Mlp::new(&actor_layout, "actor", &sizes, activation).or_raise(py)?;
        let actor_names = parameter_shapes("actor", &sizes);
        if let Some((name, ..)) = actor_layout
            .arrays()
            .find(|(name, ..)| !extra_names.contains(name) && actor_names.iter().all(|o| o.0 != *name))
        {
            let message = format!("parameter is {name}, which an actor of these widths does not have");
            return Err(errors::new(py, ErrorClass::Config, message));
        }
        let critics_architecture = CriticsArchitecture {
            members: self.members,
            obs_dim: self.obs_dim,
            action_dim: size,
            hidden: rollout_args::read_widths(self.hidden[1], "critic")?,
            activation,
        };
        let critics = Critics::new(&critics_layout, &critics_architecture).or_raise(py)?;
        let lens = [actor_layout.len(), critics_layout.len()];
        let sizes = Sizes { obs_dim: self.obs_dim, size, lens };
        Ok((sizes, ((actor, actor_layout), (critics, critics_layout))))
    }
}
