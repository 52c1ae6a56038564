"""Environments of packages that may not be installed: their ids, and how to install the packages."""

from __future__ import annotations

import importlib.util
from typing import Any

from rlox.extras import install_command

__all__ = ["ATARI_IDS", "OPTIONAL_PACKAGE_IDS", "install_hint"]

# Ids that ale-py 0.12 registers on import: one per game, by the name of its ROM.
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

# Ids that minigrid 3.2 registers on import, except the generated WFC ones and BabyAI's.
_GRIDS = (
    "BlockedUnlockPickup", "DistShift1", "DistShift2", "DoorKey-16x16", "DoorKey-5x5",
    "DoorKey-6x6", "DoorKey-8x8", "Dynamic-Obstacles-16x16", "Dynamic-Obstacles-5x5",
    "Dynamic-Obstacles-6x6", "Dynamic-Obstacles-8x8", "Dynamic-Obstacles-Random-5x5",
    "Dynamic-Obstacles-Random-6x6", "Empty-16x16", "Empty-5x5", "Empty-6x6", "Empty-8x8",
    "Empty-Random-5x5", "Empty-Random-6x6", "Fetch-5x5-N2", "Fetch-6x6-N2", "Fetch-8x8-N3",
    "FourRooms", "GoToDoor-5x5", "GoToDoor-6x6", "GoToDoor-8x8", "GoToObject-6x6-N2",
    "GoToObject-8x8-N2", "KeyCorridorS3R1", "KeyCorridorS3R2", "KeyCorridorS3R3", "KeyCorridorS4R3",
    "KeyCorridorS5R3", "KeyCorridorS6R3", "LavaCrossingS11N5", "LavaCrossingS9N1",
    "LavaCrossingS9N2", "LavaCrossingS9N3", "LavaGapS5", "LavaGapS6", "LavaGapS7", "LockedRoom",
    "MemoryS11", "MemoryS13", "MemoryS13Random", "MemoryS17Random", "MemoryS7", "MemoryS9",
    "MultiRoom-N2-S4", "MultiRoom-N4-S5", "MultiRoom-N6", "ObstructedMaze-1Dl",
    "ObstructedMaze-1Dlh", "ObstructedMaze-1Dlhb", "ObstructedMaze-1Q", "ObstructedMaze-2Dl",
    "ObstructedMaze-2Dlh", "ObstructedMaze-2Dlhb", "ObstructedMaze-2Q", "ObstructedMaze-Full",
    "Playground", "PutNear-6x6-N2", "PutNear-8x8-N3", "RedBlueDoors-6x6", "RedBlueDoors-8x8",
    "SimpleCrossingS11N5", "SimpleCrossingS9N1", "SimpleCrossingS9N2", "SimpleCrossingS9N3",
    "Unlock", "UnlockPickup",
)  # fmt: skip
# Ids that these packages register when they are imported.
OPTIONAL_PACKAGE_IDS = (*ATARI_IDS, *(f"MiniGrid-{grid}-v0" for grid in _GRIDS))

# Prefix of an environment's entry point -> (imported module, extra or command that installs it).
_NEEDS = {
    "ale_py": ("ale_py", "atari"),
    "gymnasium.envs.box2d": ("Box2D", "box2d"),
    "gymnasium.envs.mujoco": ("mujoco", "mujoco"),
    "gymnasium.envs.phys2d": ("jax", "pip install 'gymnasium[jax]'"),
    "minigrid": ("minigrid", "minigrid"),
    "gymnasium.envs.tabular": ("jax", "pip install 'gymnasium[jax]'"),
}


def install_hint(entry_point: Any) -> str | None:
    """Return the command that installs the package that an entry point lacks; `None` if it lacks none."""
    if not isinstance(entry_point, str):
        return None
    for package, (module, extra) in _NEEDS.items():
        if entry_point.startswith(package) and importlib.util.find_spec(module) is None:
            return extra if extra.startswith("pip ") else install_command(extra)
    return None
