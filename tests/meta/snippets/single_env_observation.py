import rlox

env = rlox.CartPole(seed=0)
obs = env.reset()
print(obs) # e.g. array([ 0.0273, -0.0048, -0.0208, 0.0321], dtype=float32)
