//! A tree of sums and minima over priorities, eight children to a node.
//!
//! Every parent is computed from its children in a fixed order and never adjusted by a difference.
//! So after any number of updates, the tree has the same bits as a new one.

use super::sum_node::{self, FAN, Node};
use crate::error::{Error, Result};
use crate::interrupt;

/// Sums and minima of the leaves below each node of one level.
#[derive(Debug, Clone, PartialEq)]
struct Level {
    /// Sums of the children, 8 to a node.
    sums: Vec<Node>,
    /// Smallest positive leaf below each child; infinity if there is none.
    mins: Vec<Node>,
}

impl Level {
    /// Computes the sum and minimum of node `index` of the level below, or of `leaves` if this is
    /// the lowest level.
    fn refresh(&mut self, index: usize, leaves: &[Node], below: Option<&Self>) {
        let (sum, min) = below.map_or_else(
            || sum_node::leaf_totals(leaves, index),
            |below| sum_node::node_totals(&below.sums, &below.mins, index),
        );
        sum_node::set_child(&mut self.sums, index, sum);
        sum_node::set_child(&mut self.mins, index, min);
    }
}

/// Non-negative finite weights of `len` leaves, with their total, minimum and inverse cumulative
/// sum.
///
/// A leaf of weight 0 is empty: it is never found and not part of the minimum.
#[derive(Debug, Clone, PartialEq)]
pub struct SumTree {
    len: usize,
    leaves: Vec<Node>,
    /// The level above the leaves comes first. The last level has one node.
    levels: Vec<Level>,
}

impl SumTree {
    /// Makes a tree of `len` empty leaves.
    ///
    /// # Errors
    /// [`Error::Config`] if `len` is 0 or the tree does not fit into memory, and
    /// [`Error::Interrupted`].
    pub fn new(len: usize) -> Result<Self> {
        if len == 0 {
            return Err(Error::config("capacity", len, "at least 1"));
        }
        let mut nodes = len.div_ceil(FAN);
        let leaves = make_nodes(nodes, 0.0)?;
        let mut levels = Vec::new();
        loop {
            nodes = nodes.div_ceil(FAN);
            levels.push(Level { sums: make_nodes(nodes, 0.0)?, mins: make_nodes(nodes, f64::INFINITY)? });
            if nodes == 1 {
                return Ok(Self { len, leaves, levels });
            }
        }
    }

