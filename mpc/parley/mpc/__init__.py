"""Two-party computation: secret-shared sums and jointly sampled Gaussian noise."""
