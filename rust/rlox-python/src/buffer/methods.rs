//! Macros for methods that are identical in several classes, because Python has no generic classes.
//!
//! A class that uses them has the fields `columns: Columns` and `buffer: Shared<B>`.

/// Implements `push` and `push_batch`, where `B` is [`Replay`](super::shared::Replay).
macro_rules! push_methods {
    ($class:ident) => {
        #[pymethods]
        impl $class {
            /// Stores one transition; with `n_envs > 1` one of each environment, and every argument
            /// has a leading axis `[n_envs]`.
            ///
            /// Args:
            ///     obs: the observation before the action, in the declared shape (if that is flat,
            ///         in any shape with the same number of elements), or a mapping for dict
            ///         observations.
            ///     action: a number or array.
            ///     reward: a number.
            ///     terminated: whether the state reached is terminal, so that its value is 0.
            ///     truncated: whether the episode was cut short, so that the state reached has a
            ///         value.
            ///     next_obs: the observation after the step; at the end of an episode its last
            ///         observation. If it is omitted, it is the next `obs` pushed for the same
            ///         environment (until then, and where the episode ends, `obs` itself).
            ///     extra: the extra columns, a dict by name.
            ///
            /// Raises:
            ///     ShapeError: an array has another shape, or the column cannot hold a number.
            ///     NonFiniteError: a flag is NaN.
            ///     StorageError: of a buffer on disk: a segment cannot be written, and memory has
            ///         no room for its rows.
            #[pyo3(
                signature = (obs, action, reward, terminated, truncated, next_obs=None, extra=None),
                text_signature = "($self, obs, action, reward, terminated, truncated, next_obs=None, extra=None)"
            )]
            #[expect(clippy::too_many_arguments, reason = "a transition has so many parts")]
            fn push<'py>(
                &self,
                py: Python<'py>,
                obs: &Bound<'py, PyAny>,
                action: &Bound<'py, PyAny>,
                reward: &Bound<'py, PyAny>,
                terminated: &Bound<'py, PyAny>,
                truncated: &Bound<'py, PyAny>,
                next_obs: Option<&Bound<'py, PyAny>>,
                extra: Option<&Bound<'py, PyDict>>,
            ) -> PyResult<()> {
                let (actions, rewards) = (action, reward);
                let pushed = PushArgs { obs, actions, rewards, terminated, truncated, next_obs, extra };
                shared::push(py, &self.columns, &self.buffer, pushed, None)
            }

            /// Stores consecutive transitions of one environment (of several with `env_ids`), oldest
            /// first. Each array has a leading axis `[n]`; the rest is as in `push`.
            ///
            /// Args:
            ///     env_ids: index of the environment of each row, `[n]`; the rows of an environment
            ///         are in time order. Without it all rows are of environment 0.
            ///
            /// Raises:
            ///     ShapeError, StorageError: as in `push`; rows before a segment that cannot be
            ///         written are stored.
            #[pyo3(
                signature = (obs, actions, rewards, terminated, truncated, next_obs=None, *, env_ids=None,
                    extra=None),
                text_signature = "($self, obs, actions, rewards, terminated, truncated, next_obs=None, *, env_ids=None, extra=None)"
            )]
            #[expect(clippy::too_many_arguments, reason = "a transition has so many parts")]
            fn push_batch<'py>(
                &self,
                py: Python<'py>,
                obs: &Bound<'py, PyAny>,
                actions: &Bound<'py, PyAny>,
                rewards: &Bound<'py, PyAny>,
                terminated: &Bound<'py, PyAny>,
                truncated: &Bound<'py, PyAny>,
                next_obs: Option<&Bound<'py, PyAny>>,
                env_ids: Option<&Bound<'py, PyAny>>,
                extra: Option<&Bound<'py, PyDict>>,
            ) -> PyResult<()> {
                let pushed = PushArgs { obs, actions, rewards, terminated, truncated, next_obs, extra };
                shared::push_batch(py, &self.columns, &self.buffer, pushed, None, env_ids)
            }
        }
    };
}

