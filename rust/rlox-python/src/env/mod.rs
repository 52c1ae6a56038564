//! Native environments for Python.

mod actions;
mod native_env;
mod single;
mod snapshot;
mod step;
mod vec_env;

pub use native_env::{PyNativeEnv, register};
pub use single::PySingleEnv;
pub(crate) use single::{PyAcrobot, PyCartPole, PyMountainCar, PyMountainCarContinuous, PyPendulum};
pub use step::native_env_ids;
pub use vec_env::PyVecEnv;
