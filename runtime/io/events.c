/* events: messages made by protobuf-c, framed as records. */
#include "io/events.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "io/event.pb-c.h"
#include "io/histogram.h"

/* The checksum of records: CRC-32C (Castagnoli; RFC 3720, B.4), four bits at a time. */
static uint32_t checksum(const uint8_t *bytes, size_t size) {
  static const uint32_t table[16] = { 0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                      0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                      0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                      0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75 };
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; i++) {
    crc ^= bytes[i];
    crc = crc >> 4 ^ table[crc & 15];
    crc = crc >> 4 ^ table[crc & 15];
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8; /* masked: a record may hold a checksum itself */
}

static void put(uint8_t *at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> 8 * i);
}

enum { HEAD = 12, TAIL = 4 }; /* bytes of a record around its message */

static void frame(uint8_t *record, size_t size) {
  put(record, size, 8);
  put(record + 8, checksum(record, 8), 4);
  put(record + HEAD + size, checksum(record + HEAD, size), 4);
}

static ol_status fail(ol_error *error) { return ol_fail(error, OL_FILE, "%s", strerror(errno)); }

static ol_status write_event(ol_error *error, ol_events *events, const Ol__Event *event) {
  void *record;
  if (!events->stream) return ol_fail(error, OL_STATE, "the event file is closed");
  size_t size = ol__event__get_packed_size(event), whole = HEAD + size + TAIL;
  OL_TRY(ol_alloc_for(error, whole, "an event", &record));
  ol__event__pack(event, (uint8_t *)record + HEAD);
  frame(record, size);
  bool written = fwrite(record, 1, whole, events->stream) == whole && fflush(events->stream) == 0;
  ol_status status = written ? OL_OK : fail(error);
  ol_free(record);
  return status;
}

ol_status ol_events_create(ol_error *error, const char *path, double time, ol_events *out) {
  Ol__Event event = OL__EVENT__INIT;
  ol_events events = { fopen(path, "wbxe") };
  if (!events.stream) return fail(error);
  event.wall_time = time;
  event.what_case = OL__EVENT__WHAT_FILE_VERSION;
  event.file_version = (char *)"brain.Event:2";
  ol_status status = write_event(error, &events, &event);
  if (status == OL_OK)
    *out = events;
  else
    fclose(events.stream);
  return status;
}

static ol_status write_summary(ol_error *error, ol_events *events, ol_moment when,
                               Ol__Summary__Value **values, size_t count) {
  Ol__Event event = OL__EVENT__INIT;
  Ol__Summary summary = OL__SUMMARY__INIT;
  summary.n_value = count;
  summary.value = values;
  event.wall_time = when.time;
  event.step = when.step;
  event.what_case = OL__EVENT__WHAT_SUMMARY;
  event.summary = &summary;
  return write_event(error, events, &event);
}

ol_status ol_events_scalars(ol_error *error, ol_events *events, ol_moment when, size_t count,
                            const char *const *tag, const float *value) {
  void *block;
  size_t size = sizeof(Ol__Summary__Value) + sizeof(Ol__Summary__Value *);
  OL_TRY(ol_alloc_for(error, count * size, "an event", &block));
  Ol__Summary__Value *values = block, **list = (Ol__Summary__Value **)(values + count);
  for (size_t i = 0; i < count; i++) {
    ol__summary__value__init(&values[i]);
    values[i].tag = (char *)tag[i];
    values[i].value_case = OL__SUMMARY__VALUE__VALUE_SIMPLE_VALUE;
    values[i].simple_value = value[i];
    list[i] = &values[i];
  }
  ol_status status = write_summary(error, events, when, list, count);
  ol_free(block);
  return status;
}

static ol_status write_histogram(ol_error *error, ol_events *events, ol_moment when,
                                 const char *tag, ol_histogram *h) {
  Ol__Histogram histo = OL__HISTOGRAM__INIT;
  Ol__Summary__Value value = OL__SUMMARY__VALUE__INIT, *list = &value;
  histo.min = h->min;
  histo.max = h->max;
  histo.num = h->count;
  histo.sum = h->sum;
  histo.sum_squares = h->sum_squares;
  histo.n_bucket = histo.n_bucket_limit = (size_t)h->buckets;
  histo.bucket = h->bucket;
  histo.bucket_limit = h->limit;
  value.tag = (char *)tag;
  value.value_case = OL__SUMMARY__VALUE__VALUE_HISTO;
  value.histo = &histo;
  return write_summary(error, events, when, &list, 1);
}

ol_status ol_events_histogram(ol_error *error, ol_events *events, ol_moment when, const char *tag,
                              const ol_tensor *tensor) {
  void *block;
  OL_TRY(ol_alloc_for(error, sizeof(ol_histogram), "a histogram", &block));
  ol_status status = ol_histogram_of(error, tensor, block);
  if (status == OL_OK) status = write_histogram(error, events, when, tag, block);
  ol_free(block);
  return status;
}

ol_status ol_events_resume(ol_error *error, ol_events *events, ol_moment when) {
  Ol__Event event = OL__EVENT__INIT;
  Ol__SessionLog session = OL__SESSION_LOG__INIT;
  session.status = OL__SESSION_LOG__STATUS__START;
  event.wall_time = when.time;
  event.step = when.step;
  event.what_case = OL__EVENT__WHAT_SESSION_LOG;
  event.session_log = &session;
  return write_event(error, events, &event);
}

ol_status ol_events_close(ol_error *error, ol_events *events) {
  FILE *stream = events->stream;
  events->stream = NULL;
  return !stream || fclose(stream) == 0 ? OL_OK : fail(error);
}
