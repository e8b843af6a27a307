#include "fedserver/telemetry/recorder.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/text.h"
#include "fedserver/telemetry/public_fact.h"

namespace fedqueue {
namespace {

constexpr const char* rounds_header =
    "round,cid,admitted,q_delay,q_hat,deadline,Jk,Ek,Emin,eta_k,arrival_offset,sequence";
constexpr const char* updates_header =
    "round_applied,cid,origin_round,staleness,p_k,weight,steps_run,bytes,loss,sequence";

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

// Unknown is empty, not zero.
std::string number(const std::optional<double>& value) { return value ? number(*value) : ""; }

std::int64_t last_column(std::string_view line) {
  return parse_integer(line.substr(line.rfind(',') + 1)).value_or(0);
}

std::int64_t json_sequence(std::string_view line) {
  const auto document = nlohmann::json::parse(line, nullptr, false);
  if (!document.is_object()) return 0;
  const auto found = document.find("sequence");
  return found != document.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

std::string round_lines(const RunLedger::Rows& rows, std::int64_t sequence) {
  std::int64_t fewest = 0;
  for (const RoundRow& row : rows.round_rows) {
    fewest = fewest == 0 ? row.steps_assigned : std::min(fewest, row.steps_assigned);
  }
  std::string lines;
  for (const RoundRow& row : rows.round_rows) {
    lines += std::to_string(rows.round) + "," + row.facility.str() + "," +
             (row.admitted ? "1," : "0,") + number(row.queue_wait_s) + "," +
             number(row.predicted_wait_s) + "," + number(row.deadline_s) + "," +
             number(row.budget_s) + "," + std::to_string(row.steps_assigned) + "," +
             std::to_string(fewest) + "," + number(row.learning_rate) + "," +
             number(row.arrival_s) + "," + std::to_string(sequence) + "\n";
  }
  return lines;
}

std::string update_lines(const RunLedger::Rows& rows, std::int64_t sequence) {
  std::string lines;
  for (const UpdateRow& row : rows.update_rows) {
    // The round whose model it was trained from opened with that model.
    lines += std::to_string(rows.round) + "," + row.facility.str() + "," +
             std::to_string(row.base + 1) + "," + std::to_string(row.staleness) + "," +
             number(row.sample_share) + "," + number(row.weight) + "," +
             std::to_string(row.steps_run) + "," + std::to_string(row.bytes) + "," +
             number(row.loss) + "," + std::to_string(sequence) + "\n";
  }
  return lines;
}

}  // namespace

Recorder::Recorder(RecordFile rounds, RecordFile updates, RecordFile events, Log log,
                   Metrics& metrics)
    : rounds_(std::move(rounds)),
      updates_(std::move(updates)),
      events_(std::move(events)),
      log_(std::move(log)),
      metrics_(metrics) {
  describe_run_metrics(metrics_);
}

Result<std::unique_ptr<Recorder>> Recorder::create(const std::filesystem::path& folder, Log log,
                                                   Metrics& metrics) {
  std::error_code fault;
  std::filesystem::create_directories(folder, fault);
  if (fault) return storage_error("create '" + folder.string() + "'", fault.value());
  Result<RecordFile> rounds = RecordFile::open(folder / "rounds.csv", rounds_header, last_column);
  if (!rounds) return rounds.error();
  Result<RecordFile> updates =
      RecordFile::open(folder / "updates.csv", updates_header, last_column);
  if (!updates) return updates.error();
  Result<RecordFile> events = RecordFile::open(folder / "events.jsonl", "", json_sequence);
  if (!events) return events.error();
  return std::unique_ptr<Recorder>(new Recorder(std::move(*rounds), std::move(*updates),
                                                std::move(*events), std::move(log), metrics));
}

void Recorder::on_fact(const JournalRow& row, const Fact& fact, const Engine& /*engine*/) {
  record(row, fact, true);
}

void Recorder::on_replayed(const JournalRow& row, const Fact& fact) { record(row, fact, false); }

void Recorder::record(const JournalRow& row, const Fact& fact, bool live) {
  std::string line =
      "{\"sequence\":" + std::to_string(row.sequence) + ",\"kind\":\"" + row.kind + "\"";
  // A fact of an earlier life happened at a time nobody knows any more.
  if (live) line += ",\"time\":\"" + utc_now() + "\"";
  events_.append(row.sequence, line + ",\"fact\":" + public_fact(row) + "}\n");
  const RunLedger::Rows rows = ledger_.fold(fact, row.at);
  if (!rows.round_rows.empty()) rounds_.append(row.sequence, round_lines(rows, row.sequence));
  if (!rows.update_rows.empty()) updates_.append(row.sequence, update_lines(rows, row.sequence));
  count_fact(metrics_, fact);
  if (ledger_.reduce_s()) metrics_.set("fedqueue_aggregate_seconds", *ledger_.reduce_s());
  if (live) log_fact(log_, fact);
  const std::uint64_t lost = rounds_.rows_lost() + updates_.rows_lost() + events_.rows_lost();
  if (lost > std::exchange(rows_lost_, lost)) {
    metrics_.set("fedqueue_records_lost_total", static_cast<double>(lost));
    log_.warning("a row of the metrics files could not be written; the journal has it",
                 {{"rows_lost", lost}});
  }
}

}  // namespace fedqueue
