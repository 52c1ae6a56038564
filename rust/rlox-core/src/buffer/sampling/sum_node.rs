//! A node of the [`super::SumTree`]: eight numbers on one cache line.

/// Children per node: eight `f64` fill a cache line.
pub(super) const FAN: usize = 8;

/// The numbers of a node's children.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
pub(super) struct Node([f64; FAN]);

impl Node {
    pub(super) fn filled(value: f64) -> Self {
        Self([value; FAN])
    }
}

/// Returns the number of child `index`, counted over all nodes; 0 after the last one.
pub(super) fn child(nodes: &[Node], index: usize) -> f64 {
    nodes.get(index / FAN).and_then(|node| node.0.get(index % FAN)).copied().unwrap_or(0.0)
}

/// Writes the number of child `index`, counted over all nodes.
pub(super) fn set_child(nodes: &mut [Node], index: usize, value: f64) {
    if let Some(slot) = nodes.get_mut(index / FAN).and_then(|node| node.0.get_mut(index % FAN)) {
        *slot = value;
    }
}

/// Returns the sum from left to right, which is also the last of the running sums in [`descend`].
pub(super) fn sum(node: &Node) -> f64 {
    node.0.iter().fold(0.0, |sum, value| sum + value)
}

/// Returns the smallest of a node's minima.
pub(super) fn min(node: &Node) -> f64 {
    node.0.iter().fold(f64::INFINITY, |smallest, &value| if value < smallest { value } else { smallest })
}

/// Returns the sum and the smallest positive number of a node of leaves.
pub(super) fn leaf_totals(leaves: &[Node], index: usize) -> (f64, f64) {
    leaves.get(index).map_or((0.0, f64::INFINITY), |node| {
        let positive = node.0.map(|value| if value > 0.0 { value } else { f64::INFINITY });
        (sum(node), min(&Node(positive)))
    })
}

/// Returns the sum and the minimum of a node above the leaves.
pub(super) fn node_totals(sums: &[Node], mins: &[Node], index: usize) -> (f64, f64) {
    let pair = sums.get(index).zip(mins.get(index));
    pair.map_or((0.0, f64::INFINITY), |(sums, mins)| (sum(sums), min(mins)))
}

/// Returns the child, counted over all nodes, whose share of node `index` contains `point`. `point`
/// becomes its distance from the start of that share.
///
/// There are no branches on the values, because a random point makes them unpredictable.
pub(super) fn descend(nodes: &[Node], index: usize, point: &mut f64) -> usize {
    let Some(node) = nodes.get(index) else { return index * FAN };
    let (mut passed, mut start, mut running) = (0, 0.0, 0.0);
    for value in node.0 {
        running += value;
        let is_passed = running <= *point;
        passed += usize::from(is_passed);
        start = if is_passed { running } else { start };
    }
    if passed == FAN {
        return index * FAN + last_filled(node);
    }
    *point -= start;
    index * FAN + passed
}

/// Returns the last child that is not empty; 0 if all are empty.
#[cold]
fn last_filled(node: &Node) -> usize {
    node.0.iter().rposition(|&value| value > 0.0).unwrap_or(0)
}
