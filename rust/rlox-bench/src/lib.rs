#![doc = include_str!("../README.md")]

mod buffer;
mod env;
mod gae;
mod inputs;
mod llm;
mod math;
mod nn;
mod vtrace;

use rlox_core::Result;

/// Runs a kernel once on its inputs; it can be called many times.
pub type Work = Box<dyn FnMut() -> Result<()>>;

/// A kernel with fixed inputs.
pub struct Kernel {
    /// Unique name: `function/precision/size`.
    pub name: String,
    /// Steps, rewards, tokens or rows that one run works on.
    pub elements: usize,
    prepare: Box<dyn Fn() -> Result<Work>>,
}

impl Kernel {
    fn new(name: impl Into<String>, elements: usize, prepare: impl Fn() -> Result<Work> + 'static) -> Self {
        Self { name: name.into(), elements, prepare: Box::new(prepare) }
    }

    /// Draws the inputs and returns the function that runs the kernel.
    ///
    /// # Errors
    /// The errors of the kernel; these inputs cause none.
    pub fn prepare(&self) -> Result<Work> {
        (self.prepare)()
    }
}

/// Returns every kernel.
#[must_use]
pub fn kernels() -> Vec<Kernel> {
    let all = [
        gae::kernels(),
        vtrace::kernels(),
        llm::kernels(),
        math::kernels(),
        nn::kernels(),
        env::kernels(),
        buffer::kernels(),
    ];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_kernel_runs_twice_and_has_a_name_of_its_own() {
        let all = kernels();
        let names: HashSet<&str> = all.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        for kernel in &all {
            let mut work = kernel.prepare().unwrap();
            assert!(kernel.elements > 0);
            assert!(work().and_then(|()| work()).is_ok(), "{}", kernel.name);
        }
    }
}
