"""Methods whose noise is a party's own: for research only, no federation runs them (deploy/central/method.py)."""