/// Implements the methods of every ring of rows, where `B` is [`Replay`](super::shared::Replay).
#[rustfmt::skip]
macro_rules! ring_methods {
    ($class:ident) => {
        #[pymethods]
        impl $class {
            /// The transitions with the indices `indices`, uint64 `[n]`, in the form that `sample`
            /// returns.
            ///
            /// Raises:
            ///     StaleIndexError: a row was overwritten or never written.
            ///     CheckpointError: a row of a buffer on disk is damaged; the message has the file
            ///         and the byte.
            #[pyo3(signature = (indices, *, out=None))]
            fn gather<'py>(
                &self,
                py: Python<'py>,
                indices: &Bound<'py, PyAny>,
                out: Option<&Bound<'py, PyDict>>,
            ) -> PyResult<Bound<'py, PyDict>> {
                shared::gather(py, &self.columns, &self.buffer, indices, out)
            }

            /// Ends the running episode of environment `env` after its newest transition, whatever
            /// its flags are: n-step windows and hindsight goals do not reach beyond it. Call this
            /// when an environment has crashed and was replaced.
            #[pyo3(signature = (env=IntegerArg::OMITTED), text_signature = "($self, env=0)")]
            fn cut_episode(&self, py: Python<'_>, env: IntegerArg<'_>) -> PyResult<()> {
                let env = settings::read_size(&env, "env", 0)?;
                let cost = shared::short_call_nanoseconds(&self.buffer);
                crate::detach::with_write_lock(py, &self.buffer, cost, |buffer| buffer.cut_episode(env))
            }

            fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
                crate::detach::with_read_lock(py, &self.buffer, 100, |buffer| Ok(rlox_core::buffer::Rows::rings(buffer.rows()).len()))
            }

            fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
                let (n_stored, capacity) = (slf.get().__len__(slf.py())?, slf.get().capacity(slf.py())?);
                let (name, n_envs) = (slf.get_type().name()?, slf.get().n_envs());
                Ok(format!("{name}({n_stored} of {capacity} transitions, n_envs={n_envs})"))
            }

            fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
                Err(crate::errors::not_copyable_error(slf, crate::errors::HOW_TO_MOVE))
            }

            /// Largest number of transitions, a multiple of `n_envs`.
            #[getter]
            fn capacity(&self, py: Python<'_>) -> PyResult<usize> {
                crate::detach::with_read_lock(py, &self.buffer, 100, |buffer| Ok(rlox_core::buffer::Rows::rings(buffer.rows()).capacity()))
            }

            /// Number of environments.
            #[getter]
            const fn n_envs(&self) -> usize {
                self.columns.n_envs()
            }
        }
    };
}

