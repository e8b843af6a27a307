// Writes down what happens in a run, for people and their tools: log lines, tables and metrics.
//
//   metrics/rounds.csv    one row per update decided while a round was open
//   metrics/updates.csv   one row per update that counted, when it was applied
//   metrics/events.jsonl  one line per fact
//
// The first columns are named as in the reference's logs (docs/operating.md explains all). Each
// fact appears once over all lives of the server; what a kill kept from the files is added at the
// next start. Log lines are written for new facts alone.
//
// Not thread-safe: the driver calls it; the Metrics it feeds are.
#pragma once

#include <filesystem>
#include <memory>

#include "core/base/log.h"
#include "fedserver/driver/driver.h"
#include "fedserver/telemetry/metrics.h"
#include "fedserver/telemetry/record_file.h"
#include "fedserver/telemetry/run_ledger.h"

namespace fedqueue {

class Recorder : public Observer {
 public:
  // Creates the folder where it is missing. `metrics` outlives the recorder.
  static Result<std::unique_ptr<Recorder>> create(const std::filesystem::path& folder, Log log,
                                                  Metrics& metrics);

  void on_fact(const JournalRow& row, const Fact& fact, const Engine& engine) override;
  void on_replayed(const JournalRow& row, const Fact& fact) override;

 private:
  Recorder(RecordFile rounds, RecordFile updates, RecordFile events, Log log, Metrics& metrics);
  void record(const JournalRow& row, const Fact& fact, bool live);

  RecordFile rounds_;
  RecordFile updates_;
  RecordFile events_;
  Log log_;
  Metrics& metrics_;
  RunLedger ledger_;
  std::uint64_t rows_lost_ = 0;
};

// One line for each fact that users look for.
void log_fact(const Log& log, const Fact& fact);
// Counters and gauges of a fact.
void describe_run_metrics(Metrics& metrics);
void count_fact(Metrics& metrics, const Fact& fact);

}  // namespace fedqueue
