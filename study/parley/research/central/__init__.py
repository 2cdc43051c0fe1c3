"""Methods whose noise is a party's own: for research only, no federation runs them (parley.research.central.method)."""
