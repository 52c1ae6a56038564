//! What engines of actors and critics of vectors are made of.

use pyo3::prelude::*;
use rlox_core::Layout;
use rlox_nn::cpu::{Activation, Critics, CriticsArchitecture, Mlp, Number, named};

use super::incoming;
use super::replayed::{Columns, Views, numbers};
use super::state::Adams;
use crate::errors::{self, Class, OrRaise};
use crate::memory::views::{Plain, View};

/// As Python gives it.
pub(super) struct Made<'a, 'py> {
    /// Names and shapes of the actor's parameters, and of the critics'.
    pub(super) parameters: [&'a Bound<'py, PyAny>; 2],
    pub(super) obs_dim: usize,
    /// Numbers of an action, and of what the actor gives.
    pub(super) sizes: [usize; 2],
    pub(super) members: usize,
    /// Widths of the actor's hidden layers, and of the critics'.
    pub(super) hidden: [&'a Bound<'py, PyAny>; 2],
    pub(super) activation: &'a str,
}

/// The networks, each with the layout of its parameters.
pub(super) type Nets = ((Mlp, Layout), (Critics, Layout));

/// The sizes that the arrays of a training have to fit.
pub(super) struct Sizes {
    pub(super) obs_dim: usize,
    size: usize,
    /// Numbers of the actor's vector, and of the critics'.
    pub(super) lens: [usize; 2],
}

impl Sizes {
    /// The batches, whose actions are vectors.
    pub(super) fn views<'py, F: Number + Plain>(
        &self,
        columns: &Columns<'_, 'py>,
    ) -> PyResult<Views<'py, F, F>> {
        columns.vectors(self.obs_dim, self.size)
    }

    /// As many rows as `rows` says, each with a number for each of an action's.
    pub(super) fn noise<'py, F: Plain>(
        &self,
        given: &Bound<'py, PyAny>,
        rows: &[usize],
    ) -> PyResult<View<'py, F>> {
        numbers(given, "noise", &[rows, &[self.size]].concat())
    }

    /// The actor's vector and the critics', with what Adam knows of them.
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
    /// The networks, and the sizes of what is done with them; the actor's vector has parameters called `besides`
    /// too.
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
