"""Speed of the exact private queries beside plain NumPy: the table in docs/learning.md.

OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/gradients.py
"""

from parley.bench.gradient_bench import measure

if __name__ == "__main__":
    print("| model | query | batch | thousand records/s | plain NumPy | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for row in measure():
        speeds = f"{row['records_per_second'] / 1e3:,.0f} | {row['baseline_records_per_second'] / 1e3:,.0f}"
        print(f"| {row['model']} | {row['query']} | {row['batch']} | {speeds} | {row['ratio']:.2f} |")
