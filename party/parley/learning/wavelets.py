"""The scattering transform of images, of order two: public features, the same whatever the records are.

Mallat's cascade (Bruna and Mallat, 2013) with Morlet wavelets, as kymatio 0.3.0 computes it, down to its border and its
constants: wavelets of 2^j for j < scales at `angles` angles, moduli, once more, and a low-pass that leaves one
value for every 2^scales pixels. Filters are computed once from the shape alone. Each plane goes the same way, whatever
it holds: the time of a transform is a function of public numbers. The loops are in C (`parley.mpc.waves`), and here in
NumPy for machines that they are not compiled for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.mpc import waves
from parley.mpc.processor import Build

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Spectrum = NDArray[np.complexfloating[Any, Any]]

NEARLY_PI = 3.1415
"""What kymatio divides its Gaussians by: with pi itself every coefficient would differ in its fifth digit."""
COPIES = range(-2, 3)
"""Periods that a filter is summed over."""
FAINTEST = 1e-12
"""Entries of a filter below it are zero: times a pixel they would be denormal numbers, which take longer."""
PLANES_AT_ONCE = 64


@dataclass(frozen=True)
class Plan:
    """All of a transform that does not depend on an image."""

    height: int
    width: int
    scales: int
    angles: int

    @property
    def padded(self) -> tuple[int, int]:
        """Whole multiples of 2^scales, with at least one more of them all around in all."""
        coarse = 2**self.scales
        height, width = (((each + coarse) // coarse + 1) * coarse for each in (self.height, self.width))
        return height, width

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one plane's coefficients: channels, height, width."""
        return self.sizes.shape

    @cached_property
    def border(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which row, and which column, of an image stands at each of the padded one: mirrored at its edges."""
        rows, columns = (
            np.pad(np.arange(size), ((full - size) // 2, (full - size + 1) // 2), mode="reflect")
            for size, full in zip((self.height, self.width), self.padded, strict=True)
        )
        return rows, columns

    @cached_property
    def wavelets(self) -> dict[tuple[int, int], Singles]:
        """In Fourier space, real: [angles, height, width] by scale and by the halvings of what it is applied to.

        Divided by what is folded into one number afterwards, for which a mean is taken.
        """
        found = {}
        for scale in range(self.scales):
            whole = np.stack([self._wavelet(scale, angle) for angle in range(self.angles)])
            for halved in range(scale + 1):
                found[scale, halved] = _solid(_halved(_halved(whole, halved, -2), halved, -1) / 4 ** (scale - halved))
        return found

    @cached_property
    def averages(self) -> list[tuple[Singles, Singles]]:
        """By halvings: the matrices that smooth rows and columns and keep those that are not border."""
        return [
            (self._average(self.padded[0], halved), self._average(self.padded[1], halved))
            for halved in range(self.scales)
        ]

    @property
    def sizes(self) -> waves.Sizes:
        return waves.Sizes(self.height, self.width, *self.padded, self.scales, self.angles)

    @cached_property
    def tables(self) -> list[Singles]:
        """All that `parley.mpc.waves` needs of it, in its order."""
        found: list[Singles] = []
        for halved, averages in enumerate(self.averages):
            found += [*(_roots(each >> halved) for each in self.padded), *averages]
        return found + [self.wavelets[scale, halved] for scale in range(self.scales) for halved in range(scale + 1)]

    def _wavelet(self, scale: int, angle: int) -> Floats:
        sigma, frequency = 0.8 * 2**scale, 0.75 * np.pi / 2**scale
        turn = (int(self.angles - self.angles / 2 - 1) - angle) * np.pi / self.angles
        wave = _gabor(self.padded, sigma, turn, frequency, 4 / self.angles)
        bump = _gabor(self.padded, sigma, turn, 0.0, 4 / self.angles)
        return np.asarray(np.real(np.fft.fft2(wave - wave.sum() / bump.sum() * bump)))

    def _average(self, size: int, halved: int) -> Singles:
        """A Gaussian, which is one of the rows times one of the columns."""
        sigma = 0.8 * 2 ** (self.scales - 1)
        places = np.add.outer(np.array(COPIES) * size, np.arange(size))
        bump = np.exp(-(places**2) / (2 * sigma**2)).sum(axis=0) / (sigma * np.sqrt(2 * NEARLY_PI))
        low = _halved(np.real(np.fft.fft(bump)), halved, -1)
        smooth = np.fft.ifft(low[:, None] * np.fft.fft(np.eye(size >> halved), axis=0), axis=0)
        return _solid(np.real(smooth)[:: 2 ** (self.scales - halved)][1:-1])


def _roots(size: int) -> Singles:
    """exp(-2πik/size) for all k: real parts, then imaginary ones."""
    angle = -2 * np.pi * np.arange(size) / size
    return np.stack([np.cos(angle), np.sin(angle)]).astype(np.float32)


def channels(scales: int, angles: int) -> int:
    """Of one plane: the smoothed image, one for each wavelet, and one for each wavelet with each coarser one."""
    return waves.Sizes(0, 0, 0, 0, scales, angles).channels


@lru_cache(maxsize=4)
def plan(height: int, width: int, scales: int, angles: int) -> Plan:
    return Plan(height, width, scales, angles)


def scattered(planes: Singles, found: Plan) -> Singles:
    """float32[n, height, width] to float32[n, channels, height', width'], as fast as this machine can."""
    compiled = waves.builds()
    return scattered_by(compiled[0], planes, found) if compiled else scattered_in_numpy(planes, found)


def scattered_by(build: Build, planes: Singles, found: Plan) -> Singles:
    """The same by compiled loops."""
    return waves.scatter(np.ascontiguousarray(planes), found.sizes, *found.border, found.tables, build)


def scattered_in_numpy(planes: Singles, found: Plan) -> Singles:
    """The same where nothing was compiled, to six digits."""
    into = np.empty((len(planes), *found.shape), np.float32)
    for start in range(0, len(planes), PLANES_AT_ONCE):
        part = planes[start : start + PLANES_AT_ONCE]
        for channel, coefficients in enumerate(_cascade(part, found)):
            into[start : start + len(part), channel] = coefficients
    return into


def _cascade(planes: Singles, found: Plan) -> Iterator[Singles]:
    """One channel after the other, in kymatio's order: by order, then by scales and angles."""
    rows, columns = found.border
    padded = planes[:, rows[:, None], columns]
    spectrum = _spectrum(padded)
    yield _smooth(padded, found, 0)
    later: list[Singles] = []
    for scale in range(found.scales):
        for angle in range(found.angles):
            first = _modulus(spectrum * found.wavelets[scale, 0][angle], scale)
            yield _smooth(first, found, scale)
            if scale + 1 < found.scales:
                later += _second(_spectrum(first), scale, found)
    yield from later


def _second(spectrum: Spectrum, before: int, found: Plan) -> Iterator[Singles]:
    for scale in range(before + 1, found.scales):
        for wavelet in found.wavelets[scale, before]:
            yield _smooth(_modulus(spectrum * wavelet, scale - before), found, scale)


def _modulus(spectrum: Spectrum, halvings: int) -> Singles:
    """Of every 2^halvings-th pixel: folded in Fourier space, which is the same; wavelets have the factor."""
    for _ in range(halvings):
        height, width = (each // 2 for each in spectrum.shape[1:])
        half = spectrum[:, :height] + spectrum[:, height:]
        spectrum = half[:, :, :width] + half[:, :, width:]
    return np.abs(np.fft.ifft2(spectrum))


def _spectrum(planes: Singles) -> Spectrum:
    """Of complex numbers: NumPy takes ten times as long for real ones of this kind."""
    return np.asarray(np.fft.fft2(planes.astype(np.complex64)))


def _smooth(planes: Singles, found: Plan, halved: int) -> Singles:
    rows, columns = found.averages[halved]
    return np.asarray(rows @ planes @ columns.T)


def _gabor(size: tuple[int, int], sigma: float, turn: float, frequency: float, slant: float) -> NDArray[np.complex128]:
    """A wave under a bell, of period `size`."""
    cos, sin = np.cos(turn), np.sin(turn)
    y, x = (np.add.outer(np.array(COPIES) * each, np.arange(each)).ravel() for each in size)
    along, across = np.add.outer(y * cos, x * sin), np.add.outer(-y * sin, x * cos)
    wave = np.exp(-(along**2 + slant**2 * across**2) / (2 * sigma**2) + 1j * frequency * along)
    count = len(COPIES)
    periods = wave.reshape(count, size[0], count, size[1]).sum(axis=(0, 2))
    return np.asarray(periods / (2 * NEARLY_PI * sigma**2 / slant))


def _halved(spectrum: Floats, halvings: int, axis: int) -> Floats:
    """A filter for what has every 2^halvings-th pixel: low frequencies only, the others cut off."""
    if not halvings:
        return spectrum
    size = spectrum.shape[axis]
    kept, half = size >> halvings, size >> halvings + 1
    return np.concatenate(
        [np.take(spectrum, range(half), axis), np.take(spectrum, range(size - (kept - half), size), axis)], axis
    )


def _solid(values: Floats) -> Singles:
    return np.ascontiguousarray(np.where(np.abs(values) < FAINTEST, 0.0, values), np.float32)
