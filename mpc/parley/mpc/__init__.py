"""Two-party computation: secret-shared sums and jointly sampled Gaussian noise. Imports no other folder of parley."""
