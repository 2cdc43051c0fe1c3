"""How much noise does an ε cost? The least noise for a study's size, without any data.

    python examples/least_noise.py

The same as `parley privacy calibrate`, as a function. The figure is the noise's standard deviation over the most
that one record can change the sum.
"""

from parley.privacy.accountants import accountant
from parley.privacy.calibration import smallest_noise
from parley.privacy.event import Event, NeighbouringRelation, SampledGaussian
from parley.privacy.sampling import FixedSize

RECORDS, BATCH, ROUNDS, DELTA = 32_561, 100, 651, 1e-5

release = SampledGaussian(FixedSize(RECORDS, BATCH), noise_multiplier=1.0, count=ROUNDS)
event = Event((release,), NeighbouringRelation.REPLACE_ONE)
for epsilon in (0.2, 0.5, 1.0, 2.0):
    noise, reading = smallest_noise(accountant("pld"), event, epsilon, DELTA)
    print(f"epsilon {epsilon}: noise {noise:.3f}, which costs {reading.epsilon:.4f} at delta {DELTA:g}")
