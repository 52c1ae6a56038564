import rlox
# Create a CartPole environment (Rust-native, identical to gymnasium)
env = rlox.CartPole(seed=42)
obs = env.reset() # shape: (4,) -- [cart_pos, cart_vel, pole_angle, angular_vel]
total_reward = 0.0
for step in range(500):
    action = 1 if obs[2] > 0 else 0 # simple heuristic: push toward the pole
    result = env.step(action)
    obs = result["obs"] # next observation
    reward = result["reward"] # +1 for every step the pole stays up
    done = result["terminated"] or result["truncated"]
    total_reward += reward
    if done:
        print(f"Episode ended after {step + 1} steps, total reward: {total_reward}")
        break
