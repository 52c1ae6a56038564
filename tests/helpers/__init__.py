"""Small environments, policies with known answers, and slow definitions for comparison."""
