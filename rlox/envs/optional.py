"""Environments that need a package which may not be installed: which ids they have and what installs it."""

from __future__ import annotations

import importlib.util
from typing import Any

__all__ = ["ATARI_IDS", "lacking"]

# What ale-py 0.12 registers once it is imported: a game each, as its ROMs are called.
_GAMES = (
    "Adventure", "AirRaid", "Alien", "Amidar", "Assault", "Asterix", "Asteroids", "Atlantis",
    "Atlantis2", "Backgammon", "BankHeist", "BasicMath", "BattleZone", "BeamRider", "Berzerk",
    "Blackjack", "Bowling", "Boxing", "Breakout", "Carnival", "Casino", "Centipede",
    "ChopperCommand", "CrazyClimber", "Crossbow", "Darkchambers", "Defender", "DemonAttack",
    "DonkeyKong", "DoubleDunk", "Earthworld", "ElevatorAction", "Enduro", "Entombed", "Et",
    "FishingDerby", "FlagCapture", "Freeway", "Frogger", "Frostbite", "Galaxian", "Gopher",
    "Gravitar", "Hangman", "HauntedHouse", "Hero", "HumanCannonball", "IceHockey", "Jamesbond",
    "JourneyEscape", "Kaboom", "Kangaroo", "KeystoneKapers", "KingKong", "Klax", "Koolaid",
    "Krull", "KungFuMaster", "LaserGates", "LostLuggage", "MarioBros", "MiniatureGolf",
    "MontezumaRevenge", "MrDo", "MsPacman", "NameThisGame", "Othello", "Pacman", "Phoenix",
    "Pitfall", "Pitfall2", "Pong", "Pooyan", "PrivateEye", "Qbert", "Riverraid", "RoadRunner",
    "Robotank", "Seaquest", "SirLancelot", "Skiing", "Solaris", "SpaceInvaders", "SpaceWar",
    "StarGunner", "Superman", "Surround", "Tennis", "Tetris", "TicTacToe3D", "TimePilot",
    "Trondead", "Turmoil", "Tutankham", "UpNDown", "Venture", "VideoCheckers", "VideoChess",
    "VideoCube", "VideoPinball", "WizardOfWor", "WordZapper", "YarsRevenge", "Zaxxon",
)  # fmt: skip
ATARI_IDS = tuple(f"ALE/{game}-v5" for game in _GAMES)

# Where an environment's class is -> (what it imports, what installs that).
_NEEDS = {
    "ale_py": ("ale_py", "pip install 'rlox[atari]'"),
    "gymnasium.envs.box2d": ("Box2D", "pip install 'rlox[box2d]'"),
    "gymnasium.envs.mujoco": ("mujoco", "pip install 'rlox[mujoco]'"),
    "gymnasium.envs.phys2d": ("jax", "pip install 'gymnasium[jax]'"),
    "minigrid": ("minigrid", "pip install 'rlox[minigrid]'"),
    "gymnasium.envs.tabular": ("jax", "pip install 'gymnasium[jax]'"),
}


def lacking(entry_point: Any) -> str | None:
    """The line that installs what an environment lacks, by its entry point; `None` if it lacks nothing."""
    if not isinstance(entry_point, str):
        return None
    for home, (module, install) in _NEEDS.items():
        if entry_point.startswith(home) and importlib.util.find_spec(module) is None:
            return install
    return None
