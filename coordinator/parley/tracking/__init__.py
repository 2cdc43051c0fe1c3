"""What MLflow and TensorBoard are told of a coordinator's runs: released values, by processes of their own."""
