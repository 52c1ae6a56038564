"""Names of Stable-Baselines3: the supported ones, and hints for the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rlox.errors import UnknownNameError

__all__ = ["SB3Aliases"]

# Arguments of `learn`.
LEARN_ARGUMENTS = {
    "progress_bar": "progress=True",
    "callback": "callbacks=... where the algorithm is made",
    "log_interval": "a command-line setting: rlox train log.every=STEPS",
    "tb_log_name": "a command-line setting: rlox train logger=tensorboard run.name=TEXT",
    "reset_num_timesteps": "not needed: totals count from the start; a new object starts at step 0",
}
# Attributes and methods of a model.
MODEL_ATTRIBUTES = {
    "num_timesteps": "clock.env_steps",
    "env": "env_id, the name of the environment; training and evaluate() step separate copies",
    "get_env": "env_id, the name of the environment; training and evaluate() step separate copies",
    "set_env": "from_checkpoint(path, env=...), after save(path)",
    "logger": "logger=... where the algorithm is made; summary() has the last metrics",
    "set_logger": "logger=... where the algorithm is made",
    "observation_space": "gymnasium.make(env_id).observation_space",
    "action_space": "gymnasium.make(env_id).action_space",
    "set_parameters": "policy.load_state_dict(...)",
    "get_parameters": "policy.state_dict()",
    "save_replay_buffer": "save(path), which writes the buffer too",
    "load_replay_buffer": "from_checkpoint(path), which reads the buffer too",
}


class SB3Aliases(ABC):
    """Adds `learn`, and hints for names of Stable-Baselines3 that rlox does not have."""

    # End of a hint: the attribute that has the names, such as `.algo`; empty if the object has them itself.
    _hint_suffix: ClassVar[str] = ""

    @abstractmethod
    def train(self, total_timesteps: int, progress: bool = False) -> dict[str, float]:
        """Train until the run has made `total_timesteps` steps."""

    def learn(self, total_timesteps: int, progress: bool = False, **unknown: Any) -> dict[str, float]:
        """Call `train`; `learn` is its name in Stable-Baselines3. The total counts from the start of the run.

        Raises `UnknownNameError` for any other argument. The message names what rlox has instead, if it can.
        """
        for name in unknown:
            hint = f"; here that is {LEARN_ARGUMENTS[name]}" if name in LEARN_ARGUMENTS else ""
            raise UnknownNameError(f"unknown argument '{name}' for learn{hint}")
        return self.train(total_timesteps, progress=progress)

    @classmethod
    def load(cls, path: str | Path, env_id: Any = None, **options: Any) -> Self:
        """Call `from_checkpoint`, under its Stable-Baselines3 name."""
        facade: Any = cls
        loaded: Self = facade.from_checkpoint(path, env_id, **options)
        return loaded

    if not TYPE_CHECKING:  # a type checker should see only the names that exist

        def __getattr__(self, name: str) -> Any:
            """Raise `AttributeError`; for a name of Stable-Baselines3 it says what rlox has instead."""
            if name not in MODEL_ATTRIBUTES:
                return object.__getattribute__(self, name)  # raises the usual error
            raise AttributeError(
                f"{type(self).__name__} has no {name}; here that is "
                f"{MODEL_ATTRIBUTES[name]}{self._hint_suffix}"
            )

        def __setattr__(self, name: str, value: Any) -> None:
            """Raise `AttributeError` for a configuration field: setting it would not change learning."""
            attributes = vars(self)
            if name not in attributes and getattr(type(self), name, None) is None:
                config = attributes.get("config") or getattr(attributes.get("algo"), "config", None)
                sections = () if config is None else (config.algo, config.buffer, config.env)
                if any(name in {field.name for field in fields(section)} for section in sections):
                    class_name = type(self).__name__
                    raise AttributeError(
                        f"{class_name}.{name} cannot be set: learning uses the arguments that {class_name} "
                        f"was made with; give the value there, {class_name}(..., {name}={value!r:.40}), or "
                        "give a schedule for a value that changes"
                    )
            object.__setattr__(self, name, value)
