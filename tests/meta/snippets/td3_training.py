from rlox.algorithms import TD3
td3 = TD3(
    "Pendulum-v1",
    policy_delay=2, # update actor every 2 critic updates
    target_noise=0.2, # smoothing noise for target policy
    noise_clip=0.5, # clip target noise
    seed=42,
)
metrics = td3.train(total_timesteps=20_000)