    /// Returns the number of leaves.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether every leaf is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total() <= 0.0
    }

    /// Returns the weight of a leaf; 0 after the last one.
    #[must_use]
    pub fn get(&self, leaf: usize) -> f64 {
        sum_node::child(&self.leaves, leaf)
    }

    /// Returns the sum of all weights. Children are summed from left to right, level by level.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.levels.last().and_then(|top| top.sums.first()).map_or(0.0, sum_node::sum)
    }

    /// Returns the smallest positive weight; infinity if there is none.
    #[must_use]
    pub fn min(&self) -> f64 {
        let top = self.levels.last().and_then(|top| top.mins.first());
        top.map_or(f64::INFINITY, sum_node::min)
    }

    /// Sets the weight of one leaf.
    ///
    /// # Errors
    /// Same as [`SumTree::set_many`]. Nothing is changed then.
    pub fn set(&mut self, leaf: usize, weight: f64) -> Result<()> {
        check_leaf(leaf, weight, self.len)?;
        sum_node::set_child(&mut self.leaves, leaf, weight);
        let mut node = leaf / FAN;
        let mut below: Option<&Level> = None;
        for level in &mut self.levels {
            level.refresh(node, &self.leaves, below);
            node /= FAN;
            below = Some(level);
        }
        Ok(())
    }

    /// Sets the weights of `leaves`, in their order. If a leaf occurs twice, the last weight
    /// counts.
    ///
    /// Leaves in rising order cost least.
    ///
    /// # Errors
    /// Nothing is changed if there is an error.
    /// - [`Error::Shape`] if the lengths differ.
    /// - [`Error::Config`] if a leaf does not exist, or a weight is negative or not finite.
    pub fn set_many(&mut self, leaves: &[usize], weights: &[f64]) -> Result<()> {
        crate::error::check_len("weights", weights.len(), leaves.len(), "one for each leaf")?;
        for (&leaf, &weight) in leaves.iter().zip(weights) {
            check_leaf(leaf, weight, self.len)?;
        }
        for (&leaf, &weight) in leaves.iter().zip(weights) {
            sum_node::set_child(&mut self.leaves, leaf, weight);
        }
        let mut parent_nodes: Vec<usize> = Vec::with_capacity(leaves.len());
        parents(leaves, &mut parent_nodes);
        self.refresh(&mut parent_nodes);
        Ok(())
    }

    /// Empties every leaf.
    pub fn clear(&mut self) {
        self.leaves.fill(Node::filled(0.0));
        for level in &mut self.levels {
            level.sums.fill(Node::filled(0.0));
            level.mins.fill(Node::filled(f64::INFINITY));
        }
    }

    /// Computes the ancestors of these leaf nodes again.
    fn refresh(&mut self, dirty_nodes: &mut Vec<usize>) {
        let mut below: Option<&Level> = None;
        let mut above = Vec::with_capacity(dirty_nodes.len());
        for level in &mut self.levels {
            let n_children = level.sums.len() * FAN;
            if dirty_nodes.len() > n_children {
                // There are duplicates. Computes each node once.
                dirty_nodes.clear();
                dirty_nodes.extend(0..n_children);
            }
            for &node in dirty_nodes.iter() {
                level.refresh(node, &self.leaves, below);
            }
            above.clear();
            parents(dirty_nodes, &mut above);
            std::mem::swap(dirty_nodes, &mut above);
            below = Some(level);
        }
    }

    /// Fills `leaves` with the leaf of each of `points` in [0, total): the first whose cumulative
    /// sum exceeds the point. `points` is overwritten.
    ///
    /// If rounding puts a point at or after the end of the sum, its leaf is the last that is not
    /// empty. In an empty tree it is leaf 0.
    pub fn find_many(&self, points: &mut [f64], leaves: &mut Vec<usize>) {
        leaves.clear();
        leaves.resize(points.len(), 0);
        // Level by level, so that descents of different points do not wait for each other's cache
        // misses.
        let sums = self.levels.iter().rev().map(|level| &level.sums).chain([&self.leaves]);
        for nodes in sums {
            for (point, node) in points.iter_mut().zip(leaves.iter_mut()) {
                *node = sum_node::descend(nodes, *node, point);
            }
        }
    }

    /// Returns the leaf of one point; see [`SumTree::find_many`].
    #[must_use]
    pub fn find(&self, point: f64) -> usize {
        let mut leaves = Vec::with_capacity(1);
        self.find_many(&mut [point], &mut leaves);
        leaves.first().copied().unwrap_or(0)
    }
}

fn check_leaf(leaf: usize, weight: f64, len: usize) -> Result<()> {
    if leaf >= len {
        return Err(Error::config("leaf", leaf, format!("less than {len}")));
    }
    if !(weight.is_finite() && weight >= 0.0) {
        return Err(Error::config("weight", weight, "a finite number, 0 or more"));
    }
    Ok(())
}

/// Appends the parents of `nodes` in their order, without equal neighbours.
fn parents(nodes: &[usize], out: &mut Vec<usize>) {
    out.extend(nodes.iter().map(|node| node / FAN));
    out.dedup();
}

fn make_nodes(count: usize, fill: f64) -> Result<Vec<Node>> {
    let mut nodes = Vec::new();
    nodes.try_reserve_exact(count).map_err(|_| {
        Error::config("capacity", count.saturating_mul(FAN), "a number of rows that fits into memory")
    })?;
    while nodes.len() < count {
        interrupt::check()?;
        nodes.resize(count.min(nodes.len() + interrupt::PIECE), Node::filled(fill));
    }
    Ok(nodes)
}
