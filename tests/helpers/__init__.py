"""Small environments, policies with known answers, and slow definitions to compare with."""
