//! Shared parts of the engines with an actor, critics and continuous actions.

use pyo3::prelude::*;
use rlox_core::Layout;
use rlox_nn::cpu::{Activation, Critics, CriticsArchitecture, Mlp, Number, named};

use super::incoming;
use super::replayed::{Columns, Views, numbers};
use super::state::Adams;
use crate::errors::{self, Class, OrRaise};
use crate::memory::views::{Plain, View};

/// The arguments of the constructor, as Python passes them.
pub(super) struct Made<'a, 'py> {
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

/// The sizes that the arrays of a training must have.
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
        columns: &Columns<'_, 'py>,
    ) -> PyResult<Views<'py, F, F>> {
        columns.vectors(self.obs_dim, self.size)
    }

    /// Reads noise with the leading axes `rows` and as many numbers per row as an action has.
    pub(super) fn noise<'py, F: Plain>(
        &self,
        given: &Bound<'py, PyAny>,
        rows: &[usize],
    ) -> PyResult<View<'py, F>> {
        numbers(given, "noise", &[rows, &[self.size]].concat())
    }

    /// Reads the actor's and the critics' vectors with their Adam states.
    pub(super) fn learned<'py, F: Number + Plain>(
        &self,
        actor: &Bound<'py, PyAny>,
        critic: &Bound<'py, PyAny>,
    ) -> PyResult<[Adams<'py, F>; 2]> {
        let [of_actor, of_critic] = self.lens;
        Ok([Adams::of(actor, "actor", of_actor)?, Adams::of(critic, "critic", of_critic)?])
    }
}

impl Made<'_, '_> {
    /// Makes the networks, and returns them with the sizes of their arrays. The actor's vector may
    /// also have parameters with the extra names.
    pub(super) fn nets(&self, py: Python<'_>, besides: &[&str]) -> PyResult<(Sizes, Nets)> {
        let [of_actor, of_critics] = self.parameters;
        let (of_actor, of_critics) = (incoming::layout(of_actor)?, incoming::layout(of_critics)?);
        let activation = Activation::named(self.activation).or_raise(py)?;
        let [size, given] = self.sizes;
        let hidden = incoming::hidden(self.hidden[0], "actor")?;
        let sizes = [&[self.obs_dim], hidden.as_slice(), &[given]].concat();
        let actor = Mlp::new(&of_actor, "actor", &sizes, activation).or_raise(py)?;
        let own = named("actor", &sizes);
        if let Some((name, ..)) = of_actor
            .arrays()
            .find(|(name, ..)| !besides.contains(name) && own.iter().all(|o| o.0 != *name))
        {
            let message = format!("parameter is {name}, which an actor of these widths has not");
            return Err(errors::new(py, Class::Config, message));
        }
        let of = CriticsArchitecture {
            members: self.members,
            obs_dim: self.obs_dim,
            size,
            hidden: incoming::hidden(self.hidden[1], "critic")?,
            activation,
        };
        let critics = Critics::new(&of_critics, &of).or_raise(py)?;
        let lens = [of_actor.len(), of_critics.len()];
        let sizes = Sizes { obs_dim: self.obs_dim, size, lens };
        Ok((sizes, ((actor, of_actor), (critics, of_critics))))
    }
}
