"""An event file by TensorBoard's own classes and writer, for tests/events_spec.lua: events.tfevents.

python3 -m pip install tensorboard; python3 make_events.py. Made by tensorboard 2.21.0.
"""
import bisect
import io

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.summary.writer.record_writer import RecordWriter


def histogram(values):
    """Buckets as in tensorflow/core/lib/histogram/histogram.cc."""
    limits, limit = [], 1e-12
    while limit < 1e20:
        limits.append(limit)
        limit *= 1.1
    limits = [-x for x in reversed(limits)] + [0.0] + limits + [1.7976931348623157e308]
    counts = [0] * len(limits)
    for x in values:
        counts[bisect.bisect_right(limits, x)] += 1
    kept = [i for i in range(len(limits)) if counts[i] or counts[i + 1 : i + 2] > [0]]
    return HistogramProto(
        min=min(values), max=max(values), num=len(values), sum=sum(values), sum_squares=sum(x * x for x in values),
        bucket_limit=[limits[i] for i in kept], bucket=[counts[i] for i in kept])


def summary(time, step, *values):
    return Event(wall_time=time, step=step, summary=Summary(value=[Summary.Value(**value) for value in values]))


out = io.BytesIO()
writer = RecordWriter(out)
for event in (
    Event(wall_time=1.5, file_version="brain.Event:2"),
    summary(2.5, 7, dict(tag="loss", simple_value=0.1), dict(tag="lr/default", simple_value=float("inf"))),
    summary(3.5, -1, dict(tag="w", histo=histogram([-1, 0, 0.5, 0.5]))),
    Event(wall_time=4.5, step=9, session_log=SessionLog(status=SessionLog.START)),
):
    writer.write(event.SerializeToString())
with open("events.tfevents", "wb") as file:
    file.write(out.getvalue())
