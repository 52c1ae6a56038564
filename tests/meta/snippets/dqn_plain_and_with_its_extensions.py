from rlox.algorithms import DQN
# Vanilla DQN
dqn = DQN("CartPole-v1", seed=42)
# Rainbow-style DQN
dqn = DQN(
    "CartPole-v1",
    double_dqn=True, # use online network for action selection
    dueling=True, # separate value and advantage streams
    n_step=3, # 3-step returns
    prioritized=True, # prioritized experience replay
    seed=42,
)
metrics = dqn.train(total_timesteps=50_000)
