"""What papers compare with: central methods, their experiments, the audit of released figures."""
