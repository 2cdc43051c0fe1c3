"""Data of experiments."""

FIELDS = {
    "method", "epsilon", "accountant", "parties", "passes", "test_loss", "test_loss_std", "test_error", "gradient_norm",
    "cpu_seconds", "seeds", "paper_test_loss",
}  # fmt: skip