/// Implements the methods of every buffer in memory. `$from_spaces` is the signature of
/// `from_spaces`.
// rustfmt would move some of the attributes further to the right at each run.
#[rustfmt::skip]
macro_rules! memory_buffer_methods {
    ($class:ident, $from_spaces:tt) => {
        #[pymethods]
        impl $class {
            /// Makes a buffer for the observations and actions of Gymnasium spaces. A discrete
            /// action has the shape `(1,)` and the space's dtype. The other keywords are those of
            /// the constructor that do not follow from the spaces.
            ///
            /// Raises UnsupportedSpaceError for spaces whose elements are not arrays.
            #[classmethod]
            #[pyo3(
                signature = (observation_space, action_space, capacity, **keywords),
                text_signature = $from_spaces
            )]
            fn from_spaces<'py>(
                cls: &Bound<'py, pyo3::types::PyType>,
                observation_space: &Bound<'py, PyAny>,
                action_space: &Bound<'py, PyAny>,
                capacity: &Bound<'py, PyAny>,
                keywords: Option<&Bound<'py, PyDict>>,
            ) -> PyResult<Bound<'py, PyAny>> {
                settings::from_spaces(cls, observation_space, action_space, capacity, keywords)
            }

            /// Writes `values`, `[n, ...]`, into a column (`actions`, `rewards` or an extra one) of
            /// the rows with the indices `indices`, `[n]`. If an index occurs twice, its last value
            /// stays.
            ///
            /// Returns:
            ///     Number of skipped indices: their rows were overwritten in the meantime, or they
            ///     mark padding (2**64 - 1, which is -1 as int64).
            ///
            /// Raises StaleIndexError if a row was never written, or was dropped by `load` or
            /// `restore`; nothing changes then.
            fn update(
                &self,
                py: Python<'_>,
                column: TextArg<'_>,
                indices: &Bound<'_, PyAny>,
                values: &Bound<'_, PyAny>,
            ) -> PyResult<u64> {
                shared::update(py, &self.columns, &self.buffer, &column, indices, values)
            }

            /// Removes every transition; indices continue to count up.
            fn clear(&self, py: Python<'_>) -> PyResult<()> {
                crate::detach::detached(py, crate::detach::ALWAYS_RELEASE, || {
                    self.buffer.replace(|buffer| {
                        buffer.clear();
                        Ok(())
                    })
                })
            }

            /// The complete state of the buffer, as a flat dict of arrays, integers and strings.
            fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                state::save(py, &self.buffer)
            }

            /// Continues from the result of `state`, with the same rows, indices, draws and
            /// priorities. The buffer must have the same columns, capacity and number of
            /// environments (a prioritized buffer also the same alpha).
            ///
            /// Raises CheckpointError or ShapeError for a state that does not fit; nothing changes
            /// then.
            fn restore(&self, py: Python<'_>, state: &Bound<'_, PyDict>) -> PyResult<()> {
                state::restore(py, &self.buffer, state)
            }

            /// Saves the buffer as `name` in the folder `path`, which other saves and buffers may
            /// share.
            ///
            /// Rows that a segment of the folder already contains are only listed. So a save writes
            /// only the rows since the last one (after an `update`, the records of all rows, without
            /// observations). Segments that no save lists are removed. After the call the save
            /// survives a power failure; if the process is killed before its end, the earlier save
            /// of that name stays.
            ///
            /// Returns:
            ///     Number of bytes written for rows.
            ///
            /// Raises:
            ///     StorageError: the files cannot be written, or another process is writing there.
            ///     ConfigError: `name` has characters other than letters, digits, `_` and `-`, or
            ///         is `newest`.
            #[pyo3(
                signature = (path, name=TextArg::Omitted("last")),
                text_signature = "($self, path, name='last')"
            )]
            fn save(&self, py: Python<'_>, path: PathArg<'_>, name: TextArg<'_>) -> PyResult<u64> {
                let (path, name) = (path.read("path")?, name.read("name")?);
                crate::detach::detached(py, crate::detach::ALWAYS_RELEASE, || Ok(self.buffer.save(&path, &name)?.new_bytes))
            }

            /// Continues from a save, with the same rows, indices, draws and priorities. The saved
            /// buffer must have the same columns and size (a prioritized buffer also the same alpha). In
            /// the folder of a `MmapReplayBuffer` the name `newest` stands for the state that a reopened
            /// buffer starts from.
            ///
            /// Raises:
            ///     CheckpointError: a file is damaged (the message has the file and the byte) or
            ///         missing, or is from a buffer of another layout. Nothing changes then.
            #[pyo3(
                signature = (path, name=TextArg::Omitted("last")),
                text_signature = "($self, path, name='last')"
            )]
            fn load(&self, py: Python<'_>, path: PathArg<'_>, name: TextArg<'_>) -> PyResult<()> {
                let (path, name) = (path.read("path")?, name.read("name")?);
                crate::detach::detached(py, crate::detach::ALWAYS_RELEASE, || self.buffer.load(&path, &name))
            }

            /// Number of transitions pushed so far, overwritten ones included.
            #[getter]
            fn n_pushed(&self, py: Python<'_>) -> PyResult<u64> {
                crate::detach::with_read_lock(py, &self.buffer, 100, |buffer| Ok(buffer.rows().rings().n_pushed()))
            }

            /// Bytes of memory in use. All records and whole blocks of observations count, though
            /// the system provides memory only at the first write.
            #[getter]
            fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
                crate::detach::with_read_lock(py, &self.buffer, 1_000, |buffer| Ok(buffer.rows().nbytes()))
            }
        }
    };
}

pub(super) use {memory_buffer_methods, push_methods, ring_methods};
