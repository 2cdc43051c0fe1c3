"""TensorBoard: event files in a folder of this machine, one folder a run. `parley.tracking.process` runs it."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parley.coordinator.store import RunRow
from parley.tracking.errors import TrackingError
from parley.tracking.process import main
from parley.tracking.released import Point


class TensorBoardSink:
    """`tensorboard --logdir FOLDER` shows it."""

    def __init__(self, place: Path | str) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.types_pb2 import DT_STRING
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary, self._metadata = Event, Summary, SummaryMetadata
        self._tensor, self._string, self._writer_of = TensorProto, DT_STRING, EventFileWriter
        self._folder = Path(place)
        self._writers: dict[str, Any] = {}

    def begin(self, row: RunRow, told: dict[str, str]) -> str:
        text = "\n".join(f"    {name}: {value}" for name, value in told.items())
        self._write(row.run, [self._text("run", text, row.started or row.submitted)])
        return row.run

    def log(self, run: str, found: Sequence[Point]) -> None:
        events = []
        for each in found:
            value = self._summary.Value(tag=each.name, simple_value=each.value)
            events.append(self._event(step=each.step, wall_time=each.at, summary=self._summary(value=[value])))
        self._write(run, events)

    def end(self, run: str, row: RunRow, files: Sequence[Path]) -> None:
        for path in files:
            shutil.copyfile(path, self._folder / run / path.name)
            if path.suffix == ".json":
                said = "\n".join(f"    {line}" for line in path.read_text().splitlines())
                self._write(run, [self._text("card", said, row.ended or row.submitted)])
        if writer := self._writers.pop(run, None):
            writer.close()

    def _text(self, tag: str, text: str, at: float) -> Any:
        tensor = self._tensor(dtype=self._string, string_val=[text.encode()])
        tensor.tensor_shape.dim.add(size=1)
        metadata = self._metadata(plugin_data=self._metadata.PluginData(plugin_name="text"))
        value = self._summary.Value(tag=tag, metadata=metadata, tensor=tensor)
        return self._event(step=0, wall_time=at, summary=self._summary(value=[value]))

    def _write(self, run: str, events: Sequence[Any]) -> None:
        """On the disk when this returns, as far as the library can tell."""
        try:
            if run not in self._writers:
                self._writers[run] = self._writer_of(str(self._folder / run))
            for each in events:
                self._writers[run].add_event(each)
            self._writers[run].flush()
        except OSError as error:
            raise TrackingError(f"{self._folder} cannot be written ({error.strerror}): check the folder") from None


if __name__ == "__main__":
    main("tensorboard", lambda track: track.tensorboard, TensorBoardSink)
